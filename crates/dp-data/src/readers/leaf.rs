//! LEAF JSON: federated data sets by user.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use super::json::JsonReader;
use super::source::open;
use crate::{Expected, Result, SampleTable, SampleUser};

/// Which label is read, where every row has several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeafLabel {
    /// Place of the label among those of a row, from 0; none where a row has one label.
    pub index: Option<usize>,
}

/// Reads a LEAF data set (FEMNIST, Stack Overflow and others of numbers), plain or gzip.
///
/// ```text
/// {"users": ["f01", ...], "num_samples": [37, ...],
///  "user_data": {"f01": {"x": [[0.5, 1, ...], ...], "y": [3, ...]}, ...}}
/// ```
///
/// Keys may come in any order and others are skipped. A row of `x` is a number, an array of numbers, or arrays of those within one another, which are
/// put in a row (an image by its lines); a label is a number, or an array of which `label` says the place. Features are called `x0`, `x1`, ..., the
/// target `y`. Users come in the order of `users`. The file is read as it comes: nothing is held but the rows.
///
/// A row in which a number is `NaN`, `Infinity`, `null` or beyond `f32` is left out and counted, as by [`read_samples`](crate::read_samples); its user stays
/// known. A file without users is an empty table without features.
///
/// # Errors
/// * [`Error::Open`](crate::Error::Open), [`Error::Read`](crate::Error::Read), [`Error::Gzip`](crate::Error::Gzip) - as
///   [`read_samples`](crate::read_samples).
/// * [`Error::Malformed`](crate::Error::Malformed) with the line and the byte in it - what is no JSON or no number; a key that is missing or
///   stands there twice; rows of different lengths ([`Expected::RowLength`]); a user with more rows than labels or
///   the reverse ([`Expected::RowsAndLabels`]); counts that are not those of the rows or users ([`Expected::Counts`]);
///   a user listed without data ([`Expected::DataOfUser`]), with data and not listed ([`Expected::ListedUser`]), or twice
///   ([`Expected::NewUser`]).
pub fn read_leaf(path: impl AsRef<Path>, label: LeafLabel) -> Result<SampleTable> {
    let (file, name) = open(path.as_ref())?;
    read_leaf_from(file, name, label)
}

/// Reads a LEAF data set from anything; `name` stands for the path in errors.
///
/// # Errors
/// Those of [`read_leaf`], except that nothing is opened.
///
/// # Examples
/// ```
/// use dp_data::{LeafLabel, read_leaf_from};
/// let text = r#"{"users": ["ann", "bob"], "num_samples": [2, 1], "user_data": {
///     "bob": {"x": [[5, 6]], "y": [0]}, "ann": {"x": [[1, 2], [3, NaN]], "y": [1, 0]}}}"#;
/// let table = read_leaf_from(text.as_bytes(), "demo.json", LeafLabel::default())?;
/// assert_eq!(table.features(), ["x0", "x1"]);
/// let users = table.users().expose();
/// assert_eq!(users[0].rows(2).collect::<Vec<_>>(), [(&[1.0, 2.0][..], 1.0)]);
/// assert_eq!((users[1].id(), *table.n_not_finite().expose()), ("bob", 1));
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn read_leaf_from(
    reader: impl Read,
    name: impl Into<String>,
    label: LeafLabel,
) -> Result<SampleTable> {
    let mut json = JsonReader::new(reader, name.into())?;
    let mut file = LeafFile {
        label,
        ..LeafFile::default()
    };
    json.object(
        "an object with users, num_samples and user_data",
        |json, key| match key {
            "users" => file.read_users(json),
            "num_samples" => file.read_counts(json),
            "user_data" => file.read_data(json),
            _ => json.skip(0),
        },
    )?;
    json.end()?;
    file.into_table(&json)
}

#[derive(Default)]
struct LeafFile {
    label: LeafLabel,
    users: Option<Vec<String>>,
    counts: Option<Vec<usize>>,
    data: Option<HashMap<String, Rows>>,
    /// Numbers in a row, once there is one.
    width: Option<usize>,
    n_labels: Option<usize>,
}

/// One user's rows.
#[derive(Default)]
struct Rows {
    x: Vec<f32>,
    y: Vec<f32>,
    n_x: usize,
}

impl LeafFile {
    fn read_users(&mut self, json: &mut JsonReader<'_>) -> Result<()> {
        once(json, self.users.is_some())?;
        let (mut users, mut known) = (Vec::new(), std::collections::HashSet::new());
        json.array("an array of users", |json| {
            let id = json.string("the id of a user in quotes")?;
            if !known.insert(id.clone()) {
                return Err(json.malformed(Expected::NewUser));
            }
            users.push(id);
            Ok(())
        })?;
        self.users = Some(users);
        Ok(())
    }

    fn read_counts(&mut self, json: &mut JsonReader<'_>) -> Result<()> {
        once(json, self.counts.is_some())?;
        let mut counts = Vec::new();
        json.array("an array of counts", |json| {
            counts.push(json.count("a count of rows")?);
            Ok(())
        })?;
        self.counts = Some(counts);
        Ok(())
    }

    fn read_data(&mut self, json: &mut JsonReader<'_>) -> Result<()> {
        once(json, self.data.is_some())?;
        let mut data = HashMap::new();
        json.object("an object of users", |json, id| {
            let rows = self.read_user(json)?;
            if data.insert(id.to_owned(), rows).is_some() {
                return Err(json.malformed(Expected::NewUser));
            }
            Ok(())
        })?;
        self.data = Some(data);
        Ok(())
    }

    fn read_user(&mut self, json: &mut JsonReader<'_>) -> Result<Rows> {
        let (mut rows, mut has_x, mut has_y) = (Rows::default(), false, false);
        json.object("an object with x and y", |json, key| match key {
            "x" => {
                once(json, std::mem::replace(&mut has_x, true))?;
                json.array("an array of rows", |json| self.read_row(json, &mut rows))
            }
            "y" => {
                once(json, std::mem::replace(&mut has_y, true))?;
                json.array("an array of labels", |json| {
                    rows.y.push(self.read_label(json)?);
                    Ok(())
                })
            }
            _ => json.skip(0),
        })?;
        if !(has_x && has_y) {
            return Err(json.malformed(Expected::Json("x and y of a user")));
        }
        if rows.n_x != rows.y.len() {
            return Err(json.malformed(Expected::RowsAndLabels));
        }
        Ok(rows)
    }

    fn read_row(&mut self, json: &mut JsonReader<'_>, rows: &mut Rows) -> Result<()> {
        let before = rows.x.len();
        flat(json, &mut rows.x, 0)?;
        rows.n_x += 1;
        let found = rows.x.len() - before;
        same_length(json, &mut self.width, found)
    }

    fn read_label(&mut self, json: &mut JsonReader<'_>) -> Result<f32> {
        let mut labels = Vec::new();
        flat(json, &mut labels, 0)?;
        same_length(json, &mut self.n_labels, labels.len())?;
        match (self.label.index, labels.as_slice()) {
            (None, &[label]) => Ok(label),
            (Some(at), all) if at < all.len() => Ok(all[at]),
            _ => Err(json.malformed(Expected::Json(
                "one label, or more than the place asked for",
            ))),
        }
    }

    fn into_table(self, json: &JsonReader<'_>) -> Result<SampleTable> {
        let missing = |key| json.malformed(Expected::Json(key));
        let users = self.users.ok_or_else(|| missing("the key users"))?;
        let counts = self.counts.ok_or_else(|| missing("the key num_samples"))?;
        let mut data = self.data.ok_or_else(|| missing("the key user_data"))?;
        if counts.len() != users.len() {
            return Err(json.malformed(Expected::Counts));
        }
        let width = self.width.unwrap_or(0);
        let (mut table, mut order, mut n_not_finite) = (Vec::new(), Vec::new(), 0);
        for ((number, id), count) in (0..).zip(users).zip(counts) {
            let rows = data
                .remove(&id)
                .ok_or_else(|| json.malformed(Expected::DataOfUser))?;
            if rows.y.len() != count {
                return Err(json.malformed(Expected::Counts));
            }
            let cells = rows.finite(width);
            let n_kept = cells.len() / (width + 1);
            n_not_finite += count - n_kept;
            order.extend(std::iter::repeat_n(number, n_kept));
            table.push(SampleUser { id, cells });
        }
        if !data.is_empty() {
            return Err(json.malformed(Expected::ListedUser));
        }
        let features = (0..width).map(|at| format!("x{at}")).collect();
        let target = Some("y".to_owned());
        Ok(SampleTable::new(
            features,
            target,
            table,
            order,
            n_not_finite,
        ))
    }
}

impl Rows {
    /// `x` and `y` of every row of finite numbers.
    fn finite(&self, width: usize) -> Vec<f32> {
        let mut cells = Vec::with_capacity(self.y.len() * (width + 1));
        for (row, &y) in self.y.iter().enumerate() {
            let x = &self.x[row * width..][..width];
            if y.is_finite() && x.iter().all(|x| x.is_finite()) {
                cells.extend_from_slice(x);
                cells.push(y);
            }
        }
        cells
    }
}

fn once(json: &JsonReader<'_>, again: bool) -> Result<()> {
    if again {
        return Err(json.malformed(Expected::Json("every key once")));
    }
    Ok(())
}

/// A number, or all numbers of arrays within one another.
fn flat(json: &mut JsonReader<'_>, out: &mut Vec<f32>, depth: usize) -> Result<()> {
    if json.peek()? == Some(b'[') && depth < 4 {
        return json.array("an array", |json| flat(json, out, depth + 1));
    }
    out.push(json.number("a number")?);
    Ok(())
}

fn same_length(json: &JsonReader<'_>, known: &mut Option<usize>, found: usize) -> Result<()> {
    let expected = *known.get_or_insert(found);
    if found == expected && found > 0 {
        return Ok(());
    }
    Err(json.malformed(Expected::RowLength { found, expected }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn read(text: &str) -> Result<SampleTable> {
        read_leaf_from(text.as_bytes(), "t.json", LeafLabel::default())
    }

    fn whole(users: &str, counts: &str, data: &str) -> String {
        format!(r#"{{"users": {users}, "num_samples": {counts}, "user_data": {data}}}"#)
    }

    #[test]
    fn users_come_in_the_order_of_their_list_whatever_the_order_of_keys() {
        let text = r#"{"user_data": {"b": {"y": [1.5, 2], "x": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]},
            "a": {"x": [], "y": [], "note": {"z": [null]}}}, "hierarchies": [["r", 1], []],
            "num_samples": [0, 2], "users": ["a", "b"]}"#;
        let table = read(text).unwrap();
        let users = table.users().expose();
        assert_eq!((users[0].id(), users[0].rows(4).len()), ("a", 0));
        let rows: Vec<_> = users[1].rows(4).collect();
        assert_eq!(rows[1], (&[5.0, 6.0, 7.0, 8.0][..], 2.0));
        assert_eq!(
            (table.order().expose().as_slice(), table.target()),
            (&[1, 1][..], Some("y"))
        );
        assert_eq!(table.features(), ["x0", "x1", "x2", "x3"]);
    }

    #[test]
    fn rows_with_what_is_no_number_are_left_out_and_their_user_stays() {
        let data = r#"{"a": {"x": [NaN, 1, 2, 1e60, 4], "y": [0, null, -Infinity, 1, 1]}}"#;
        let table = read(&whole(r#"["a"]"#, "[5]", data)).unwrap();
        assert_eq!(*table.n_not_finite().expose(), 4);
        let rows: Vec<_> = table.users().expose()[0].rows(1).collect();
        assert_eq!(rows, [(&[4.0][..], 1.0)]);
        let nobody = read(&whole("[]", "[]", "{}")).unwrap();
        assert!(nobody.users().expose().is_empty() && nobody.features().is_empty());
    }

    #[test]
    fn one_of_several_labels_is_read_where_its_place_is_given() {
        let text = whole(
            r#"["a"]"#,
            "[2]",
            r#"{"a": {"x": [[1], [2]], "y": [[0, 7], [1, 8]]}}"#,
        );
        let labels = |index| {
            let table = read_leaf_from(text.as_bytes(), "t.json", LeafLabel { index })?;
            let users = table.users().expose();
            Ok::<_, Error>(users[0].rows(1).map(|row| row.1).collect::<Vec<_>>())
        };
        assert_eq!(labels(Some(1)).unwrap(), [7.0, 8.0]);
        assert!(labels(None).is_err() && labels(Some(2)).is_err());
    }

    #[test]
    fn malformed_files_are_refused_by_kind_without_showing_them() {
        let good = r#"{"a": {"x": [[1, 2]], "y": [3]}}"#;
        let expected = |text: &str| match read(text) {
            Err(Error::Malformed { expected, .. }) => expected,
            Err(other) => panic!("{text}: {other}"),
            Ok(_) => panic!("{text}"),
        };
        assert!(read(&whole(r#"["a"]"#, "[1]", good)).is_ok());
        let two = r#"{"a": {"x": [[1, 2], [3]], "y": [3, 4]}}"#;
        let short = Expected::RowLength {
            found: 1,
            expected: 2,
        };
        assert_eq!(expected(&whole(r#"["a"]"#, "[2]", two)), short);
        let empty = r#"{"a": {"x": [[]], "y": [3]}}"#;
        let none = Expected::RowLength {
            found: 0,
            expected: 0,
        };
        assert_eq!(expected(&whole(r#"["a"]"#, "[1]", empty)), none);
        let labels = r#"{"a": {"x": [[1, 2]], "y": [3, 4]}}"#;
        assert_eq!(
            expected(&whole(r#"["a"]"#, "[2]", labels)),
            Expected::RowsAndLabels
        );
        for (users, counts, kind) in [
            (r#"["a"]"#, "[2]", Expected::Counts),
            (r#"["a"]"#, "[1, 1]", Expected::Counts),
            (r#"["a"]"#, "[]", Expected::Counts),
            (r#"["a", "secret"]"#, "[1, 1]", Expected::DataOfUser),
            ("[]", "[]", Expected::ListedUser),
            (r#"["a", "a"]"#, "[1, 1]", Expected::NewUser),
        ] {
            assert_eq!(
                expected(&whole(users, counts, good)),
                kind,
                "{users} {counts}"
            );
        }
        let twice = r#"{"a": {"x": [1], "y": [3]}, "a": {"x": [1], "y": [3]}}"#;
        assert_eq!(
            expected(&whole(r#"["a"]"#, "[1]", twice)),
            Expected::NewUser
        );
        for data in [
            r#"{"a": {"x": [["secret"]], "y": [3]}}"#,
            r#"{"a": {"x": [[true]], "y": [3]}}"#,
            r#"{"a": {"x": [[1]], "y": ["3"]}}"#,
            r#"{"a": {"x": [[1]]}}"#,
            r#"{"a": {"x": [[1]], "x": [[1]], "y": [1]}}"#,
            r#"{"a": [1]}"#,
            "[]",
            r#"{"a": {"x": [[1]], "y": [1]}"#,
        ] {
            let Expected::Json(_) = expected(&whole(r#"["a"]"#, "[1]", data)) else {
                panic!("{data}");
            };
        }
        for text in [
            "",
            "[]",
            "{}",
            r#"{"users": ["a"]}"#,
            "{\"users\": [], \"users\": []}",
        ] {
            assert!(matches!(expected(text), Expected::Json(_)), "{text}");
        }
        let after = whole("[]", "[]", "{}") + "1";
        assert_eq!(expected(&after), Expected::Json("the end of the file"));
        let shown = read(&whole(r#"["a", "secret"]"#, "[1, 1]", good))
            .err()
            .unwrap();
        assert!(!shown.to_string().contains("secret"), "{shown}");
    }
}
