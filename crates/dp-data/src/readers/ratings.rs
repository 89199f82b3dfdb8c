//! Files of many users' ratings.

use std::io::Read;
use std::path::Path;

use dp_core::InteractionsBuilder;

use super::format::{Columns, RatingsFormat};
use super::ids::Interner;
use super::source::{Input, open_table, table_from};
use super::table::Table;
use crate::{CatalogueSource, ColumnRole, Expected, ItemCatalogue, Ratings, ReadSummary, Result};

/// Reads a file of ratings and takes the items found there as the catalogue.
///
/// Plain or gzip, told by the content; with the feature `parquet` also Parquet, told by content or name, where columns are found
/// by name, null is an empty field and row groups are read one after the other; Windows line ends, blank lines and a byte-order mark are
/// fine. Ids are kept byte for byte. Records are merged by the rules of
/// [`InteractionsBuilder`]: values that are NaN, infinite or beyond `f32` are left out, the
/// last record of a user-item pair counts.
///
/// # Privacy
/// The result says [`CatalogueSource::FromRatings`]: which items were rated by anybody is
/// assumed to be public. Use [`read_ratings_with_catalogue`] where it is not.
///
/// # Errors
/// * [`Error::Open`](crate::Error::Open), [`Error::Read`](crate::Error::Read) - the operating system refuses.
/// * [`Error::Gzip`](crate::Error::Gzip) - damaged or truncated compression.
/// * [`Error::Parquet`](crate::Error::Parquet) - no Parquet, or damaged; [`Error::WithoutParquet`](crate::Error::WithoutParquet) - built without the feature.
/// * [`Error::Empty`](crate::Error::Empty) - no header, or without a declared catalogue no record.
///   With one, a file without records is an empty table: that the last user is gone must not show.
/// * [`Error::UnknownColumn`](crate::Error::UnknownColumn) - a column is missing from the header.
/// * [`Error::Malformed`](crate::Error::Malformed) - a line has another number of fields than the first one, a rating
///   that is no number, an empty id, an id that is not UTF-8, an unclosed quote. Columns that
///   are not used may hold anything.
///
/// # Examples
/// ```no_run
/// use dp_data::{RatingsFormat, read_ratings};
/// let ratings = read_ratings("ml-1m/ratings.dat", &RatingsFormat::default())?;
/// println!("{} items", ratings.catalogue().len());
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn read_ratings(path: impl AsRef<Path>, format: &RatingsFormat) -> Result<Ratings> {
    let (input, name) = open_table(path.as_ref())?;
    read(input, name, format, None)
}

/// Reads a file of ratings on the items of a declared catalogue.
///
/// Items nobody rated keep their column; records on other items are left out and counted; a
/// user with no other records is left out too.
///
/// # Errors
/// Those of [`read_ratings`].
pub fn read_ratings_with_catalogue(
    path: impl AsRef<Path>,
    format: &RatingsFormat,
    catalogue: ItemCatalogue,
) -> Result<Ratings> {
    let (input, name) = open_table(path.as_ref())?;
    read(input, name, format, Some(catalogue))
}

/// Reads ratings from anything; `name` stands for the path in errors.
///
/// # Errors
/// Those of [`read_ratings`], except that nothing is opened; Parquet, which is read from its end, is refused.
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

fn read(
    input: Input<'_>,
    name: String,
    format: &RatingsFormat,
    catalogue: Option<ItemCatalogue>,
) -> Result<Ratings> {
    let (mut table, columns) = format.open(input, name, false)?;
    let catalogue_is_declared = catalogue.is_some();
    let mut collected = Collected::new(catalogue);
    while table.advance()? {
        collected.push(&table, columns)?;
    }
    if !catalogue_is_declared {
        table.require_records()?;
    }
    Ok(collected.merge(table.n_records()))
}

/// Records as they stand in the file, with ids already numbered.
struct Collected {
    users: Interner,
    items: Items,
    records: Vec<(u32, u32, f32)>,
    n_outside_catalogue: usize,
}

impl Collected {
    fn new(catalogue: Option<ItemCatalogue>) -> Self {
        Self {
            users: Interner::default(),
            items: catalogue.map_or_else(|| Items::Found(Interner::default()), Items::Declared),
            records: Vec::new(),
            n_outside_catalogue: 0,
        }
    }

    fn push(&mut self, table: &Table<'_>, columns: Columns) -> Result<()> {
        let user_column = columns.user.expect("a table of many users has their ids");
        let value = table.number(columns.rating, ColumnRole::Rating)?;
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
        self.records.push((user, item, value));
        Ok(())
    }

    fn merge(self, n_read: usize) -> Ratings {
        let (catalogue, catalogue_source, columns) = self.items.into_catalogue();
        let mut builder = InteractionsBuilder::new(catalogue.len());
        for (user, item, value) in self.records {
            let column = columns.as_ref().map_or(item, |c| c[item as usize]);
            builder
                .push(user, column, value)
                .expect("items are numbered within the catalogue");
        }
        let (interactions, dropped) = builder.build();
        let summary = ReadSummary {
            n_read,
            n_outside_catalogue: self.n_outside_catalogue,
            dropped,
        };
        Ratings::assemble(
            interactions,
            self.users.into_ids(),
            catalogue,
            catalogue_source,
            summary,
        )
    }
}

/// Where item numbers come from.
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

    /// The catalogue, and for found items the column of each number.
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
