//! A user's contribution to a round, fitted on the user's own ratings.

use dp_core::{Interactions, Private, UserRow, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place, project_psd_in_place};
use dp_mechanism::{Run, SparseBuffer, VectorContribution};

use super::AmResidualSspParams;
use crate::features::in_public_range;
use crate::residual::TotalsContribution;
use crate::ssp::scale_jointly;
use crate::{PooledStatistics, ProblemSetup, Result};

/// Norm of the second moments that a user adds, divided by the bound on the residuals.
pub(crate) const MOMENT_RATIO: f64 = 0.1;

/// One user's contribution to a round, with level and taste vector fitted here.
///
/// ```text
/// (l, u)  user step at the released item vectors (LevelStep);  u then scaled to norm taste_norm
/// x     = [a, u],   a = sqrt(1 - taste_norm^2);   x = [1] where d = 1
/// e_j   = y_j - center - l - h_j - <q_j, u>,   all of the user's scaled down together so that sum_j w_j^2 e_j^2 <= c^2
/// r_j  += w_j e_j x        d coordinates per item of the user
/// M    += .1 c x x^T       d^2 coordinates, row-major, after those of the items
/// ```
///
/// A user without items adds nothing.
///
/// # Privacy
/// `||x|| <= 1`: its square is `a^2 + ||u||^2`, and `u` has norm `taste_norm` or is 0. The blocks
/// `w_j e_j x` occupy disjoint coordinates, because a table has each pair of user and item once, so
/// their squared norm is `||x||^2 sum_j w_j^2 e_j^2 <= c^2`; that of `.1 c x x^T` is `(.1 c)^2
/// ||x||^4 <= (.1 c)^2`. Together
///
/// ```text
/// sensitivity  c sqrt(1 + .1^2)   for adding or removing a user,  twice that for replacing one
/// ```
///
/// whatever the ratings, and whatever the item vectors, which are released values or public. The
/// contribution is a function of this user's records, of these vectors and of public settings
/// alone; the kernel checks the norm again in exact integers. Level, taste vector and residuals
/// never leave.
#[derive(Debug, Clone, Copy)]
pub struct RoundContribution<'a> {
    /// Checked settings.
    pub params: &'a AmResidualSspParams,
    /// Released item vectors `[h_j, q_j]`, shape `(m, d)`.
    pub item_vectors: &'a [f64],
    /// The bound `c`, in data units of a rating.
    pub bound: f64,
}

/// Scratch memory for [`RoundContribution`].
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

    /// Fits the user: computes `x`, weights and bounded residuals.
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

/// Adds `scale x x^T`, row-major, starting at coordinate `first`.
pub(crate) fn push_moments(x: &[f64], scale: f64, first: usize, out: &mut SparseBuffer) {
    let pairs = x.iter().flat_map(|a| x.iter().map(move |b| (a, b)));
    out.extend(pairs.enumerate().map(|(at, (a, b))| {
        let coordinate = u32::try_from(first + at).unwrap_or(u32::MAX); // checked by the plan
        (coordinate, scale * a * b)
    }));
}

/// Scales a vector to this norm; a vector that is close to zero or not finite becomes 0.
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
/// over the user's own records, unweighted; `[h_j, q_j]` is the item's vector, a bias and `d - 1`
/// taste factors.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelStep {
    /// Public centre of the ratings, in data units.
    pub label_center: f64,
    /// Ridge on the user's level, in ratings, from 1e-6 to 1e6.
    pub level_penalty: f64,
    /// Ridge on the user's taste vector, from 1e-6 to 1e6.
    pub l2_penalty: f64,
}

/// Scratch memory for user steps.
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

    /// `[l, u]` of one user, 0 where the sums are not finite; `item_vectors` has shape `(m, dim)`.
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

/// Released total weights.
pub(crate) struct Totals {
    /// Total weight of each item as released; values of 0 and below are possible.
    pub(crate) released: Vec<f64>,
    /// The same, bounded below by `totals_floor` standard deviations of the noise.
    pub(crate) items: Vec<f64>,
    /// Standard deviation of the noise in them.
    pub(crate) noise: f64,
    /// Number of users with items, at least 1.
    pub(crate) n_users: f64,
    /// Standard deviation of the noise in it.
    pub(crate) users_noise: f64,
}

impl Totals {
    pub(crate) fn release(
        setup: &ProblemSetup,
        n_items: usize,
        floor: f64,
        (users, run): (&Private<Interactions>, &mut Run<'_>),
    ) -> Result<Self> {
        let contribution = TotalsContribution { setup, n_items };
        let released = run.vector(users, (n_items + 1, 1.0), &contribution)?;
        let noise = released.noise_stddev() / TotalsContribution::ITEMS;
        let values = released.values();
        let totals = values[..n_items].iter();
        let released: Vec<f64> = totals
            .map(|total| total / TotalsContribution::ITEMS)
            .collect();
        let n_users = (values[n_items] / TotalsContribution::units()).max(1.0);
        #[cfg(privacy_mutants)]
        let (released, n_users) = (
            crate::mutants::totals(released, &setup.weights, users),
            crate::mutants::units(n_users, users),
        );
        Ok(Self {
            users_noise: noise * TotalsContribution::ITEMS / TotalsContribution::units(),
            items: released
                .iter()
                .map(|total| total.max(floor * noise))
                .collect(),
            released,
            noise,
            n_users,
        })
    }
}

/// One round's release, split into its parts.
pub(super) struct Round<'a> {
    /// Residual sums, shape `(m, d)`.
    pub(super) residuals: &'a [f64],
    /// The item vectors at which the residuals were computed, shape `(m, d)`, with the bias per
    /// unit of users' constant.
    pub(super) at: &'a [f64],
    /// `C`: the mean of users' `x x^T`, shape `(d, d)`, symmetric.
    pub(super) mean: &'a [f64],
    /// Standard deviation of the noise in a residual sum.
    pub(super) noise: f64,
}

/// Sums over rounds, each weighted by the inverse variance of its noise, with smaller weights for
/// older rounds.
///
/// ```text
/// A_j^t = W_j C^t,   b_j^t = r_j^t + A_j^t v_j^t                  evidence of round t about item j: W_j the released total weight
/// C     = sum_t g_t C^t / sum_t g_t,   b_j likewise,   g_t = memory^(T - t) / s_t^2;   A_j = W_j C
/// noise of b_j:   s = sqrt(sum_t g_t^2 s_t^2) / sum_t g_t
/// ```
pub(super) struct Evidence<'a> {
    /// The items' total weights.
    totals: &'a [f64],
    dim: usize,
    memory: f64,
    matrix: Vec<f64>,
    rhs: Vec<f64>,
    /// `sum_t g_t`.
    precision: f64,
    /// `sum_t g_t^2 s_t^2`.
    variance: f64,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(totals: &'a [f64], dim: usize, memory: f64) -> Self {
        Self {
            totals,
            dim,
            memory,
            matrix: vec![0.0; dim * dim],
            rhs: vec![0.0; totals.len() * dim],
            precision: 0.0,
            variance: 0.0,
        }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, round: &Round<'_>) {
        let (d, new) = (self.dim, (round.noise * round.noise).recip());
        let old = self.memory;
        let cells = self.matrix.iter_mut().zip(round.mean);
        cells.for_each(|(cell, c)| *cell = old * *cell + new * c);
        let released = round.residuals.chunks_exact(d);
        let released = released.zip(round.at.chunks_exact(d));
        let each = self.totals.iter().zip(self.rhs.chunks_exact_mut(d));
        for ((total, rhs), (r, v)) in each.zip(released) {
            let rows = round.mean.chunks_exact(d);
            for ((rhs, r), row) in rhs.iter_mut().zip(r).zip(rows) {
                let image: f64 = row.iter().zip(v).map(|(c, v)| c * v).sum();
                *rhs = old * *rhs + new * (r + total * image);
            }
        }
        self.precision = old * self.precision + new;
        self.variance = old * old * self.variance + new;
    }

    /// The means, as statistics for a learner.
    pub(super) fn statistics(&self) -> Result<PooledStatistics> {
        let mean = |sums: &[f64]| sums.iter().map(|x| x / self.precision).collect();
        let noise = self.variance.sqrt() / self.precision;
        PooledStatistics::new(
            self.dim,
            self.totals.to_vec(),
            mean(&self.matrix),
            mean(&self.rhs),
            noise,
        )
    }
}

/// `C` from released second moments of all users: the symmetric, positive semidefinite part,
/// divided by the moments of `n_users` users.
pub(crate) fn mean_moment(
    released: &[f64],
    dim: usize,
    (bound, n_users): (f64, f64),
) -> Result<Vec<f64>> {
    let scale = (2.0 * MOMENT_RATIO * bound * n_users).recip();
    let mirror = |at: usize| at % dim * dim + at / dim;
    let mut mean: Vec<f64> = (0..dim * dim)
        .map(|at| (released[at] + released[mirror(at)]) * scale)
        .collect();
    project_psd_in_place(&mut mean, dim)?;
    // exactly symmetric, whatever rounding the projection leaves
    Ok((0..dim * dim)
        .map(|at| 0.5 * (mean[at] + mean[mirror(at)]))
        .collect())
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

    #[test]
    fn evidence_is_the_weighted_mean_that_is_documented() {
        let totals = [3.0];
        let mut evidence = Evidence::new(&totals, 2, 0.5);
        let mean = [[1.0, 0.25, 0.25, 0.5], [0.5, 0.0, 0.0, 2.0]];
        let residuals = [[0.2, -0.4], [0.1, 0.3]];
        let at = [[1.0, 2.0], [-1.0, 0.5]];
        let noise = [2.0, 0.5];
        for t in 0..2 {
            evidence.add(&Round {
                residuals: &residuals[t],
                at: &at[t],
                mean: &mean[t],
                noise: noise[t],
            });
        }
        // numpy, from the three lines of the doc comment: g = [.125, 4]
        let found = evidence.statistics().unwrap();
        let g = [0.5 / 4.0, 4.0];
        let whole = g[0] + g[1];
        assert!((found.factors()[0] - 3.0).abs() < 1e-14);
        for a in 0..2 {
            for b in 0..2 {
                let cell = |t: usize| 3.0 * mean[t][a * 2 + b];
                let expected = (g[0] * cell(0) + g[1] * cell(1)) / whole;
                assert!((3.0 * found.matrix()[a * 2 + b] - expected).abs() < 1e-14);
            }
            let b = |t: usize| {
                residuals[t][a] + 3.0 * (mean[t][a * 2] * at[t][0] + mean[t][a * 2 + 1] * at[t][1])
            };
            let expected = (g[0] * b(0) + g[1] * b(1)) / whole;
            assert!((found.rhs()[a] - expected).abs() < 1e-14);
        }
        let variance = (g[0] * noise[0]).powi(2) + (g[1] * noise[1]).powi(2);
        let expected = variance.sqrt() / whole;
        assert!((found.rhs_noise() - expected).abs() < 1e-14);
    }

    #[test]
    fn moments_become_a_mean_without_negative_directions() {
        // 10 users with x = [.8, .6], bound .5; the second coordinate's noise makes the matrix indefinite
        let scale = MOMENT_RATIO * 0.5 * 10.0;
        let released = [0.64 * scale, 0.5 * scale, 0.46 * scale, -0.1 * scale];
        let mean = mean_moment(&released, 2, (0.5, 10.0)).unwrap();
        assert_eq!(mean[1].to_bits(), mean[2].to_bits());
        let determinant = mean[0] * mean[3] - mean[1] * mean[2];
        assert!(mean[0] > 0.64 && mean[3] > 0.0 && determinant.abs() < 1e-12);
        let plain = [0.64 * scale, 0.4 * scale, 0.56 * scale, 0.6 * scale];
        let mean = mean_moment(&plain, 2, (0.5, 10.0)).unwrap();
        for (m, e) in mean.iter().zip([0.64, 0.48, 0.48, 0.6]) {
            assert!((m - e).abs() < 1e-12);
        }
    }
}
