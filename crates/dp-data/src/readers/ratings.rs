//! Files with ratings of many users.

use std::collections::HashSet;
use std::io::Read;

use dp_core::{DroppedRecords, InteractionsBuilder, Scratch, SpillingBuilder};

use super::format::{Columns, RatingsFormat};
use super::memory::{TableSource, write_whole};
use super::parts::{Key, LineFormat, PART, Part, for_each_part};
use super::table::{Input, Interner, Table, table_from};
use crate::{
    CatalogueSource, ColumnRole, Error, Expected, ItemCatalogue, Ratings, ReadSummary, Result,
};

/// Reads a table of ratings and uses the items that occur in it as the catalogue.
///
/// A file is a table in any of the [formats](crate#formats); Windows line ends, blank lines and a
/// byte-order mark are accepted. Ids are kept byte for byte. Records are merged by the rules of
/// [`InteractionsBuilder`]: values that are NaN, infinite or beyond `f32` are left out, and the
/// last record of a user-item pair counts.
///
/// # Privacy
/// The result has the source [`CatalogueSource::FromRatings`]: which items were rated by anybody is
/// assumed to be public. Use [`read_ratings_with_catalogue`] if it is not.
///
/// # Errors
/// * [`Error::Open`](crate::Error::Open), [`Error::Read`](crate::Error::Read) if the operating
///   system reports an error.
/// * [`Error::Gzip`](crate::Error::Gzip) for damaged or truncated compression.
/// * [`Error::Parquet`](crate::Error::Parquet) if the file is not Parquet, or damaged;
///   [`Error::WithoutParquet`](crate::Error::WithoutParquet) if the crate was built without the
///   feature.
/// * [`Error::Empty`](crate::Error::Empty) if there is no header or, without a declared catalogue,
///   no record. With one, a file without records is an empty table, so that the removal of the last
///   user does not show.
/// * [`Error::UnknownColumn`](crate::Error::UnknownColumn) if a column is missing from the header.
/// * [`Error::Malformed`](crate::Error::Malformed) if a line has another number of fields than the
///   first one, or contains a rating that is not a number, an empty id, an id that is not UTF-8, or
///   an unclosed quote. Unused columns may contain anything.
///
/// # Examples
/// ```no_run
/// use dp_data::{RatingsFormat, read_ratings};
/// let ratings = read_ratings("ml-1m/ratings.dat", &RatingsFormat::default())?;
/// println!("{} items", ratings.catalogue().len());
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn read_ratings(source: impl Into<TableSource>, format: &RatingsFormat) -> Result<Ratings> {
    let (input, name) = source.into().open()?;
    read(input, name, format, None)
}

/// Reads a table of ratings on the items of a declared catalogue.
///
/// Items without ratings keep their column. Records on other items are left out and counted; a user
/// without any other records is left out too.
///
/// # Errors
/// The errors of [`read_ratings`].
pub fn read_ratings_with_catalogue(
    source: impl Into<TableSource>,
    format: &RatingsFormat,
    catalogue: ItemCatalogue,
) -> Result<Ratings> {
    let (input, name) = source.into().open()?;
    read(input, name, format, Some(catalogue))
}

/// Reads ratings from any reader; `name` is shown instead of the path in errors.
///
/// # Errors
/// The errors of [`read_ratings`], except for opening a file; Parquet is rejected, because it has
/// to be read from its end.
///
/// # Examples
/// ```
/// use dp_data::{RatingsFormat, read_ratings_from};
/// let text = "user,item,rating\nann,7,4\nbob,7,oops\n";
/// let error = read_ratings_from(text.as_bytes(), "demo.csv", &RatingsFormat::default(), None)
///     .err()
///     .map(|e| e.to_string());
/// assert_eq!(error.as_deref(), Some("demo.csv:3:3: expected a number for the rating"));
/// ```
pub fn read_ratings_from(
    reader: impl Read,
    name: impl Into<String>,
    format: &RatingsFormat,
    catalogue: Option<ItemCatalogue>,
) -> Result<Ratings> {
    let name = name.into();
    read(table_from(reader, &name)?, name, format, catalogue)
}

/// Reads a table of ratings that may be larger than memory. The result is the same as in memory,
/// with the same errors, and its records are on disk in `scratch`. Memory use is approximately that
/// configured in `scratch`, plus the ids of users and items.
///
/// # Errors
/// The errors of [`read_ratings`], and [`dp_core::ScratchError`].
pub fn read_ratings_on_disk(
    source: impl Into<TableSource>,
    format: &RatingsFormat,
    catalogue: Option<ItemCatalogue>,
    scratch: Scratch,
) -> Result<Ratings> {
    let (input, name) = source.into().open()?;
    read_to(
        Collected::new(catalogue, Some(scratch)),
        input,
        name,
        format,
    )
}

fn read(
    input: Input<'_>,
    name: String,
    format: &RatingsFormat,
    catalogue: Option<ItemCatalogue>,
) -> Result<Ratings> {
    read_to(Collected::new(catalogue, None), input, name, format)
}

fn read_to(
    collected: Collected,
    input: Input<'_>,
    name: String,
    format: &RatingsFormat,
) -> Result<Ratings> {
    read_in_parts(collected, input, name, format, Some(PART))
}

/// Reads text in parts of about `size` bytes, or without it one record after the other.
fn read_in_parts(
    mut collected: Collected,
    input: Input<'_>,
    name: String,
    format: &RatingsFormat,
    size: Option<usize>,
) -> Result<Ratings> {
    let (mut table, columns) = format.open(input, name, false)?;
    let [users, unread] =
        [columns.user, columns.unread_rating].map(|at| at.map(|at| table.column_name(at)));
    while (size.is_none() || table.has_single_records()) && table.advance()? {
        collected.push(&table, columns)?;
    }
    if let Some(size) = size {
        collected.push_parts(&mut table, columns, size)?;
    }
    if matches!(collected.items, Items::Found(_)) {
        table.require_records()?;
    }
    let ratings = collected.merge(table.n_records())?;
    Ok(ratings.with_columns(users, unread))
}

/// Records as they are in the file, with ids already numbered.
struct Collected {
    users: Interner,
    /// Users with a record of an item outside the catalogue.
    of_other_items: Interner,
    items: Items,
    records: SpillingBuilder,
    n_outside_catalogue: usize,
}

impl Collected {
    fn new(catalogue: Option<ItemCatalogue>, scratch: Option<Scratch>) -> Self {
        let n_items = catalogue.as_ref().map_or(usize::MAX, ItemCatalogue::len);
        Self {
            users: Interner::default(),
            of_other_items: Interner::default(),
            items: catalogue.map_or_else(|| Items::Found(Interner::default()), Items::Declared),
            records: InteractionsBuilder::new(n_items).on_disk(scratch),
            n_outside_catalogue: 0,
        }
    }

    fn push(&mut self, table: &Table<'_>, columns: Columns) -> Result<()> {
        let user_column = columns.user.expect("a table of many users has their ids");
        let value = columns.value(table)?;
        let user_id = table.id(user_column, ColumnRole::User)?;
        let item_id = table.id(columns.item, ColumnRole::Item)?;
        let item = self
            .items
            .number(item_id)
            .map_err(|expected| table.malformed(columns.item, expected))?;
        let users = match item {
            Some(_) => &mut self.users,
            None => &mut self.of_other_items,
        };
        let user = users
            .number(user_id)
            .map_err(|expected| table.malformed(user_column, expected))?;
        match item {
            Some(item) => self.records.push(user, item, value)?,
            None => self.n_outside_catalogue += 1,
        }
        Ok(())
    }

    /// Reads the rest of the lines in parts of about `size` bytes, if this is a text.
    fn push_parts(&mut self, table: &mut Table<'_>, columns: Columns, size: usize) -> Result<()> {
        let n_fields = table.n_fields();
        let Some((lines, separator)) = table.rest_of_lines() else {
            return Ok(());
        };
        let format = LineFormat::new(separator, n_fields, columns);
        let (name, mut line) = (lines.name().to_owned(), lines.number());
        let mut n_records = 0;
        for_each_part(lines, (&format, size), |parsed| {
            if parsed.is_plain {
                let n = parsed.part.records.len();
                let pushed = self.push_part(&parsed.part, columns);
                pushed.map_err(|error| error.at(&name, line))?;
                (line, n_records) = (line + n, n_records + n);
                return Ok(());
            }
            let text = std::mem::take(&mut parsed.text);
            let mut rest = Table::of_text(text, name.clone(), line, (separator, n_fields));
            while rest.advance()? {
                self.push(&rest, columns)?;
            }
            (line, n_records) = (rest.line_number(), n_records + rest.n_records());
            Ok(())
        })?;
        table.count(n_records);
        Ok(())
    }

    /// Numbers the ids of a part in the order of its records, and adds these.
    fn push_part(&mut self, part: &Part, columns: Columns) -> Result<(), PartError> {
        let mut users = vec![None; part.users.len()];
        let mut others = users.clone();
        let mut items = vec![None; part.items.len()];
        let mut numbered = Vec::new();
        let mut start = 0;
        for &(user, n) in &part.runs {
            numbered.clear();
            for (at, &(item, value)) in (start..).zip(&part.records[start..start + n]) {
                let found = self.items.number_of(part.items.key(item), &mut items);
                match found.map_err(|expected| PartError::Id(at, columns.item, expected))? {
                    Some(item) => numbered.push((item, value)),
                    None => self.n_outside_catalogue += 1,
                }
            }
            let column = columns.user.unwrap_or_default();
            let failed = |expected| PartError::Id(start, column, expected);
            let key = || part.users.key(user);
            if numbered.len() < n {
                let found = self.of_other_items.number_of(key(), &mut others);
                found.map_err(failed)?;
            }
            if !numbered.is_empty() {
                let user = self.users.number_of(key(), &mut users).map_err(failed)?;
                self.records.push_run(user, &numbered)?;
            }
            start += n;
        }
        Ok(())
    }

    fn merge(self, n_read: usize) -> Result<Ratings> {
        let (catalogue, catalogue_source, columns) = self.items.into_catalogue();
        let (interactions, dropped) = match columns {
            Some(columns) => (self.records).try_build_in_catalogue(catalogue.len(), &columns)?,
            None => self.records.try_build()?,
        };
        let summary = ReadSummary {
            n_read,
            n_outside_catalogue: self.n_outside_catalogue,
            dropped,
        };
        let ids = self.users.into_ids();
        let with_rows: HashSet<&String> = ids.iter().collect();
        let mut left_out = self.of_other_items.into_ids();
        left_out.retain(|id| !with_rows.contains(id));
        let ratings = Ratings::assemble(interactions, ids, catalogue, catalogue_source, summary);
        Ok(ratings.with_left_out_users(left_out))
    }
}

/// Why the records of a part cannot be added.
enum PartError {
    /// The id in this column cannot be numbered; with the position of the record.
    Id(usize, usize, Expected),
    Core(dp_core::Error),
}

impl From<dp_core::Error> for PartError {
    fn from(error: dp_core::Error) -> Self {
        Self::Core(error)
    }
}

impl PartError {
    /// The error of a part that comes after this line of a file.
    fn at(self, name: &str, line: usize) -> Error {
        match self {
            Self::Id(record, column, expected) => Error::Malformed {
                path: name.to_owned(),
                line: line + record + 1,
                column: column + 1,
                expected,
                name: None,
            },
            Self::Core(error) => error.into(),
        }
    }
}

/// The source of item numbers.
enum Items {
    Declared(ItemCatalogue),
    Found(Interner),
}

impl Items {
    /// The number of an item, `None` outside the catalogue.
    fn number(&mut self, id: &[u8]) -> Result<Option<u32>, Expected> {
        match self {
            Self::Found(ids) => ids.number(id).map(Some),
            Self::Declared(catalogue) => match catalogue.index_of_bytes(id) {
                None if std::str::from_utf8(id).is_err() => Err(Expected::Utf8),
                index => Ok(index),
            },
        }
    }

    /// The number of an item in a part, `None` outside the catalogue; `known` has those found before.
    #[inline]
    fn number_of(
        &mut self,
        key: Key<'_>,
        known: &mut [Option<u32>],
    ) -> Result<Option<u32>, Expected> {
        let catalogue = match self {
            Self::Found(ids) => return ids.number_of(key, known).map(Some),
            Self::Declared(catalogue) => catalogue,
        };
        Ok(match key {
            Key::Whole(whole) => catalogue.index_of_whole(whole).or_else(|| {
                let mut text = Vec::new();
                write_whole(whole.into(), &mut text);
                catalogue.index_of_bytes(&text)
            }),
            Key::Text(at, text) => {
                known[at] = known[at].or_else(|| catalogue.index_of_bytes(text));
                known[at]
            }
        })
    }

    /// The catalogue, and for collected items the column of each number.
    fn into_catalogue(self) -> (ItemCatalogue, CatalogueSource, Option<Vec<u32>>) {
        match self {
            Self::Declared(catalogue) => (catalogue, CatalogueSource::Declared, None),
            Self::Found(ids) => {
                let ids = ids.into_ids();
                let catalogue = ItemCatalogue::from_ids(ids.iter().cloned());
                let columns = ids
                    .iter()
                    .map(|id| catalogue.index_of_bytes(id.as_bytes()))
                    .collect::<Option<_>>()
                    .expect("the catalogue holds every id it was made from");
                (catalogue, CatalogueSource::FromRatings, Some(columns))
            }
        }
    }
}

/// One user's own ratings on the items of a catalogue.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct UserHistory {
    records: Vec<(u32, f32)>,
    n_unknown_items: usize,
    dropped: DroppedRecords,
}

impl UserHistory {
    /// Item index and rating, with items increasing, each at most once, and finite ratings.
    #[must_use]
    pub fn records(&self) -> &[(u32, f32)] {
        &self.records
    }

    /// Number of records on items that are not in the catalogue, which were left out.
    #[must_use]
    pub const fn n_unknown_items(&self) -> usize {
        self.n_unknown_items
    }

    /// Records that the merge left out.
    #[must_use]
    pub const fn dropped(&self) -> DroppedRecords {
        self.dropped
    }
}

/// Reads one user's own ratings, in the same formats as [`read_ratings`](crate::read_ratings); with
/// a header, the user column may be missing. The merge rules are those of [`InteractionsBuilder`].
///
/// # Errors
/// The errors of [`read_ratings`](crate::read_ratings), and [`Expected::OneUser`] if there is a
/// second user.
pub fn read_history(
    source: impl Into<TableSource>,
    format: &RatingsFormat,
    catalogue: &ItemCatalogue,
) -> Result<UserHistory> {
    let (input, name) = source.into().open()?;
    read_own(input, name, format, catalogue)
}

/// Reads one user's own ratings from any reader; `name` is shown instead of the path in errors.
///
/// # Errors
/// The errors of [`read_history`], except for opening a file.
///
/// # Examples
/// ```
/// use dp_data::{ItemCatalogue, RatingsFormat, read_history_from};
/// let (items, format) = (ItemCatalogue::from_ids(["7", "8"]), RatingsFormat::default());
/// let history = read_history_from("item,rating\n8,5\n9,1\n".as_bytes(), "me.csv", &format, &items)?;
/// assert_eq!(history.records(), [(1, 5.0)]);
/// assert_eq!(history.n_unknown_items(), 1);
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn read_history_from(
    reader: impl Read,
    name: impl Into<String>,
    format: &RatingsFormat,
    catalogue: &ItemCatalogue,
) -> Result<UserHistory> {
    let name = name.into();
    read_own(table_from(reader, &name)?, name, format, catalogue)
}

fn read_own(
    input: Input<'_>,
    name: String,
    format: &RatingsFormat,
    catalogue: &ItemCatalogue,
) -> Result<UserHistory> {
    let (mut table, columns) = format.open(input, name, true)?;
    let mut builder = InteractionsBuilder::new(catalogue.len());
    let mut owner = None;
    let mut n_unknown_items = 0;
    while table.advance()? {
        check_owner(&table, columns.user, &mut owner)?;
        match read_record(&table, columns, catalogue)? {
            Some((item, value)) => builder.push(0, item, value)?,
            None => n_unknown_items += 1,
        }
    }
    table.require_records()?;
    let (interactions, dropped) = builder.build();
    let records = interactions.users().flat_map(|row| row.iter()).collect();
    Ok(UserHistory {
        records,
        n_unknown_items,
        dropped,
    })
}

/// Checks that every line has the first line's user, if there is a user column.
fn check_owner(
    table: &Table<'_>,
    user_column: Option<usize>,
    owner: &mut Option<Vec<u8>>,
) -> Result<()> {
    let Some(column) = user_column else {
        return Ok(());
    };
    let user = table.id(column, ColumnRole::User)?;
    if owner.get_or_insert_with(|| user.to_vec()) != user {
        return Err(table.malformed(column, Expected::OneUser));
    }
    Ok(())
}

/// The current record; `None` for an item outside the catalogue.
fn read_record(
    table: &Table<'_>,
    columns: Columns,
    catalogue: &ItemCatalogue,
) -> Result<Option<(u32, f32)>> {
    let value = columns.value(table)?;
    let id = table.id(columns.item, ColumnRole::Item)?;
    let item = catalogue.index_of_bytes(id);
    if item.is_none() && std::str::from_utf8(id).is_err() {
        return Err(table.malformed(columns.item, Expected::Utf8));
    }
    Ok(item.map(|item| (item, value)))
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor};

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    type Records = Vec<Vec<(u32, u32)>>;

    /// All that was read, with the bits of the values, or the error.
    fn outcome(
        reader: impl Read,
        catalogue: Option<&ItemCatalogue>,
        size: Option<usize>,
    ) -> Result<(Vec<String>, Vec<String>, Records, ReadSummary), String> {
        let input = table_from(reader, "x").map_err(|error| error.to_string())?;
        let collected = Collected::new(catalogue.cloned(), None);
        let format = RatingsFormat::default();
        let read = read_in_parts(collected, input, "x".to_owned(), &format, size);
        let read = read.map_err(|error| error.to_string())?;
        let bits = |(item, value): (u32, f32)| (item, value.to_bits());
        let users = read.interactions().expose().users();
        Ok((
            read.user_ids().expose().clone(),
            read.catalogue().ids().to_vec(),
            users.map(|row| row.iter().map(bits).collect()).collect(),
            *read.summary().expose(),
        ))
    }

    fn is_the_same_in_parts(text: &[u8]) -> bool {
        let declared = ItemCatalogue::from_ids(["7", "11", "b", "123456789", "2,5"]);
        for catalogue in [None, Some(&declared)] {
            let expected = outcome(text, catalogue, None);
            for size in [1, 7, 40, 300, PART] {
                let found = outcome(text, catalogue, Some(size));
                assert_eq!(found, expected, "{size}: {}", text.escape_ascii());
            }
            for size in [1, 40] {
                // a reader that fails where the text ends
                let failing = || Cursor::new(text).chain(Failing);
                let expected = outcome(failing(), catalogue, None);
                assert_eq!(outcome(failing(), catalogue, Some(size)), expected);
            }
        }
        outcome(text, None, None).is_ok()
    }

    struct Failing;

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }

    #[test]
    fn parts_give_the_same_table_and_the_same_errors_as_single_lines() {
        let long = format!("user,item,rating\n{},7,4\nb,7,1\n", "a".repeat(1_000));
        let many: String = (0..500)
            .map(|n| format!("{}::{}::{}.5::97830{n}\n", n / 9, n * 7_919 % 23, n % 5))
            .collect();
        let readable = [
            "user,item,rating\nann,7,4\nbob,11,2.5\nann,7,3",
            "user,item,rating\r\n1,7,4\r\n2,b,1\r\n\r\n2,7,1\r",
            "\n\nuser,item,rating,when\n1,7,4,12345678901\n  \n01,7,4,\n1,7,nan,x\n",
            "rating,note,item,user\n4,\"a,b\",\"2,5\",\"7\"\n.5,\"\",11,\"7\"\n1e3,,\"a\"\"b\",8\n",
            "user;item;rating\n\"7\";b;3,5\n7;2,5;-1\n",
            "user\titem\trating\n\"7\tb\"\t3\n00\tb\t16777217\n",
            "\u{feff}user,item,rating\n123456789,123456789,4\n99999999,99999999,0.1\n99999999,100000000,1\n",
            "1::7::5::978300760\n1::b:c::0.5\n",
            &long,
            &many,
        ];
        for text in readable {
            let fields = text.replace("0.5\n", "0.5::1\n");
            assert!(is_the_same_in_parts(fields.as_bytes()), "{fields}");
        }
        let refused = [
            "user,item,rating\n1,7,4\n\n1,11,four\n2,7,\n",
            "user,item,rating\n1,7,4\n1,7\n",
            "user,item,rating\n1,7,4\n,7,4\n",
            "user,item,rating\n\"1,7,4\n1\",7,4\n",
            "user,item,rating\n\"1\"x,7,4\n",
            "user,item,rating\n",
            "",
        ];
        for text in refused {
            assert!(!is_the_same_in_parts(text.as_bytes()), "{text}");
        }
        is_the_same_in_parts(b"user,item,rating\n1,7,4\n\xff,7,4\n1,\xff,3\n");
    }

    #[test]
    fn parts_of_any_text_give_the_outcome_of_its_lines() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let fields = [
            "7",
            "11",
            "b",
            "\"7\"",
            "4",
            "2.5",
            "07",
            "",
            "123456789",
            "\"2,5\"",
            "\"",
            "nan",
            "\u{e9}",
        ];
        let mut n_read = 0;
        for _ in 0..300 {
            let separator = [",", ";", "\t"][rng.random_range(0..3)];
            let mut text = ["user", "item", "rating"].join(separator);
            for _ in 0..rng.random_range(0..12) {
                text += ["\n", "\r\n", "\n", "\n\n", "\n \n"][rng.random_range(0..5)];
                for column in 0..3 {
                    text += match rng.random_range(0..20) {
                        0 => fields[rng.random_range(0..fields.len())],
                        at if column < 2 => fields[at % 4],
                        _ => "4",
                    };
                    text += if column < 2 { separator } else { "" };
                }
            }
            n_read += usize::from(is_the_same_in_parts(text.as_bytes()));
        }
        assert!(
            (100..250).contains(&n_read),
            "{n_read} of 300 were readable"
        );
    }
}
