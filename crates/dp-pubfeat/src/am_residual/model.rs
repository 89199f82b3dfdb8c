//! What the rounds leave, and what users do with it.

use dp_core::{UserRow, params};

use super::user_step::LevelStepScratch;
use super::{FeatureWeights, LevelStep};
use crate::features::check_items;
use crate::{PersonalVector, Result};

/// Item vectors that anyone may see, the weights of features they come from, and how users fold in.
///
/// ```text
/// rating of user k for item j:   label_center + l_k + h_j + <q_j, u_k>,    [h_j, q_j] the item's vector, (l_k, u_k) by LevelStep
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureModel {
    item_vectors: Vec<f64>,
    weights: FeatureWeights,
    user_step: LevelStep,
}

impl FeatureModel {
    /// A model of these item vectors, shape `(m, d)`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for shapes that do not fit, [`crate::Error::Param`] for numbers that are not finite or out of range.
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
        self.item_vectors.len() / self.weights.dim()
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
    pub const fn user_step(&self) -> &LevelStep {
        &self.user_step
    }

    /// A user's level and `[1, u]`, seen in training or not: predicts by [`PersonalVector::predict`], items that were not in the run included.
    ///
    /// # Privacy
    /// Local: a function of the user's own ratings and released item vectors.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the user has an item that the model does not have.
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

    /// Predicted rating of an item of the run, data units.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn predict(&self, user: &PersonalVector, item: usize) -> f64 {
        user.predict(&self.item_vectors[item * self.dim()..][..self.dim()])
    }
}
