//! Files with ratings of many users.

use std::io::Read;

use dp_core::{DroppedRecords, InteractionsBuilder, Scratch, SpillingBuilder};

use super::format::{Columns, RatingsFormat};
use super::memory::TableSource;
use super::table::{Input, Interner, Table, table_from};
use crate::{CatalogueSource, ColumnRole, Expected, ItemCatalogue, Ratings, ReadSummary, Result};

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
    mut collected: Collected,
    input: Input<'_>,
    name: String,
    format: &RatingsFormat,
) -> Result<Ratings> {
    let (mut table, columns) = format.open(input, name, false)?;
    let unread = columns.unread_rating.map(|at| table.column_name(at));
    while table.advance()? {
        collected.push(&table, columns)?;
    }
    if matches!(collected.items, Items::Found(_)) {
        table.require_records()?;
    }
    let ratings = collected.merge(table.n_records())?;
    Ok(ratings.leaving_unread(unread))
}

/// Records as they are in the file, with ids already numbered.
struct Collected {
    users: Interner,
    items: Items,
    records: SpillingBuilder,
    n_outside_catalogue: usize,
}

impl Collected {
    fn new(catalogue: Option<ItemCatalogue>, scratch: Option<Scratch>) -> Self {
        let n_items = catalogue.as_ref().map_or(usize::MAX, ItemCatalogue::len);
        Self {
            users: Interner::default(),
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
        let Some(item) = item else {
            self.n_outside_catalogue += 1;
            return Ok(());
        };
        let user = self
            .users
            .number(user_id)
            .map_err(|expected| table.malformed(user_column, expected))?;
        Ok(self.records.push(user, item, value)?)
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
        Ok(Ratings::assemble(
            interactions,
            self.users.into_ids(),
            catalogue,
            catalogue_source,
            summary,
        ))
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
