//! Releases with what each user added to them, for audits.

use dp_core::UserRow;
use dp_mechanism::{GramContribution, GramGrids, Grid, ReleasedGrams, ReleasedVector};

/// One release of a regression, shown to a watch as it is made.
///
/// # Privacy
/// The release is public. `one_user` computes what a user adds from that user's own records: whoever calls
/// it must hold the data anyway, as an audit does. Nothing of it may leave.
#[allow(
    missing_debug_implementations,
    reason = "holds functions of private records"
)]
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// Labels in the plan: of the sum, or of matrices and right-hand sides.
    pub labels: [&'a str; 2],
    /// Noise multipliers paid for, in the same order.
    pub noise_multipliers: [f64; 2],
    /// The release.
    pub sums: ObservedSums<'a>,
}

/// What was released, and one user's integers in it.
#[allow(
    missing_debug_implementations,
    reason = "holds functions of private records"
)]
#[derive(Clone, Copy)]
pub enum ObservedSums<'a> {
    /// A vector.
    Vector {
        /// Its grid.
        grid: &'a Grid,
        /// The noisy sum.
        released: &'a ReleasedVector,
        /// Coordinates and integers of one user.
        one_user: &'a dyn Fn(UserRow<'_>) -> Vec<(usize, i64)>,
    },
    /// Matrices and right-hand sides.
    Grams {
        /// Their grids.
        grids: &'a GramGrids,
        /// The noisy sums.
        released: &'a ReleasedGrams,
        /// Integer factors and labels of one user.
        one_user: &'a dyn Fn(UserRow<'_>) -> dp_mechanism::Result<GramContribution>,
    },
}

/// Sees every release of a fit.
pub type Watch<'a> = dyn FnMut(Observed<'_>) + 'a;
