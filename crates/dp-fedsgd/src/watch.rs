//! Releases with what each user added to them, for audits; rounds with users' own parameters, for measurements.

use dp_core::UserRow;
use dp_mechanism::{Grid, ReleasedVector};

use crate::RoundEnd;

/// The release of one round, shown to a watch as it is made.
///
/// # Privacy
/// The release is public. `one_user` computes what a user adds from that user's own records and local parameters: whoever calls
/// it must hold the data anyway, as an audit does. Nothing of it may leave. On a sample it says what the user adds *if drawn*.
/// Looking moves nothing: local parameters and all later rounds are those of a run that nobody watched.
#[allow(
    missing_debug_implementations,
    reason = "holds functions of private records"
)]
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// Label in the plan.
    pub label: &'a str,
    /// Noise multiplier paid for, on the sample.
    pub noise_multiplier: f64,
    /// The grid of the release.
    pub grid: &'a Grid,
    /// The noisy sum: the gradient and behind it the extra coordinates.
    pub released: &'a ReleasedVector,
    /// Coordinates and integers of one user of the table that is trained on; of others: none. Asked for twice it says the same.
    pub one_user: &'a dyn Fn(UserRow<'_>) -> Vec<(usize, i64)>,
}

/// Sees every release of a fit.
pub type Watch<'a> = dyn FnMut(Observed<'_>) + 'a;

/// A round that is over, shown to a watch with users' own parameters: for measurements by whoever holds the data.
///
/// # Privacy
/// `end` holds released values. `local` reads what is private, one user's for that user alone: what is made of it is not
/// covered by the guarantee and may neither leave nor decide anything about the run.
/// Looking moves nothing: local parameters and all later rounds are those of a run that nobody watched.
#[allow(
    missing_debug_implementations,
    reason = "holds functions of private records"
)]
#[derive(Clone, Copy)]
pub struct ObservedRound<'a> {
    /// The round, and the shared parameters after it.
    pub end: RoundEnd<'a>,
    /// `theta_i` after it, by a user's number in the table; empty where there is no such user.
    pub local: &'a (dyn Fn(usize) -> Vec<f64> + Sync),
}

/// Sees every round of a fit.
pub type RoundWatch<'a> = dyn FnMut(ObservedRound<'_>) + 'a;
