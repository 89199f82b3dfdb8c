//! Files of items.

use std::borrow::Cow;
use std::path::Path;

use super::format::Header;
use super::source::open_table;
use super::table::Table;
use crate::{ColumnRole, Expected, ItemCatalogue, Result};

/// Reads a declared catalogue: a header, then one item a line, separated by tabs if the header
/// has one and by commas otherwise, plain or gzip.
///
/// The item column is `item`, `itemId`, `item_id`, `movieId` or `movie_id`; a column `title` is
/// used if there is one, and an empty title is none. Ids given twice count once. `movies.dat` of MovieLens,
/// `id::title::genres` without a header and in Latin-1, is read too.
///
/// # Errors
/// Those of [`read_ratings`](crate::read_ratings), with a title that is not UTF-8 among the malformed fields.
pub fn read_catalogue(path: impl AsRef<Path>) -> Result<ItemCatalogue> {
    let (input, name) = open_table(path.as_ref())?;
    let mut table = Table::with_header(input, name)?;
    let header = Header::read(&table)?;
    let item = header.find(ColumnRole::Item, None)?;
    let title = header.find(ColumnRole::Title, None).ok();
    table.read_only([Some(item), title].into_iter().flatten())?;
    let mut items = Vec::new();
    while table.advance()? {
        items.push(read_item(&table, item, title)?);
    }
    table.require_records()?;
    Ok(ItemCatalogue::from_titled(items))
}

fn read_item(
    table: &Table<'_>,
    item: usize,
    title: Option<usize>,
) -> Result<(String, Option<String>)> {
    let id = std::str::from_utf8(table.id(item, ColumnRole::Item)?)
        .map_err(|_| table.malformed(item, Expected::Utf8))?;
    let title = title
        .map(|column| table.text(column))
        .transpose()?
        .filter(|title| !title.is_empty());
    Ok((id.to_owned(), title.map(Cow::into_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movies_of_movielens_have_titles_with_accents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("movies.dat");
        let text =
            b"1::Toy Story (1995)::Animation|Children's\n73::Mis\xe9rables, Les (1995)::Drama\n";
        std::fs::write(&path, text).unwrap();
        let catalogue = read_catalogue(&path).unwrap();
        assert_eq!(catalogue.ids(), ["1", "73"]);
        assert_eq!(catalogue.title(1), Some("Mis\u{e9}rables, Les (1995)"));
        let items = crate::read_item_attributes(&path).unwrap();
        assert_eq!(items[0].genres, ["Animation", "Children's"]);
        assert_eq!(items[1].year, Some(1995));

        // elsewhere a byte that is no text is an error
        std::fs::write(&path, b"item,title\n73,Mis\xe9rables\n").unwrap();
        assert!(read_catalogue(&path).is_err());
        std::fs::write(&path, "1::Toy::Drama\n2::Two\n").unwrap();
        assert!(read_catalogue(&path).is_err());
    }
}
