//! Observing a run while it is in progress.

use std::ops::ControlFlow;

use dp_core::UserRow;

use crate::gram_sum::{GramContribution, GramGrids};
use crate::kronecker_sum::OffDiagonalNoise;
use crate::release::{ReleasedGrams, ReleasedVector};
use crate::{Grid, ReleaseEntry, Result};

/// Receives everything that a run makes, as it is made: for progress, measurements and audits.
///
/// Every method has an empty default. Observing changes nothing, except that
/// [`progress`](Self::progress) can end a run.
pub trait Observer {
    /// A release, with what each user contributed to it: for audits. Not called for a release that
    /// is replayed from a list.
    fn release(&mut self, seen: &Observed<'_>) {
        let _ = seen;
    }

    /// A release was made or replayed, and is in the list: for callers that store or publish it.
    fn listed(&mut self, entry: &ReleaseEntry) {
        let _ = entry;
    }

    /// Whether [`release`](Self::release) reads what users contribute. Runs that bound single
    /// records reject such an observer, because it would be shown what whole users contribute.
    fn reads_users(&self) -> bool {
        true
    }

    /// A round has ended.
    fn round(&mut self, round: &Round<'_>) {
        let _ = round;
    }

    /// A release was made or replayed, and is safe. `Break` ends the run with
    /// [`crate::Error::Cancelled`]; what was reserved in advance stays spent.
    fn progress(&mut self, at: Progress) -> ControlFlow<()> {
        let _ = at;
        ControlFlow::Continue(())
    }
}

/// Ignores everything.
impl Observer for () {
    fn reads_users(&self) -> bool {
        false
    }
}

/// The progress of a run. Depends on public settings only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of releases of the plan made so far.
    pub done: usize,
    /// Number of releases of the whole plan.
    pub total: usize,
}

/// A round that has ended, with the released parameters after it.
///
/// # Privacy
/// `parameters` follow from releases and are covered by their guarantee. `local` reads private
/// data, for one user at a time, meant for that user only: what is derived from it is not covered
/// and may neither be published nor influence the run.
#[allow(
    missing_debug_implementations,
    reason = "may hold functions of private records"
)]
#[derive(Clone, Copy)]
pub struct Round<'a> {
    /// Number of the round; 0 for the initial parameters.
    pub round: usize,
    /// The parameters, row-major.
    pub parameters: &'a [f64],
    /// Rows and columns of the parameters.
    pub shape: (usize, usize),
    /// Parameters that stay with a user, by the user's number in the table; `None` if users keep
    /// none.
    pub local: Option<&'a (dyn Fn(usize) -> Vec<f64> + Sync)>,
}

/// One release of a trainer, shown to an observer as it is made.
///
/// # Privacy
/// The release is public. `one_user` computes what a user contributes from that user's own records:
/// a caller must have the data anyway, as an audit does. Nothing of it may be published. On a
/// sample it returns what the user contributes if drawn.
#[allow(
    missing_debug_implementations,
    reason = "holds functions of private records"
)]
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// Labels in the plan: of the sum, or of matrices and right-hand sides.
    pub labels: [&'a str; 2],
    /// Noise multipliers that were charged, in the same order.
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
        /// Noise outside the diagonal.
        off_diagonal: OffDiagonalNoise,
        /// The noisy sum.
        released: &'a ReleasedVector,
        /// Indices and integers of one user.
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

/// What one user contributes: indices and integers.
pub type OneUser<'a> = dyn Fn(UserRow<'_>) -> Result<Vec<(usize, i64)>> + 'a;
