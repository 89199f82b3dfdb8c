//! What a user adds to a round, fitted on the user's own ratings.

use dp_core::{UserRow, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};
use dp_mechanism::{SparseBuffer, VectorContribution};

use super::AmResidualSspParams;
use crate::Result;
use crate::features::in_public_range;
use crate::ssp::scale_jointly;

/// Norm of the second moments that a user adds, over the bound on the residuals.
pub(crate) const MOMENT_RATIO: f64 = 0.1;

/// One user's share of a round, with level and tastes fitted in here.
///
/// ```text
/// (l, u)  user step at the released item vectors (LevelStep);  u then scaled to norm taste_norm
/// x     = [a, u],   a = sqrt(1 - taste_norm^2);   x = [1] where d = 1
/// e_j   = y_j - center - l - h_j - <q_j, u>,   all of the user's scaled down together so that sum_j w_j^2 e_j^2 <= c^2
/// r_j  += w_j e_j x        d coordinates per item of the user
/// M    += .1 c x x^T       d^2 coordinates, row-major, behind those of the items
/// ```
///
/// A user without items adds nothing.
///
/// # Privacy
/// `||x|| <= 1`: its square is `a^2 + ||u||^2`, and `u` has norm `taste_norm` or is 0. The blocks `w_j e_j x` lie in coordinates of their own, because a table has each pair of
/// user and item once, so their squared norm is `||x||^2 sum_j w_j^2 e_j^2 <= c^2`; that of `.1 c x x^T` is `(.1 c)^2 ||x||^4 <= (.1 c)^2`. Together
///
/// ```text
/// sensitivity  c sqrt(1 + .1^2)   for adding or removing a user,  twice that for replacing one
/// ```
///
/// whatever the ratings, and whatever the item vectors, which are released values or public. The share is a function of this user's records, of these vectors and of public settings alone; the
/// kernel checks the norm in exact integers once more. Level, tastes and residuals never leave.
#[derive(Debug, Clone, Copy)]
pub struct RoundContribution<'a> {
    /// Checked settings.
    pub params: &'a AmResidualSspParams,
    /// Released item vectors `[h_j, q_j]`, shape `(m, d)`.
    pub item_vectors: &'a [f64],
    /// The bound `c`, data units of a rating.
    pub bound: f64,
}

/// Working memory of [`RoundContribution`].
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's values; printing them is never wanted"
)]
pub struct RoundScratch {
    step: LevelStepScratch,
    /// `x`.
    vector: Vec<f64>,
    weights: Vec<f64>,
    residuals: Vec<f64>,
}

impl RoundContribution<'_> {
    /// The sensitivity `c sqrt(1 + .1^2)` to adding or removing a user.
    #[must_use]
    pub fn norm(&self) -> f64 {
        let norm = self.bound * (1.0 + MOMENT_RATIO * MOMENT_RATIO).sqrt();
        #[cfg(privacy_mutants)]
        let norm = crate::mutants::round_norm(norm);
        norm
    }

    /// Length of the sum: `m d + d^2`.
    #[must_use]
    pub const fn n_coordinates(&self) -> usize {
        self.item_vectors.len() + self.params.dim * self.params.dim
    }

    /// Fits the user: `x`, weights and bounded residuals.
    fn describe(&self, user: UserRow<'_>, own: &mut RoundScratch) {
        let (params, dim) = (self.params, self.params.dim);
        let step = &params.user_step;
        let solved = step.solve(self.item_vectors, dim, user, &mut own.step);
        let level = step.label_center + solved[0];
        own.vector.clear();
        own.vector.extend_from_slice(solved);
        own.vector[0] = params.constant();
        to_norm(&mut own.vector[1..], params.taste_norm);
        own.weights.clear();
        own.weights.resize(user.len(), 0.0);
        params.weights.weigh(user, &mut own.weights);
        own.residuals.clear();
        own.residuals.extend(user.iter().map(|(item, y)| {
            let row = &self.item_vectors[item as usize * dim..][..dim];
            let tastes = row[1..].iter().zip(&own.vector[1..]);
            let score: f64 = tastes.map(|(q, u)| q * u).sum();
            f64::from(y) - level - row[0] - score
        }));
        scale_jointly(&mut own.residuals, &own.weights, self.bound);
    }
}

impl VectorContribution for RoundContribution<'_> {
    type Scratch = RoundScratch;

    fn scratch(&self) -> RoundScratch {
        RoundScratch::default()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut RoundScratch, out: &mut SparseBuffer) {
        if user.is_empty() {
            return;
        }
        self.describe(user, own);
        let dim = self.params.dim;
        let coordinate = |at: usize| u32::try_from(at).unwrap_or(u32::MAX); // checked by the plan
        let each = own.weights.iter().zip(&own.residuals);
        for (&item, (w, e)) in user.items().iter().zip(each) {
            let first = item as usize * dim;
            let block = own.vector.iter().enumerate();
            out.extend(block.map(|(k, x)| (coordinate(first + k), w * e * x)));
        }
        let scale = MOMENT_RATIO * self.bound;
        push_moments(&own.vector, scale, self.item_vectors.len(), out);
    }
}

/// Adds `scale x x^T`, row-major, from coordinate `first` on.
pub(crate) fn push_moments(x: &[f64], scale: f64, first: usize, out: &mut SparseBuffer) {
    let pairs = x.iter().flat_map(|a| x.iter().map(move |b| (a, b)));
    out.extend(pairs.enumerate().map(|(at, (a, b))| {
        let coordinate = u32::try_from(first + at).unwrap_or(u32::MAX); // checked by the plan
        (coordinate, scale * a * b)
    }));
}

/// Scales a vector to this norm; one that is next to nothing, or not finite, becomes 0.
pub(crate) fn to_norm(vector: &mut [f64], norm: f64) {
    let own = vector.iter().map(|u| u * u).sum::<f64>().sqrt();
    let scale = if (1e-100..f64::INFINITY).contains(&own) {
        norm / own
    } else {
        0.0
    };
    if scale > 0.0 {
        vector.iter_mut().for_each(|u| *u *= scale);
    } else {
        vector.fill(0.0);
    }
}

/// The exact local user step for items with a bias. All settings are public.
///
/// ```text
/// (l, u) = argmin sum_j (y_j - label_center - h_j - l - <q_j, u>)^2 + level_penalty l^2 + l2_penalty ||u||^2
/// ```
///
/// over the user's own records, unweighted; `[h_j, q_j]` is the item's vector, a bias and `d - 1` tastes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelStep {
    /// Public centre of the ratings, data units.
    pub label_center: f64,
    /// Ridge on the user's level, in ratings, from 1e-6 to 1e6.
    pub level_penalty: f64,
    /// Ridge on the user's tastes, from 1e-6 to 1e6.
    pub l2_penalty: f64,
}

/// Working memory of user steps.
#[derive(Default)]
pub(super) struct LevelStepScratch {
    matrix: Vec<f64>,
    /// `[l, u]`.
    solution: Vec<f64>,
}

impl LevelStep {
    pub(super) fn check(&self) -> Result<()> {
        params::finite("label_center", self.label_center)?;
        in_public_range("label_center", self.label_center.abs().max(1e-6))?;
        in_public_range("level_penalty", self.level_penalty)?;
        in_public_range("l2_penalty", self.l2_penalty)?;
        Ok(())
    }

    /// `[l, u]` of one user, 0 where the sums are not finite; `item_vectors` of shape `(m, dim)`.
    pub(super) fn solve<'s>(
        &self,
        item_vectors: &[f64],
        dim: usize,
        user: UserRow<'_>,
        scratch: &'s mut LevelStepScratch,
    ) -> &'s [f64] {
        let LevelStepScratch { matrix, solution } = scratch;
        matrix.clear();
        matrix.resize(dim * dim, 0.0);
        matrix
            .iter_mut()
            .step_by(dim + 1)
            .for_each(|a| *a = self.l2_penalty);
        matrix[0] = self.level_penalty;
        solution.clear();
        solution.resize(dim, 0.0);
        for (item, y) in user.iter() {
            let row = &item_vectors[item as usize * dim..][..dim];
            let left = f64::from(y) - self.label_center - row[0];
            let x = |k: usize| if k == 0 { 1.0 } else { row[k] };
            for (a, b) in solution.iter_mut().enumerate() {
                *b += left * x(a);
                for (c, cell) in matrix[a * dim..][..dim].iter_mut().enumerate() {
                    *cell += x(a) * x(c);
                }
            }
        }
        let solved = cholesky_in_place(matrix, dim)
            .and_then(|()| cholesky_solve_in_place(matrix, dim, solution));
        if solved.is_err() || !solution.iter().all(|u| u.is_finite()) {
            solution.fill(0.0);
        }
        solution
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    #[test]
    fn level_and_tastes_are_the_joint_ridge_solution_of_numpy() {
        let mut builder = InteractionsBuilder::new(3);
        for (item, y) in [(0, 5.0), (1, 2.0), (2, 4.0)] {
            builder.push(0, item, y).unwrap();
        }
        builder.ensure_users(2);
        let data = builder.build().0;
        let step = LevelStep {
            label_center: 3.0,
            level_penalty: 2.0,
            l2_penalty: 0.5,
        };
        let v = [0.5, 1.0, -1.0, -0.25, 0.5, 0.2, 0.1, -1.0, 2.0];
        let scratch = &mut LevelStepScratch::default();
        // numpy.linalg.solve(X^T X + diag(2, .5, .5), X^T (y - 3 - h)), X = [1, q_j]
        let expected = [
            0.36136363636363633,
            -0.0845454545454544,
            -0.09545454545454535,
        ];
        for (x, e) in step
            .solve(&v, 3, data.user(0), scratch)
            .iter()
            .zip(expected)
        {
            assert!((x - e).abs() < 1e-12, "{x} {e}");
        }
        let nobody = step.solve(&v, 3, data.user(1), scratch);
        assert!(nobody.iter().all(|x| *x == 0.0));
    }
}
