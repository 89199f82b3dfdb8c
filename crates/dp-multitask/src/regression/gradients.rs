//! Clipped, weighted gradients of one user, and their release.

use dp_core::{Interactions, Private, UserRow};
use dp_mechanism::{ReleasedVector, Run, SparseBuffer, VectorContribution};

use super::loss::Loss;
use super::setup::{TaskSetup, shorten};
use crate::{Result, TaskWeights};

/// How a user's gradients are bounded. Both keep the user's whole share at norm `Gamma` or below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GradientClip {
    /// The stacked weighted gradients of all of a user's tasks, together.
    #[default]
    Joint,
    /// Each task's gradient by itself, before its weight.
    PerTask,
}

/// One user's share of the gradients of all tasks.
///
/// ```text
/// h_ij = gradient of the loss at theta_i, features shortened to Gamma_x, label clipped to Gamma_y
/// Joint:    g_ij = w_ij h_ij min(1, Gamma / sqrt(sum_i w_ij^2 ||h_ij||^2))
/// PerTask:  g_ij = w_ij h_ij min(1, Gamma / ||h_ij||)
/// ```
///
/// # Privacy
/// User `j` adds the blocks `g_ij`, one per task of the user. Joint: `sum_i ||g_ij||^2 <= Gamma^2`
/// by construction. Per task: `sum_i w_ij^2 Gamma^2 <= Gamma^2`, because `sum_i w_ij^2 <= 1`. Either
/// way the L2 sensitivity under add/remove is `Gamma`, without any assumption on the loss. Clipping
/// the sum over users instead, as Algorithm 2 is printed, would let a user with `k` tasks move it by
/// `2 Gamma sqrt(k)`.
#[allow(
    missing_debug_implementations,
    reason = "settings, weights and coefficients; print those instead"
)]
pub struct WeightedGradients<'a> {
    /// Bounds and dimension, checked.
    pub setup: &'a TaskSetup,
    /// Weights, public or released.
    pub weights: &'a TaskWeights,
    /// The loss.
    pub loss: &'a dyn Loss,
    /// Coefficients `theta_i`, public or released, shape `(n_tasks, dim)`.
    pub coefficients: &'a [f64],
    /// The bound `Gamma`, above 0.
    pub gradient_norm: f64,
    /// What is clipped.
    pub clip: GradientClip,
}

/// Working memory of one thread.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's gradients; printing them is never wanted"
)]
pub struct GradientScratch {
    features: Vec<f64>,
    weights: Vec<f64>,
    gradients: Vec<f64>,
}

impl WeightedGradients<'_> {
    /// The weighted, clipped gradients of one user, one row per record.
    fn write_gradients(&self, user: UserRow<'_>, scratch: &mut GradientScratch) {
        let dim = self.setup.dim;
        scratch.features.resize(dim, 0.0);
        scratch.weights.resize(user.len(), 0.0);
        scratch.gradients.clear();
        scratch.gradients.resize(user.len() * dim, 0.0);
        self.setup.write_features(user, &mut scratch.features);
        self.weights.weigh(user, &mut scratch.weights);
        let rows = scratch.gradients.chunks_exact_mut(dim);
        for (((task, y), &w), row) in user.iter().zip(&scratch.weights).zip(rows) {
            let theta = &self.coefficients[task as usize * dim..][..dim];
            let label = self.setup.label(y);
            self.loss.gradient(theta, &scratch.features, label, row);
            if self.clip == GradientClip::PerTask {
                shorten(row, self.gradient_norm);
            }
            row.iter_mut().for_each(|g| *g *= w);
        }
        if self.clip == GradientClip::Joint {
            shorten(&mut scratch.gradients, self.gradient_norm);
        }
    }

    /// Releases the sum over all users; `(n_tasks, dim)` noisy gradients.
    pub(super) fn release(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<ReleasedVector> {
        let shape = (self.coefficients.len(), self.gradient_norm);
        Ok(run.vector(data, shape, self)?)
    }
}

impl VectorContribution for WeightedGradients<'_> {
    type Scratch = GradientScratch;

    fn scratch(&self) -> GradientScratch {
        GradientScratch::default()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut GradientScratch, out: &mut SparseBuffer) {
        self.write_gradients(user, scratch);
        let dim = self.setup.dim;
        let rows = scratch.gradients.chunks_exact(dim);
        for ((&task, row), &w) in user.items().iter().zip(rows).zip(&scratch.weights) {
            if w > 0.0 {
                for (k, &g) in row.iter().enumerate() {
                    out.push(coordinate(task, dim, k), g);
                }
            }
        }
    }
}

/// Place of coordinate `k` of a task. Settings are checked so that all places fit.
#[allow(
    clippy::cast_possible_truncation,
    reason = "dim is at most 256 and n_tasks * dim below 2^32, both checked when planning"
)]
const fn coordinate(task: u32, dim: usize, k: usize) -> u32 {
    task * dim as u32 + k as u32
}
