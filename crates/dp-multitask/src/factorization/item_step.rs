//! The item step: what each user adds to the item statistics, and the solve on their release.

use dp_core::{ShapeError, UserRow};
use dp_mechanism::{FactorBuffer, FactorContribution, GramGrids, GramLayout, ReleasedGrams};

use super::item_update::ScoreModel;
use super::model::UserPenalties;
use super::params::{FactorizationParams, MatrixFactorization};
use super::user_step::{Design, UserScratch, UserStep};
use crate::allocation::TaskWeights;
use crate::solve::{PooledSolve, solve_systems};
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
/// Without biases ([`ScoreModel::Plain`]) a user's factor is `f_j = v_j min(1, G / ||v_j||)`, of norm at most
/// `F = G` instead of `F = 1`, `offset_j` is 0 and single labels are clipped to `[-B, B]`.
///
/// The constant coordinate makes the first coordinate of the item's solution an item bias; `G`
/// is how much of the norm the tastes get. With implicit feedback every label is 1 and `B = 1`. Source: Krichene et al. 2023, Algorithms 1 and 3, with
/// the regulariser outside the private sum (`docs/errata.md`).
///
/// # Privacy
/// L2 sensitivity of the two sums when one user is added or removed:
///
/// ```text
/// matrices:         sqrt(sum_i w_ij^2 ||f_j||^4)         <= F^2
/// right-hand sides: sqrt(sum_i w_ij^2 y_ij^2 ||f_j||^2)  <= F B
/// ```
///
/// because `sum_i w_ij^2 <= 1` for the records kept (sampling sets the others' weights to 0) and every item has a
/// block of its own.
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
        if item_factors.len() != expected || self.params().score_model.coordinates(dim) == 0 {
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

    /// The grids of one round's statistics, with sensitivities `F^2` and `F label_bound`: `F` is 1 with biases
    /// and `clip_norm` without.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when a noise multiplier does not fit a grid.
    pub fn grids(&self, matrix_noise: f64, rhs_noise: f64) -> Result<GramGrids> {
        let factor = self.params().factor_bound();
        let rhs_clip = factor * self.params().rhs_bound();
        let grids = match self.params().pooled_matrices {
            None => GramGrids::new,
            Some(_) => GramGrids::pooled,
        };
        Ok(grids(matrix_noise, factor * factor, rhs_noise, rhs_clip)?)
    }

    fn design(&self, item_factors: &[f64], dim: usize) -> Design {
        let design = Design::new(item_factors, dim, self.params().score_model);
        match self.params().feedback.implicit() {
            Some(implicit) => design.with_unobserved(implicit.training_unobserved_weight),
            None => design,
        }
    }

    /// Item factors from released statistics; from a pooled matrix, `A_i = W_i C` with the released
    /// `item_weights` `W_i` and `C` the matrix divided by its trace: `x_i = (PSD(A_i) + ridge I)^-1 b_i`, as rows
    /// `[h_i, q_i]` with `h_i = sqrt(1 - G^2) x_i0`, because every user carries that constant
    /// coordinate; `h_i = 0` without biases. The projection comes before the ridge. Post-processing of a release.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when the released values are not finite; [`crate::Error::Shape`] when there is not
    /// one weight for each item.
    pub fn solve_items(
        &self,
        released: &ReleasedGrams,
        item_weights: Option<&[f64]>,
    ) -> Result<Vec<f64>> {
        let n_coordinates = released.dim();
        let mut solved = vec![0.0; released.n_items() * n_coordinates];
        match released.layout() {
            GramLayout::PerItem => {
                let ridge = ridge(self.params(), released.matrix_noise_stddev(), n_coordinates);
                solve_systems(n_coordinates, &mut solved, |item, matrix, rhs| {
                    released.write_item(item, matrix, rhs);
                    ridge
                })?;
            }
            GramLayout::Pooled => {
                let weights = item_weights.unwrap_or_default();
                dp_core::params::same_size("item_weights", weights.len(), released.n_items())?;
                let ridge = ridge(self.params(), released.rhs_noise_stddev(), n_coordinates);
                let mut matrix = vec![0.0; n_coordinates * n_coordinates];
                for (item, rhs) in solved.chunks_exact_mut(n_coordinates).enumerate() {
                    released.write_item(item, &mut matrix, rhs);
                }
                PooledSolve::new(&matrix, n_coordinates)?.solve(&mut solved, weights, ridge);
            }
        }
        let dim = match self.params().score_model {
            ScoreModel::Biased => n_coordinates,
            ScoreModel::Plain => n_coordinates + 1,
        };
        Ok(self.rows(solved, dim))
    }

    /// Rows `[h_i, q_i]` of length `dim` from coefficients in the coordinates of users' factors.
    pub(super) fn rows(&self, mut coefficients: Vec<f64>, dim: usize) -> Vec<f64> {
        if self.params().score_model == ScoreModel::Plain {
            let with_zero = |q: &[f64]| std::iter::once(0.0).chain(q.to_vec());
            return coefficients
                .chunks_exact(dim - 1)
                .flat_map(with_zero)
                .collect();
        }
        let bias = bias_coordinate(self.params().clip_norm, dim);
        for x in coefficients.chunks_exact_mut(dim) {
            x[0] *= bias;
        }
        coefficients
    }

    /// The inverse of [`rows`](Self::rows).
    pub(super) fn coefficients(&self, rows: &[f64], dim: usize) -> Vec<f64> {
        if self.params().score_model == ScoreModel::Plain {
            let tastes = |row: &[f64]| row[1..].to_vec();
            return rows.chunks_exact(dim).flat_map(tastes).collect();
        }
        let bias = bias_coordinate(self.params().clip_norm, dim);
        let mut coefficients = rows.to_vec();
        for x in coefficients.chunks_exact_mut(dim) {
            x[0] /= bias;
        }
        coefficients
    }
}

impl ItemStatistics<'_> {
    /// Items that users are described by.
    pub(super) fn n_items(&self) -> usize {
        self.weights.omega().len()
    }

    /// Length of users' factors `f_j`.
    pub(super) const fn n_coordinates(&self) -> usize {
        self.design.score_model().coordinates(self.design.dim())
    }

    fn write_factor(&self, solution: &[f64], factor: &mut [f64]) {
        let norm = solution.iter().map(|v| v * v).sum::<f64>().sqrt();
        let plain = self.design.score_model() == ScoreModel::Plain;
        let scale = match norm {
            norm if plain && norm <= self.clip_norm => 1.0,
            norm if norm > 0.0 => self.clip_norm / norm,
            _ => 0.0,
        };
        let tastes = if plain {
            factor
        } else {
            factor[0] = bias_coordinate(self.clip_norm, factor.len());
            &mut factor[1..]
        };
        for (f, v) in tastes.iter_mut().zip(solution) {
            *f = scale * v;
        }
    }

    /// Clips each label by itself.
    fn write_labels(&self, user: UserRow<'_>, offset: f64, out: &mut FactorBuffer) {
        let center = self.bias.center + offset;
        let single = match self.design.score_model() {
            ScoreModel::Biased => SINGLE_LABEL_BOUNDS * self.label_bound,
            ScoreModel::Plain => self.label_bound,
        };
        for (label, &y) in out.labels.iter_mut().zip(user.values()) {
            *label = if self.design.is_implicit() {
                1.0
            } else {
                (f64::from(y) - center).clamp(-single, single)
            };
        }
    }

    /// Clips all labels of the user together.
    fn clip_jointly(&self, out: &mut FactorBuffer) {
        let weighted = out.labels.iter().zip(&out.weights).map(|(y, w)| w * y);
        let norm = weighted.map(|y| y * y).sum::<f64>().sqrt();
        if norm > self.label_bound {
            let scale = self.label_bound / norm;
            for label in &mut out.labels {
                *label *= scale;
            }
        }
    }

    /// Writes one user's factor, weights and single labels; zeros where there is no working memory.
    fn write(&self, user: UserRow<'_>, scratch: &mut Option<UserScratch>, out: &mut FactorBuffer) {
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

    /// Working memory of [`describe`](Self::describe).
    pub(super) fn describing_scratch(&self) -> (Option<UserScratch>, FactorBuffer) {
        (self.scratch(), FactorBuffer::default())
    }

    /// One user's factor, weights and single labels, for sums that are no Gram sums.
    pub(super) fn describe(
        &self,
        user: UserRow<'_>,
        (step, own): &mut (Option<UserScratch>, FactorBuffer),
    ) {
        for (buffer, n) in [
            (&mut own.factor, self.n_coordinates()),
            (&mut own.weights, user.len()),
            (&mut own.labels, user.len()),
        ] {
            buffer.clear();
            buffer.resize(n, 0.0);
        }
        self.write(user, step, own);
    }
}

impl FactorContribution for ItemStatistics<'_> {
    type Scratch = Option<UserScratch>;

    fn scratch(&self) -> Option<UserScratch> {
        UserScratch::new(self.design.dim()).ok()
    }

    fn dim(&self) -> usize {
        self.n_coordinates()
    }

    fn contribute(
        &self,
        user: UserRow<'_>,
        scratch: &mut Option<UserScratch>,
        out: &mut FactorBuffer,
    ) {
        self.write(user, scratch, out);
        self.clip_jointly(out);
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
