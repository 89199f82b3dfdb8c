//! The integer grid: public scales, and the quantiser from data units to integers.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    reason = "public numbers in checked ranges, and the quantiser itself"
)]

use dp_core::params;

use crate::{Error, Result};

/// Smallest and largest base-2 logarithm of the integer noise scale.
const LOG2_SIGMA_RANGE: std::ops::RangeInclusive<u32> = 6..=40;
/// The smallest integer bound, so that a clipped contribution keeps ten bits.
const MIN_L2_BOUND: u64 = 1 << 10;
/// The largest integer bound: sums of two million users at their bound still fit in an i64.
const MAX_L2_BOUND: u64 = 1 << 42;
/// Contributions are scaled to be this much below the bound, so that rounding in the caller's
/// clipping never makes the exact check reject a user.
const MARGIN: f64 = 1.0 / (1 << 20) as f64;

/// The integer grid of one Gaussian release.
///
/// ```text
/// sigma = 2^k                          integer noise scale
/// D     = floor(2^k / z)               integer L2 bound of one user, add/remove
/// g     = C / (D (1 - 2^-20))          data units per integer
/// ```
///
/// `z` is the noise multiplier, `C` the clip norm. A user whose real contribution has norm at most
/// `C` has an integer contribution of norm at most `D`, which the kernel checks in exact integers.
/// The release is then the Gaussian mechanism with `mu = D / 2^k <= 1 / z`. The proof is in
/// `docs/kernel-proof.md`; comments of this crate refer to its equation numbers, here (K1).
///
/// # Examples
/// ```
/// use dp_mechanism::Grid;
/// let grid = Grid::new(4.0, 1.5)?;
/// assert_eq!(grid.l2_bound(), 1 << 38);
/// assert!((grid.noise_stddev() - 6.0).abs() < 1e-4);
/// # Ok::<(), dp_mechanism::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grid {
    noise_multiplier: f64,
    clip_norm: f64,
    log2_sigma: u32,
    l2_bound: u64,
}

impl Grid {
    /// A grid with the finest scale that leaves room for the sum: `k = 40`, or less if `z < 1`.
    ///
    /// # Errors
    /// [`Error::Param`] if `noise_multiplier` or `clip_norm` is not finite and positive, or if the
    /// noise multiplier is outside about 2^-35 to 2^30.
    pub fn new(noise_multiplier: f64, clip_norm: f64) -> Result<Self> {
        params::finite_positive("noise_multiplier", noise_multiplier)?;
        let mut log2_sigma = *LOG2_SIGMA_RANGE.end();
        let mut scaled = noise_multiplier;
        while scaled < 1.0 && log2_sigma > *LOG2_SIGMA_RANGE.start() {
            scaled *= 2.0;
            log2_sigma -= 1;
        }
        Self::with_log2_sigma(noise_multiplier, clip_norm, log2_sigma)
    }

    /// A grid with a chosen noise scale `2^log2_sigma`, 6 to 40. Small scales are for tests against
    /// the exact probabilities and for rings with few bits.
    ///
    /// # Errors
    /// [`Error::Param`] if a parameter is out of range or the integer bound `floor(2^k / z)` would
    /// fall outside 2^10 to 2^42 (2^5 or above for `log2_sigma` below 20).
    pub fn with_log2_sigma(noise_multiplier: f64, clip_norm: f64, log2_sigma: u32) -> Result<Self> {
        params::finite_positive("noise_multiplier", noise_multiplier)?;
        params::finite_positive("clip_norm", clip_norm)?;
        let sigma_range = (
            *LOG2_SIGMA_RANGE.start() as usize,
            *LOG2_SIGMA_RANGE.end() as usize,
        );
        params::in_range(
            "log2_sigma",
            log2_sigma as usize,
            sigma_range.0,
            sigma_range.1,
            "a whole number from 6 to 40",
        )?;
        let l2_bound = floor_quotient(log2_sigma, noise_multiplier);
        #[cfg(privacy_mutants)]
        let l2_bound =
            dp_core::mutants::pick("bound-too-large", l2_bound, l2_bound + l2_bound / 50);
        let least = if log2_sigma < 20 {
            1 << 5
        } else {
            MIN_L2_BOUND
        };
        if !(least..=MAX_L2_BOUND).contains(&l2_bound) {
            return Err(Error::Param(dp_core::ParamError {
                name: "noise_multiplier",
                value: noise_multiplier,
                expected: "a value for which 2^log2_sigma / noise_multiplier fits the grid",
            }));
        }
        Ok(Self {
            noise_multiplier,
            clip_norm,
            log2_sigma,
            l2_bound,
        })
    }

    /// The requested noise multiplier; the actual noise is never less than this.
    #[must_use]
    pub const fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// Largest real norm of one user's contribution, in data units.
    #[must_use]
    pub const fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// Base-2 logarithm of the integer noise scale.
    #[must_use]
    pub const fn log2_sigma(&self) -> u32 {
        self.log2_sigma
    }

    /// The same grid for a user who may add integers of norm up to `l2_bound` only, at most
    /// [`l2_bound`](Self::l2_bound): the user's contribution is scaled down by the quotient of the
    /// bounds, and then checked against the smaller one. The noise stays the same.
    pub(crate) fn scaled_to(&self, l2_bound: u64) -> Self {
        Self {
            l2_bound: l2_bound.min(self.l2_bound),
            ..*self
        }
    }

    /// The integer noise scale `2^k`.
    #[must_use]
    pub const fn sigma(&self) -> u64 {
        1 << self.log2_sigma
    }

    /// Integer noise scale of the off-diagonal entries of a symmetric matrix:
    /// `ceil(2^k / sqrt 2)`.
    ///
    /// With `sigma_o >= 2^k / sqrt 2` the entries `a <= b` of one user's matrix `M` satisfy `sum_a
    /// M_aa^2 / 4^k + sum_{a<b} M_ab^2 / sigma_o^2 <= ||M||_F^2 / 4^k`, so the bound on the
    /// Frobenius norm covers the whole triangle: (K11).
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the root of at most 2^79 is below 2^40"
    )]
    pub const fn off_diagonal_sigma(&self) -> u64 {
        let square = 1_u128 << (2 * self.log2_sigma - 1);
        let root = square.isqrt();
        let ceiling = if root * root == square {
            root
        } else {
            root + 1
        };
        ceiling as u64
    }

    /// Largest integer L2 norm of one user's contribution.
    #[must_use]
    pub const fn l2_bound(&self) -> u64 {
        self.l2_bound
    }

    /// rho of a release with discrete Gaussian noise of scale `2^k`, under add/remove, rounded up to
    /// the next f64: (K18).
    ///
    /// ```text
    /// rho = D^2 / (2 4^k)
    /// ```
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number of at most 84 bits"
    )]
    pub fn zcdp_rho(&self) -> f64 {
        let square = u128::from(self.l2_bound).pow(2);
        let nearest = square as f64;
        let above = if (nearest as u128) < square {
            nearest.next_up()
        } else {
            nearest
        };
        let sigma = self.sigma() as f64;
        above / sigma / sigma * 0.5 // powers of two: exact
    }

    /// Data units per integer, `g`.
    #[must_use]
    pub fn step(&self) -> f64 {
        self.clip_norm / (self.l2_bound as f64 * (1.0 - MARGIN))
    }

    /// Standard deviation of the released noise in data units, `2^k g`.
    #[must_use]
    pub fn noise_stddev(&self) -> f64 {
        self.sigma() as f64 * self.step()
    }

    /// Quantises a real coordinate: rounds toward zero, saturates, and maps NaN to 0. Rounding
    /// toward zero never increases a norm: (K3).
    #[must_use]
    pub fn quantise(&self, value: f64) -> i64 {
        quantise(value, self.step())
    }

    /// Both ends of a range on the grid, quantised by [`quantise`](Self::quantise).
    #[must_use]
    pub fn range(&self, (low, high): (f64, f64)) -> (i64, i64) {
        (self.quantise(low), self.quantise(high))
    }

    /// The real value at the midpoint of an integer's cell.
    #[must_use]
    pub fn dequantise(&self, integer: i64) -> f64 {
        (integer as f64 + 0.5) * self.step()
    }

    /// The real value of an integer whose noise is symmetric around it.
    pub(crate) fn whole_steps(&self, integer: i64) -> f64 {
        integer as f64 * self.step()
    }

    /// Whether a contribution with this exact squared norm stays within the bound: (K4).
    #[must_use]
    pub(crate) const fn admits(&self, squared_norm: u128) -> bool {
        let bound = self.l2_bound as u128; // at most 2^42
        squared_norm <= bound.saturating_mul(bound)
    }
}

/// `value` in whole steps, rounded toward zero: (K3). For many values with the same step.
#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the saturating cast toward zero, NaN to 0, is the quantiser"
)]
pub(crate) fn quantise(value: f64, step: f64) -> i64 {
    (value / step) as i64
}

/// `floor(2^k / z)` for the exact binary value of `z`, so that `2^k / D >= z` holds exactly: (K2).
fn floor_quotient(log2_sigma: u32, z: f64) -> u64 {
    let bits = z.to_bits();
    let exponent_bits = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    // z = mantissa * 2^exponent
    let (mantissa, exponent) = if exponent_bits == 0 {
        (fraction, -1074_i64)
    } else {
        (fraction | (1 << 52), exponent_bits.cast_signed() - 1075)
    };
    let shift = i64::from(log2_sigma) - exponent;
    match u32::try_from(shift) {
        // below 2^127 the quotient is exact
        Ok(shift) if shift < 127 => {
            u64::try_from((1_u128 << shift) / u128::from(mantissa.max(1))).unwrap_or(u64::MAX)
        }
        Ok(_) => u64::MAX,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_noise_multiplier_is_never_below_the_one_asked_for() {
        let mut z = 0.001_f64;
        for step in 0..4000 {
            z *= 1.0 + 0.004 + f64::from(step % 7) * 1e-4;
            if z > 1e6 {
                z = 0.0013;
            }
            let grid = Grid::new(z, 1.0).unwrap();
            // exact: D * mantissa(z) <= 2^(k - exponent)
            let d = u128::from(grid.l2_bound());
            assert_eq!(grid.l2_bound(), reference_floor(grid.log2_sigma(), z));
            assert!(d <= u128::from(MAX_L2_BOUND));
            let real = grid.sigma() as f64 / grid.l2_bound() as f64;
            assert!(real >= z * (1.0 - 1e-15) && real <= z * (1.0 + 2e-3));
        }
    }

    /// Largest D with D z <= 2^k, by long comparison of products instead of one division.
    fn reference_floor(k: u32, z: f64) -> u64 {
        let bits = z.to_bits();
        let mantissa = u128::from((bits & ((1 << 52) - 1)) | (1 << 52));
        let shift = i64::from(k) - (((bits >> 52) & 0x7ff) as i64 - 1075);
        let goal = 1_u128 << shift;
        let (mut low, mut high) = (0_u64, 1 << 50);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if u128::from(middle) * mantissa <= goal {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    #[test]
    fn a_quotient_just_below_an_integer_is_rounded_down() {
        // z = 2^40 / n rounded: if this rounds up, the quotient is below n by less than a
        // floating-point division can show, and dividing floats would give n
        let mut n_rounded_down = 0;
        for n in (1_025..20_000_u32).step_by(2) {
            let z = (1_u64 << 40) as f64 / f64::from(n);
            let grid = Grid::new(z, 1.0).unwrap();
            assert_eq!(grid.l2_bound(), reference_floor(40, z));
            n_rounded_down += u32::from(grid.l2_bound() < u64::from(n));
        }
        assert!(n_rounded_down > 1000, "{n_rounded_down}");
        // 2^40 / z is slightly below 2^38: naive float division rounds up to 2^38
        let z = 4.0_f64.next_up();
        assert_eq!(Grid::new(z, 1.0).unwrap().l2_bound(), (1 << 38) - 1);
    }

    #[test]
    fn off_diagonal_scale_is_the_least_integer_that_covers_the_triangle() {
        for k in 6..=40 {
            let grid = Grid::with_log2_sigma(0.5, 1.0, k).unwrap();
            let s = u128::from(grid.off_diagonal_sigma());
            let square = 1_u128 << (2 * k);
            assert!(2 * s * s >= square);
            assert!(2 * (s - 1) * (s - 1) < square);
        }
    }

    #[test]
    fn quantiser_is_total_and_never_grows_a_coordinate() {
        let grid = Grid::new(2.0, 3.0).unwrap();
        assert_eq!(grid.quantise(f64::NAN), 0);
        assert_eq!(grid.quantise(f64::INFINITY), i64::MAX);
        assert_eq!(grid.quantise(f64::NEG_INFINITY), i64::MIN);
        assert_eq!(grid.quantise(5e-324), 0);
        for value in [1.0, -1.0, 0.123_456_789, -2.999] {
            let back = grid.quantise(value) as f64 * grid.step();
            assert!(back.abs() <= value.abs() && (back - value).abs() <= grid.step());
        }
    }

    #[test]
    fn a_contribution_exactly_at_the_clip_is_admitted() {
        for clip in [1.0, 0.1, 7.3e-5, 9.9e9] {
            let grid = Grid::new(1.7, clip).unwrap();
            let q = u128::from(grid.quantise(clip).unsigned_abs());
            assert!(grid.admits(q * q));
            let q = u128::from(grid.quantise(clip * 1.000_01).unsigned_abs());
            assert!(!grid.admits(q * q));
        }
    }

    #[test]
    fn rejects_what_the_grid_cannot_hold() {
        for (z, clip) in [
            (0.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, 0.0),
            (1.0, f64::INFINITY),
            (2e9, 1.0),
            (1e-300, 1.0),
        ] {
            assert!(Grid::new(z, clip).is_err(), "z {z}, clip {clip}");
        }
        assert!(Grid::with_log2_sigma(1.0, 1.0, 5).is_err());
        assert!(Grid::with_log2_sigma(1.0, 1.0, 41).is_err());
        assert!(Grid::new(1e9, 1.0).is_ok());
    }
}
