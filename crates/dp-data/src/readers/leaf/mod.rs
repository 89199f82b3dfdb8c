//! LEAF JSON: federated data sets by user.

mod file;
mod rows;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;

use dp_core::params;

use self::file::LeafFile;
use super::json::JsonReader;
use super::source::open;
use crate::{Result, SampleTable};

/// What every row of a LEAF file is declared to be: public, never taken from the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct LeafRows {
    /// Numbers in a row of `x`, 1 to 2^16.
    pub n_features: usize,
    /// Place of the label among those of a row, from 0; none where a row has one label.
    pub label: Option<usize>,
}

/// Reads a LEAF data set (FEMNIST, Stack Overflow and others of numbers), plain or gzip.
///
/// ```text
/// {"users": ["f01", ...], "num_samples": [37, ...],
///  "user_data": {"f01": {"x": [[0.5, 1, ...], ...], "y": [3, ...]}, ...}}
/// ```
///
/// Keys may come in any order and others are skipped. A row of `x` is a number, an array of numbers, or arrays of those within one another, which are
/// put in a row (an image by its lines); a label is a number, or an array of which [`LeafRows::label`] says the place. Features are called `x0`, `x1`,
/// ..., the target `y`. Users come in the order of `users`. The file is read as it comes: nothing is held but the rows.
///
/// The width is declared, since the file has no header and a row must not decide what is released. Left out and counted, as by
/// [`read_samples`](crate::read_samples), while the user stays known:
///
/// | row | left out |
/// |---|---|
/// | a number in it is `NaN`, `Infinity`, `null` or beyond `f32` | it |
/// | `x` has another length than `n_features` | it |
/// | none or several labels where one is declared, or none at the place declared | it |
/// | its user has more rows than labels, or the reverse | all of the user: nobody knows which belong together |
///
/// # Errors
/// * [`Error::Param`](crate::Error::Param) - unless there are 1 to 2^16 features.
/// * [`Error::Open`](crate::Error::Open), [`Error::Read`](crate::Error::Read), [`Error::Gzip`](crate::Error::Gzip) - as
///   [`read_samples`](crate::read_samples).
/// * [`Error::Malformed`](crate::Error::Malformed) with the line and the byte in it - what is no JSON or no number; a key that is missing or
///   stands there twice; counts that are not those of the rows or users ([`Expected::Counts`](crate::Expected::Counts)); a user listed without data
///   ([`Expected::DataOfUser`](crate::Expected::DataOfUser)), with data and not listed ([`Expected::ListedUser`](crate::Expected::ListedUser)), or
///   twice ([`Expected::NewUser`](crate::Expected::NewUser)).
pub fn read_leaf(path: impl AsRef<Path>, rows: LeafRows) -> Result<SampleTable> {
    let (file, name) = open(path.as_ref())?;
    read_leaf_from(file, name, rows)
}

/// Reads a LEAF data set from anything; `name` stands for the path in errors.
///
/// # Errors
/// Those of [`read_leaf`], except that nothing is opened.
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
