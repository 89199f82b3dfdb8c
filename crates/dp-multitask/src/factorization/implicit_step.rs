//! The item step of implicit feedback: the Gramian of all users, and the solve with it.

use dp_accounting::Spend;
use dp_core::{Interactions, Private, UserRow};
use dp_linalg::{
    cholesky_in_place, cholesky_solve_in_place, packed_len, project_psd_in_place, unpack_symmetric,
};
use dp_mechanism::{
    FactorBuffer, GramSums, Grid, NoiseSource, ReleasedGrams, ReleasedVector, SparseBuffer,
    VectorContribution, VectorSum, vector_contribution,
};
use rayon::prelude::*;

use super::feedback::ImplicitFeedback;
use super::fit::Released;
use super::item_step::{ItemStatistics, bias_coordinate, ridge};
use super::params::MatrixFactorization;
use super::run::Run;
use super::state::RoundState;
use super::user_step::UserScratch;
use crate::{Result, TaskWeights};

/// Off-diagonal entries carry this in the isometric coordinates of symmetric matrices.
const OFF_DIAGONAL: f64 = std::f64::consts::SQRT_2;
/// Keeps rounding from pushing a contribution over its bound, where the kernel would drop it.
const INSIDE: f64 = 1.0 - 1e-12;

/// One user's share of the Gramian of all users, `G = sum_j f_j f_j^T`.
///
/// The packed upper triangle with off-diagonal entries times `sqrt 2`; `f_j` as in
/// [`ItemStatistics`].
///
/// # Privacy
/// `f_j` has norm at most `F`, and in these coordinates the norm of the contribution is the Frobenius norm
/// `||f_j f_j^T|| = ||f_j||^2 <= F^2`, the L2 sensitivity when one user is added or removed; `F` is 1 with biases and
/// `clip_norm` without. One release per round serves all items. Planned with replace factor 2: positive semidefinite contributions
/// would allow `sqrt 2`, which sums of vectors do not make use of, so the replace-one figure is
/// over-counted. A user without records adds nothing.
#[derive(Debug)]
pub struct UserGramian<'a>(pub &'a ItemStatistics<'a>);

/// One user's share of the right-hand sides, `b_i = sum_j w_ij f_j`, as one vector.
///
/// # Privacy
/// Squared norm `sum_i w_ij^2 ||f_j||^2 <= F^2`: the L2 sensitivity is `F` when one user is added or removed, 1 with biases.
#[derive(Debug)]
pub struct ImplicitSums<'a>(pub &'a ItemStatistics<'a>);

/// Working memory of a contribution; `None` never happens with a checked length.
pub(super) type ImplicitScratch = (Option<UserScratch>, FactorBuffer);

impl VectorContribution for UserGramian<'_> {
    type Scratch = ImplicitScratch;

    fn scratch(&self) -> ImplicitScratch {
        self.0.describing_scratch()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut ImplicitScratch, out: &mut SparseBuffer) {
        if user.is_empty() {
            return;
        }
        self.0.describe(user, own);
        let f = &own.1.factor;
        let pairs = (0..f.len()).flat_map(|a| (a..f.len()).map(move |b| (a, b)));
        for (at, (a, b)) in (0..).zip(pairs) {
            let scale = if a == b { 1.0 } else { OFF_DIAGONAL };
            out.push(at, INSIDE * scale * f[a] * f[b]);
        }
    }
}

impl VectorContribution for ImplicitSums<'_> {
    type Scratch = ImplicitScratch;

    fn scratch(&self) -> ImplicitScratch {
        self.0.describing_scratch()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut ImplicitScratch, out: &mut SparseBuffer) {
        self.0.describe(user, own);
        let own = &own.1;
        let dim = u32::try_from(own.factor.len()).unwrap_or(u32::MAX); // at most 256
        let records = user.items().iter().zip(&own.weights).zip(&own.labels);
        for ((&item, w), y) in records {
            for (k, f) in (0..).zip(&own.factor) {
                // the plan refuses catalogues where this would not fit
                out.push(
                    item.saturating_mul(dim).saturating_add(k),
                    INSIDE * w * y * f,
                );
            }
        }
    }
}

/// What one round released.
struct Round {
    dim: usize,
    matrices: Option<ReleasedGrams>,
    gramian: Option<ReleasedVector>,
    sums: Option<ReleasedVector>,
}

impl MatrixFactorization {
    /// One round of implicit feedback: users, sums, noise, items. Spends are taken in the order of the plan.
    pub(super) fn implicit_round(
        &self,
        implicit: &ImplicitFeedback,
        data: &Private<Interactions>,
        weights: &TaskWeights,
        mut rounds: RoundState,
        run: &mut Run<'_>,
        noise: &mut NoiseSource,
    ) -> Result<RoundState> {
        let statistics = self.statistics(rounds.dim, &rounds.factors, weights)?;
        let dim = statistics.n_coordinates();
        let mut round = Round {
            dim,
            matrices: None,
            gramian: None,
            sums: None,
        };
        // all spends of the round are paid together, so that a crash loses whole rounds
        let (matrix, gramian, rhs) =
            match (implicit.releases_matrices(), implicit.releases_gramian()) {
                (true, true) => {
                    let [matrix, gramian, rhs] = run.next()?;
                    (Some(matrix), Some(gramian), rhs)
                }
                (true, false) => {
                    let [matrix, rhs] = run.next()?;
                    (Some(matrix), None, rhs)
                }
                (false, _) => {
                    let [gramian, rhs] = run.next()?;
                    (None, Some(gramian), rhs)
                }
            };
        let rhs_noise = rhs.noise_multiplier()?;
        if let Some(spend) = gramian {
            let sum = (&UserGramian(&statistics), packed_len(dim));
            let bound = self.params().factor_bound().powi(2);
            round.gramian = Some(release_shown(data, sum, bound, spend, run, noise)?);
        }
        match matrix {
            Some(matrix) => {
                let grids = self.grids(matrix.noise_multiplier()?, rhs_noise)?;
                let sums = GramSums::accumulate(data, grids, &statistics)?;
                let released = sums.release(matrix, rhs, noise)?;
                run.show(Released::Statistics {
                    factors: &rounds.factors,
                    released: &released,
                });
                round.matrices = Some(released);
            }
            None => {
                let sum = (&ImplicitSums(&statistics), weights.omega().len() * dim);
                let bound = self.params().factor_bound();
                round.sums = Some(release_shown(data, sum, bound, rhs, run, noise)?);
            }
        }
        let solved = self.solve_implicit(implicit, weights.omega(), &round)?;
        rounds.advance(self.rows(solved, rounds.dim), rhs_noise);
        Ok(rounds)
    }

    /// Coefficients of the items, in the coordinates of users' factors, from what a round released, by post-processing:
    ///
    /// ```text
    /// per item:               x_i = (PSD(A_i) + a0 PSD(G) + ridge I)^-1 b_i
    /// pooled:                 x_i = ((n_i + a0 n) C + ridge I)^-1 b_i,   C = PSD(G)/n,   n = tr PSD(G)
    ///                         n_i = max(0, b_i0 / sqrt(1 - Gamma^2))
    /// pooled without biases:  x_i = (a0 PSD(G) + ridge I)^-1 b_i
    /// ```
    ///
    /// With biases all users carry the same first coordinate, so that `b_i` itself tells the weight `n_i = sum_j w_ij`,
    /// and all have norm 1, so that the trace tells their number. Without, nothing tells `n_i`, which is left out beside
    /// `a0 n`: the users who have the item are few among all. Items without weight `omega` get 0.
    fn solve_implicit(
        &self,
        implicit: &ImplicitFeedback,
        omega: &[f64],
        round: &Round,
    ) -> Result<Vec<f64>> {
        let dim = round.dim;
        let a0 = implicit.item_unobserved_weight;
        let is_biased = self.params().score_model.is_biased();
        let bias = bias_coordinate(self.params().clip_norm, dim);
        let all_users = round.all_users()?;
        let mut factors = match &round.sums {
            Some(sums) => sums.values(),
            None => vec![0.0; round.matrices.as_ref().map_or(0, ReleasedGrams::n_items) * dim],
        };
        let ridge = match (&round.matrices, &round.sums) {
            (Some(released), _) => ridge(self.params(), released.matrix_noise_stddev(), dim),
            (None, sums) => {
                let noise = sums.as_ref().map_or(0.0, ReleasedVector::noise_stddev);
                ridge(self.params(), noise, dim)
            }
        };
        let items = factors.par_chunks_mut(dim).zip(omega).enumerate();
        items.try_for_each_init(
            || vec![0.0; dim * dim],
            |matrix, (item, (x, &omega))| {
                if omega <= 0.0 {
                    x.fill(0.0);
                    return Ok(());
                }
                let scale = match &round.matrices {
                    Some(released) => {
                        released.write_item(item, matrix, x);
                        project_psd_in_place(matrix, dim)?;
                        a0
                    }
                    None => {
                        matrix.fill(0.0);
                        let weight = if is_biased { x[0] / bias } else { 0.0 };
                        a0 + weight.max(0.0) / all_users.n_users
                    }
                };
                for (entry, g) in matrix.iter_mut().zip(&all_users.gramian) {
                    *entry += scale * g;
                }
                for k in 0..dim {
                    matrix[k * dim + k] += ridge;
                }
                cholesky_in_place(matrix, dim)?;
                cholesky_solve_in_place(matrix, dim, x)?;
                Ok::<_, dp_linalg::Error>(())
            },
        )?;
        Ok(factors)
    }
}

/// The released Gramian of all users, projected.
struct AllUsers {
    gramian: Vec<f64>,
    n_users: f64,
}

impl Round {
    fn all_users(&self) -> Result<AllUsers> {
        let dim = self.dim;
        let mut gramian = vec![0.0; dim * dim];
        if let Some(released) = &self.gramian {
            let mut packed = released.values();
            let pairs = (0..dim).flat_map(|a| (a..dim).map(move |b| (a, b)));
            for (entry, (a, b)) in packed.iter_mut().zip(pairs) {
                if a != b {
                    *entry /= OFF_DIAGONAL;
                }
            }
            unpack_symmetric(&packed, dim, &mut gramian)?;
            project_psd_in_place(&mut gramian, dim)?;
        }
        let trace: f64 = (0..dim).map(|k| gramian[k * dim + k]).sum();
        Ok(AllUsers {
            gramian,
            n_users: trace.max(1.0),
        })
    }
}

/// Releases a vector sum, with its number of coordinates, of L2 sensitivity `bound`, and shows it.
fn release_shown<C: VectorContribution>(
    data: &Private<Interactions>,
    (contribution, n_coordinates): (&C, usize),
    bound: f64,
    spend: Spend,
    run: &mut Run<'_>,
    noise: &mut NoiseSource,
) -> Result<ReleasedVector> {
    let (label, grid) = (
        spend.label().to_owned(),
        Grid::new(spend.noise_multiplier()?, bound)?,
    );
    let sum = VectorSum::accumulate(data, n_coordinates, grid, contribution)?;
    let released = sum.release(spend, noise)?;
    run.show(Released::Sum {
        label: &label,
        released: &released,
        grid: &grid,
        one_user: &|row| vector_contribution(&grid, n_coordinates, contribution, row),
    });
    Ok(released)
}
