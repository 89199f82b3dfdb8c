//! Files of items.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::BufRead;
use std::path::Path;

use super::format::Header;
use super::source::{open, open_table, plain_or_gzip};
use super::table::Table;
use crate::{CatalogueFault, ColumnRole, Error, Expected, ItemCatalogue, Result};

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

/// Refuses a catalogue that shows of itself that it is no public list of items: the file of the `data` (or a copy of it, packed or
/// not), one that names a column of users, `user_column` or a usual name, or one that has an id twice.
///
/// # Privacy
/// The data are compared with a file that is to be public; where they are the same, the operator alone is told. A list of items
/// that was made from the data in some other way is not recognised.
///
/// # Errors
/// [`Error::NotACatalogue`], and those of [`read_catalogue`].
pub fn check_catalogue(
    catalogue: impl AsRef<Path>,
    data: impl AsRef<Path>,
    user_column: Option<&str>,
) -> Result<()> {
    let (catalogue, data) = (catalogue.as_ref(), data.as_ref());
    let refused = |fault: CatalogueFault| {
        let path = catalogue.display().to_string();
        Err(Error::NotACatalogue { path, fault })
    };
    if is_same_file(catalogue, data) || has_same_contents(catalogue, data)? {
        return refused(CatalogueFault::IsTheData);
    }
    let (input, name) = open_table(catalogue)?;
    let mut table = Table::with_header(input, name)?;
    let header = Header::read(&table)?;
    if header.has(ColumnRole::User, user_column) {
        return refused(CatalogueFault::UserColumn);
    }
    let item = header.find(ColumnRole::Item, None)?;
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

/// Whether two files hold the same bytes once they are unpacked.
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
        let fault = |path: &Path| match check_catalogue(path, &data, Some("who")) {
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
        let proper = file("items.csv", "item,title\ni1,One\ni2,Two\n");
        assert_eq!(fault(&proper), None);
        let movies = file("movies.dat", "1::Toy::Drama\n2::Two::War\n");
        assert_eq!(fault(&movies), None);
        // the beginning of the data is not the data
        assert_eq!(fault(&file("head.csv", "item\ni1\n")), None);
    }
}
