//! Releases with what each user added to them, for audits.

use dp_core::UserRow;
use dp_mechanism::{Grid, ReleasedVector};

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
