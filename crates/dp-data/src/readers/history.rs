//! Files of one user's own ratings.

use std::io::Read;
use std::path::Path;

use dp_core::{DroppedRecords, InteractionsBuilder};

use super::format::{Columns, RatingsFormat};
use super::source::{Input, open_table, table_from};
use super::table::Table;
use crate::{ColumnRole, Expected, ItemCatalogue, Result};

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
    /// Item index and rating, items increasing, each at most once, ratings finite.
    #[must_use]
    pub fn records(&self) -> &[(u32, f32)] {
        &self.records
    }

    /// Records on items the catalogue does not have; left out.
    #[must_use]
    pub const fn n_unknown_items(&self) -> usize {
        self.n_unknown_items
    }

    /// Records the merge left out.
    #[must_use]
    pub const fn dropped(&self) -> DroppedRecords {
        self.dropped
    }
}

/// Reads one user's own ratings, in any layout [`read_ratings`](crate::read_ratings) detects; under a header the
/// user column may be missing. Merge rules are those of [`InteractionsBuilder`].
///
/// # Errors
/// Those of [`read_ratings`](crate::read_ratings), and [`Expected::OneUser`] where a second user begins.
pub fn read_history(path: impl AsRef<Path>, catalogue: &ItemCatalogue) -> Result<UserHistory> {
    let (input, name) = open_table(path.as_ref())?;
    read(input, name, catalogue)
}

/// Reads one user's own ratings from anything; `name` stands for the path in errors.
///
/// # Errors
/// Those of [`read_history`], except that nothing is opened.
///
/// # Examples
/// ```
/// use dp_data::{ItemCatalogue, read_history_from};
/// let items = ItemCatalogue::from_ids(["7", "8"]);
/// let history = read_history_from("item,rating\n8,5\n9,1\n".as_bytes(), "me.csv", &items)?;
/// assert_eq!(history.records(), [(1, 5.0)]);
/// assert_eq!(history.n_unknown_items(), 1);
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn read_history_from(
    reader: impl Read,
    name: impl Into<String>,
    catalogue: &ItemCatalogue,
) -> Result<UserHistory> {
    let name = name.into();
    read(table_from(reader, &name)?, name, catalogue)
}

fn read(input: Input<'_>, name: String, catalogue: &ItemCatalogue) -> Result<UserHistory> {
    let (mut table, columns) = RatingsFormat::default().open(input, name, true)?;
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

/// Holds every line to the first line's user, where there is a user column.
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

/// The current record, `None` for an item outside the catalogue.
fn read_record(
    table: &Table<'_>,
    columns: Columns,
    catalogue: &ItemCatalogue,
) -> Result<Option<(u32, f32)>> {
    let value = table.number(columns.rating, ColumnRole::Rating)?;
    let id = table.id(columns.item, ColumnRole::Item)?;
    let item = catalogue.index_of_bytes(id);
    if item.is_none() && std::str::from_utf8(id).is_err() {
        return Err(table.malformed(columns.item, Expected::Utf8));
    }
    Ok(item.map(|item| (item, value)))
}
