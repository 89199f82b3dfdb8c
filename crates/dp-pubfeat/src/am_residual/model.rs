//! The model after the rounds: item vectors, the linear encoder that corresponds to them, and the
//! users' fold-in.

use dp_core::{ParamError, UserRow, params};

use super::LevelStep;
use super::contribution::LevelStepScratch;
use super::errors::{FeatureErrors, LastSolve};
use crate::features::{below, check_items, to_unit_norm};
use crate::{PersonalVector, Result};

/// Item vectors that anyone may see, the feature weights that they come from, and the users'
/// fold-in.
///
/// ```text
/// rating of user k for item j:   label_center + l_k + h_j + <q_j, u_k>,    [h_j, q_j] the item's vector, (l_k, u_k) by LevelStep
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureModel {
    item_vectors: Vec<f64>,
    weights: FeatureWeights,
    user_step: LevelStep,
    last_solve: Option<LastSolve>,
}

impl FeatureModel {
    /// A model of these item vectors, shape `(m, d)`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for shapes that do not match, [`crate::Error::Param`] for numbers
    /// that are not finite or out of range.
    pub fn new(
        item_vectors: Vec<f64>,
        weights: FeatureWeights,
        user_step: LevelStep,
    ) -> Result<Self> {
        user_step.check()?;
        params::at_least_one("number of item vectors", item_vectors.len())?;
        params::same_size("item vectors", item_vectors.len() % weights.dim(), 0)?;
        for &v in &item_vectors {
            params::finite("item vector", v)?;
        }
        Ok(Self {
            item_vectors,
            weights,
            user_step,
            last_solve: None,
        })
    }

    pub(super) fn with_last_solve(mut self, last_solve: Option<LastSolve>) -> Self {
        self.last_solve = last_solve;
        self
    }

    /// Standard errors of item vectors and weights of features, computed by this call; `None` for a
    /// model that does not come from a run.
    ///
    /// # Errors
    /// [`crate::Error::Diverged`] or [`crate::Error::Linalg`] when a solve fails.
    pub fn standard_errors(&self) -> Result<Option<FeatureErrors>> {
        self.last_solve.as_ref().map(LastSolve::errors).transpose()
    }

    /// Length `d` of item vectors.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.weights.dim()
    }

    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.item_vectors.len() / self.weights.dim()
    }

    /// Rows `[h_j, q_j]`, a bias and `d - 1` taste factors, shape `(m, d)`.
    #[must_use]
    pub fn item_vectors(&self) -> &[f64] {
        &self.item_vectors
    }

    /// Weights of features, for items that were not in the run: [`FeatureWeights::vector`].
    #[must_use]
    pub const fn weights(&self) -> &FeatureWeights {
        &self.weights
    }

    /// The user step.
    #[must_use]
    pub const fn user_step(&self) -> &LevelStep {
        &self.user_step
    }

    /// A user's level and `[1, u]`, whether or not the user was in training. Predict with
    /// [`PersonalVector::predict`], also for items that were not in the run.
    ///
    /// # Privacy
    /// Local: a function of the user's own ratings and released item vectors.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the user has an item that is not in the model.
    pub fn fold_in(&self, user: UserRow<'_>) -> Result<PersonalVector> {
        check_items(user.items(), self.n_items())?;
        let scratch = &mut LevelStepScratch::default();
        let solved = self
            .user_step
            .solve(&self.item_vectors, self.dim(), user, scratch);
        let level = self.user_step.label_center + solved[0];
        let mut vector = solved.to_vec();
        vector[0] = 1.0;
        Ok(PersonalVector { level, vector })
    }

    /// Predicted rating of an item of the run, in data units.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn predict(&self, user: &PersonalVector, item: usize) -> f64 {
        user.predict(&self.item_vectors[item * self.dim()..][..self.dim()])
    }
}

/// The contribution of each public feature to an item's vector.
///
/// ```text
/// v = shared + sum_c sum_f (w_f / ||w||_c) theta_f        f over the item's features in category c, ||w||_c their norm there
/// ```
///
/// # Privacy
/// Released, like the item vectors.
///
/// # Examples
/// ```
/// use dp_pubfeat::FeatureWeights;
/// // 2 genres and 1 decade, vectors of length 1
/// let weights = FeatureWeights::new(1, &[2, 1], vec![0.5], vec![1.0, 2.0, -1.0])?;
/// assert_eq!(weights.vector(&[(1, 1.0), (2, 1.0)])?, [1.5]);
/// assert_eq!(weights.vector(&[])?, [0.5]); // nothing is known of it
/// assert!(weights.vector(&[(3, 1.0)]).is_err());
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureWeights {
    dim: usize,
    /// End of each category.
    ends: Vec<usize>,
    shared: Vec<f64>,
    /// `(p, dim)`.
    features: Vec<f64>,
    /// Standard errors in the same shapes, if they are known.
    errors: Option<[Vec<f64>; 2]>,
}

impl FeatureWeights {
    /// From the part that all items share, shape `(dim)`, and the weights of features, shape
    /// `(p, dim)`, category by category.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for shapes that do not match, [`crate::Error::Param`] for numbers
    /// that are not finite.
    pub fn new(
        dim: usize,
        category_sizes: &[usize],
        shared: Vec<f64>,
        features: Vec<f64>,
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        let ends: Vec<usize> = category_sizes
            .iter()
            .scan(0_usize, |end, size| {
                *end = end.saturating_add(*size);
                Some(*end)
            })
            .collect();
        let n_features = ends.last().copied().unwrap_or(0);
        params::same_size("shared part", shared.len(), dim)?;
        let expected = n_features.saturating_mul(dim);
        params::same_size("weights of features", features.len(), expected)?;
        for &weight in shared.iter().chain(&features) {
            params::finite("weight of a feature", weight)?;
        }
        Ok(Self {
            dim,
            ends,
            shared,
            features,
            errors: None,
        })
    }

    /// The same weights with their standard errors: of the vector of an item without features, shape
    /// `(dim)`, and of the weights of features, shape `(p, dim)`, as in
    /// [`FeatureErrors`](crate::FeatureErrors).
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for shapes that do not match, [`crate::Error::Param`] for numbers
    /// that are negative or not finite.
    pub fn with_standard_errors(mut self, shared: Vec<f64>, features: Vec<f64>) -> Result<Self> {
        params::same_size("shared part", shared.len(), self.shared.len())?;
        params::same_size("weights of features", features.len(), self.features.len())?;
        for &error in shared.iter().chain(&features) {
            params::finite_non_negative("standard error", error)?;
        }
        self.errors = Some([shared, features]);
        Ok(self)
    }

    /// Standard errors of the shared part and of the weights of features, if they are known.
    #[must_use]
    pub fn standard_errors(&self) -> Option<(&[f64], &[f64])> {
        let [shared, features] = self.errors.as_ref()?;
        Some((shared, features))
    }

    /// Length of vectors.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Number of features `p`.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The part that all items that were not in the run have in common.
    #[must_use]
    pub fn shared(&self) -> &[f64] {
        &self.shared
    }

    /// All weights of features, shape `(p, dim)`.
    pub(crate) fn features(&self) -> &[f64] {
        &self.features
    }

    /// The contribution of one feature.
    ///
    /// # Panics
    /// When there is no such feature.
    #[must_use]
    pub fn feature(&self, feature: usize) -> &[f64] {
        &self.features[feature * self.dim..][..self.dim]
    }

    /// The vector of an item that was not in the run, or that has no ratings, from its features and
    /// their weights, each feature once, in any order. Unknown feature names have no number, and
    /// the caller must leave them out; an item without features gets the shared part.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for a feature that does not exist, [`crate::Error::Param`] for a weight that is not finite and above 0.
    pub fn vector(&self, features: &[(u32, f64)]) -> Result<Vec<f64>> {
        let units = self.units(features)?;
        let vector = self.sum(&self.shared, &self.features, &units, |x| x);
        if vector.iter().all(|v| v.is_finite()) {
            return Ok(vector);
        }
        Err(ParamError {
            name: "vector of an item",
            value: f64::NAN,
            expected: "finite numbers: smaller weights",
        }
        .into())
    }

    /// Standard errors of [`vector`](Self::vector), `None` if those of the weights are not known.
    /// Errors of different features count as uncorrelated. Weights learned from the same sums tend
    /// to have negatively correlated errors, so these are rather too large.
    ///
    /// # Errors
    /// As [`vector`](Self::vector).
    pub fn vector_errors(&self, features: &[(u32, f64)]) -> Result<Option<Vec<f64>>> {
        let units = self.units(features)?;
        Ok(self.errors.as_ref().map(|[shared, of_features]| {
            let squares: Vec<f64> = shared.iter().map(|e| e * e).collect();
            let sums = self.sum(&squares, of_features, &units, |x| x * x);
            sums.iter().map(|square| square.sqrt()).collect()
        }))
    }

    /// Features with weights of norm 1 in each category.
    fn units(&self, features: &[(u32, f64)]) -> Result<Vec<(u32, f64)>> {
        let category = |f: u32| self.ends.partition_point(|end| *end <= f as usize);
        let mut by_category = vec![Vec::new(); self.ends.len()];
        for &(feature, weight) in features {
            below("feature", feature, self.n_features())?;
            params::finite_positive("weight", weight)?;
            by_category[category(feature)].push((feature, weight));
        }
        let units = by_category.into_iter().flat_map(|own| {
            let unit: Vec<f64> = to_unit_norm(own.iter().map(|&(_, w)| w)).collect();
            own.into_iter().zip(unit).map(|((f, _), w)| (f, w))
        });
        Ok(units.collect())
    }

    /// `first + sum_f of(w_f) of(rows_f)`.
    fn sum(
        &self,
        first: &[f64],
        rows: &[f64],
        units: &[(u32, f64)],
        of: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let mut out = first.to_vec();
        for &(feature, scale) in units {
            let row = &rows[feature as usize * self.dim..][..self.dim];
            let each = out.iter_mut().zip(row);
            each.for_each(|(out, x)| *out += of(scale) * of(*x));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_count_by_their_ratios_however_small_or_large() {
        let weights = FeatureWeights::new(1, &[2], vec![0.0], vec![1.0, 10.0]).unwrap();
        // (3 * 1 + 4 * 10) / 5; squares of these units under- and overflow
        for unit in [1e-300, 1.0, 1e300] {
            let vector = weights.vector(&[(0, 3.0 * unit), (1, 4.0 * unit)]).unwrap();
            assert!((vector[0] - 8.6).abs() < 1e-12, "{unit}: {vector:?}");
        }
    }

    #[test]
    fn errors_of_an_item_add_up_in_squares() {
        let weights = FeatureWeights::new(1, &[2, 1], vec![0.0], vec![1.0, 10.0, 2.0]).unwrap();
        let features = [(0, 3.0), (1, 4.0), (2, 9.0)];
        assert_eq!(weights.vector_errors(&features).unwrap(), None);
        assert!(
            { weights.clone() }
                .with_standard_errors(vec![0.1], vec![1.0; 2])
                .is_err()
        );
        assert!(
            { weights.clone() }
                .with_standard_errors(vec![-0.1], vec![1.0; 3])
                .is_err()
        );
        let weights = weights
            .with_standard_errors(vec![0.3], vec![1.0, 0.5, 0.2])
            .unwrap();
        // .3^2 + (.6 * 1)^2 + (.8 * .5)^2 + .2^2
        let found = weights.vector_errors(&features).unwrap().unwrap();
        assert!((found[0] - 0.65_f64.sqrt()).abs() < 1e-12, "{found:?}");
    }
}
