use std::fmt;

use dp_core::ParamError;

use crate::Error;
use crate::engines::accountant::{Method, PrivacyBound};
use crate::engines::rounding::count_up;

/// What a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quantity {
    /// Epsilon, in nats.
    Epsilon,
    /// Delta, a probability.
    Delta,
    /// Renyi divergence, in nats.
    RenyiDivergence,
    /// The smallest noise multiplier that meets a target.
    NoiseMultiplier,
    /// The smallest standard deviation of noise that meets a target.
    Sigma,
    /// The smallest scale of Laplace noise that meets a target.
    Scale,
    /// The largest decay of discrete Laplace noise that meets a target.
    Rate,
    /// The largest sampling probability that meets a target.
    SamplingProbability,
    /// The largest number of repetitions that meets a target.
    Count,
}

impl Quantity {
    /// The name used in files and on the screen.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epsilon => "epsilon",
            Self::Delta => "delta",
            Self::RenyiDivergence => "Renyi divergence",
            Self::NoiseMultiplier => "noise_multiplier",
            Self::Sigma => "sigma",
            Self::Scale => "scale",
            Self::Rate => "rate",
            Self::SamplingProbability => "sampling_probability",
            Self::Count => "count",
        }
    }

    /// Whether the larger figure is the one that may be relied on: true of what is lost and of
    /// noise, false of what is used up.
    #[must_use]
    pub const fn safe_above(self) -> bool {
        !matches!(self, Self::Rate | Self::SamplingProbability | Self::Count)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An answer, known from both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// What the figures are.
    pub quantity: Quantity,
    /// The best single figure. Of a calibration it is the one that certainly meets the target.
    pub value: f64,
    /// Never above the true value.
    pub lower: f64,
    /// Never below the true value.
    pub upper: f64,
    /// How it was found.
    pub method: Method,
    /// Something to know about how the question was understood.
    pub note: Option<&'static str>,
}

impl Answer {
    /// Refuses what is no bracket of finite numbers.
    pub(super) fn new(
        quantity: Quantity,
        value: f64,
        (lower, upper): (f64, f64),
        method: Method,
    ) -> Result<Self> {
        if !(lower.is_finite() && upper.is_finite() && lower <= value && value <= upper) {
            return Err(QuestionError::NoBracket { lower, upper });
        }
        Ok(Self {
            quantity,
            value,
            lower,
            upper,
            method,
            note: None,
        })
    }

    /// The figures of an accountant.
    pub(super) fn of_bound(quantity: Quantity, bound: PrivacyBound) -> Result<Self> {
        let ends = (bound.lower, bound.upper);
        Self::new(quantity, bound.value, ends, bound.method)
    }

    /// A number of repetitions that meets the target, and the first that certainly does not.
    pub(super) fn of_count(count: u64, too_many: u64, method: Method) -> Result<Self> {
        let ends = (count_up(count), count_up(too_many.saturating_sub(1)));
        Self::new(
            Quantity::Count,
            ends.0,
            (ends.0, ends.1.max(ends.0)),
            method,
        )
    }

    /// This answer with the lower end of another, to a question that is certainly cheaper.
    pub(super) fn down_to(mut self, cheaper: Self) -> Self {
        self.lower = cheaper.lower.min(self.lower);
        self
    }

    pub(super) const fn with_note(mut self, note: Option<&'static str>) -> Self {
        self.note = note;
        self
    }

    /// Width of the bracket over the value; 0 when both are.
    #[must_use]
    pub fn relative_width(&self) -> f64 {
        let width = self.upper - self.lower;
        if width == 0.0 {
            0.0
        } else {
            width / self.value.abs()
        }
    }
}

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
