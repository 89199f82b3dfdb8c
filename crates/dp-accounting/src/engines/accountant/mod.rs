//! The contract that every accountant keeps, and what it answers with.

mod bound;

use dp_core::{Adjacency, DpEvent};

use crate::Result;

pub use bound::{Method, PrivacyBound};

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
