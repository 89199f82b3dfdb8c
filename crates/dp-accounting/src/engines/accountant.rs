//! The contract that every accountant satisfies, and the type of its answers.

use std::fmt;

use dp_core::{Adjacency, DpEvent};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Composes mechanisms and computes the guarantee of the whole composition.
///
/// Every implementation satisfies the following:
///
/// * `compose(e, n)` leads to the same state as n calls of `compose(e, 1)`.
/// * An event is checked completely before anything changes; on an error the accountant is
///   unchanged.
/// * The `upper` of every answer holds for adaptive composition of everything composed so far.
/// * Epsilon does not increase with delta, and neither value decreases when an event is added.
/// * Before the first event there is no guarantee to compute: [`crate::Error::NothingComposed`].
pub trait Accountant {
    /// The adjacency of the guarantee.
    fn adjacency(&self) -> Adjacency;

    /// Adds `count` runs of `event`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a parameter out of range, and a count that is zero or overflows;
    /// [`crate::Error::UnsupportedEvent`] if this accountant does not support the event, or not
    /// under this adjacency; [`crate::Error::NonPrivateEvent`].
    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()>;

    /// The smallest epsilon, in nats, for which the composition is (epsilon, `delta`)-DP.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless delta lies strictly between 0 and 1;
    /// [`crate::Error::NothingComposed`]; [`crate::Error::NoFiniteEpsilon`] if the mechanisms fail
    /// completely with a probability above delta; others if a method does not apply.
    fn epsilon(&self, delta: f64) -> Result<PrivacyBound>;

    /// The smallest delta for which the composition is (`epsilon`, delta)-DP.
    ///
    /// # Errors
    /// As [`epsilon`](Self::epsilon); epsilon must be finite and at least 0.
    fn delta(&self, epsilon: f64) -> Result<PrivacyBound>;
}

/// An epsilon or a delta with bounds from both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PrivacyBound {
    /// The best single value: the exact value if the method is exact, otherwise `upper`.
    pub value: f64,
    /// A lower bound on the true value; 0 if the method provides none.
    pub lower: f64,
    /// An upper bound on the true value: the value to report as the guarantee.
    pub upper: f64,
    /// How it was computed.
    pub method: Method,
    /// The adjacency that it holds for.
    pub adjacency: Adjacency,
}

impl PrivacyBound {
    /// A value with a bracket around it.
    pub(crate) fn bracket(
        value: f64,
        lower: f64,
        upper: f64,
        method: Method,
        adjacency: Adjacency,
    ) -> Self {
        debug_assert!(lower <= upper, "{lower} above {upper}");
        Self {
            value: value.max(lower).min(upper),
            lower,
            upper,
            method,
            adjacency,
        }
    }

    /// The same bound as an answer for delta at `epsilon`. The composition has privacy loss, so
    /// delta at 0 is not 0, even if it is too small to be represented.
    pub(crate) const fn as_delta_at(mut self, epsilon: f64) -> Self {
        let smallest = f64::from_bits(1);
        if epsilon == 0.0 && self.upper < smallest {
            self.upper = smallest;
        }
        self
    }

    /// An upper bound only.
    pub(crate) const fn at_most(upper: f64, method: Method, adjacency: Adjacency) -> Self {
        Self {
            value: upper,
            lower: 0.0,
            upper,
            method,
            adjacency,
        }
    }
}

/// How a value was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// Gaussian differential privacy: closed form, exact.
    Gdp,
    /// The privacy profile of a single mechanism: closed form, exact.
    Profile,
    /// Inversion of the moment generating function of the privacy loss: exact, with a proved
    /// error term.
    SaddlePoint,
    /// Discretised privacy loss distribution: a bracket.
    Pld,
    /// Renyi divergences of many orders: an upper bound.
    Rdp,
    /// Zero-concentrated differential privacy: an upper bound.
    Zcdp,
}

impl Method {
    /// The name used in files and for display.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gdp => "gdp",
            Self::Profile => "profile",
            Self::SaddlePoint => "saddle-point",
            Self::Pld => "pld",
            Self::Rdp => "rdp",
            Self::Zcdp => "zcdp",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
