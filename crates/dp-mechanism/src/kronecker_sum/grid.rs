//! The grid of a sum of Kronecker products.
#![allow(
    clippy::float_arithmetic,
    clippy::arithmetic_side_effects,
    reason = "public scales in checked ranges, made before any data is seen"
)]

use crate::{Grid, Result};

/// Base-2 logarithm of the norm of integer vectors `V`.
pub(super) const LOG2_VECTOR: u32 = 24;
/// Base-2 logarithm of `tr(C)` of a user at the bound, up to a factor of 2: rows stay within 22 bits.
const LOG2_TRACE: u32 = 43;

/// A [`Grid`] with the scales of the two integer factors.
///
/// ```text
/// s = 91 - floor(log2 D),   alpha = sqrt((1 - d k / D) 2^s / (2^48 g))   integers of a row per square root of a data unit
/// ```
///
/// so that a user at the bound has `2^43 <= ||C||_F <= 2^44` with `||V|| = 2^24`, and `floor(C (x)
/// V V^T / 2^s)` is the user's matrix on the grid. The factor `1 - d k / D` leaves room for
/// rounding down, which adds at most `d k` to a norm; `D` is above 2^30 for every noise multiplier
/// below 1000.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KroneckerGrid {
    grid: Grid,
    shift: u32,
}

impl KroneckerGrid {
    /// The grid for noise multiplier `noise_multiplier` and users whose matrices have Frobenius norms of at most `clip_norm`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] as in [`Grid::new`].
    pub fn new(noise_multiplier: f64, clip_norm: f64) -> Result<Self> {
        let grid = Grid::new(noise_multiplier, clip_norm)?;
        // D is from 2^5 to 2^42
        let shift = (LOG2_TRACE + 2 * LOG2_VECTOR).saturating_sub(grid.l2_bound().max(1).ilog2());
        Ok(Self { grid, shift })
    }

    /// The grid of the released integers.
    #[must_use]
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// `alpha`: integers of a row per square root of a data unit, for matrices of side `d k`; 0 if
    /// the bound leaves no room for any.
    pub(super) fn row_scale(&self, side: usize) -> f64 {
        let room = (1.0 - side as f64 / self.grid.l2_bound() as f64).max(0.0);
        let squared = room * self.unit() * 2.0_f64.powi(-2 * LOG2_VECTOR.cast_signed());
        (squared / self.grid.step()).sqrt()
    }

    /// `2^s`.
    fn unit(&self) -> f64 {
        2.0_f64.powi(self.shift.cast_signed())
    }

    /// `V_p V_q / 2^s`: exact, a product of two 25-bit integers times a power of two.
    pub(super) fn weight(&self, p: i64, q: i64) -> f64 {
        p as f64 * q as f64 / self.unit()
    }

    /// Whether a matrix of side `d k` with this norm of `C` (or an upper bound on it) and this
    /// squared norm of `V` stays within the bound after its entries are rounded down: `N + d k 2^s
    /// <= D 2^s`, `N = ||C|| ||V||^2` (K24).
    pub(super) fn admits(&self, norm: u64, squared_vector: u64, side: usize) -> bool {
        let product = u128::from(norm).saturating_mul(squared_vector.into());
        // sides are at most 2^10 and bounds at most 2^42, units at most 2^86
        let in_units = |n: u64| u128::from(n).saturating_mul(1 << self.shift);
        let rounding = in_units(u64::try_from(side).unwrap_or(u64::MAX));
        product.saturating_add(rounding) <= in_units(self.grid.l2_bound())
    }
}
