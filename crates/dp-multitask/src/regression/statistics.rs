//! What each user adds to the sufficient statistics, and their release.

use dp_accounting::ReleaseRequest;
use dp_core::{Interactions, Private, ReplaceFactor, UserRow};
use dp_mechanism::{
    FactorBuffer, FactorContribution, GramGrids, GramSums, NoiseSource, ReleasedGrams,
};

use super::setup::TaskSetup;
use crate::paid::Paid;
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

/// Releases matrices and right-hand sides with the next two spends.
pub(super) fn release_statistics(
    setup: &TaskSetup,
    data: &Private<Interactions>,
    weights: &TaskWeights,
    paid: &mut Paid<'_>,
    noise: &mut NoiseSource,
) -> Result<ReleasedGrams> {
    let statistics = SspStatistics::new(setup, weights);
    let grids = |matrix, rhs| statistics.grids(matrix, rhs);
    paid.grams(data, grids, &statistics, noise)
}
