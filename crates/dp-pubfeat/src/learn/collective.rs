//! One vector per item that explains both its ratings and its public features: the item step of
//! DP-CMF.

use std::sync::Arc;

use dp_core::{parallel, params};
use dp_linalg::{SymmetricEigen, cholesky_in_place, cholesky_solve_in_place, symmetric_eigen};

use super::{KernelRidge, StatisticsLearner, check_shape, finite};
use crate::features::{ItemKernel, in_public_range};
use crate::{Error, ItemFeatures, ItemStatistics, Result};

/// Settings of [`CollectiveFactorization`]. All are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveParams {
    /// Weight `g` of a cell of the feature matrix relative to one of the ratings, in units of the statistics, from 1e-6 to 1e6.
    pub feature_weight: f64,
    /// Ridge `l` on the vectors of items and features, from 1e-6 to 1e6.
    pub l2_penalty: f64,
    /// Number of alternating solves of features and items after each release, 1 to 1000.
    pub n_sweeps: usize,
}

impl CollectiveParams {
    /// Settings with the two weights, which depend on the scale of the statistics and therefore
    /// have no sensible default, and ten sweeps.
    #[must_use]
    pub const fn new(feature_weight: f64, l2_penalty: f64) -> Self {
        Self {
            feature_weight,
            l2_penalty,
            n_sweeps: 10,
        }
    }
}

/// DP-CMF: the ratings and the public matrix of items and features are factorised together, with
/// one vector for each item.
///
/// ```text
/// min over v, phi   sum_j (v_j^T A_j v_j / 2 - b_j^T v_j) + g/2 sum_{j,f} (x_jf - <v_j, phi_f>)^2 + l/2 (sum_j ||v_j||^2 + sum_f ||phi_f||^2)
///
/// phi_f = (g V^T V + l I)^-1 g sum_j x_jf v_j                                  features, at the items' vectors
/// v_j   = (PSD(A_j) + g Phi^T Phi + l I)^-1 (b_j + g sum_f x_jf phi_f)         items, at the features' vectors
/// ```
///
/// The second sum is over all cells, including those with 0. It contains public and released
/// numbers only, so only `A_j` and `b_j` cost privacy, as without features. With
/// [`AmSsp`](crate::AmSsp) this is the whole method.
///
/// Source: Curmei et al. 2023, as described in Krichene et al. 2024, section 4.1: "factorizes a
/// concatenation of the rating matrix and the public feature matrix".
#[derive(Debug, Clone, PartialEq)]
pub struct CollectiveFactorization {
    features: Arc<ItemFeatures>,
    params: CollectiveParams,
    dim: usize,
    /// `v`, shape `(m, d)`.
    values: Vec<f64>,
}

impl CollectiveFactorization {
    /// A learner that starts at these item vectors, shape `(m, dim)`. Vectors that are all 0 would
    /// stay 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a setting out of range or a vector that is not finite, [`crate::Error::Shape`] for vectors of another number of items.
    pub fn new(
        features: Arc<ItemFeatures>,
        dim: usize,
        first: Vec<f64>,
        settings: CollectiveParams,
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        in_public_range("feature_weight", settings.feature_weight)?;
        in_public_range("l2_penalty", settings.l2_penalty)?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_sweeps", settings.n_sweeps, 1, 1000, range)?;
        params::same_size("first item vectors", first.len(), features.n_items() * dim)?;
        for &v in &first {
            params::finite("first item vector", v)?;
        }
        Ok(Self {
            features,
            params: settings,
            dim,
            values: first,
        })
    }

    /// `g V^T V + l I` for rows `V`.
    fn ridge(&self, rows: &[f64]) -> Vec<f64> {
        let (dim, g) = (self.dim, self.params.feature_weight);
        let mut gram = vec![0.0; dim * dim];
        for row in rows.chunks_exact(dim) {
            for (cells, x) in gram.chunks_exact_mut(dim).zip(row) {
                cells.iter_mut().zip(row).for_each(|(c, y)| *c += g * x * y);
            }
        }
        let diagonal = gram.iter_mut().step_by(dim + 1);
        diagonal.for_each(|c| *c += self.params.l2_penalty);
        gram
    }

    /// All `phi_f`, shape `(p, d)`.
    fn feature_vectors(&self) -> Result<Vec<f64>> {
        let dim = self.dim;
        let mut factor = self.ridge(&self.values);
        cholesky_in_place(&mut factor, dim)?;
        let mut sums = vec![0.0; self.features.n_features() * dim];
        for (item, v) in self.values.chunks_exact(dim).enumerate() {
            for (feature, x) in self.features.item(item) {
                let sum = &mut sums[feature as usize * dim..][..dim];
                let scale = self.params.feature_weight * x;
                sum.iter_mut().zip(v).for_each(|(s, v)| *s += scale * v);
            }
        }
        parallel::try_for_each(
            sums.chunks_exact_mut(dim),
            || Ok(()),
            |(), sum| cholesky_solve_in_place(&factor, dim, sum),
        )?;
        Ok(sums)
    }

    /// All `v_j` given these `phi_f`; the matrices must be semidefinite.
    fn solve_items(&mut self, statistics: &ItemStatistics, phi: &[f64]) -> Result<()> {
        let (dim, g) = (self.dim, self.params.feature_weight);
        let (shared, features) = (self.ridge(phi), &self.features);
        let each = self.values.chunks_exact_mut(dim).enumerate();
        parallel::try_for_each(
            each,
            || Ok(()),
            |(), (item, v)| {
                let cells = statistics.matrix(item).iter().zip(&shared);
                let mut matrix: Vec<f64> = cells.map(|(a, s)| a + s).collect();
                v.copy_from_slice(statistics.rhs(item));
                for (feature, x) in features.item(item) {
                    let phi = &phi[feature as usize * dim..][..dim];
                    v.iter_mut().zip(phi).for_each(|(v, p)| *v += g * x * p);
                }
                cholesky_in_place(&mut matrix, dim)?;
                Ok(cholesky_solve_in_place(&matrix, dim, v)?)
            },
        )
    }
}

impl StatisticsLearner for CollectiveFactorization {
    fn n_items(&self) -> usize {
        self.features.n_items()
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()> {
        check_shape(self, statistics)?;
        let mut projected = statistics.clone();
        projected.project_psd()?;
        for _ in 0..self.params.n_sweeps {
            let phi = self.feature_vectors()?;
            self.solve_items(&projected, &phi)?;
        }
        finite(&self.values)
    }

    fn item_vectors(&self) -> Result<Vec<f64>> {
        Ok(self.values.clone())
    }
}

/// [`ItemStatistics`](crate::ItemStatistics) with `A_j = f_j C`: one matrix for all items, and for
/// each item a factor and a right-hand side.
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
    /// Statistics from numbers that are public or released: `factors` of shape `(m)`, 0 or above,
    /// `matrix` of shape `(dim, dim)`, symmetric, `rhs` of shape `(m, dim)`, and the standard
    /// deviation of the noise on an entry of `rhs`. Negative eigenvalues of the matrix count as 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] or [`crate::Error::Shape`] for shapes that do not match, or numbers
    /// that are not finite or below 0; [`crate::Error::Unsupported`] for a matrix that is not
    /// symmetric.
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

    /// The eigenvectors of `C`.
    pub(super) fn axes(&self) -> Result<Axes> {
        let eigen = symmetric_eigen(&self.matrix, self.dim)?;
        Ok(Axes {
            dim: self.dim,
            eigen,
        })
    }
}

/// `C = U^T diag(values) U`, rows of `U` orthonormal.
#[derive(Clone)]
pub(super) struct Axes {
    dim: usize,
    eigen: SymmetricEigen,
}

impl Axes {
    pub(super) fn into_eigen(self) -> SymmetricEigen {
        self.eigen
    }

    /// Eigenvalues, with negative ones replaced by 0.
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
    /// [`learn`](crate::StatisticsLearner::learn) for matrices `A_j = f_j C`, without forming them.
    ///
    /// ```text
    /// C = U^T L U:   in the coordinates U v every A_j is the diagonal f_j L, so a product costs m d instead of m d^2
    /// ```
    ///
    /// Makes the same conjugate-gradient steps with the same preconditioner, in rotated
    /// coordinates.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the statistics are of other items, [`crate::Error::Diverged`]
    /// when the solve produces numbers that are not finite, [`crate::Error::Linalg`] when the
    /// eigendecomposition of the matrix fails.
    pub fn learn_pooled(&mut self, pooled: &PooledStatistics) -> Result<()> {
        params::same_size("statistics' dim", pooled.dim(), self.dim)?;
        let n_items = self.kernel.n_items();
        params::same_size("items of the statistics", pooled.factors().len(), n_items)?;
        let axes = pooled.axes()?;
        let [ratio, _] = self.assumed_of_pooled(pooled);
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

    /// `s^2` and `t^2` for these statistics.
    pub(super) fn assumed_of_pooled(&self, pooled: &PooledStatistics) -> [f64; 2] {
        let square: f64 = pooled.matrix().iter().map(|a| a * a).sum();
        let squares = |item: usize| pooled.factors()[item].powi(2) * square;
        self.assumed([0.0, pooled.rhs_noise()], pooled.rhs(), squares)
    }

    /// The inverse of the diagonal of `K_jj A^2 + l A + s^2 I`.
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
        // b^T C b = 18 - 6 - 3 along all axes, and more if the negative one is left out
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
