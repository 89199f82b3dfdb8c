//! Files of items with their public attributes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::BufRead;
use std::path::Path;

use super::format::Header;
use super::memory::TableSource;
use super::table::{Table, open, open_table, plain_or_gzip};
use crate::{
    CatalogueFault, ColumnRole, Error, Expected, ItemCatalogue, ItemTable, Ratings, Result,
};

/// Public attributes of an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemAttributes {
    /// Id, as in the ratings.
    pub id: String,
    /// Genres, in the order of the file; empty without a column of genres.
    pub genres: Vec<String>,
    /// Year of appearance, from the column `year` or otherwise from the end `(1995)` of the title.
    pub year: Option<u16>,
}

/// Reads public attributes of items: a header, then one item per line, with separators as for
/// [`read_samples`](crate::read_samples), plain or gzip.
///
/// | column | names | |
/// |---|---|---|
/// | item | as for [`read_catalogue`](crate::read_catalogue) | |
/// | genres | `genres`, `genre` | values separated by a vertical bar; may be missing |
/// | year | `year` | may be missing or empty |
/// | title | `title` | may be missing |
///
/// A year that is not a whole number from 1 to 9999 is ignored. For repeated ids, the first line
/// counts.
///
/// # Errors
/// The errors of [`read_catalogue`](crate::read_catalogue).
pub fn read_item_attributes(path: impl AsRef<Path>) -> Result<Vec<ItemAttributes>> {
    let find = |header: &Header<'_, '_>| {
        let optional = [ColumnRole::Genres, ColumnRole::Year, ColumnRole::Title];
        Ok(optional.map(|role| header.find(role, None).ok()))
    };
    let places = |columns: &[Option<usize>; 3]| columns.iter().copied().flatten().collect();
    let make = |table: &Table<'_>, &[genres, year, title]: &[Option<usize>; 3], id: &str| {
        let text = |column: Option<usize>| {
            column.map_or(Ok(Cow::Borrowed("")), |column| table.text(column))
        };
        Ok(ItemAttributes {
            id: id.to_owned(),
            genres: names_in(&text(genres)?),
            year: year_in(&text(year)?).or_else(|| year_of_title(&text(title).unwrap_or_default())),
        })
    };
    let items = read_items(path.as_ref(), find, places, make)?;
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

/// Reads some columns of feature values, each of which must occur in the header exactly once; other
/// columns are ignored.
///
/// The file has the same format as for [`read_item_attributes`]. A field contains any number of
/// values, separated by vertical bars; spaces around a value and empty values are ignored. For
/// repeated ids, the first line counts. A value that occurs twice in one field is kept twice:
/// counts are weights.
///
/// # Errors
/// The errors of [`read_catalogue`](crate::read_catalogue), and
/// [`Error::UnknownColumn`](crate::Error::UnknownColumn) for a column that does not occur exactly
/// once.
pub fn read_item_table(path: impl AsRef<Path>, columns: &[&str]) -> Result<ItemTable> {
    let find = |header: &Header<'_, '_>| {
        let each = columns.iter();
        each.map(|name| header.find_once(ColumnRole::Feature, Some(name)))
            .collect::<Result<Vec<usize>>>()
    };
    let rows = read_items(path.as_ref(), find, Vec::clone, |table, at, _| {
        names_at(table, at)
    })?;
    let columns = columns.iter().map(ToString::to_string).collect();
    Ok(ItemTable::of_rows(columns, rows))
}

/// Reads all columns except those of ids and titles, as [`read_item_table`] reads the named ones.
///
/// # Errors
/// As there; [`Error::UnknownColumn`](crate::Error::UnknownColumn) also if there is no such column,
/// or if two have the same name.
pub fn read_whole_item_table(path: impl AsRef<Path>) -> Result<ItemTable> {
    let mut columns = Vec::new();
    let find = |header: &Header<'_, '_>| {
        let known = [ColumnRole::Item, ColumnRole::Title];
        let at = header.all_but(known.map(|role| header.find(role, None).ok()))?;
        columns.extend(at.iter().map(|&at| header.name(at).to_owned()));
        Ok(at)
    };
    let rows = read_items(path.as_ref(), find, Vec::clone, |table, at, _| {
        names_at(table, at)
    })?;
    Ok(ItemTable::of_rows(columns, rows))
}

/// The values in some fields of a line.
fn names_at(table: &Table<'_>, at: &[usize]) -> Result<Vec<Vec<String>>> {
    at.iter()
        .map(|&at| Ok(names_in(&table.text(at)?)))
        .collect()
}

/// The results of `make` for the first line of each id, with the id, in the order of the file.
fn read_items<C, T>(
    path: &Path,
    find: impl FnOnce(&Header<'_, '_>) -> Result<C>,
    places: impl FnOnce(&C) -> Vec<usize>,
    make: impl Fn(&Table<'_>, &C, &str) -> Result<T>,
) -> Result<Vec<(String, T)>> {
    let (input, name) = open_table(path)?;
    let mut table = Table::with_header(input, name)?;
    let header = Header::read(&table)?.fixed();
    let (item, columns) = (header.find(ColumnRole::Item, None)?, find(&header)?);
    table.read_only(places(&columns).into_iter().chain([item]))?;
    let (mut items, mut known) = (Vec::new(), std::collections::HashSet::new());
    while table.advance()? {
        let id = std::str::from_utf8(table.id(item, ColumnRole::Item)?)
            .map_err(|_| table.malformed(item, Expected::Utf8))?;
        let made = make(&table, &columns, id)?;
        if known.insert(id.to_owned()) {
            items.push((id.to_owned(), made));
        }
    }
    table.require_records()?;
    Ok(items)
}

fn names_in(text: &str) -> Vec<String> {
    let names = text.split('|').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names.map(ToOwned::to_owned).collect()
}

fn year_in(text: &str) -> Option<u16> {
    let year = text.trim().parse().ok()?;
    (1..=9999).contains(&year).then_some(year)
}

fn year_of_title(title: &str) -> Option<u16> {
    let (_, end) = title.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    year_in(end)
}

/// Reads a declared catalogue: a header, then one item per line, with separators as for
/// [`read_samples`](crate::read_samples), plain or gzip.
///
/// The item column is `item`, `itemId`, `item_id`, `movieId` or `movie_id`. A column `title` is
/// used if there is one; an empty title means no title. Repeated ids count once. MovieLens
/// `movies.dat`, `id::title::genres` without a header and in Latin-1, is supported too.
///
/// # Errors
/// The errors of [`read_ratings`](crate::read_ratings), including a title that is not UTF-8 as a
/// malformed field.
pub fn read_catalogue(path: impl AsRef<Path>) -> Result<ItemCatalogue> {
    let (input, name) = open_table(path.as_ref())?;
    let mut table = Table::with_header(input, name)?;
    let header = Header::read(&table)?.fixed();
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

/// Rejects a catalogue that is evidently not a public list of items: the file of the `data` (or a
/// copy of it, compressed or not), one that names a column of users (the first of `columns`, or a
/// usual name), one whose ids are in another column than the one with the name of the data's item
/// column (the second), or one that contains an id twice.
///
/// # Privacy
/// The data are compared with a file that is to be public; if they are the same, only the operator
/// is told. A list of items that was derived from the data in another way is not recognised.
///
/// # Errors
/// [`Error::NotACatalogue`], and the errors of [`read_catalogue`].
pub fn check_catalogue(
    catalogue: impl AsRef<Path>,
    data: impl Into<TableSource>,
    columns: [Option<&str>; 2],
) -> Result<()> {
    let (catalogue, data) = (catalogue.as_ref(), data.into());
    if let Some(data) = data.file()
        && (is_same_file(catalogue, data) || has_same_contents(catalogue, data)?)
    {
        return Err(Error::NotACatalogue {
            path: catalogue.display().to_string(),
            fault: CatalogueFault::IsTheData,
        });
    }
    check_item_list(catalogue, columns)
}

/// Rejects a file that, without considering the data, is evidently not a list of items: it has a
/// column of users, or an item twice. `columns` are the names of users and items in the data, if
/// they are not the usual ones.
///
/// # Errors
/// As [`check_catalogue`].
pub fn check_item_list(catalogue: impl AsRef<Path>, columns: [Option<&str>; 2]) -> Result<()> {
    let catalogue = catalogue.as_ref();
    let refused = |fault: CatalogueFault| {
        let path = catalogue.display().to_string();
        Err(Error::NotACatalogue { path, fault })
    };
    let (input, name) = open_table(catalogue)?;
    let mut table = Table::with_header(input, name)?;
    let header = Header::read(&table)?.fixed();
    let [user_column, item_column] = columns;
    if header.has(ColumnRole::User, user_column) {
        return refused(CatalogueFault::UserColumn);
    }
    let item = header.find(ColumnRole::Item, None)?;
    let called_so = item_column.and_then(|name| header.find(ColumnRole::Item, Some(name)).ok());
    if called_so.is_some_and(|at| at != item) {
        return refused(CatalogueFault::ItemColumn);
    }
    table.read_only([item])?;
    let mut ids = HashSet::new();
    while table.advance()? {
        if !ids.insert(table.id(item, ColumnRole::Item)?.to_owned()) {
            let line = table.line_number();
            return refused(CatalogueFault::RepeatedId { line });
        }
    }
    Ok(())
}

/// Rejects a catalogue whose values reveal who used the items: more than half of the distinct
/// texts, and at least two, are ids of users in the ratings.
///
/// # Privacy
/// Titles and feature values are published. Only the operator is told the result of the comparison
/// with private ids, before any budget is spent.
///
/// # Errors
/// [`Error::NotACatalogue`].
pub fn check_no_user_ids<'a>(
    catalogue: impl AsRef<Path>,
    texts: impl IntoIterator<Item = &'a str>,
    ratings: &Ratings,
) -> Result<()> {
    let users = ratings.user_ids().expose().iter();
    let users: HashSet<&str> = users.map(String::as_str).collect();
    let texts: HashSet<&str> = texts.into_iter().collect();
    let n_users = texts.intersection(&users).count();
    if n_users < 2 || 2 * n_users <= texts.len() {
        return Ok(());
    }
    Err(Error::NotACatalogue {
        path: catalogue.as_ref().display().to_string(),
        fault: CatalogueFault::UserIds,
    })
}

#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |path: &Path| {
        let data = std::fs::metadata(path).ok()?;
        Some((data.dev(), data.ino()))
    };
    place(one).is_some_and(|found| place(other) == Some(found))
}

#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| path.canonicalize().ok();
    place(one).is_some_and(|found| place(other) == Some(found))
}

/// Whether two files contain the same bytes after decompression.
fn has_same_contents(one: &Path, other: &Path) -> Result<bool> {
    let unpacked = |path: &Path| -> Result<_> {
        let (file, name) = open(path)?;
        Ok((plain_or_gzip(file, &name)?, name))
    };
    let ((mut one, one_name), (mut other, other_name)) = (unpacked(one)?, unpacked(other)?);
    loop {
        let n = {
            let left = match one.bytes.fill_buf() {
                Ok(left) => left,
                Err(error) => return Err(one.failure(&one_name, error)),
            };
            let right = match other.bytes.fill_buf() {
                Ok(right) => right,
                Err(error) => return Err(other.failure(&other_name, error)),
            };
            let n = left.len().min(right.len());
            if n == 0 {
                return Ok(left.len() == right.len());
            }
            if left[..n] != right[..n] {
                return Ok(false);
            }
            n
        };
        one.bytes.consume(n);
        other.bytes.consume(n);
    }
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
    fn years_come_from_their_column_or_the_end_of_the_title() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("items.tsv");
        let text = "item\ttitle\tyear\tgenres\n1\tToy (1995)\t\tComedy| Drama|\n2\tIn (or Out)\t1931\t\n\
                    3\tLate (x)\t20000\tComedy\n1\tagain\t1900\tWar\n";
        std::fs::write(&path, text).unwrap();
        let items = read_item_attributes(&path).unwrap();
        assert_eq!(items.len(), 3);
        assert_eq!(
            (items[0].year, items[1].year, items[2].year),
            (Some(1995), Some(1931), None)
        );
        assert_eq!(items[0].genres, ["Comedy", "Drama"]);
        assert!(items[1].genres.is_empty());
        std::fs::write(&path, "movie_id,title\n9,Old (1920)\n").unwrap();
        let items = read_item_attributes(&path).unwrap();
        assert_eq!((items[0].id.as_str(), items[0].year), ("9", Some(1920)));
    }

    #[test]
    fn columns_of_names_are_read_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("items.tsv");
        let text = "item\tactors\tyear\tgenres\n7\tAnn Lee | Bob||Ann Lee\t1995\tWar\n8\t\t\t\n\
                    7\tlater\t1900\tNoir\n";
        std::fs::write(&path, text).unwrap();
        let items = read_item_table(&path, &["genres", "actors"]).unwrap();
        assert_eq!(items.columns(), ["genres", "actors"]);
        assert_eq!(items.n_items(), 2);
        assert_eq!(items.names("7", 0), ["War"]);
        assert_eq!(items.names("7", 1), ["Ann Lee", "Bob", "Ann Lee"]);
        assert!(items.names("8", 0).is_empty() && items.names("8", 1).is_empty());
        let whole = read_whole_item_table(&path).unwrap();
        assert_eq!(whole.columns(), ["actors", "year", "genres"]);
        assert_eq!(whole.names("7", 0), ["Ann Lee", "Bob", "Ann Lee"]);
        let missing = read_item_table(&path, &["genres", "writers"]).unwrap_err();
        assert!(missing.to_string().contains("writers"), "{missing}");
        std::fs::write(&path, "item,genres,genres\n1,War,Noir\n").unwrap();
        assert!(read_item_table(&path, &["genres"]).is_err());
        assert!(read_whole_item_table(&path).is_err());
        std::fs::write(&path, "item,title\n1,War\n").unwrap();
        assert!(read_whole_item_table(&path).is_err());
    }

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

        // in other files, a byte that is not text is an error
        std::fs::write(&path, b"item,title\n73,Mis\xe9rables\n").unwrap();
        assert!(read_catalogue(&path).is_err());
        std::fs::write(&path, "1::Toy::Drama\n2::Two\n").unwrap();
        assert!(read_catalogue(&path).is_err());
    }

    #[test]
    fn data_are_recognised_as_no_catalogue() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let ratings = "who,item,rating\nann,i1,4\nbob,i2,5\n";
        let data = file("ratings.csv", ratings);
        let fault = |path: &Path| match check_catalogue(path, &data, [Some("who"), Some("what")]) {
            Err(Error::NotACatalogue { fault, .. }) => Some(fault),
            other => other.map(|()| None).unwrap(),
        };
        let packed = dir.path().join("copy.csv.gz");
        let gz = std::fs::File::create(&packed).unwrap();
        let mut gz = flate2::write::GzEncoder::new(gz, flate2::Compression::fast());
        gz.write_all(ratings.as_bytes()).unwrap();
        gz.finish().unwrap();
        for same in [data.clone(), dir.path().join("./ratings.csv"), packed] {
            assert_eq!(fault(&same), Some(CatalogueFault::IsTheData));
        }
        #[cfg(unix)]
        {
            let link = dir.path().join("link.csv");
            std::os::unix::fs::symlink(&data, &link).unwrap();
            assert_eq!(fault(&link), Some(CatalogueFault::IsTheData));
        }
        for users in ["item,who\ni1,ann\n", "item,User_ID\ni1,ann\n"] {
            assert_eq!(
                fault(&file("users.csv", users)),
                Some(CatalogueFault::UserColumn)
            );
        }
        let repeated = file("twice.csv", "item,title\ni1,One\ni2,Two\ni1,One\n");
        assert_eq!(
            fault(&repeated),
            Some(CatalogueFault::RepeatedId { line: 4 })
        );
        let by_title = file("titles.csv", "item,what\ni1,One\ni2,Two\n");
        assert_eq!(fault(&by_title), Some(CatalogueFault::ItemColumn));
        let proper = file("items.csv", "item,title\ni1,One\ni2,Two\n");
        assert_eq!(fault(&proper), None);
        let movies = file("movies.dat", "1::Toy::Drama\n2::Two::War\n");
        assert_eq!(fault(&movies), None);
        // the beginning of the data file is not the data file
        assert_eq!(fault(&file("head.csv", "item\ni1\n")), None);
    }
}
