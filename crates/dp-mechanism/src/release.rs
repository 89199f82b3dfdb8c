//! Values that have left the kernel: public, to be post-processed at will.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::float_arithmetic,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used,
        reason = "the discipline is for the kernel, not for its tests"
    )
)]

use dp_accounting::Spend;
use dp_core::{DpEvent, ParamError, ReplaceFactor};
use dp_linalg::packed_len;

use crate::{Error, Grid, Result};

/// A released noisy vector.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedVector {
    grid: Grid,
    integers: Vec<i64>,
    insecure: bool,
}

impl ReleasedVector {
    pub(crate) const fn new(grid: Grid, integers: Vec<i64>, insecure: bool) -> Self {
        Self {
            grid,
            integers,
            insecure,
        }
    }

    /// Number of coordinates.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.integers.len()
    }

    /// Whether there is no coordinate.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.integers.is_empty()
    }

    /// The released integers `S + floor(2^k N(0, 1))`.
    #[must_use]
    pub fn integers(&self) -> &[i64] {
        &self.integers
    }

    /// The released values in data units.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.integers
            .iter()
            .map(|&y| self.grid.dequantise(y))
            .collect()
    }

    /// Standard deviation of the noise in data units.
    #[must_use]
    pub fn noise_stddev(&self) -> f64 {
        self.grid.noise_stddev()
    }

    /// Whether the noise was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

/// Released noisy matrices `A_i` and vectors `b_i`, one pair per item.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedGrams {
    pub(crate) dim: usize,
    pub(crate) matrix_grid: Grid,
    pub(crate) rhs_grid: Grid,
    pub(crate) matrices: Vec<i64>,
    pub(crate) rhs: Vec<i64>,
    pub(crate) insecure: bool,
}

impl ReleasedGrams {
    /// Length of the factors; matrices are `dim x dim`.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Number of items.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        match self.rhs.len().checked_div(self.dim) {
            Some(n_items) => n_items,
            None => 0,
        }
    }

    /// Released integers of the matrices: per item the packed upper triangle, row by row.
    #[must_use]
    pub fn matrix_integers(&self) -> &[i64] {
        &self.matrices
    }

    /// Released integers of the right-hand sides: per item `dim` entries.
    #[must_use]
    pub fn rhs_integers(&self) -> &[i64] {
        &self.rhs
    }

    /// Standard deviation of the noise on a diagonal entry, data units; off the diagonal it is
    /// smaller by sqrt 2.
    #[must_use]
    pub fn matrix_noise_stddev(&self) -> f64 {
        self.matrix_grid.noise_stddev()
    }

    /// Standard deviation of the noise on a right-hand side entry, data units.
    #[must_use]
    pub fn rhs_noise_stddev(&self) -> f64 {
        self.rhs_grid.noise_stddev()
    }

    /// Writes the full noisy matrix of `item` (row-major) and its right-hand side.
    ///
    /// # Panics
    /// When `item` is not below [`n_items`](Self::n_items) or a slice has the wrong length.
    pub fn write_item(&self, item: usize, matrix: &mut [f64], rhs: &mut [f64]) {
        let dim = self.dim;
        let square = dim.saturating_mul(dim);
        assert!(matrix.len() == square && rhs.len() == dim);
        assert!(item < self.n_items());
        self.write_matrix(item, matrix);
        let released = self.rhs.chunks_exact(dim).nth(item).unwrap_or_default();
        for (out, &y) in rhs.iter_mut().zip(released) {
            *out = self.rhs_grid.dequantise(y);
        }
    }

    /// Both triangles of the square from the packed upper one.
    fn write_matrix(&self, item: usize, matrix: &mut [f64]) {
        let dim = self.dim;
        let mut triangles = self.matrices.chunks_exact(packed_len(dim));
        let mut packed = triangles.nth(item).unwrap_or_default().iter();
        for (a, b) in (0..dim).flat_map(|a| (a..dim).map(move |b| (a, b))) {
            let Some(&y) = packed.next() else { return };
            let value = self.matrix_grid.dequantise(y);
            for (row, column) in [(a, b), (b, a)] {
                let place = row.saturating_mul(dim).saturating_add(column);
                if let Some(entry) = matrix.get_mut(place) {
                    *entry = value;
                }
            }
        }
    }

    /// Whether the noise was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.insecure
    }
}

/// Refuses a spend that does not pay for a Gaussian release on `grid` of `n_draws` coordinates.
pub(crate) fn check_spend(spend: &Spend, grid: &Grid, n_draws: usize, psd: bool) -> Result<()> {
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("spend-unchecked") {
        return Ok(());
    }
    #[cfg(privacy_mutants)]
    let psd = dp_core::mutants::pick("replace-factor-unchecked", psd, true);
    #[cfg(privacy_mutants)]
    let n_draws = dp_core::mutants::pick("draws-unchecked", n_draws, 0);
    let label = || spend.label().to_owned();
    let &DpEvent::Gaussian {
        noise_multiplier: paid,
        replace_factor: factor,
    } = spend.event()
    else {
        return Err(Error::WrongSpend {
            label: label(),
            release: "one Gaussian release",
        });
    };
    if factor == ReplaceFactor::SqrtTwo && !psd {
        return Err(Error::WrongSpend {
            label: label(),
            release: "a sum of contributions that need not be positive semidefinite",
        });
    }
    if paid > grid.noise_multiplier() {
        return Err(Error::SpendTooSmall {
            label: label(),
            paid,
            grid: grid.noise_multiplier(),
        });
    }
    let needed = n_draws as u64;
    if spend.n_draws() < needed {
        return Err(Error::DrawCount {
            label: label(),
            paid: spend.n_draws(),
            needed,
        });
    }
    Ok(())
}

/// Shards may only be merged when they were quantised alike.
pub(crate) fn same_grid(a: &Grid, b: &Grid) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(Error::Param(ParamError {
        name: "noise_multiplier",
        value: b.noise_multiplier(),
        expected: "the grid of the sum it is merged into",
    }))
}
