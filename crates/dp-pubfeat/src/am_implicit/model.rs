//! What the rounds leave, and what users do with it.

use dp_core::{UserRow, params};

use super::LikesStep;
use super::contribution::LikesDesign;
use crate::features::check_items;
use crate::{FeatureWeights, PersonalVector, Result};

/// Item vectors that anyone may see, the weights of features they come from, and how users fold in.
///
/// ```text
/// score of item j for user k:   l_k + h_j + <q_j, u_k>,    [h_j, q_j] the item's vector, (l_k, u_k) by LikesStep
/// ```
#[derive(Debug, Clone)]
pub struct LikesModel {
    item_vectors: Vec<f64>,
    weights: FeatureWeights,
    user_step: LikesStep,
    design: LikesDesign,
    totals: (Vec<f64>, f64),
}

impl LikesModel {
    /// A model of these item vectors, shape `(m, d)`, and released total weights of the items with the standard deviation of their noise.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for shapes that do not fit, [`crate::Error::Param`] for numbers that are not finite or out of range.
    pub fn new(
        item_vectors: Vec<f64>,
        weights: FeatureWeights,
        user_step: LikesStep,
        totals: (Vec<f64>, f64),
    ) -> Result<Self> {
        user_step.check()?;
        let dim = weights.dim();
        params::at_least_one("number of item vectors", item_vectors.len())?;
        params::same_size("item vectors", item_vectors.len(), totals.0.len() * dim)?;
        for &v in item_vectors.iter().chain(&totals.0).chain([&totals.1]) {
            params::finite("item vector or total weight", v)?;
        }
        Ok(Self {
            design: LikesDesign::new(&user_step, &item_vectors, dim)?,
            item_vectors,
            weights,
            user_step,
            totals,
        })
    }

    /// Length `d` of item vectors.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.weights.dim()
    }

    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.totals.0.len()
    }

    /// Rows `[h_j, q_j]`, a bias and `d - 1` tastes, shape `(m, d)`.
    #[must_use]
    pub fn item_vectors(&self) -> &[f64] {
        &self.item_vectors
    }

    /// For items that were not in the run: [`FeatureWeights::vector`].
    #[must_use]
    pub const fn weights(&self) -> &FeatureWeights {
        &self.weights
    }

    /// What users do.
    #[must_use]
    pub const fn user_step(&self) -> &LikesStep {
        &self.user_step
    }

    /// Released total weights of the items, `sum_k w_kj` over the users who like them, 0 and below included: how popular they are.
    #[must_use]
    pub fn total_weights(&self) -> &[f64] {
        &self.totals.0
    }

    /// Standard deviation of the noise in a total weight.
    #[must_use]
    pub const fn total_weights_noise(&self) -> f64 {
        self.totals.1
    }

    /// A user's level and `[1, u]`, seen in training or not; 0 for a user who likes nothing.
    ///
    /// # Privacy
    /// Local: a function of the user's own records and released item vectors.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the user has an item that the model does not have.
    pub fn fold_in(&self, user: UserRow<'_>) -> Result<PersonalVector> {
        check_items(user.items(), self.n_items())?;
        let own = &mut self.design.scratch();
        let mut vector = self.design.solve(user, own).to_vec();
        let level = std::mem::replace(&mut vector[0], 1.0);
        Ok(PersonalVector { level, vector })
    }

    /// Score of an item of the run: ranks items, and means nothing by itself.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn score(&self, user: &PersonalVector, item: usize) -> f64 {
        user.predict(&self.item_vectors[item * self.dim()..][..self.dim()])
    }
}
