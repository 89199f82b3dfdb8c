//! The item step: what each user adds to the item statistics, and the solve on their release.

use dp_core::{ShapeError, UserRow};
use dp_linalg::{PsdScratch, psd_part_plus_ridge_solve};
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids, ReleasedGrams};
use rayon::prelude::*;

use super::model::UserPenalties;
use super::params::{FactorizationParams, MatrixFactorization};
use super::user_step::{Design, UserScratch, UserStep};
use crate::allocation::TaskWeights;
use crate::{LocalBias, Result};

/// Single labels are clipped to this many label bounds before the user's joint clip.
const SINGLE_LABEL_BOUNDS: f64 = 3.0;

/// One user's share of the item statistics of one round.
///
/// ```text
/// f_j    = [sqrt(1 - G^2), G v_j / ||v_j||]       user factor, norm at most 1; [1] without tastes
/// r_ij   = clip(rating - c - offset_j, [-3 B, 3 B])            offset_j from the local user step
/// y_ij   = r_ij min(1, B / sqrt(sum_i w_ij^2 r_ij^2))          the user's joint clip
/// w_ij     normalised so that sum_i w_ij^2 = 1
/// A_i += w_ij f_j f_j^T,    b_i += w_ij y_ij f_j
/// ```
///
/// The constant coordinate makes the first coordinate of the item's solution an item bias; `G`
/// is how much of the norm the tastes get. With implicit feedback every label is 1 and `B = 1`. Source: Krichene et al. 2023, Algorithms 1 and 3, with
/// the regulariser outside the private sum (`docs/errata.md`).
///
/// # Privacy
/// L2 sensitivity of the two sums when one user is added or removed:
///
/// ```text
/// matrices:         sqrt(sum_i w_ij^2 ||f_j||^4)         <= 1
/// right-hand sides: sqrt(sum_i w_ij^2 y_ij^2 ||f_j||^2)  <= B
/// ```
///
/// The contribution is a function of the user's own records, released item factors, released
/// counts and public constants.
pub struct ItemStatistics<'a> {
    design: Design,
    weights: &'a TaskWeights,
    bias: LocalBias,
    penalties: UserPenalties,
    clip_norm: f64,
    label_bound: f64,
}

impl std::fmt::Debug for ItemStatistics<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemStatistics")
            .field("clip_norm", &self.clip_norm)
            .field("label_bound", &self.label_bound)
            .finish_non_exhaustive()
    }
}

impl MatrixFactorization {
    /// What users will contribute to the item statistics of one round, for factors of length
    /// `dim`: a [`FactorContribution`] for [`dp_mechanism::GramSums`].
    ///
    /// # Privacy
    /// `item_factors` and `weights` must be public or released: the sensitivity bound is about what a
    /// user adds given them.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when `item_factors` does not hold one row of length `dim` for each
    /// weight.
    pub fn statistics<'a>(
        &self,
        dim: usize,
        item_factors: &[f64],
        weights: &'a TaskWeights,
    ) -> Result<ItemStatistics<'a>> {
        let expected = dim * weights.omega().len();
        if item_factors.len() != expected || dim == 0 {
            return Err(ShapeError {
                name: "item_factors",
                found: item_factors.len(),
                expected,
            }
            .into());
        }
        let params = self.params();
        Ok(ItemStatistics {
            design: self.design(item_factors, dim),
            weights,
            bias: params.bias(),
            penalties: params.training_penalties,
            clip_norm: params.clip_norm,
            label_bound: params.rhs_bound(),
        })
    }

    /// The grids of one round's statistics, with sensitivities 1 and `label_bound`.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when a noise multiplier does not fit a grid.
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        let label_bound = self.params().rhs_bound();
        Ok(GramGrids::new(matrix_noise, 1.0, rhs_noise, label_bound)?)
    }

    fn design(&self, item_factors: &[f64], dim: usize) -> Design {
        let design = Design::new(item_factors, dim);
        match self.params().feedback.implicit() {
            Some(implicit) => design.with_unobserved(implicit.training_unobserved_weight),
            None => design,
        }
    }

    /// Item factors from released statistics: `x_i = (PSD(A_i) + ridge I)^-1 b_i`, as rows
    /// `[h_i, q_i]` with `h_i = sqrt(1 - G^2) x_i0`, because every user carries that constant
    /// coordinate. The projection comes before the ridge. Post-processing of a release.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when the released values are not finite.
    pub fn solve_items(&self, released: &ReleasedGrams) -> Result<Vec<f64>> {
        let dim = released.dim();
        let ridge = ridge(self.params(), released.matrix_noise_stddev(), dim);
        let bias = bias_coordinate(self.params().clip_norm, dim);
        let mut factors = vec![0.0; released.n_items() * dim];
        factors.par_chunks_mut(dim).enumerate().try_for_each_init(
            || (vec![0.0; dim * dim], PsdScratch::new(dim)),
            |(matrix, scratch), (item, factor)| {
                released.write_item(item, matrix, factor);
                let scratch = scratch.as_mut().map_err(|e| *e)?;
                psd_part_plus_ridge_solve(matrix, ridge, factor, scratch)?;
                factor[0] *= bias;
                Ok::<_, dp_linalg::Error>(())
            },
        )?;
        Ok(factors)
    }
}

impl ItemStatistics<'_> {
    fn write_factor(&self, solution: &[f64], factor: &mut [f64]) {
        factor[0] = bias_coordinate(self.clip_norm, factor.len());
        let norm = solution.iter().map(|v| v * v).sum::<f64>().sqrt();
        let scale = if norm > 0.0 {
            self.clip_norm / norm
        } else {
            0.0
        };
        for (f, v) in factor[1..].iter_mut().zip(solution) {
            *f = scale * v;
        }
    }

    /// Clips each label, then all labels of the user together.
    fn write_labels(&self, user: UserRow<'_>, offset: f64, out: &mut FactorBuffer) {
        let center = self.bias.center + offset;
        let single = SINGLE_LABEL_BOUNDS * self.label_bound;
        let mut total = 0.0;
        for ((label, &y), w) in out.labels.iter_mut().zip(user.values()).zip(&out.weights) {
            *label = if self.design.is_implicit() {
                1.0
            } else {
                (f64::from(y) - center).clamp(-single, single)
            };
            total += (w * *label) * (w * *label);
        }
        let norm = total.sqrt();
        if norm > self.label_bound {
            let scale = self.label_bound / norm;
            for label in &mut out.labels {
                *label *= scale;
            }
        }
    }
}

impl FactorContribution for ItemStatistics<'_> {
    type Scratch = Option<UserScratch>;

    fn scratch(&self) -> Option<UserScratch> {
        UserScratch::new(self.dim()).ok()
    }

    fn dim(&self) -> usize {
        self.design.dim()
    }

    fn contribute(
        &self,
        user: UserRow<'_>,
        scratch: &mut Option<UserScratch>,
        out: &mut FactorBuffer,
    ) {
        let Some(scratch) = scratch else { return };
        let step = UserStep {
            design: &self.design,
            bias: self.bias,
            penalties: self.penalties,
        };
        let solution = step.solve(user, scratch);
        self.write_factor(solution.factor, &mut out.factor);
        self.weights.weigh(user, &mut out.weights);
        self.write_labels(user, solution.offset, out);
    }
}

/// The constant coordinate of every user's factor: `sqrt(1 - G^2)`, or 1 where there are no tastes.
pub(super) fn bias_coordinate(clip_norm: f64, dim: usize) -> f64 {
    if dim == 1 {
        1.0
    } else {
        (1.0 - clip_norm * clip_norm).sqrt()
    }
}

/// Ridge of the item step: it follows the released noise, so that directions that are all
/// noise stay small, plus a public constant.
pub(super) fn ridge(params: &FactorizationParams, noise_stddev: f64, dim: usize) -> f64 {
    let noise = noise_stddev * (dim as f64).sqrt();
    params.item_ridge_factor * noise + params.item_l2_penalty
}
