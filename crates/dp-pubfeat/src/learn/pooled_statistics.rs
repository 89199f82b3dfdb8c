//! One matrix for all items: the statistics, and ridge regression on them.

use dp_core::params;
use dp_linalg::{SymmetricEigen, symmetric_eigen};

use super::KernelRidge;
use crate::features::ItemKernel;
use crate::{Error, Result};

/// [`ItemStatistics`](crate::ItemStatistics) with `A_j = f_j C`: one matrix for all items, and per item a factor and a right-hand side.
///
/// # Privacy
/// Released values. Everything done with them is post-processing.
#[derive(Debug, Clone, PartialEq)]
pub struct PooledStatistics {
    dim: usize,
    factors: Vec<f64>,
    matrix: Vec<f64>,
    rhs: Vec<f64>,
    rhs_noise: f64,
}

impl PooledStatistics {
    /// From numbers that are public or released: `factors` of shape `(m)`, 0 or above, `matrix` of shape `(dim, dim)`, symmetric, `rhs` of shape `(m, dim)`, and the standard deviation of the noise
    /// on an entry of `rhs`. Directions in which the matrix is negative count as 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Shape`] for shapes that do not fit, or numbers that are not finite or below 0; [`crate::Error::Unsupported`] for a matrix that is not symmetric.
    pub fn new(
        dim: usize,
        factors: Vec<f64>,
        matrix: Vec<f64>,
        rhs: Vec<f64>,
        rhs_noise: f64,
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        params::at_least_one("number of factors", factors.len())?;
        params::same_size("matrix", matrix.len(), dim * dim)?;
        params::same_size("right-hand sides", rhs.len(), factors.len() * dim)?;
        for &factor in factors.iter().chain([&rhs_noise]) {
            params::finite_non_negative("factor or noise", factor)?;
        }
        for &value in matrix.iter().chain(&rhs) {
            params::finite("statistic", value)?;
        }
        let mirrored =
            |at: usize| matrix[at].to_bits() == matrix[at % dim * dim + at / dim].to_bits();
        if !(0..dim * dim).all(mirrored) {
            return Err(Error::Unsupported {
                what: "a matrix that is not symmetric",
            });
        }
        Ok(Self {
            dim,
            factors,
            matrix,
            rhs,
            rhs_noise,
        })
    }

    /// Length `d` of an item's vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// `f_j`.
    #[must_use]
    pub fn factors(&self) -> &[f64] {
        &self.factors
    }

    /// `C`, row-major.
    #[must_use]
    pub fn matrix(&self) -> &[f64] {
        &self.matrix
    }

    /// `b_j`, shape `(m, dim)`.
    #[must_use]
    pub fn rhs(&self) -> &[f64] {
        &self.rhs
    }

    /// Standard deviation of the noise on an entry of a right-hand side.
    #[must_use]
    pub const fn rhs_noise(&self) -> f64 {
        self.rhs_noise
    }

    /// The directions in which `C` is diagonal.
    pub(super) fn axes(&self) -> Result<Axes> {
        let eigen = symmetric_eigen(&self.matrix, self.dim)?;
        Ok(Axes {
            dim: self.dim,
            eigen,
        })
    }
}

/// `C = U^T diag(values) U`, rows of `U` orthonormal.
pub(super) struct Axes {
    dim: usize,
    eigen: SymmetricEigen,
}

impl Axes {
    /// Eigenvalues, negative ones as 0.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.eigen.values.iter().map(|value| value.max(0.0))
    }

    /// `U x` for every row `x`.
    pub(super) fn turned(&self, rows: &[f64]) -> Vec<f64> {
        let vectors = || self.eigen.vectors.chunks_exact(self.dim);
        let turn = |x: &[f64], u: &[f64]| x.iter().zip(u).map(|(x, u)| x * u).sum::<f64>();
        rows.chunks_exact(self.dim)
            .flat_map(|x| vectors().map(move |u| turn(x, u)))
            .collect()
    }

    /// `U^T x` for every row `x`.
    pub(super) fn turned_back(&self, rows: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; rows.len()];
        let each = out
            .chunks_exact_mut(self.dim)
            .zip(rows.chunks_exact(self.dim));
        for (out, x) in each {
            for (x, u) in x.iter().zip(self.eigen.vectors.chunks_exact(self.dim)) {
                out.iter_mut().zip(u).for_each(|(o, u)| *o += x * u);
            }
        }
        out
    }
}

impl<K: ItemKernel> KernelRidge<K> {
    /// [`learn`](crate::StatisticsLearner::learn) for matrices `A_j = f_j C`, without ever writing them.
    ///
    /// ```text
    /// C = U^T L U:   in the coordinates U v every A_j is the diagonal f_j L, so that a product costs m d in place of m d^2
    /// ```
    ///
    /// The same steps of conjugate gradients with the same preconditioner, in turned coordinates.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the statistics are of other items, [`crate::Error::Diverged`] when the solve leaves the finite numbers, [`crate::Error::Linalg`] when the matrix has no eigenvectors
    /// to be found.
    pub fn learn_pooled(&mut self, pooled: &PooledStatistics) -> Result<()> {
        params::same_size("statistics' dim", pooled.dim(), self.dim)?;
        let n_items = self.kernel.n_items();
        params::same_size("items of the statistics", pooled.factors().len(), n_items)?;
        let axes = pooled.axes()?;
        let square: f64 = pooled.matrix().iter().map(|a| a * a).sum();
        let squares = |item: usize| pooled.factors()[item].powi(2) * square;
        let ratio = self.ratio([0.0, pooled.rhs_noise()], pooled.rhs(), squares);
        let factors = pooled.factors().iter();
        let diagonal: Vec<f64> = factors
            .flat_map(|f| axes.values().map(move |value| f * value))
            .collect();
        let inverse = self.inverse(&diagonal, ratio);
        let scale = |by: &[f64], z: &[f64], out: &mut [f64]| {
            let each = out.iter_mut().zip(z).zip(by);
            each.for_each(|((out, z), by)| *out = by * z);
        };
        let dual = self.solve(
            |z, out| scale(&diagonal, z, out),
            |r| {
                r.iter_mut().zip(&inverse).for_each(|(r, by)| *r *= by);
                Ok(())
            },
            ratio,
            (&axes.turned(pooled.rhs()), axes.turned(&self.dual)),
        )?;
        let mut along = vec![0.0; dual.len()];
        scale(&diagonal, &dual, &mut along);
        self.coefficients = axes.turned_back(&along);
        self.kernel
            .apply(self.dim, &self.coefficients, &mut self.values);
        self.dual = axes.turned_back(&dual);
        Ok(())
    }

    /// One over the diagonal of `K_jj A^2 + l A + s^2 I`.
    fn inverse(&self, diagonal: &[f64], ratio: f64) -> Vec<f64> {
        let own = |at: usize| self.kernel.diagonal(at / self.dim);
        let each = diagonal.iter().enumerate();
        each.map(|(at, a)| (own(at) * a * a + self.l2_penalty * a + ratio).recip())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_that_mean_nothing_are_refused() {
        let made = |factors: &[f64], matrix: [f64; 4], rhs: &[f64], noise| {
            PooledStatistics::new(2, factors.to_vec(), matrix.to_vec(), rhs.to_vec(), noise)
        };
        let unit = [1.0, 0.5, 0.5, 1.0];
        assert!(made(&[0.0], unit, &[1.0, -1.0], 0.0).is_ok());
        assert!(made(&[], unit, &[], 0.0).is_err());
        assert!(made(&[-1.0], unit, &[1.0, 1.0], 0.0).is_err());
        assert!(made(&[f64::NAN], unit, &[1.0, 1.0], 0.0).is_err());
        assert!(made(&[1.0], unit, &[1.0], 0.0).is_err());
        assert!(made(&[1.0], unit, &[1.0, f64::INFINITY], 0.0).is_err());
        assert!(made(&[1.0], unit, &[1.0, 1.0], -0.1).is_err());
        assert!(made(&[1.0], [1.0, 0.5, 0.4, 1.0], &[1.0, 1.0], 0.0).is_err());
        assert!(PooledStatistics::new(0, vec![1.0], Vec::new(), Vec::new(), 0.0).is_err());
    }

    #[test]
    fn axes_turn_there_and_back() {
        let matrix = vec![2.0, 1.0, 1.0, -3.0];
        let pooled = PooledStatistics::new(2, vec![1.0], matrix, vec![3.0, -1.0], 0.0).unwrap();
        let axes = pooled.axes().unwrap();
        let turned = axes.turned(pooled.rhs());
        let back = axes.turned_back(&turned);
        assert!(
            back.iter()
                .zip([3.0, -1.0])
                .all(|(a, b)| (a - b).abs() < 1e-14)
        );
        // b^T C b = 18 - 6 - 3 along all axes, and more where the negative one is left out
        let sum = |values: &[f64]| {
            turned
                .iter()
                .zip(values)
                .map(|(t, l)| l * t * t)
                .sum::<f64>()
        };
        assert!((sum(&axes.eigen.values) - 9.0).abs() < 1e-12);
        assert!(sum(&axes.values().collect::<Vec<_>>()) > 9.1);
    }
}
