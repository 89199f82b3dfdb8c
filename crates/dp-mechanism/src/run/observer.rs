//! Looking at a run as it goes.

use std::ops::ControlFlow;

use dp_core::UserRow;

use crate::gram_sum::{GramContribution, GramGrids};
use crate::kronecker_sum::OffDiagonalNoise;
use crate::release::{ReleasedGrams, ReleasedVector};
use crate::{Grid, ReleaseEntry, Result};

/// Sees what a run makes, as it makes it: for progress, measurements and audits.
///
/// Every method has an empty default. Looking changes nothing but for [`progress`](Self::progress), which can end a run.
pub trait Observer {
    /// A release, with what each user added to it: for audits. Not called for a release that is replayed from a list.
    fn release(&mut self, seen: &Observed<'_>) {
        let _ = seen;
    }

    /// A release is made, or replayed, and stands in the list: for whoever keeps or publishes it.
    fn listed(&mut self, entry: &ReleaseEntry) {
        let _ = entry;
    }

    /// Whether [`release`](Self::release) asks what users add. Runs that bound single records refuse such an observer: it would
    /// be shown what whole users add.
    fn reads_users(&self) -> bool {
        true
    }

    /// A round is over.
    fn round(&mut self, round: &Round<'_>) {
        let _ = round;
    }

    /// A release is made, or replayed, and safe. `Break` ends the run with [`crate::Error::Cancelled`]; what was paid in advance
    /// stays paid.
    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        let _ = at;
        ControlFlow::Continue(())
    }
}

/// Sees nothing.
impl Observer for () {
    fn reads_users(&self) -> bool {
        false
    }
}

/// How far a run has come. Depends on public settings only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Releases of the plan made so far.
    pub done: usize,
    /// Releases of the whole plan.
    pub total: usize,
}

/// A round that is over, with the released parameters after it.
///
/// # Privacy
/// `parameters` follow from releases and are covered by their guarantee. `local` reads what is private, one user's for that user
/// alone: what is made of it is not covered and may neither leave nor decide anything about the run.
#[allow(
    missing_debug_implementations,
    reason = "may hold functions of private records"
)]
#[derive(Clone, Copy)]
pub struct Round<'a> {
    /// Number of the round; 0 for the parameters that the first round starts from.
    pub round: usize,
    /// The parameters, row-major.
    pub parameters: &'a [f64],
    /// Rows and columns of the parameters.
    pub shape: (usize, usize),
    /// Parameters that stay with a user, by the user's number in the table; nothing where users keep none.
    pub local: Option<&'a (dyn Fn(usize) -> Vec<f64> + Sync)>,
}

/// One release of a trainer, shown to an observer as it is made.
///
/// # Privacy
/// The release is public. `one_user` computes what a user adds from that user's own records: whoever calls
/// it must hold the data anyway, as an audit does. Nothing of it may leave. On a sample it says what the user adds if drawn.
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
    /// The upper triangle of one symmetric matrix.
    Triangle {
        /// Its grid.
        grid: &'a Grid,
        /// Side of the matrix.
        side: usize,
        /// Noise off the diagonal.
        off_diagonal: OffDiagonalNoise,
        /// The noisy sum.
        released: &'a ReleasedVector,
        /// Places and integers of one user.
        one_user: &'a OneUser<'a>,
    },
    /// Matrices and right-hand sides.
    Grams {
        /// Their grids.
        grids: &'a GramGrids,
        /// The noisy sums.
        released: &'a ReleasedGrams,
        /// Integer factors and labels of one user.
        one_user: &'a dyn Fn(UserRow<'_>) -> Result<GramContribution>,
    },
}

/// What one user adds: places and integers.
pub type OneUser<'a> = dyn Fn(UserRow<'_>) -> Result<Vec<(usize, i64)>> + 'a;
