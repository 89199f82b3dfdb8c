//! Typed errors. They name places in a file, never the content of a record.

use std::{fmt, io};

/// Errors of dp-data.
///
/// Where a `source` is carried it says why (no such file, disk full, ...), and `Display` leaves
/// it to be printed by whoever walks the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not exist or may not be opened.
    #[error("{path}: cannot be opened")]
    Open {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Reading stopped half-way.
    #[error("{path}: cannot be read")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The file starts like gzip and then is not, or ends too early.
    #[error("{path}: the gzip data is damaged or cut short")]
    Gzip {
        /// The file.
        path: String,
        /// What the decoder met.
        source: io::Error,
    },
    /// The file is called Parquet, or starts like it, and cannot be read as such: damaged, cut short, compressed or
    /// encrypted in a way that is not read, or not a file at all.
    #[error("{path}: cannot be read as Parquet")]
    Parquet {
        /// The file.
        path: String,
        /// Why, without anything that stood in the file's records.
        source: io::Error,
    },
    /// The file is Parquet, and the crate was built without the feature `parquet`.
    #[error(
        "{path}: a Parquet file, which this build does not read: it was built without the feature `parquet`"
    )]
    WithoutParquet {
        /// The file.
        path: String,
    },
    /// The file cannot be written; nothing was left behind.
    #[error("{path}: cannot be written")]
    Write {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A line does not have the promised structure.
    #[error("{path}:{line}:{column}: expected {expected}")]
    Malformed {
        /// The file.
        path: String,
        /// Line, counted from 1, blank lines included; of Parquet the row, counted from 1.
        line: usize,
        /// Field within the line, counted from 1.
        column: usize,
        /// What should have been there.
        expected: Expected,
    },
    /// The file holds no record: it is empty or has only a header.
    #[error("{path}: expected at least one record; the file holds none")]
    Empty {
        /// The file.
        path: String,
    },
    /// The header names no column for something that is needed.
    #[error(
        "{path}:{line}: {role} column not found, or not unique: looked for {}; {}",
        looked_for.join(", "),
        names_of(header.as_deref(), *n_columns)
    )]
    UnknownColumn {
        /// The file.
        path: String,
        /// Line of the header, counted from 1; 1 for Parquet.
        line: usize,
        /// What the column should hold.
        role: ColumnRole,
        /// Accepted names.
        looked_for: Vec<String>,
        /// Number of columns.
        n_columns: usize,
        /// Their names. None where nothing says that the first line is a header: without one it is somebody's record, and is not shown.
        header: Option<Vec<String>>,
    },
    /// One column would be read as two things.
    #[error("{path}: the column {name} would be read as the {} and as the {}; expected two columns", roles[0], roles[1])]
    SharedColumn {
        /// The file.
        path: String,
        /// Its name.
        name: String,
        /// What it would be.
        roles: [ColumnRole; 2],
    },
    /// A catalogue of items that shows of itself that it is no public one.
    #[error("{path}: not a public catalogue of items: {fault}")]
    NotACatalogue {
        /// The file.
        path: String,
        /// What shows it.
        fault: CatalogueFault,
    },
    /// Two rows of a table carry the same user id, so they are not two users.
    #[error("two rows carry the same user id; expected one row per user")]
    RepeatedUser,
    /// A metric was asked of no predictions at all.
    #[error("{metric} needs at least one prediction")]
    NoPredictions {
        /// The metric.
        metric: &'static str,
    },
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] dp_core::ParamError),
    /// A dimension does not fit.
    #[error(transparent)]
    Shape(#[from] dp_core::ShapeError),
    /// An error of dp-core.
    #[error(transparent)]
    Core(#[from] dp_core::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names that are shown of a header.
const MOST_NAMES: usize = 20;

/// What the header has, or why that is not shown.
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

/// What shows that a catalogue of items is no public one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogueFault {
    /// It is the file of the data, or holds the same bytes.
    IsTheData,
    /// A column of it is called as that of the users is.
    UserColumn,
    /// A column of it is called as that of the items is in the data, and another one holds its ids: no record would be of an item of it.
    ItemColumn,
    /// An id stands there twice, as an item stands among ratings once for each user.
    RepeatedId {
        /// Line of the second one, counted from 1; of Parquet the row.
        line: usize,
    },
    /// Most of what it says about items are ids of users in the data.
    UserIds,
}

impl fmt::Display for CatalogueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsTheData => f.write_str("it holds the private data themselves"),
            Self::UserColumn => f.write_str("it has a column of users"),
            Self::ItemColumn => f.write_str(
                "its ids are taken from another column than the one that is called as the item column of the data",
            ),
            Self::RepeatedId { line } => {
                write!(f, "line {line} repeats an item id; expected each item once")
            }
            Self::UserIds => f.write_str("most of its titles or feature values are ids of users"),
        }
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnRole {
    /// Who rated.
    User,
    /// What was rated.
    Item,
    /// The value given.
    Rating,
    /// An item's name in words.
    Title,
    /// What is to be predicted.
    Target,
    /// One number of a feature vector.
    Feature,
    /// Kinds that an item belongs to.
    Genres,
    /// When an item appeared.
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

/// What a reader needed at a place where something else stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// A decimal number, `nan` or `inf`.
    Number(ColumnRole),
    /// An id of at least one byte.
    Id(ColumnRole),
    /// A column whose values can be ids: of text or whole numbers.
    IdColumn(ColumnRole),
    /// A column whose values are text, whole numbers, floating point numbers or booleans.
    PlainColumn,
    /// Text in UTF-8.
    Utf8,
    /// At most 2^32 different ids.
    FewerIds,
    /// As many fields as the header or the first line has.
    Fields {
        /// Fields in the line.
        found: usize,
        /// Fields expected.
        expected: usize,
    },
    /// Three or four fields, as the formats without header have.
    ThreeOrFourFields {
        /// Fields in the line.
        found: usize,
    },
    /// A closing quote before the line ends, with a separator or the line's end after it.
    ClosedQuote,
    /// Column names where the first line holds values.
    Header,
    /// A record where the names of columns stand, and names were given for a file that has none.
    NoNames,
    /// Fields separated by `::`, tabs, commas or semicolons.
    Separator,
    /// Ratings of one user only.
    OneUser,
    /// Something of JSON, or a key, in words.
    Json(&'static str),
    /// Counts that are those of the users and their rows.
    Counts,
    /// Data of every user that is listed.
    DataOfUser,
    /// Every user with data in the list of users.
    ListedUser,
    /// A user that was not there before.
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
