//! Public bounds on what a unit brings.

use dp_core::{Interactions, Private, UserRow, params};

use super::{ExampleWeights, ProtectedUnit};
use crate::features::in_public_range;
use crate::{Error, Result};

/// Public settings of the problem: examples `(u, item, y)` with given vectors `u` and item vectors `v_j` to be learned,
/// `y ~ <u, v_j>`.
///
/// The vectors `u` are the features of the table's users, each made from its user's own data and public or released values only (where records are units: not from the records). Magnitudes must lie between 1e-6 and 1e6.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSetup {
    /// Length `d` of the vectors, 1 to 256.
    pub dim: usize,
    /// Bound `Gamma_u` on the norm of `u`; longer vectors are shortened to it.
    pub user_norm: f64,
    /// Bound `Gamma_y` on a label, data units; larger ones are clipped to it.
    pub label_bound: f64,
    /// Bound `B` on the weighted norm `sqrt(sum_j w_kj^2 y_kj^2)` of a unit's labels, data units; a unit above it has all labels scaled
    /// down together. At `label_bound` and above it never acts.
    pub label_norm: f64,
    /// How a unit's budget is spread over its items.
    pub weights: ExampleWeights,
    /// What is protected.
    pub unit: ProtectedUnit,
}

impl ProblemSetup {
    /// Vectors in the unit ball, labels up to `label_bound`, all items alike, users protected.
    #[must_use]
    pub fn new(dim: usize, label_bound: f64) -> Self {
        Self {
            dim,
            user_norm: 1.0,
            label_bound,
            label_norm: label_bound,
            weights: ExampleWeights::equal(),
            unit: ProtectedUnit::User,
        }
    }

    /// The same problem with single records protected, weight 1 each, as in Theorem 1; not with users' vectors: [`ProtectedUnit::Example`] says what that means.
    #[must_use]
    pub fn example_level(mut self) -> Self {
        self.unit = ProtectedUnit::Example;
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(&self) -> Result<()> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        in_public_range("user_norm", self.user_norm)?;
        in_public_range("label_bound", self.label_bound)?;
        in_public_range("label_norm", self.label_norm)?;
        self.weights.check()
    }

    /// `min(B, Gamma_y)`: what a unit's weighted labels can amount to.
    #[must_use]
    pub const fn label_reach(&self) -> f64 {
        self.label_norm.min(self.label_bound)
    }

    /// The table must have vectors of the right length and this many items: its public shape.
    pub(crate) fn check_table(&self, data: &Private<Interactions>, n_items: usize) -> Result<()> {
        let data = data.expose();
        params::same_size("users' vectors", data.feature_dim(), self.dim)?;
        params::same_size("items of the table", data.n_items(), n_items)?;
        self.weights.check_items(n_items)
    }

    /// The same for a table whose users' vectors are fitted on all of their ratings: only users can be units then.
    pub(crate) fn check_ratings(
        &self,
        data: &Private<Interactions>,
        (n_items, dim): (usize, usize),
    ) -> Result<()> {
        if self.unit != ProtectedUnit::User {
            return Err(Error::Unsupported {
                what: "single examples as units where users' vectors are fitted on all of theirs",
            });
        }
        params::same_size("model's dim", dim, self.dim)?;
        params::same_size("items of the table", data.expose().n_items(), n_items)?;
        self.weights.check_items(n_items)
    }

    /// `u`, shortened to norm `Gamma_u`.
    pub(crate) fn write_vector(&self, unit: UserRow<'_>, out: &mut [f64]) {
        out.fill(0.0);
        for (out, &x) in out.iter_mut().zip(unit.features()) {
            *out = x.into();
        }
        shorten(out, self.user_norm);
    }

    pub(crate) fn label(&self, y: f32) -> f64 {
        f64::from(y).clamp(-self.label_bound, self.label_bound)
    }
}

/// Scales a vector down to norm `bound`; one that is not finite, to zero.
pub(crate) fn shorten(vector: &mut [f64], bound: f64) {
    let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    if !norm.is_finite() {
        vector.fill(0.0);
    } else if norm > bound {
        let scale = bound / norm;
        vector.iter_mut().for_each(|v| *v *= scale);
    }
}
