//! What an audit sees of one release.

use dp_core::{ParamError, params};
use dp_linalg::packed_len;

use crate::Result;

/// Which coordinates a release has, and the noise that each was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Plain coordinates with noise of one integer scale.
    Vector {
        /// The integer scale.
        sigma: u64,
    },
    /// Packed upper triangles of symmetric matrices, row by row. An off-diagonal entry stands for
    /// two and counts twice in the norm.
    Packed {
        /// Scale on the diagonal.
        diagonal: u64,
        /// Scale off the diagonal.
        off_diagonal: u64,
        /// Side of the matrices.
        dim: usize,
    },
}

impl Layout {
    /// Promised noise scale of each coordinate of a period: 1 for vectors, a triangle for matrices.
    fn pattern(self) -> Vec<(f64, u128)> {
        match self {
            Self::Vector { sigma } => vec![(sigma as f64, 1)],
            Self::Packed {
                diagonal,
                off_diagonal,
                dim,
            } => (0..dim)
                .flat_map(|a| (a..dim).map(move |b| a == b))
                .map(|on| {
                    if on {
                        (diagonal as f64, 1)
                    } else {
                        (off_diagonal as f64, 2)
                    }
                })
                .collect(),
        }
    }

    /// The scale that noise multipliers refer to.
    #[must_use]
    pub const fn sigma(self) -> u64 {
        match self {
            Self::Vector { sigma } => sigma,
            Self::Packed { diagonal, .. } => diagonal,
        }
    }
}

/// One user's integers in a release: coordinate and value.
pub type Entries = Vec<(usize, i64)>;

/// One release as an audit sees it: what came out, and what went in.
///
/// The exact sum is private. A view exists for data that the audit made up, or inside an audit
/// run by whoever holds the data anyway; it has no place in a released file.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "holds the private sum next to its release"
)]
pub struct View {
    /// Name of the release in the plan.
    pub label: String,
    /// Coordinates and promised noise.
    pub layout: Layout,
    /// Noise multiplier that was paid for.
    pub noise_multiplier: f64,
    /// Released integers `Y`.
    pub integers: Vec<i64>,
    /// The integer sum `S` of all users' contributions, each computed for itself.
    pub exact: Vec<i64>,
    /// What each canary adds to this release if it takes part.
    pub canaries: Vec<Entries>,
}

impl View {
    /// Refuses a view whose parts do not fit each other.
    pub(crate) fn check(&self) -> Result<()> {
        params::same_size("exact sum", self.exact.len(), self.integers.len())?;
        params::finite_positive("noise_multiplier", self.noise_multiplier)?;
        let period = self.pattern().len();
        if period == 0 || self.integers.is_empty() || !self.integers.len().is_multiple_of(period) {
            return Err(ParamError {
                name: "integers",
                value: self.integers.len() as f64,
                expected: "at least one coordinate, in whole triangles",
            }
            .into());
        }
        Ok(())
    }

    fn pattern(&self) -> Vec<(f64, u128)> {
        self.layout.pattern()
    }

    /// Standardised residuals `r = (Y - S + 1/2) / sigma`, standard normal if the claim holds.
    ///
    /// The floor puts half an integer into the mean, which the 1/2 takes out, and adds a variance
    /// of `1/(12 sigma^2)`: below 2^-12 at the smallest scale a grid gives.
    #[must_use]
    pub fn residuals(&self) -> Vec<f64> {
        let scales = self.pattern().into_iter().cycle();
        self.integers
            .iter()
            .zip(&self.exact)
            .zip(scales)
            .map(|((&y, &s), (sigma, _))| (y.wrapping_sub(s) as f64 + 0.5) / sigma)
            .collect()
    }

    /// Promised scale of coordinate `at`.
    pub(crate) fn scale(&self, at: usize) -> f64 {
        match self.layout {
            Layout::Vector { sigma } => sigma as f64,
            Layout::Packed {
                diagonal,
                off_diagonal,
                dim,
            } => {
                if on_diagonal(dim, at % packed_len(dim)) {
                    diagonal as f64
                } else {
                    off_diagonal as f64
                }
            }
        }
    }

    /// Exact squared norm of a change of the sum; entries off a diagonal count twice.
    #[must_use]
    pub fn squared_norm(&self, change: &[i64]) -> u128 {
        let weights = self.pattern().into_iter().cycle();
        change
            .iter()
            .zip(weights)
            .map(|(&z, (_, weight))| {
                let magnitude = u128::from(z.unsigned_abs());
                (magnitude * magnitude).saturating_mul(weight)
            })
            .fold(0, u128::saturating_add)
    }

    /// The largest integer L2 norm that the paid noise multiplier allows one user: the largest `D`
    /// with `D z <= sigma`, found here by exact comparison and not taken from the kernel.
    #[must_use]
    pub fn allowed_norm(&self) -> u64 {
        largest_multiple(self.layout.sigma(), self.noise_multiplier)
    }
}

/// Whether entry `at` of a packed triangle lies on the diagonal.
const fn on_diagonal(dim: usize, mut at: usize) -> bool {
    let mut row = dim;
    while at >= row && row > 0 {
        at -= row;
        row -= 1;
    }
    at == 0
}

/// The largest `D` with `D z <= sigma`, exactly: `z = m 2^e` with integer `m` below 2^53.
fn largest_multiple(sigma: u64, z: f64) -> u64 {
    let (mut low, mut high) = (0_u64, 1_u64 << 62);
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if product_at_most(middle, z, sigma) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Whether `d z <= sigma` for the exact binary value of `z > 0`.
fn product_at_most(d: u64, z: f64, sigma: u64) -> bool {
    let bits = z.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = if exponent == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, exponent.cast_signed() - 1075)
    };
    // d m 2^e <= sigma; d m is below 2^115
    let product = u128::from(d) * u128::from(mantissa);
    if product == 0 {
        return true;
    }
    if exponent >= 0 {
        return exponent < 64 && product <= u128::from(sigma) >> exponent;
    }
    match u32::try_from(-exponent) {
        Ok(shift) if shift < 64 => product <= u128::from(sigma) << shift,
        // sigma 2^shift > 2^63 d m only if d m is small: compare from the other side
        Ok(shift) if shift < 128 => {
            product >> shift < u128::from(sigma)
                || (product >> shift == u128::from(sigma) && product.trailing_zeros() >= shift)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_norm_agrees_with_the_kernel() {
        for step in 0..2000 {
            let z = 0.001 * 1.007_f64.powi(step);
            let grid = dp_mechanism::Grid::new(z, 1.0).unwrap();
            assert_eq!(largest_multiple(grid.sigma(), z), grid.l2_bound(), "z {z}");
        }
    }

    #[test]
    fn diagonal_entries_begin_their_rows() {
        let found: Vec<usize> = (0..10).filter(|&at| on_diagonal(4, at)).collect();
        assert_eq!(found, [0, 4, 7, 9]);
    }

    #[test]
    fn off_diagonal_entries_count_twice() {
        let view = View {
            label: String::new(),
            layout: Layout::Packed {
                diagonal: 64,
                off_diagonal: 46,
                dim: 2,
            },
            noise_multiplier: 1.0,
            integers: vec![0; 3],
            exact: vec![0; 3],
            canaries: Vec::new(),
        };
        assert_eq!(view.squared_norm(&[3, 4, 5]), 9 + 2 * 16 + 25);
    }
}
