//! What each user adds to sufficient statistics, to the one Gramian of all tasks and to the tasks' total weights.

use dp_accounting::ReleaseRequest;
use dp_core::{Interactions, Private, ReplaceFactor, UserRow};
use dp_linalg::{packed_len, project_psd_in_place, unpack_symmetric};
use dp_mechanism::{
    FactorBuffer, FactorContribution, GramGrids, GramSums, ReleasedVector, Run, SparseBuffer,
    VectorContribution,
};

use super::setup::TaskSetup;
use crate::{Result, TaskWeights};

/// One user's share of the statistics of all tasks.
///
/// ```text
/// x_j  = features, shortened to norm Gamma_x
/// y_ij = clip(label, Gamma_y), then all of a user's labels scaled so that sum_i w_ij^2 y_ij^2 <= B^2
/// A_i += w_ij x_j x_j^T,   b_i += w_ij y_ij x_j,   sum_i w_ij^2 <= 1
/// ```
///
/// # Privacy
/// Adding or removing user `j` changes the stacked matrices by the blocks `w_ij x_j x_j^T`, each
/// of Frobenius norm `w_ij ||x_j||^2`, and every task has its own block. So
///
/// ```text
/// matrices:          sqrt(sum_i w_ij^2 ||x_j||^4)        <= Gamma_x^2
/// right-hand sides:  sqrt(sum_i w_ij^2 y_ij^2 ||x_j||^2) <= Gamma_x min(B, Gamma_y)
/// ```
///
/// No regulariser is part of the sums: `lambda I` in each user's share would add the terms
/// `lambda (2 ||x||^2 + d lambda)` to the first bound and print the weighted count of each task
/// on its diagonal.
#[allow(
    missing_debug_implementations,
    reason = "settings and weights; print those instead"
)]
pub struct SspStatistics<'a> {
    setup: &'a TaskSetup,
    weights: &'a TaskWeights,
}

impl<'a> SspStatistics<'a> {
    /// The contribution for checked settings, and weights that are public or released.
    #[must_use]
    pub const fn new(setup: &'a TaskSetup, weights: &'a TaskWeights) -> Self {
        Self { setup, weights }
    }

    /// Grids with the sensitivities above.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when a noise multiplier does not fit a grid.
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        let norm = self.setup.feature_norm;
        let rhs_clip = norm * self.setup.label_reach();
        Ok(GramGrids::new(
            matrix_noise,
            norm * norm,
            rhs_noise,
            rhs_clip,
        )?)
    }
}

impl FactorContribution for SspStatistics<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn dim(&self) -> usize {
        self.setup.dim
    }

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
        self.setup.write_features(user, &mut out.factor);
        self.weights.weigh(user, &mut out.weights);
        let mut total = 0.0;
        for ((label, &y), w) in out.labels.iter_mut().zip(user.values()).zip(&out.weights) {
            *label = self.setup.label(y);
            total += (w * *label) * (w * *label);
        }
        let norm = total.sqrt();
        if norm > self.setup.label_norm {
            let scale = self.setup.label_norm / norm;
            out.labels.iter_mut().for_each(|label| *label *= scale);
        }
    }
}

/// The two requests of a Gram release, `share` of the budget between them.
pub(super) fn gram_requests(
    name: &str,
    dim: usize,
    n_tasks: usize,
    matrix_share: f64,
    share: f64,
) -> Vec<ReleaseRequest> {
    vec![
        ReleaseRequest::new(
            format!("{name} matrices"),
            share * matrix_share,
            ReplaceFactor::SqrtTwo,
            GramSums::matrix_draws(n_tasks, dim),
        ),
        ReleaseRequest::new(
            format!("{name} right-hand sides"),
            share * (1.0 - matrix_share),
            ReplaceFactor::Two,
            GramSums::rhs_draws(n_tasks, dim),
        ),
    ]
}

/// One user's share of the total weight of every task, `W_i = sum_j w_ij`.
///
/// # Privacy
/// User `j` adds the vector `(w_ij)_i`, whose norm is at most 1 by the allocation.
#[allow(missing_debug_implementations, reason = "weights; print those instead")]
pub struct WeightTotals<'a> {
    /// Length of the features.
    pub dim: usize,
    /// Weights, public or released.
    pub weights: &'a TaskWeights,
}

impl VectorContribution for WeightTotals<'_> {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        Vec::new()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut Vec<f64>, out: &mut SparseBuffer) {
        own.resize(user.len(), 0.0);
        self.weights.weigh(user, own);
        for (&task, &w) in user.items().iter().zip(&*own) {
            out.push(task, w);
        }
    }
}

impl WeightTotals<'_> {
    pub(crate) fn request(label: &str, n_tasks: usize, share: f64) -> ReleaseRequest {
        ReleaseRequest::new(label, share, ReplaceFactor::Two, n_tasks as u64)
    }

    /// What the noisy totals say; `counts` are what is known of the task sizes. Post-processing.
    pub(crate) fn scales(&self, released: &ReleasedVector, counts: Option<&[f64]>) -> TaskScales {
        let sd = released.noise_stddev();
        let totals: Vec<f64> = released.values().iter().map(|w| w.max(sd)).collect();
        let users = |task: usize| counts.map_or(0.0, |counts| counts[task]);
        let curvature = (0..totals.len())
            .map(|task| (totals[task] + sd) * spread(self.dim, users(task).max(totals[task])))
            .collect();
        TaskScales { totals, curvature }
    }
}

/// What the released totals say about the curvature of each task.
pub(crate) struct TaskScales {
    /// `W_i`, at least the standard deviation of its noise.
    pub(super) totals: Vec<f64>,
    /// On the scale of `W_i`, what a step is measured by so as not to overshoot.
    pub(super) curvature: Vec<f64>,
}

impl TaskScales {
    pub(crate) fn totals(&self) -> &[f64] {
        &self.totals
    }

    pub(crate) fn curvature(&self) -> &[f64] {
        &self.curvature
    }
}

/// `1 + d/n`: the mean of the largest and the smallest eigenvalue of an average of `n` independent
/// `x x^T`, over the average one, by the edges `(1 +- sqrt(d/n))^2` of Marchenko and Pastur (1967). A
/// step in units of it contracts fastest over all directions and overshoots in none by more than
/// twice, as a full step by the pooled Gramian would in a task with few users.
fn spread(dim: usize, n_users: f64) -> f64 {
    1.0 + dim as f64 / n_users.max(1.0)
}

/// `d s^2 / (R^2 a)`: the ridge of the best linear estimate of coefficients of norm `R` and any
/// direction, from sums with noise of standard deviation `s` and matrices with eigenvalues `a > 0`.
/// Large tasks hardly feel it; steps shrink where noise outweighs the data. At least `1e-9 a`, so that
/// a matrix without full rank can be solved however small the noise.
pub(super) fn noise_ridge(dim: usize, radius: f64, noise_stddev: f64, eigenvalue: f64) -> f64 {
    let ridge = dim as f64 * (noise_stddev / radius).powi(2) / eigenvalue;
    ridge.max(1e-9 * eigenvalue)
}

/// One user's share of the pooled Gramian: `x_j x_j^T` once, whatever the number of tasks, and a
/// count of users to divide by.
///
/// The packed upper triangle with off-diagonal entries times `sqrt 2`, then `Gamma_x^2`.
///
/// # Privacy
/// In these coordinates the norm of the triangle is `||x_j||^2 <= Gamma_x^2`, so that of the whole
/// is at most `sqrt(2) Gamma_x^2`. A user without records adds nothing.
#[allow(
    missing_debug_implementations,
    reason = "settings; print those instead"
)]
pub struct PooledGramian<'a> {
    /// Bounds and dimension, checked.
    pub setup: &'a TaskSetup,
}

impl VectorContribution for PooledGramian<'_> {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        vec![0.0; self.setup.dim]
    }

    fn contribute(&self, user: UserRow<'_>, x: &mut Vec<f64>, out: &mut SparseBuffer) {
        if user.is_empty() {
            return;
        }
        self.setup.write_features(user, x);
        let mut at = 0;
        for a in 0..x.len() {
            for b in a..x.len() {
                let scale = if a == b {
                    1.0
                } else {
                    std::f64::consts::SQRT_2
                };
                out.push(at, scale * x[a] * x[b]);
                at += 1;
            }
        }
        out.push(at, self.setup.feature_norm.powi(2));
    }
}

impl PooledGramian<'_> {
    fn n_coordinates(dim: usize) -> usize {
        packed_len(dim) + 1
    }

    pub(super) fn request(dim: usize, share: f64) -> ReleaseRequest {
        let n_draws = Self::n_coordinates(dim) as u64;
        ReleaseRequest::new("pooled Gramian", share, ReplaceFactor::Two, n_draws)
    }

    /// The sensitivity, `sqrt(2) Gamma_x^2`.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        std::f64::consts::SQRT_2 * self.setup.feature_norm.powi(2)
    }

    /// The average of `x_j x_j^T` over users, `dim x dim` row-major, positive semidefinite.
    pub(super) fn release(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<Vec<f64>> {
        let dim = self.setup.dim;
        let shape = (Self::n_coordinates(dim), self.clip_norm());
        let mut packed = run.vector(data, shape, self)?.values();
        let n_users = packed.pop().unwrap_or(1.0) / self.setup.feature_norm.powi(2);
        let mut at = 0;
        for a in 0..dim {
            for b in a..dim {
                let scale = if a == b {
                    1.0
                } else {
                    std::f64::consts::FRAC_1_SQRT_2
                };
                packed[at] *= scale / n_users.max(1.0);
                at += 1;
            }
        }
        let mut gramian = vec![0.0; dim * dim];
        unpack_symmetric(&packed, dim, &mut gramian)?;
        project_psd_in_place(&mut gramian, dim)?;
        Ok(gramian)
    }
}
