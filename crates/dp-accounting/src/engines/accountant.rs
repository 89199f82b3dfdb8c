//! The contract that every accountant keeps, and what it answers with.

use std::fmt;

use dp_core::{Adjacency, DpEvent};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Adds up what mechanisms cost and states the guarantee of the whole.
///
/// Every implementation keeps to this:
///
/// * `compose(e, n)` leaves the same state as n calls of `compose(e, 1)`.
/// * An event is checked whole before anything changes; on an error the accountant is as it was.
/// * The `upper` of every answer holds for adaptive composition of everything composed so far.
/// * Epsilon does not rise with delta, and neither figure falls when an event is added.
/// * Before the first event there is nothing to state: [`crate::Error::NothingComposed`].
pub trait Accountant {
    /// The neighbours that the account is for.
    fn adjacency(&self) -> Adjacency;

    /// Adds `count` runs of `event`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a parameter out of range, a count of zero or one that
    /// overflows; [`crate::Error::UnsupportedEvent`] where this accountant, or the adjacency, has
    /// no answer for the event; [`crate::Error::NonPrivateEvent`].
    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()>;

    /// The smallest epsilon, in nats, at which everything composed is (epsilon, `delta`)-DP.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless delta lies strictly between 0 and 1;
    /// [`crate::Error::NothingComposed`]; [`crate::Error::NoFiniteEpsilon`] when the mechanisms fail
    /// altogether with a probability above delta; others where a method does not apply.
    fn epsilon(&self, delta: f64) -> Result<PrivacyBound>;

    /// The smallest delta at which everything composed is (`epsilon`, delta)-DP.
    ///
    /// # Errors
    /// As [`epsilon`](Self::epsilon); epsilon must be finite and at least 0.
    fn delta(&self, epsilon: f64) -> Result<PrivacyBound>;
}

/// An epsilon or a delta, with what is known about it from both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PrivacyBound {
    /// The best single figure: the exact value where the method is exact, else `upper`.
    pub value: f64,
    /// Never above the true value; 0 where the method knows nothing from below.
    pub lower: f64,
    /// Never below the true value: the figure to promise.
    pub upper: f64,
    /// How it was found.
    pub method: Method,
    /// The neighbours that it is for.
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

    /// As an answer for delta at `epsilon`: what was composed has losses, so delta at 0 is not 0
    /// even where it is too small for a number.
    pub(crate) const fn as_delta_at(mut self, epsilon: f64) -> Self {
        let smallest = f64::from_bits(1);
        if epsilon == 0.0 && self.upper < smallest {
            self.upper = smallest;
        }
        self
    }

    /// A bound from above only.
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

/// How a figure was found.
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
    /// Renyi divergences of many orders: a bound from above.
    Rdp,
    /// Zero-concentrated differential privacy: a bound from above.
    Zcdp,
}

impl Method {
    /// The name used in files and on the screen.
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
