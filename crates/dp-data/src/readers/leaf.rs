//! LEAF JSON: federated data sets grouped by user.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use dp_core::params;

use super::json::JsonReader;
use super::table::open;
use crate::{Expected, Result, SampleTable, SampleUser};

/// The declared shape of every row of a LEAF file. Public, never derived from the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct LeafRows {
    /// Length of a row of `x`, 1 to 2^16.
    pub n_features: usize,
    /// Position of the label among those of a row, from 0; `None` if a row has one label.
    pub label: Option<usize>,
}

/// Reads a LEAF data set with numeric features (FEMNIST, Stack Overflow and others), plain or gzip.
///
/// ```text
/// {"users": ["f01", ...], "num_samples": [37, ...],
///  "user_data": {"f01": {"x": [[0.5, 1, ...], ...], "y": [3, ...]}, ...}}
/// ```
///
/// Keys may come in any order, and unknown keys are skipped. A row of `x` is a number, an array of
/// numbers, or nested arrays, which are flattened (an image by its lines). A label is a number, or
/// an array in which [`LeafRows::label`] gives the position. Features are called `x0`, `x1`, ...,
/// the target `y`. Users are in the order of `users`. The file is read as a stream: only the rows
/// are held in memory.
///
/// The width is declared, because the file has no header and a row must not determine what is
/// released. The following are left out and counted, as in [`read_samples`](crate::read_samples),
/// while the user remains known:
///
/// | row | left out |
/// |---|---|
/// | contains `NaN`, `Infinity`, `null` or a number beyond `f32` | the row |
/// | the length of `x` is not `n_features` | the row |
/// | none or several labels where one is declared, or none at the declared position | the row |
/// | its user has more rows than labels, or the reverse | all rows of the user, because it is unknown which belong together |
///
/// # Errors
/// * [`Error::Param`](crate::Error::Param) unless there are 1 to 2^16 features.
/// * [`Error::Open`](crate::Error::Open), [`Error::Read`](crate::Error::Read),
///   [`Error::Gzip`](crate::Error::Gzip), as for [`read_samples`](crate::read_samples).
/// * [`Error::Malformed`](crate::Error::Malformed), with the line and the byte in it, for text that
///   is not JSON or not a number; a key that is missing or occurs twice; counts that disagree with
///   the rows or users ([`Expected::Counts`](crate::Expected::Counts)); a user who is listed
///   without data ([`Expected::DataOfUser`](crate::Expected::DataOfUser)), has data and is not
///   listed ([`Expected::ListedUser`](crate::Expected::ListedUser)), or occurs twice
///   ([`Expected::NewUser`](crate::Expected::NewUser)).
pub fn read_leaf(path: impl AsRef<Path>, rows: LeafRows) -> Result<SampleTable> {
    let (file, name) = open(path.as_ref())?;
    read_leaf_from(file, name, rows)
}

/// Reads a LEAF data set from any reader; `name` is shown instead of the path in errors.
///
/// # Errors
/// The errors of [`read_leaf`], except for opening a file.
///
/// # Examples
/// ```
/// use dp_data::{LeafRows, read_leaf_from};
/// let text = r#"{"users": ["ann", "bob"], "num_samples": [2, 1], "user_data": {
///     "bob": {"x": [[5, 6]], "y": [0]}, "ann": {"x": [[1, 2], [3, NaN]], "y": [1, 0]}}}"#;
/// let declared = LeafRows { n_features: 2, label: None };
/// let table = read_leaf_from(text.as_bytes(), "demo.json", declared)?;
/// assert_eq!(table.features(), ["x0", "x1"]);
/// let users = table.users().expose();
/// assert_eq!(users[0].rows(2).collect::<Vec<_>>(), [(&[1.0, 2.0][..], 1.0)]);
/// assert_eq!((users[1].id(), *table.n_not_finite().expose()), ("bob", 1));
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn read_leaf_from(
    reader: impl Read,
    name: impl Into<String>,
    rows: LeafRows,
) -> Result<SampleTable> {
    let expected = "a whole number from 1 to 65536";
    params::in_range("n_features", rows.n_features, 1, 1 << 16, expected)?;
    let mut json = JsonReader::new(reader, name.into())?;
    let mut file = LeafFile::new(rows);
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

/// What was read so far.
struct LeafFile {
    rows: LeafRows,
    users: Option<Vec<String>>,
    counts: Option<Vec<usize>>,
    data: Option<HashMap<String, Rows>>,
    /// Numbers of the row or label that is being read.
    scratch: Vec<f32>,
}

impl LeafFile {
    const fn new(rows: LeafRows) -> Self {
        Self {
            rows,
            users: None,
            counts: None,
            data: None,
            scratch: Vec::new(),
        }
    }

    fn read_users(&mut self, json: &mut JsonReader<'_>) -> Result<()> {
        once(json, self.users.is_some())?;
        let (mut users, mut known) = (Vec::new(), HashSet::new());
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
        let declared = self.rows;
        json.object("an object with x and y", |json, key| match key {
            "x" => {
                once(json, std::mem::replace(&mut has_x, true))?;
                json.array("an array of rows", |json| {
                    rows.push_x(self.numbers(json)?, declared);
                    Ok(())
                })
            }
            "y" => {
                once(json, std::mem::replace(&mut has_y, true))?;
                json.array("an array of labels", |json| {
                    rows.push_y(self.numbers(json)?, declared);
                    Ok(())
                })
            }
            _ => json.skip(0),
        })?;
        if !(has_x && has_y) {
            return Err(json.malformed(Expected::Json("x and y of a user")));
        }
        Ok(rows)
    }

    /// The numbers of a row or label.
    fn numbers(&mut self, json: &mut JsonReader<'_>) -> Result<&[f32]> {
        self.scratch.clear();
        flat(json, &mut self.scratch, 0)?;
        Ok(&self.scratch)
    }

    fn into_table(self, json: &JsonReader<'_>) -> Result<SampleTable> {
        let missing = |key| json.malformed(Expected::Json(key));
        let users = self.users.ok_or_else(|| missing("the key users"))?;
        let counts = self.counts.ok_or_else(|| missing("the key num_samples"))?;
        let mut data = self.data.ok_or_else(|| missing("the key user_data"))?;
        if counts.len() != users.len() {
            return Err(json.malformed(Expected::Counts));
        }
        let width = self.rows.n_features;
        let (mut table, mut order, mut n_not_finite) = (Vec::new(), Vec::new(), 0);
        for ((number, id), count) in (0..).zip(users).zip(counts) {
            let rows = data
                .remove(&id)
                .ok_or_else(|| json.malformed(Expected::DataOfUser))?;
            if rows.n_x() != count {
                return Err(json.malformed(Expected::Counts));
            }
            let cells = rows.usable(width);
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

fn once(json: &JsonReader<'_>, again: bool) -> Result<()> {
    if again {
        return Err(json.malformed(Expected::Json("every key once")));
    }
    Ok(())
}

/// A number, or all numbers in nested arrays.
fn flat(json: &mut JsonReader<'_>, out: &mut Vec<f32>, depth: usize) -> Result<()> {
    if json.peek()? == Some(b'[') && depth < 4 {
        return json.array("an array", |json| flat(json, out, depth + 1));
    }
    out.push(json.number("a number")?);
    Ok(())
}

/// One user's rows and labels as they are in the file.
#[derive(Default)]
struct Rows {
    /// The rows with the declared length, one after the other.
    x: Vec<f32>,
    /// For every row, whether it has that length.
    has_length: Vec<bool>,
    /// `NaN` if there is no label at the declared position.
    y: Vec<f32>,
}

impl Rows {
    fn push_x(&mut self, row: &[f32], declared: LeafRows) {
        let has_length = row.len() == declared.n_features;
        self.has_length.push(has_length);
        if has_length {
            self.x.extend_from_slice(row);
        }
    }

    fn push_y(&mut self, labels: &[f32], declared: LeafRows) {
        let label = match (declared.label, labels) {
            (None, &[label]) => Some(label),
            (None, _) => None,
            (Some(at), all) => all.get(at).copied(),
        };
        self.y.push(label.unwrap_or(f32::NAN));
    }

    /// Number of rows of any length.
    const fn n_x(&self) -> usize {
        self.has_length.len()
    }

    /// `x` and `y` of every row that has the declared length and finite numbers; none if rows and
    /// labels do not pair up.
    fn usable(&self, width: usize) -> Vec<f32> {
        if self.has_length.len() != self.y.len() {
            return Vec::new();
        }
        let mut cells = Vec::with_capacity(self.x.len() + self.y.len());
        let labels = self.has_length.iter().zip(&self.y);
        let labels = labels.filter_map(|(&has_length, &y)| has_length.then_some(y));
        for (x, y) in self.x.chunks_exact(width).zip(labels) {
            if y.is_finite() && x.iter().all(|x| x.is_finite()) {
                cells.extend_from_slice(x);
                cells.push(y);
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    /// Reads rows of `n_features` numbers with one label.
    fn read(n_features: usize, text: &str) -> Result<SampleTable> {
        let rows = LeafRows {
            n_features,
            label: None,
        };
        read_leaf_from(text.as_bytes(), "t.json", rows)
    }

    fn whole(users: &str, counts: &str, data: &str) -> String {
        format!(r#"{{"users": {users}, "num_samples": {counts}, "user_data": {data}}}"#)
    }

    #[test]
    fn users_come_in_the_order_of_their_list_whatever_the_order_of_keys() {
        let text = r#"{"user_data": {"b": {"y": [1.5, 2], "x": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]},
            "a": {"x": [], "y": [], "note": {"z": [null]}}}, "hierarchies": [["r", 1], []],
            "num_samples": [0, 2], "users": ["a", "b"]}"#;
        let table = read(4, text).unwrap();
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
        let table = read(1, &whole(r#"["a"]"#, "[5]", data)).unwrap();
        assert_eq!(*table.n_not_finite().expose(), 4);
        let rows: Vec<_> = table.users().expose()[0].rows(1).collect();
        assert_eq!(rows, [(&[4.0][..], 1.0)]);
    }

    /// Number of kept rows of each user, number of rows left out, and number of features.
    fn shape(n_features: usize, label: Option<usize>, text: &str) -> (Vec<usize>, usize, usize) {
        let rows = LeafRows { n_features, label };
        let table = read_leaf_from(text.as_bytes(), "t.json", rows).unwrap();
        let users = table.users().expose().iter();
        let kept = users.map(|user| user.rows(n_features).len()).collect();
        let n_left_out = *table.n_not_finite().expose();
        (kept, n_left_out, table.features().len())
    }

    #[test]
    fn the_shape_is_the_declared_one_whatever_the_rows_are() {
        assert_eq!(shape(3, None, &whole("[]", "[]", "{}")), (vec![], 0, 3));
        let no_row = whole(r#"["a"]"#, "[0]", r#"{"a": {"x": [], "y": []}}"#);
        assert_eq!(shape(3, None, &no_row), (vec![0], 0, 3));
        // neither the first user's first row nor rows without a number determine anything
        let data = r#"{"a": {"x": [[1], [1, 2], [], 7, [[3], [4]], [1, 2, 3]], "y": [1, 2, 3, 4, 5, 6]},
            "b": {"x": [[5, 6]], "y": [7]}}"#;
        let ragged = whole(r#"["a", "b"]"#, "[6, 1]", data);
        assert_eq!(shape(2, None, &ragged), (vec![2, 1], 4, 2));
        assert_eq!(shape(1, None, &ragged), (vec![2, 0], 5, 1));
        let table = read(2, &ragged).unwrap();
        let rows: Vec<_> = table.users().expose()[0].rows(2).collect();
        assert_eq!(rows, [(&[1.0, 2.0][..], 2.0), (&[3.0, 4.0][..], 5.0)]);
    }

    #[test]
    fn rows_and_labels_that_do_not_pair_up_are_left_out_with_their_user_known() {
        let data = r#"{"a": {"x": [[1], [2]], "y": [1]}, "b": {"x": [[1]], "y": [1, 2, 3]},
            "c": {"x": [[1]], "y": [1]}}"#;
        let text = whole(r#"["a", "b", "c"]"#, "[2, 1, 1]", data);
        assert_eq!(shape(1, None, &text), (vec![0, 0, 1], 3, 1));
    }

    #[test]
    fn one_of_several_labels_is_read_where_its_place_is_given() {
        let data = r#"{"a": {"x": [[1], [2], [3]], "y": [[0, 7], [1, 8], []]}}"#;
        let text = whole(r#"["a"]"#, "[3]", data);
        let labels = |label| {
            let n_features = 1;
            let rows = LeafRows { n_features, label };
            let table = read_leaf_from(text.as_bytes(), "t.json", rows).unwrap();
            let users = table.users().expose();
            users[0].rows(1).map(|row| row.1).collect::<Vec<_>>()
        };
        assert_eq!(labels(Some(1)), [7.0, 8.0]);
        assert!(labels(None).is_empty() && labels(Some(2)).is_empty());
        assert_eq!(shape(1, Some(2), &text), (vec![0], 3, 1));
    }

    #[test]
    fn a_width_that_no_model_has_is_refused() {
        for n_features in [0, (1 << 16) + 1] {
            let refused = read(n_features, &whole("[]", "[]", "{}"));
            assert!(matches!(refused, Err(Error::Param(_))), "{n_features}");
        }
    }

    #[test]
    fn malformed_files_are_refused_by_kind_without_showing_them() {
        let good = r#"{"a": {"x": [[1, 2]], "y": [3]}}"#;
        let expected = |text: &str| match read(2, text) {
            Err(Error::Malformed { expected, .. }) => expected,
            Err(other) => panic!("{text}: {other}"),
            Ok(_) => panic!("{text}"),
        };
        assert!(read(2, &whole(r#"["a"]"#, "[1]", good)).is_ok());
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
        let shown = read(2, &whole(r#"["a", "secret"]"#, "[1, 1]", good))
            .err()
            .unwrap();
        assert!(!shown.to_string().contains("secret"), "{shown}");
    }
}
