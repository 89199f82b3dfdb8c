//! Files of labelled feature vectors.

use std::io::Read;

use super::format::Header;
use super::memory::TableSource;
use super::table::{Input, Interner, Table, table_from};
use crate::{ColumnRole, Error, Expected, Result, SampleTable, SampleUser};

/// Which columns of a csv or tsv file are read. A given name must match exactly; columns without a
/// given name are found by their usual names, ignoring case.
///
/// | column | names | |
/// |---|---|---|
/// | user | `user`, `userId`, `user_id` | |
/// | target | `target`, `label`, `y` | |
/// | features | all other columns | in the order of the file, or as named |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SampleColumns {
    /// Column of user ids.
    pub user: Option<String>,
    /// A name that the column of user ids may have besides the usual ones, and then takes
    /// precedence.
    #[cfg_attr(feature = "serde", serde(default))]
    pub usual_user: Option<String>,
    /// Column of the value to be predicted.
    pub target: Option<String>,
    /// Columns of the features.
    pub features: Option<Vec<String>>,
    /// If there is no user column, all rows belong to one user, whose id is empty.
    pub user_is_optional: bool,
    /// The file contains only features: no target is read, and every label is 0.
    pub without_target: bool,
    /// The names of all columns, in order, for a file without a header. The separator is the one
    /// that splits the first line into as many fields: `::`, tabs, semicolons or commas.
    #[cfg_attr(feature = "serde", serde(default))]
    pub names: Option<Vec<String>>,
}

/// Reads labelled feature vectors from a table in memory, or from a file, plain or gzip: a header,
/// then one row per line, separated by tabs if the header has one, otherwise by commas or
/// semicolons, whichever is more frequent in it.
///
/// A row in which a number is missing (an empty field), NaN, infinite or beyond `f32` is left out
/// and counted; its user remains known. A file without rows is an empty table, so that the removal
/// of the last user does not show.
///
/// # Errors
/// * [`Error::Open`](crate::Error::Open), [`Error::Read`](crate::Error::Read),
///   [`Error::Gzip`](crate::Error::Gzip), as for [`read_ratings`](crate::read_ratings);
///   [`Error::Empty`](crate::Error::Empty) if there is not even a header.
/// * [`Error::UnknownColumn`](crate::Error::UnknownColumn) if a column is missing from the header
///   or occurs twice, or if none is left for the features.
/// * [`Error::Malformed`](crate::Error::Malformed) if a line has another number of fields than the
///   header, or contains a field that is not a number, an empty id, an id that is not UTF-8, or an
///   unclosed quote. Unused columns may contain anything.
pub fn read_samples(
    source: impl Into<TableSource>,
    columns: &SampleColumns,
) -> Result<SampleTable> {
    let (input, name) = source.into().open()?;
    read_table(input, name, columns)
}

/// Reads labelled feature vectors from any reader; `name` is shown instead of the path in errors.
///
/// # Errors
/// The errors of [`read_samples`], except for opening a file.
///
/// # Examples
/// ```
/// use dp_data::{SampleColumns, read_samples_from};
/// let text = "user,age,y,weight\nann,30,1,60\nbob,40,0,nan\nann,31,1,61\n";
/// let table = read_samples_from(text.as_bytes(), "demo.csv", &SampleColumns::default())?;
/// assert_eq!(table.features(), ["age", "weight"]);
/// let users = table.users().expose();
/// assert_eq!(users[0].rows(2).collect::<Vec<_>>(), [(&[30.0, 60.0][..], 1.0), (&[31.0, 61.0], 1.0)]);
/// assert_eq!((users[1].id(), users[1].rows(2).len()), ("bob", 0));
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn read_samples_from(
    reader: impl Read,
    name: impl Into<String>,
    columns: &SampleColumns,
) -> Result<SampleTable> {
    let name = name.into();
    read_table(table_from(reader, &name)?, name, columns)
}

fn read_table(input: Input<'_>, name: String, columns: &SampleColumns) -> Result<SampleTable> {
    let mut table = match &columns.names {
        Some(names) => Table::with_names(input, name, names)?,
        None => Table::with_header(input, name)?,
    };
    let features = columns.features.iter().flatten();
    let named = [&columns.user, &columns.target].into_iter().flatten();
    let header = Header::read(&table)?.knowing(named.chain(features));
    let (places, features) = Places::find(&header, columns)?;
    let name = |at: usize| header.name(at).to_owned();
    let (target, users) = (places.target.map(name), places.user.map(name));
    drop(header);
    let of_row = [places.user, places.target].into_iter().flatten();
    table.read_only(of_row.chain(places.features.iter().copied()))?;
    let mut collected = Collected::default();
    let mut row = Vec::with_capacity(features.len() + 1);
    while table.advance()? {
        let read = places.read(&table, &mut row);
        read.map_err(|error| with_name(error, &places, &features))?;
        collected.push(&table, places.user, &row)?;
    }
    Ok(collected
        .into_table(features, target)
        .with_users_from(users))
}

/// The error of a feature that is no number, with the name of its column.
fn with_name(error: Error, places: &Places, features: &[String]) -> Error {
    match error {
        Error::Malformed {
            path,
            line,
            column,
            expected: expected @ Expected::Number(ColumnRole::Feature),
            ..
        } => {
            let at = places.features.iter().position(|at| at + 1 == column);
            Error::Malformed {
                path,
                line,
                column,
                expected,
                name: at.map(|at| features[at].clone()),
            }
        }
        other => other,
    }
}

/// Positions of the columns within a line.
struct Places {
    user: Option<usize>,
    target: Option<usize>,
    features: Vec<usize>,
}

impl Places {
    /// The positions, and the names of the features.
    fn find(header: &Header<'_, '_>, columns: &SampleColumns) -> Result<(Self, Vec<String>)> {
        let usual = columns.usual_user.as_deref();
        let usual = usual.filter(|name| header.has(ColumnRole::User, Some(name)));
        let name = columns.user.as_deref().or(usual);
        let user = header.find_once(ColumnRole::User, name);
        let user = match user {
            // a column that was requested by name, or is there, must be one
            Err(_) if columns.user_is_optional && name.is_none() => None,
            found => Some(found?),
        };
        let target = (!columns.without_target)
            .then(|| header.find_once(ColumnRole::Target, columns.target.as_deref()))
            .transpose()?;
        if let (Some(at), true) = (user, user == target) {
            return Err(header.shared(at, [ColumnRole::User, ColumnRole::Target]));
        }
        let features = match &columns.features {
            Some(names) => names
                .iter()
                .map(|name| header.find_once(ColumnRole::Feature, Some(name)))
                .collect::<Result<Vec<_>>>()?,
            None => header.all_but([user, target])?,
        };
        let names = features.iter().map(|&at| header.name(at).to_owned());
        let names = names.collect();
        Ok((
            Self {
                user,
                target,
                features,
            },
            names,
        ))
    }

    /// `x` followed by `y` of the current line.
    fn read(&self, table: &Table<'_>, row: &mut Vec<f32>) -> Result<()> {
        row.clear();
        for &column in &self.features {
            row.push(table.number_or_missing(column, ColumnRole::Feature)?);
        }
        row.push(match self.target {
            Some(column) => table.number_or_missing(column, ColumnRole::Target)?,
            None => 0.0,
        });
        Ok(())
    }
}

/// Rows as they are in the file, by user.
#[derive(Default)]
struct Collected {
    ids: Interner,
    cells: Vec<Vec<f32>>,
    order: Vec<u32>,
    n_not_finite: usize,
}

impl Collected {
    fn push(&mut self, table: &Table<'_>, user_column: Option<usize>, row: &[f32]) -> Result<()> {
        let user = match user_column {
            Some(column) => self
                .ids
                .number(table.id(column, ColumnRole::User)?)
                .map_err(|expected| table.malformed(column, expected))?,
            None => self
                .ids
                .number(b"")
                .map_err(|expected| table.malformed(0, expected))?,
        };
        let at = user as usize;
        self.cells
            .resize_with(self.cells.len().max(at + 1), Vec::new);
        if row.iter().all(|x| x.is_finite()) {
            self.cells[at].extend_from_slice(row);
            self.order.push(user);
        } else {
            self.n_not_finite += 1;
        }
        Ok(())
    }

    fn into_table(self, features: Vec<String>, target: Option<String>) -> SampleTable {
        let users = self.ids.into_ids().into_iter().zip(self.cells);
        let users = users.map(|(id, cells)| SampleUser { id, cells }).collect();
        SampleTable::new(features, target, users, self.order, self.n_not_finite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, columns: &SampleColumns) -> Result<SampleTable> {
        read_samples_from(text.as_bytes(), "t.csv", columns)
    }

    #[test]
    fn named_columns_are_read_in_the_order_they_were_named() {
        let columns = SampleColumns {
            user: Some("who".to_owned()),
            target: Some("t".to_owned()),
            features: Some(vec!["b".to_owned(), "a".to_owned()]),
            ..SampleColumns::default()
        };
        let table = read("a\twho\tnote\tb\tt\n1\tann\tx\t2\t3\n", &columns).unwrap();
        assert_eq!(table.features(), ["b", "a"]);
        assert_eq!(table.target(), Some("t"));
        let rows: Vec<_> = table.users().expose()[0].rows(2).collect();
        assert_eq!(rows, [(&[2.0, 1.0][..], 3.0)]);
    }

    #[test]
    fn rows_keep_the_order_of_the_file_and_bad_values_leave_it() {
        let text = "user,x,y\nb,1,1\na,2,1\nb,inf,1\nb,1e60,2\nb,3,1\n";
        let table = read(text, &SampleColumns::default()).unwrap();
        assert_eq!(table.order().expose(), &[0, 1, 0]);
        assert_eq!(*table.n_not_finite().expose(), 2);
        let lone = SampleColumns {
            user_is_optional: true,
            without_target: true,
            ..SampleColumns::default()
        };
        let table = read("x,z\n1,2\n3,4\n", &lone).unwrap();
        assert_eq!(table.users().expose().len(), 1);
        assert_eq!(table.users().expose()[0].rows(2).len(), 2);
    }

    #[test]
    fn a_row_with_an_empty_field_is_left_out_and_counted() {
        let text = "user,x,z,y\na,1,2,3\na,,2,3\nb,1, ,3\nb,1,2,\nb,4,5,6\n";
        let table = read(text, &SampleColumns::default()).unwrap();
        assert_eq!(*table.n_not_finite().expose(), 3);
        let users = table.users().expose();
        assert_eq!(
            users[0].rows(2).collect::<Vec<_>>(),
            [(&[1.0, 2.0][..], 3.0)]
        );
        assert_eq!(
            users[1].rows(2).collect::<Vec<_>>(),
            [(&[4.0, 5.0][..], 6.0)]
        );
    }

    #[test]
    fn semicolons_decimal_commas_and_columns_without_names_make_the_same_table() {
        let plain = read(
            "user,x,y\na,1.5,2\nb,-0.25,3.5\n",
            &SampleColumns::default(),
        )
        .unwrap();
        let named = |names: &str| SampleColumns {
            names: Some(names.split(',').map(str::to_owned).collect()),
            ..SampleColumns::default()
        };
        for (text, columns) in [
            ("user;x;y\na;1,5;2\nb;-0,25;3.5\n", SampleColumns::default()),
            ("a;1,5;2,0\nb;-0,25;3,5\n", named("user,x,y")),
            ("a,1.5,2\nb,-0.25,3.5\n", named("user,x,y")),
            ("2\ta\t1.5\n3.5\tb\t-.25\n", named("y,user,x")),
        ] {
            let table = read(text, &columns).unwrap();
            assert_eq!(table.features(), plain.features(), "{text}");
            assert_eq!(table.target(), plain.target(), "{text}");
            for (user, expected) in table.users().expose().iter().zip(plain.users().expose()) {
                assert_eq!(user.id(), expected.id(), "{text}");
                assert!(user.rows(1).eq(expected.rows(1)), "{text}");
            }
        }
        // a comma is a decimal separator only if fields are separated by semicolons, and thousands
        // separators are not accepted
        for text in ["user\tx\ty\na\t1,5\t2\n", "user;x;y\na;1.000,5;2\n"] {
            let found = read(text, &SampleColumns::default()).err().unwrap();
            assert_eq!(
                found.to_string(),
                "t.csv:2:2: expected a number for the feature in column x"
            );
        }
    }

    #[test]
    fn names_are_for_files_that_have_none_of_their_own() {
        let columns = SampleColumns {
            names: Some(["user", "x", "y"].map(str::to_owned).into()),
            ..SampleColumns::default()
        };
        for (text, expected) in [
            (
                "User;x;y\na;1;2\n",
                "t.csv:1:1: expected a record; found the names of columns",
            ),
            ("secret,1\n", "t.csv:1:3: expected 3 fields; found 2"),
            ("secret,1,2,3\n", "t.csv:1:4: expected 3 fields; found 4"),
        ] {
            let found = read(text, &columns).err().unwrap().to_string();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_file_without_rows_is_an_empty_table() {
        let table = read("user,x,y\n", &SampleColumns::default()).unwrap();
        assert!(table.users().expose().is_empty() && table.features() == ["x"]);
        let empty = read("", &SampleColumns::default());
        assert!(matches!(empty, Err(Error::Empty { .. })));
    }

    #[test]
    fn users_are_not_the_target() {
        let columns = SampleColumns {
            user: Some("y".to_owned()),
            ..SampleColumns::default()
        };
        let found = read("user,x,y\na,1,2\n", &columns);
        assert!(matches!(found, Err(Error::SharedColumn { .. })));
    }

    #[test]
    fn bad_headers_and_lines_are_refused_without_showing_them() {
        let columns = SampleColumns::default();
        for text in [
            "user,x\na,1\n",
            "user,y\na,1\n",
            "user,x,x,y\na,1,1,2\n",
            "user,user,x,y\na,b,1,2\n",
        ] {
            let found = read(text, &columns);
            assert!(matches!(found, Err(Error::UnknownColumn { .. })), "{text}");
        }
        for (text, line, column) in [
            ("user,x,y\na,one,2\n", 2, 2),
            ("user,x,y\na,1,2\na,1\n", 3, 3),
            ("user,x,y\n,1,2\n", 2, 1),
            ("secret,17,3\n", 1, 2),
        ] {
            let Err(Error::Malformed {
                line: l, column: c, ..
            }) = read(text, &columns)
            else {
                panic!("{text}");
            };
            assert_eq!((l, c), (line, column), "{text}");
        }
        let found = read("user,x,y\na,1,two\n", &columns)
            .err()
            .unwrap()
            .to_string();
        assert_eq!(found, "t.csv:2:3: expected a number for the target");
        assert_eq!(
            Expected::Number(ColumnRole::Feature).to_string(),
            "a number for the feature"
        );
    }
}
