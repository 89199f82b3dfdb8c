//! Typed errors. They contain positions in a file, never the content of a record.

use std::{fmt, io};

/// Errors of dp-data.
///
/// If there is a `source`, it contains the cause (no such file, disk full, ...), and `Display` does
/// not repeat it, because callers that print the chain of errors will.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not exist or cannot be opened.
    #[error("{path}: cannot be opened")]
    Open {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// Reading failed before the end of the file.
    #[error("{path}: cannot be read")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The file starts like gzip but is not valid gzip, or ends too early.
    #[error("{path}: the gzip data is damaged or cut short")]
    Gzip {
        /// The file.
        path: String,
        /// The error of the decoder.
        source: io::Error,
    },
    /// The file is named like Parquet, or starts like it, but cannot be read as such: it is
    /// damaged, truncated, compressed or encrypted in an unsupported way, or not a file at all.
    #[error("{path}: cannot be read as Parquet")]
    Parquet {
        /// The file.
        path: String,
        /// The cause, without any content of the file's records.
        source: io::Error,
    },
    /// The file is Parquet, but the crate was built without the feature `parquet`.
    #[error(
        "{path}: a Parquet file, which this build does not read: it was built without the feature `parquet`"
    )]
    WithoutParquet {
        /// The file.
        path: String,
    },
    /// The file cannot be written. Nothing was left behind.
    #[error("{path}: cannot be written")]
    Write {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A line does not have the required structure.
    #[error(
        "{path}:{line}:{column}: expected {expected}{}",
        name.as_ref().map_or_else(String::new, |name| format!(" in column {name}"))
    )]
    Malformed {
        /// The file.
        path: String,
        /// Line, counted from 1, including blank lines; for Parquet the row, counted from 1.
        line: usize,
        /// Field within the line, counted from 1.
        column: usize,
        /// What was expected there.
        expected: Expected,
        /// What the column is called, where the reader chose it among many.
        name: Option<String>,
    },
    /// The file contains no record: it is empty or has only a header.
    #[error("{path}: expected at least one record; the file holds none")]
    Empty {
        /// The file.
        path: String,
    },
    /// The header has no column for something that is required, or several.
    #[error(
        "{path}:{line}: {}: looked for {}; {}",
        if *is_ambiguous { format!("more than one {role} column") } else { format!("{role} column not found") },
        looked_for.join(", "),
        names_of(header.as_deref(), *n_columns)
    )]
    UnknownColumn {
        /// The file.
        path: String,
        /// Line of the header, counted from 1; 1 for Parquet.
        line: usize,
        /// What the column should contain.
        role: ColumnRole,
        /// Accepted names.
        looked_for: Vec<String>,
        /// Whether several columns have such a name.
        is_ambiguous: bool,
        /// Whether the caller can give another name; the columns of a table of items have fixed
        /// ones.
        can_be_named: bool,
        /// Number of columns.
        n_columns: usize,
        /// The column names. Absent if it is not certain that the first line is a header: it may
        /// then be a user's record, and is not shown.
        header: Option<Vec<String>>,
    },
    /// One column would be read as two things.
    #[error("{path}: column {name} was found as both the {} and the {} column; they must be different columns", roles[0], roles[1])]
    SharedColumn {
        /// The file.
        path: String,
        /// Its name.
        name: String,
        /// The two roles.
        roles: [ColumnRole; 2],
    },
    /// A catalogue of items that is evidently not a public one.
    #[error("{path}: not a public catalogue of items: {fault}")]
    NotACatalogue {
        /// The file.
        path: String,
        /// Why it is not.
        fault: CatalogueFault,
    },
    /// Two rows of a table have the same user id, so they are not two users.
    #[error("two rows carry the same user id; expected one row per user")]
    RepeatedUser,
    /// A metric was to be computed from no predictions.
    #[error("{metric} needs at least one prediction")]
    NoPredictions {
        /// The metric.
        metric: &'static str,
    },
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] dp_core::ParamError),
    /// A dimension does not match.
    #[error(transparent)]
    Shape(#[from] dp_core::ShapeError),
    /// An error of dp-core.
    #[error(transparent)]
    Core(#[from] dp_core::Error),
}

/// `Result` with this crate's [`Error`] as the default error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Maximum number of header names that are shown.
const MOST_NAMES: usize = 20;

/// The names in the header, or the reason why they are not shown.
fn names_of(header: Option<&[String]>, n_columns: usize) -> String {
    match header {
        Some(names) if names.len() > MOST_NAMES => {
            let (shown, more) = (names[..MOST_NAMES].join(", "), names.len() - MOST_NAMES);
            format!("the header has: {shown} and {more} more")
        }
        Some(names) => format!("the header has: {}", names.join(", ")),
        None => format!(
            "the first line has {n_columns} fields and none of the names that were looked for: if it is a record, the file has no header"
        ),
    }
}

/// Why a catalogue of items is evidently not a public one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogueFault {
    /// It is the data file, or contains the same bytes.
    IsTheData,
    /// One of its columns has the name of the user column.
    UserColumn,
    /// One of its columns has the name of the data's item column, but its ids are taken from
    /// another one, so no record would match any of its items.
    ItemColumn,
    /// An id occurs twice, as an item does in ratings, once for each user.
    RepeatedId {
        /// Line of the second occurrence, counted from 1; for Parquet the row.
        line: usize,
    },
    /// Most of its values about items are ids of users in the data.
    UserIds,
}

impl fmt::Display for CatalogueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsTheData => f.write_str("it is the file of private data itself"),
            Self::UserColumn => f.write_str("it has a column of users"),
            Self::ItemColumn => f.write_str(
                "its item ids come from another column than the one named like the item column of the data",
            ),
            Self::RepeatedId { line } => {
                write!(f, "line {line} repeats an item id; expected each item once")
            }
            Self::UserIds => f.write_str("most of its titles or feature values are ids of users"),
        }
    }
}

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnRole {
    /// The user.
    User,
    /// The rated item.
    Item,
    /// The value of the rating.
    Rating,
    /// The title of an item.
    Title,
    /// The value to be predicted.
    Target,
    /// One number of a feature vector.
    Feature,
    /// Genres of an item.
    Genres,
    /// Year in which an item appeared.
    Year,
}

impl fmt::Display for ColumnRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Item => "item",
            Self::Rating => "rating",
            Self::Title => "title",
            Self::Target => "target",
            Self::Feature => "feature",
            Self::Genres => "genres",
            Self::Year => "year",
        })
    }
}

/// What a reader expected at a position where it found something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// A decimal number, `nan` or `inf`.
    Number(ColumnRole),
    /// An id of at least one byte.
    Id(ColumnRole),
    /// A column whose values can be ids: text or whole numbers.
    IdColumn(ColumnRole),
    /// A column whose values are text, whole numbers, floating-point numbers or booleans.
    PlainColumn,
    /// Text in UTF-8.
    Utf8,
    /// At most 2^32 different ids.
    FewerIds,
    /// As many fields as the header or the first line.
    Fields {
        /// Number of fields in the line.
        found: usize,
        /// Expected number of fields.
        expected: usize,
    },
    /// Three or four fields, as in the formats without header.
    ThreeOrFourFields {
        /// Number of fields in the line.
        found: usize,
    },
    /// A closing quote before the end of the line, followed by a separator or the end of the line.
    ClosedQuote,
    /// Column names in the first line, which contains values.
    Header,
    /// A record in the first line, which contains column names, although names were given for a
    /// file without header.
    NoNames,
    /// Fields separated by `::`, tabs, commas or semicolons.
    Separator,
    /// Ratings of only one user.
    OneUser,
    /// A JSON element or a key, in words.
    Json(&'static str),
    /// Counts that agree with the users and their rows.
    Counts,
    /// Data for every listed user.
    DataOfUser,
    /// A list of users that includes every user with data.
    ListedUser,
    /// A user who did not occur before.
    NewUser,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(role) => write!(f, "a number for the {role}"),
            Self::Id(role) => write!(f, "an id for the {role}; the field is empty"),
            Self::IdColumn(role) => {
                write!(f, "a column of text or whole numbers for the {role}'s id")
            }
            Self::PlainColumn => {
                f.write_str("a column of text, whole numbers, floating point numbers or booleans")
            }
            Self::Utf8 => f.write_str("text in UTF-8"),
            Self::FewerIds => f.write_str("at most 2^32 different ids"),
            Self::Fields { found, expected } => write!(f, "{expected} fields; found {found}"),
            Self::ThreeOrFourFields { found } => write!(f, "3 or 4 fields; found {found}"),
            Self::ClosedQuote => {
                f.write_str("a quoted field that closes before the next separator")
            }
            Self::Header => f.write_str("a header with column names; found a number"),
            Self::NoNames => f.write_str("a record; found the names of columns"),
            Self::Separator => f.write_str("fields separated by `::`, tabs, commas or semicolons"),
            Self::Json(what) => f.write_str(what),
            Self::Counts => f.write_str("num_samples to be the numbers of rows of the users"),
            Self::DataOfUser => f.write_str("data of every user in users"),
            Self::ListedUser => f.write_str("every user with data in users"),
            Self::NewUser => f.write_str("every user once"),
            Self::OneUser => f.write_str("one user's ratings; here a second user begins"),
        }
    }
}
