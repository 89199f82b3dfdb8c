//! Sums of contributions with values in every coordinate: in f64 while that is exact, then in i64.

use dp_linalg::GridSum;

use crate::{Grid, Result};

/// Integers up to this limit are represented exactly in f64 sums.
const EXACT_LIMIT: u64 = 1 << 51;

/// The users of one task who have values in every coordinate.
pub(super) struct DenseSum {
    sum: GridSum,
    /// Number of users in `sum` since it was last emptied, and the maximum allowed.
    n_held: u64,
    most_held: u64,
}

impl DenseSum {
    pub(super) fn new(n_coordinates: usize, grid: &Grid) -> Self {
        // entries of an accepted user are at most D each
        let most_held = EXACT_LIMIT.checked_div(grid.l2_bound()).unwrap_or(1);
        Self {
            sum: GridSum::new(n_coordinates),
            n_held: 0,
            most_held: most_held.max(1),
        }
    }

    /// Adds one user, whose integers are those of (K3), unless their squared norm is above the
    /// bound: (K4). An integer that is clamped to 2^43 exceeds every bound by itself.
    pub(super) fn add(&mut self, values: &[f64], grid: &Grid, sums: &mut [i64]) -> Result<()> {
        let squared_norm = self.sum.load(values, grid.step())?;
        #[cfg(privacy_mutants)]
        let squared_norm = crate::mutants::dense_norm(grid, values, squared_norm);
        if !grid.admits(squared_norm) {
            return Ok(());
        }
        self.sum.add();
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("users-count-twice") {
            self.sum.add();
        }
        self.n_held = self.n_held.saturating_add(1);
        if self.n_held >= self.most_held {
            self.spill(sums);
        }
        Ok(())
    }

    /// Adds the exact float sums to the integer sums and resets them.
    pub(super) fn spill(&mut self, sums: &mut [i64]) {
        if self.n_held > 0 {
            for (sum, &exact) in sums.iter_mut().zip(self.sum.sums()) {
                *sum = sum.wrapping_add(integer(exact));
            }
            self.sum.reset();
            self.n_held = 0;
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "an integer of at most 2^51 in size"
)]
const fn integer(value: f64) -> i64 {
    value as i64
}
