//! Implicit feedback: its settings, the Gramian of all users, and the solve with it.

use dp_core::{UserRow, parallel, params};
use dp_linalg::{
    cholesky_in_place, cholesky_solve_in_place, packed_len, project_psd_in_place, unpack_symmetric,
};
use dp_mechanism::{
    FactorBuffer, ReleasedGrams, ReleasedVector, Run, SparseBuffer, VectorContribution,
};

use super::fit::{RoundState, Weighted};
use super::item_posterior::dot;
use super::item_update::{ItemStatistics, add_row, bias_coordinate, ridge};
use super::params::{MatrixFactorization, in_public_range};
use super::user_step::UserScratch;
use crate::solve::{SystemNoise, inverse};
use crate::{Error, Result};

/// Factor of off-diagonal entries in the isometric coordinates of symmetric matrices.
pub(super) const OFF_DIAGONAL: f64 = std::f64::consts::SQRT_2;
/// Keeps rounding from pushing a contribution over its bound, in which case the kernel would drop
/// it.
pub(super) const INSIDE: f64 = 1.0 - 1e-12;

/// The meaning of the records of a table.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// Values are ratings to be predicted; items without a record carry no information.
    #[default]
    Explicit,
    /// A record is a positive (its value is ignored); every other item is a weak negative.
    Implicit(ImplicitFeedback),
}

impl Feedback {
    /// The settings of implicit feedback.
    #[must_use]
    pub const fn implicit(&self) -> Option<&ImplicitFeedback> {
        match self {
            Self::Explicit => None,
            Self::Implicit(settings) => Some(settings),
        }
    }
}

/// The Gramian used in the item step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemGramian {
    /// A separate one for each item, `d x d` released numbers per item (Krichene et al. 2023,
    /// Algorithm 3).
    PerItem,
    /// One for all items, scaled by each item's released weight (without biases, the same for all):
    /// `d x d` released numbers in total.
    Pooled,
}

/// Settings of implicit feedback; public, like all settings.
///
/// ```text
/// sum over records (1 - score_ij)^2  +  a0 sum over all items score_ij^2
/// ```
///
/// Source: implicit alternating least squares (Hu, Koren and Volinsky 2008), as used by Krichene et
/// al. 2023. Each `a0` is 0 or from 1e-6 to 1e6.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImplicitFeedback {
    /// `a0` of the user step during training.
    pub training_unobserved_weight: f64,
    /// `a0` of the user step with the finished factors.
    pub fold_in_unobserved_weight: f64,
    /// `a0` of the item step, on the scale of the users' normalised record weights. With
    /// [`ItemGramian::PerItem`] and 0 no Gramian of all users is released.
    pub item_unobserved_weight: f64,
    /// The Gramian used in the item step.
    pub item_gramian: ItemGramian,
    /// Share of each round's budget spent on the Gramian of all users, strictly between 0 and 1.
    pub gramian_share: f64,
}

impl ImplicitFeedback {
    pub(super) fn check(&self) -> Result<()> {
        for (name, value) in [
            (
                "training_unobserved_weight",
                self.training_unobserved_weight,
            ),
            ("fold_in_unobserved_weight", self.fold_in_unobserved_weight),
            ("item_unobserved_weight", self.item_unobserved_weight),
        ] {
            params::finite_non_negative(name, value)?;
            in_public_range(name, value.max(1e-6))?;
        }
        params::open_unit("gramian_share", self.gramian_share)?;
        Ok(())
    }

    /// Whether each round releases the Gramian of all users.
    #[must_use]
    pub fn releases_gramian(&self) -> bool {
        self.item_gramian == ItemGramian::Pooled || self.item_unobserved_weight > 0.0
    }

    /// Whether each round releases the matrices of all items.
    #[must_use]
    pub fn releases_matrices(&self) -> bool {
        self.item_gramian == ItemGramian::PerItem
    }
}

/// One user's contribution to the Gramian of all users, `G = sum_j f_j f_j^T`.
///
/// The packed upper triangle with off-diagonal entries times `sqrt 2`; `f_j` as in
/// [`ItemStatistics`].
///
/// # Privacy
/// `f_j` has norm at most `F`, and in these coordinates the norm of the contribution is the
/// Frobenius norm `||f_j f_j^T|| = ||f_j||^2 <= F^2`, the L2 sensitivity when one user is added or
/// removed; `F` is 1 with biases and `clip_norm` without. One release per round is used for all
/// items. Planned with replace factor 2: positive semidefinite contributions would permit `sqrt 2`,
/// but sums of vectors do not use this, so epsilon under replacement is overestimated. A user
/// without records adds nothing.
#[derive(Debug)]
pub struct UserGramian<'a>(pub &'a ItemStatistics<'a>);

/// One user's contribution to the right-hand sides, `b_i = sum_j w_ij f_j`, as one vector.
///
/// # Privacy
/// Squared norm `sum_i w_ij^2 ||f_j||^2 <= F^2`: the L2 sensitivity is `F` when one user is added or removed, 1 with biases.
#[derive(Debug)]
pub struct ImplicitSums<'a>(pub &'a ItemStatistics<'a>);

/// Scratch memory of a contribution; `None` never occurs with a checked length.
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
        let records = user.items().iter().zip(&own.weights).zip(&own.labels);
        for ((&item, w), y) in records {
            add_row(out, (0, item), INSIDE * w * y, &own.factor);
        }
    }
}

/// Replaces a contribution that is not used: only noise is released.
pub(super) struct NoContribution;

impl VectorContribution for NoContribution {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, _: UserRow<'_>, (): &mut (), _: &mut SparseBuffer) {}
}

/// The releases of one round.
pub(super) struct LikesRound {
    dim: usize,
    matrices: Option<ReleasedGrams>,
    gramian: Option<ReleasedVector>,
    sums: Option<ReleasedVector>,
}

impl MatrixFactorization {
    /// One round of implicit feedback: user steps, sums, noise, item step.
    pub(super) fn implicit_round(
        &self,
        implicit: &ImplicitFeedback,
        on: &Weighted<'_>,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let rhs_noise = self.rhs_noise(run.plan(), rounds.n_rounds + 1)?;
        let statistics = self.statistics(rounds.dim, &rounds.factors, on.weights)?;
        let (dim, omega) = (statistics.n_coordinates(), on.weights.omega());
        let bound = self.params().factor_bound();
        let mut round = LikesRound {
            dim,
            matrices: None,
            gramian: None,
            sums: None,
        };
        if implicit.releases_gramian() {
            let shape = (packed_len(dim), bound.powi(2));
            round.gramian = Some(run.vector(on.data, shape, &UserGramian(&statistics))?);
        }
        if implicit.releases_matrices() {
            let grids = |of_matrix, of_rhs| self.grids(of_matrix, of_rhs);
            round.matrices = Some(run.grams::<_, Error>(on.data, grids, &statistics)?);
        } else {
            let shape = (omega.len() * dim, bound);
            round.sums = Some(run.vector(on.data, shape, &ImplicitSums(&statistics))?);
        }
        let solved = self.solve_implicit(implicit, omega, &round)?;
        rounds.advance(self.rows(solved, rounds.dim), rhs_noise);
        rounds.likes = Some(round);
        Ok(())
    }

    /// Coefficients of the items, in the coordinates of users' factors, from a round's releases, by
    /// post-processing:
    ///
    /// ```text
    /// per item:               x_i = (PSD(A_i) + a0 PSD(G) + ridge I)^-1 b_i
    /// pooled:                 x_i = ((n_i + a0 n) C + ridge I)^-1 b_i,   C = PSD(G)/n,   n = tr PSD(G)
    ///                         n_i = max(0, b_i0 / sqrt(1 - Gamma^2))
    /// pooled without biases:  x_i = (a0 PSD(G) + ridge I)^-1 b_i
    /// ```
    ///
    /// With biases all users have the same first coordinate, so `b_i` itself contains the weight
    /// `n_i = sum_j w_ij`, and all have norm 1, so the trace contains the number of users. Without
    /// biases, nothing contains `n_i`, which is neglected relative to `a0 n`: the users who have
    /// the item are few among all. Items without weight `omega` get 0.
    fn solve_implicit(
        &self,
        implicit: &ImplicitFeedback,
        omega: &[f64],
        round: &LikesRound,
    ) -> Result<Vec<f64>> {
        let (dim, a0) = (round.dim, implicit.item_unobserved_weight);
        let all_users = round.all_users()?;
        let mut factors = match &round.sums {
            Some(sums) => sums.values(),
            None => vec![0.0; round.matrices.as_ref().map_or(0, ReleasedGrams::n_items) * dim],
        };
        let ridge = match (&round.matrices, &round.sums) {
            (Some(released), _) => ridge(self.params(), released.matrix_noise_stddev(), dim),
            (None, sums) => ridge(self.params(), noise_of(sums), dim),
        };
        parallel::try_for_each(
            factors.chunks_mut(dim).zip(omega).enumerate(),
            || Ok(vec![0.0; dim * dim]),
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
                        a0 + self.weight_of_likes(x) / all_users.n_users
                    }
                };
                all_users.add_to(matrix, scale, ridge);
                cholesky_in_place(matrix, dim)?;
                cholesky_solve_in_place(matrix, dim, x)?;
                Ok::<_, dp_linalg::Error>(())
            },
        )?;
        Ok(factors)
    }

    /// `n_i` of an item with these sums, 0 without biases.
    fn weight_of_likes(&self, sums: &[f64]) -> f64 {
        match self.params().score_model.is_biased() {
            true => (sums[0] / bias_coordinate(self.params().clip_norm, sums.len())).max(0.0),
            false => 0.0,
        }
    }

    /// Standard deviations of the mechanism's noise in the item factors of the last round, rows of
    /// length `dim`, to first order in the noise:
    ///
    /// ```text
    /// per item   H_i = PSD(A_i) + a0 PSD(G) + ridge I      d x_i = H_i^-1 (d b_i - (E_i + a0 E) x_i)
    /// pooled     H_i = (n_i + a0 n) C + ridge I            d x_i = H_i^-1 (d b_i - d n_i C x_i - (n_i/n + a0) E x_i)
    ///            n_i = 0 without biases
    /// ```
    ///
    /// `d b_i` has independent entries, and `E`, the noise of the Gramian, is symmetric with
    /// entries off the diagonal of half the variance of those on it; the noise of `n`, and what the
    /// projection removes of `E`, are neglected. Where the Gramian is mostly noise, the result is
    /// too large. The noise of earlier rounds determines the axes of users' factors and thus what
    /// `x_i` estimates; what the ridge shrinks away is not noise and not included. 0 for items that
    /// are not learned. Post-processing.
    pub(super) fn noise_of_likes(
        &self,
        implicit: &ImplicitFeedback,
        round: &LikesRound,
        (rows, length): (&[f64], usize),
    ) -> Result<Option<Vec<f64>>> {
        let (dim, a0) = (round.dim, implicit.item_unobserved_weight);
        let all_users = round.all_users()?;
        let of_gramian = noise_of(&round.gramian).powi(2);
        if let Some(released) = &round.matrices {
            let mut common = all_users.gramian;
            common.iter_mut().for_each(|g| *g *= a0);
            let of_common = a0 * a0 * of_gramian;
            return (self.noise_of_grams(released, (&common, of_common), (rows, length))).map(Some);
        }
        let (Some(sums), Some(_)) = (&round.sums, &round.gramian) else {
            return Ok(None);
        };
        let coefficients = self.coefficients(rows, length);
        let values = sums.values();
        let ridge = ridge(self.params(), sums.noise_stddev(), dim);
        let bias = bias_coordinate(self.params().clip_norm, dim);
        // without biases, the same for all items
        let of_all = all_users.inverse_with(a0, ridge, dim)?;
        let mut stddevs = vec![0.0; values.len()];
        parallel::try_for_each(
            stddevs.chunks_mut(dim).enumerate(),
            || Ok(vec![0.0; dim]),
            |pulled, (item, out)| {
                let x = &coefficients[item * dim..][..dim];
                if x.iter().all(|x| *x == 0.0) {
                    return Ok(());
                }
                let n_i = self.weight_of_likes(&values[item * dim..][..dim]);
                let scale = a0 + n_i / all_users.n_users;
                let (own, by_n) = match n_i > 0.0 {
                    true => (
                        &all_users.inverse_with(scale, ridge, dim)?,
                        bias * all_users.n_users,
                    ),
                    false => (&of_all, f64::INFINITY),
                };
                // C x, as far as the noise of the first coordinate changes n_i
                for (to, row) in pulled.iter_mut().zip(all_users.gramian.chunks_exact(dim)) {
                    *to = dot(row, x) / by_n;
                }
                // with item biases alone, C is 1 and has no noise
                let by_gramian = if dim == 1 { a0 } else { scale };
                let noise = SystemNoise {
                    rhs: sums.noise_stddev().powi(2),
                    matrix: by_gramian * by_gramian * of_gramian,
                };
                noise.write_stddevs(own, (x, pulled), out);
                Ok::<_, dp_linalg::Error>(())
            },
        )?;
        Ok(Some(self.rows(stddevs, length)))
    }
}

/// The standard deviation of the noise in sums, 0 if there are none.
fn noise_of(sums: &Option<ReleasedVector>) -> f64 {
    sums.as_ref().map_or(0.0, ReleasedVector::noise_stddev)
}

/// The released Gramian of all users, projected.
struct AllUsers {
    gramian: Vec<f64>,
    n_users: f64,
}

impl AllUsers {
    /// Adds `scale G + ridge I` to `matrix`.
    fn add_to(&self, matrix: &mut [f64], scale: f64, ridge: f64) {
        let dim = matrix.len().isqrt();
        for (entry, g) in matrix.iter_mut().zip(&self.gramian) {
            *entry += scale * g;
        }
        for k in 0..dim {
            matrix[k * dim + k] += ridge;
        }
    }

    /// The inverse of `scale G + ridge I`.
    fn inverse_with(&self, scale: f64, ridge: f64, dim: usize) -> dp_linalg::Result<Vec<f64>> {
        let mut matrix = vec![0.0; dim * dim];
        self.add_to(&mut matrix, scale, ridge);
        inverse(&mut matrix, dim)
    }
}

/// Overwrites `matrix` by what was released of [`UserGramian`].
pub(super) fn unpack_gramian(
    released: &ReleasedVector,
    dim: usize,
    matrix: &mut [f64],
) -> Result<()> {
    let mut packed = released.values();
    let pairs = (0..dim).flat_map(|a| (a..dim).map(move |b| (a, b)));
    for (entry, (a, b)) in packed.iter_mut().zip(pairs) {
        if a != b {
            *entry /= OFF_DIAGONAL;
        }
    }
    Ok(unpack_symmetric(&packed, dim, matrix)?)
}

impl LikesRound {
    fn all_users(&self) -> Result<AllUsers> {
        let dim = self.dim;
        let mut gramian = vec![0.0; dim * dim];
        if let Some(released) = &self.gramian {
            unpack_gramian(released, dim, &mut gramian)?;
            project_psd_in_place(&mut gramian, dim)?;
        }
        let trace: f64 = (0..dim).map(|k| gramian[k * dim + k]).sum();
        Ok(AllUsers {
            gramian,
            n_users: trace.max(1.0),
        })
    }
}
