use dp_core::ParamError;

use super::Quantity;
use crate::Error;

/// Why a file of questions, or one question, has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// Not JSON, an unknown mechanism or query, a parameter missing, superfluous or no number.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// The file has a layout that this version does not know.
    #[error("schema_version is {found}; expected 1")]
    Schema {
        /// Version in the file.
        found: u64,
    },
    /// The file states its figures in another unit.
    #[error("units are {found:?}; expected \"nats\"")]
    Units {
        /// Unit in the file.
        found: String,
    },
    /// An event file must ask one thing.
    #[error("state delta, or epsilon, or both and one parameter of the event that is null")]
    Unclear,
    /// A parameter is null that the query does not ask for, or that cannot be solved for.
    #[error("{name} is null, and the query does not ask for it")]
    NotAsked {
        /// The parameter.
        name: String,
    },
    /// The query asks for a parameter, and not exactly one of its kind is null.
    #[error("the query asks for one {asked}: exactly one must be null, found {found}")]
    Unknowns {
        /// The parameter asked for.
        asked: Quantity,
        /// How many are null.
        found: usize,
    },
    /// A discrete mechanism under `replace_one` beside one that is defined by single records.
    #[error(
        "a discrete mechanism at the odd distance {sensitivity} under replace_one, together with a \
         sampled or local one, cannot be stated"
    )]
    OddDistance {
        /// The distance.
        sensitivity: u32,
    },
    /// A conversion formula that does not apply to these mechanisms.
    #[error("the formula does not apply: {reason}")]
    Formula {
        /// What it would need.
        reason: &'static str,
    },
    /// The query is about another mechanism.
    #[error("{query} is defined for {expected} only")]
    WrongMechanism {
        /// The query.
        query: &'static str,
        /// What it is defined for.
        expected: &'static str,
    },
    /// An accountant returned something that is no bracket. That is a mistake in this crate.
    #[error("the accountant returned the bracket {lower} to {upper}")]
    NoBracket {
        /// Its lower end.
        lower: f64,
        /// Its upper end.
        upper: f64,
    },
    /// A parameter is out of range, or no accountant has an answer.
    #[error(transparent)]
    Accounting(#[from] Error),
}

impl From<ParamError> for QuestionError {
    fn from(error: ParamError) -> Self {
        Self::Accounting(error.into())
    }
}

/// Result of asking.
pub(super) type Result<T, E = QuestionError> = std::result::Result<T, E>;
