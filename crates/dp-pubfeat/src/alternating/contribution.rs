//! What a user adds to the statistics of a round.

use dp_core::UserRow;
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids};

use super::{UserStep, UserStepScratch};
use crate::ssp::scale_jointly;
use crate::{ProblemSetup, Result, SspContribution};

/// One user's share of the statistics of all items, with the user's vector fitted in here.
///
/// ```text
/// (o, u) = user step at the released item vectors, u then shortened to norm Gamma_u
/// y_j    = clip(y_j - center - o, Gamma_y), all of the user's scaled so that sum_j w_j^2 y_j^2 <= B^2
/// A_j += w_j u u^T,   b_j += w_j y_j u
/// ```
///
/// # Privacy
/// Bounds and sensitivity are those of [`SspContribution`], whatever `u` is: `Gamma_u^2` and `Gamma_u min(B, Gamma_y)`. The user step looks at the user's own ratings and
/// at released item vectors, so the share is a function of these. The vector never leaves.
#[derive(Debug, Clone, Copy)]
pub struct RatingStatistics<'a> {
    /// Checked settings.
    pub setup: &'a ProblemSetup,
    /// The user step.
    pub user_step: &'a UserStep,
    /// Released item vectors, shape `(m, d)`.
    pub item_vectors: &'a [f64],
}

impl RatingStatistics<'_> {
    /// Grids with the sensitivities above.
    ///
    /// # Errors
    /// As [`SspContribution::grids`].
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        SspContribution::new(self.setup).grids(matrix_noise, rhs_noise)
    }
}

impl FactorContribution for RatingStatistics<'_> {
    type Scratch = UserStepScratch;

    fn scratch(&self) -> UserStepScratch {
        UserStepScratch::default()
    }

    fn dim(&self) -> usize {
        self.setup.dim
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut UserStepScratch, out: &mut FactorBuffer) {
        let level = self
            .user_step
            .solve(self.item_vectors, user, scratch, &mut out.factor);
        crate::problem::shorten(&mut out.factor, self.setup.user_norm);
        self.setup.weights.weigh(user, &mut out.weights);
        let bound = self.setup.label_bound;
        for (label, &y) in out.labels.iter_mut().zip(user.values()) {
            *label = (f64::from(y) - level).clamp(-bound, bound);
        }
        scale_jointly(&mut out.labels, &out.weights, self.setup.label_norm);
    }
}
