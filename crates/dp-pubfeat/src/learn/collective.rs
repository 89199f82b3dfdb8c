//! Items that explain ratings and their public features with one vector: the item step of DP-CMF.

use std::sync::Arc;

use dp_core::params;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};
use rayon::prelude::*;

use super::{StatisticsLearner, check_shape, finite};
use crate::features::in_public_range;
use crate::{ItemFeatures, ItemStatistics, Result};

/// Settings of [`CollectiveFactorization`]. All are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveParams {
    /// Weight `g` of a cell of the feature matrix relative to one of the ratings, in units of the statistics, from 1e-6 to 1e6.
    pub feature_weight: f64,
    /// Ridge `l` on the vectors of items and features, from 1e-6 to 1e6.
    pub l2_penalty: f64,
    /// How often features and items are solved in turn after a release, 1 to 1000.
    pub n_sweeps: usize,
}

impl CollectiveParams {
    /// With the two weights that depend on the scale of the statistics, for which there is no honest default, and ten sweeps.
    #[must_use]
    pub const fn new(feature_weight: f64, l2_penalty: f64) -> Self {
        Self {
            feature_weight,
            l2_penalty,
            n_sweeps: 10,
        }
    }
}

/// DP-CMF: the ratings and the public matrix of items and features are factorised together, with one vector for each item.
///
/// ```text
/// min over v, phi   sum_j (v_j^T A_j v_j / 2 - b_j^T v_j) + g/2 sum_{j,f} (x_jf - <v_j, phi_f>)^2 + l/2 (sum_j ||v_j||^2 + sum_f ||phi_f||^2)
///
/// phi_f = (g V^T V + l I)^-1 g sum_j x_jf v_j                                  features, at the items' vectors
/// v_j   = (PSD(A_j) + g Phi^T Phi + l I)^-1 (b_j + g sum_f x_jf phi_f)         items, at the features' vectors
/// ```
///
/// The second sum goes over all cells, those with 0 too. It has public and released numbers in it and nothing else, so that only `A_j` and `b_j` cost privacy, as without features. With
/// [`AmSsp`](crate::AmSsp) this is the whole method.
///
/// Source: Curmei et al. 2023, as far as Krichene et al. 2024, section 4.1, say what it is: "factorizes a concatenation of the rating matrix and the public feature matrix".
#[derive(Debug, Clone, PartialEq)]
pub struct CollectiveFactorization {
    features: Arc<ItemFeatures>,
    params: CollectiveParams,
    dim: usize,
    /// `v`, shape `(m, d)`.
    values: Vec<f64>,
}

impl CollectiveFactorization {
    /// A learner that starts at these item vectors, shape `(m, dim)`; all 0 would stay 0 without a release.
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

    /// `g V^T V + l I` of some rows.
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
        sums.par_chunks_exact_mut(dim)
            .try_for_each(|sum| cholesky_solve_in_place(&factor, dim, sum))?;
        Ok(sums)
    }

    /// All `v_j` at these `phi_f`; matrices semidefinite.
    fn solve_items(&mut self, statistics: &ItemStatistics, phi: &[f64]) -> Result<()> {
        let (dim, g) = (self.dim, self.params.feature_weight);
        let (shared, features) = (self.ridge(phi), &self.features);
        let each = self.values.par_chunks_exact_mut(dim).enumerate();
        each.try_for_each(|(item, v)| -> Result<()> {
            let cells = statistics.matrix(item).iter().zip(&shared);
            let mut matrix: Vec<f64> = cells.map(|(a, s)| a + s).collect();
            v.copy_from_slice(statistics.rhs(item));
            for (feature, x) in features.item(item) {
                let phi = &phi[feature as usize * dim..][..dim];
                v.iter_mut().zip(phi).for_each(|(v, p)| *v += g * x * p);
            }
            cholesky_in_place(&mut matrix, dim)?;
            Ok(cholesky_solve_in_place(&matrix, dim, v)?)
        })
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
