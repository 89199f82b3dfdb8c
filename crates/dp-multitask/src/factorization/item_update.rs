//! Item steps, and which records they use.

use dp_core::{ParamError, ShapeError, UserRow, parallel, params};
use dp_linalg::project_psd_in_place;
use dp_mechanism::{
    FactorBuffer, FactorContribution, GramGrids, GramLayout, ReleasedGrams, ReleasedVector, Run,
    SparseBuffer, VectorContribution,
};

use super::fit::{RoundState, Weighted};
use super::implicit::unpack_gramian;
use super::item_posterior::{Known, RoundSums, dot};
use super::item_prior::ItemPrior;
use super::model::UserPenalties;
use super::params::{FactorizationParams, MatrixFactorization, in_public_range};
use super::user_step::{Design, UserScratch, UserStep, lane_dot};
use crate::allocation::{Selection, TaskWeights};
use crate::regression::{Descent, GradientClip, ResidualBounds, StepSize, TaskScales};
use crate::solve::{PooledSolve, SystemNoise, inverse, solve_systems};
use crate::{LocalBias, NoisyCounts, Result};

/// Components of a predicted rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreModel {
    /// `c + o_j + h_i + <q_i, v_j>`: a user offset and an item bias in addition to the taste
    /// factors. Users' taste vectors are scaled to norm `clip_norm`; a constant coordinate
    /// completes them to norm 1.
    #[default]
    Biased,
    /// `c + <q_i, v_j>`, the model of Krichene et al. 2023: no offset, and `h_i = 0`; with released
    /// counts `h_i` is at most 1e-6, which gives users without records the items that most users
    /// have. Users' vectors longer than `clip_norm` are shortened to it; single labels are clipped
    /// to `label_bound`. With implicit feedback `c` is 0.
    Plain,
}

impl ScoreModel {
    pub(crate) const fn is_biased(&self) -> bool {
        matches!(self, Self::Biased)
    }

    /// Number of coordinates of item statistics for factors of dimension `dim`.
    pub(crate) const fn coordinates(self, dim: usize) -> usize {
        match self {
            Self::Biased => dim,
            Self::Plain => dim.saturating_sub(1),
        }
    }
}

/// Which of a user's records enter the item statistics. The local user step uses all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum RecordSampling {
    /// All records.
    #[default]
    All,
    /// A fixed number, selected by a hash of the user's own records, as in
    /// [`BudgetAllocation::UniformSampling`](crate::BudgetAllocation::UniformSampling).
    Uniform {
        /// Number of records kept per user, 1 or above.
        records_per_user: usize,
        /// Public seed of the hash.
        seed: u64,
    },
    /// A fixed number, those of the items with the smallest released counts.
    Tail {
        /// Number of records kept per user, 1 or above.
        records_per_user: usize,
    },
}

impl RecordSampling {
    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::All => {}
            Self::Uniform {
                records_per_user, ..
            }
            | Self::Tail { records_per_user } => {
                params::at_least_one("records_per_user", records_per_user)?;
            }
        }
        Ok(())
    }

    pub(super) const fn needs_counts(self) -> bool {
        matches!(self, Self::Tail { .. })
    }

    pub(super) fn selection(self, counts: Option<&NoisyCounts>) -> Selection {
        match self {
            Self::All => Selection::All,
            Self::Uniform {
                records_per_user: tasks_per_user,
                seed,
            } => Selection::Uniform {
                tasks_per_user,
                seed,
            },
            Self::Tail {
                records_per_user: tasks_per_user,
            } => Selection::Tail {
                tasks_per_user,
                counts: counts.map_or_else(Vec::new, |counts| counts.values().to_vec()),
            },
        }
    }
}

/// How a round computes item factors from users' contributions. For ratings; implicit feedback
/// supports only [`Ssp`](Self::Ssp).
///
/// | variant | releases in a round | source |
/// |---|---|---|
/// | `Ssp` | matrices and right-hand sides of all items | Krichene et al. 2023, Algorithms 1 and 3 (DPALS, AdaDPALS) |
/// | `NoisyGd` | one sum of clipped gradients | Algorithms 2 and 3 (DPSGD, AdaDPSGD) |
/// | `Residual` | as `Ssp` at first, then one sum of clipped residuals | see [`ResidualRounds`] |
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemUpdate {
    /// Sufficient statistics, solved from scratch in every round.
    #[default]
    Ssp,
    /// One noisy gradient step per round.
    NoisyGd(GradientRounds),
    /// Sufficient statistics, then Newton steps on residuals.
    Residual(ResidualRounds),
}

/// One released matrix for all items instead of one each: `A_i = W_i C`, with `C` the average of
/// users' `f_j f_j^T` from one sum per round, and `W_i` the items' released total weights.
///
/// Requires noise on `d(d+1)/2` numbers instead of that many per item, and very little computation.
/// Accurate as long as an item's users are similar to all users.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PooledMatrices {
    /// Share of the budget (after the counts) for the single release of the `W_i`, strictly between
    /// 0 and 1.
    pub weight_share: f64,
}

impl Default for PooledMatrices {
    fn default() -> Self {
        Self { weight_share: 0.02 }
    }
}

/// Settings of [`ItemUpdate::NoisyGd`].
///
/// ```text
/// x_i <- P_R[x_i + eta_i (sum_j w_ij e_ij f_j + noise)],    e_ij = y_ij - <x_i, f_j>
/// ```
///
/// Every round solves for the users again and takes one step: a second step for the same users
/// would be another release, no cheaper than a round. `f_j`, `w_ij` and `y_ij` are those of
/// [`ItemStatistics`](crate::ItemStatistics), except that the joint clipping of labels is replaced
/// by that of the contributions; `x_i` are the item's coefficients in their coordinates.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradientRounds {
    /// Bound on a user's residuals, in data units: see [`clip`](Self::clip).
    pub residual_bound: f64,
    /// Whether all of a user's weighted residuals are bounded together or each separately.
    pub clip: GradientClip,
    /// Steps `eta_i`, for the released total weights `W_i`.
    pub step_size: StepSize,
    /// Radius `R` of the ball to which every item's coefficients are restricted, in data units.
    pub radius: f64,
    /// Share of the budget (after the counts) for the single release of the `W_i`, strictly between
    /// 0 and 1.
    pub weight_share: f64,
}

/// Settings of [`ItemUpdate::Residual`].
///
/// ```text
/// x_i <- x_i + (PSD(A_i) + ridge_i I)^-1 (r_i - pull ridge_i x_i)
/// r_i = sum_j w_ij e_ij f_j + noise,    a user's residuals bounded by c_t
/// ```
///
/// The matrices stay those of the last round of sufficient statistics, so that later rounds spend
/// everything on right-hand sides, whose noise decreases with `c_t`. This is valid as long as
/// users' factors have converged: steps converge where `A_i` is more than half of the current one.
/// With `pull` 1 the fixed point is the ridge solution; with 0 there is no ridge and the noise of
/// all steps accumulates in directions without data.
///
/// With [`PooledMatrices`] items are instead the posterior means given the sums of all residual
/// rounds, for any number of taste factors:
///
/// ```text
/// y_i = mean_t(r_it / pi + W_i C x_it) by the precisions pi^2/s_t^2 ~ N(W_i C x_i, s^2 I),     s^-2 = sum_t pi^2/s_t^2
/// C x_i ~ N(a + b ln W_i + columns, M),                     x_i <- C^-1 E[C x_i | y_i]
/// ```
///
/// with `a`, `b` and `M` that maximise the marginal likelihood of the sums of all items (empirical
/// Bayes, Efron and Morris 1973), and the weights of the columns of an
/// [`ItemPrior`](crate::ItemPrior): if sums show nothing above their noise, users keep only their
/// own means. `pi` is 0.5 for item biases alone and 0.7 with taste factors: approximately the part
/// of residuals that `c_t` does not clip. For item biases alone, rounds of statistics also use
/// labels minus the current biases, and count as residual rounds. [`pull`](Self::pull) has no
/// effect.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualRounds {
    /// Number of rounds of sufficient statistics before the residual ones, 1 or above.
    pub n_statistics_rounds: usize,
    /// Bounds `c_t`, in data units. Geometric ones are `label_bound * ratio^t`, with `t` from 1 at
    /// the first residual round; listed ones have one entry per residual round.
    pub bounds: ResidualBounds,
    /// Whether all of a user's weighted residuals are bounded together or each separately.
    pub clip: GradientClip,
    /// From 0 to 1. No effect with pooled matrices.
    pub pull: f64,
    /// Whether a user's contribution to an item comes from a user step without the user's record of
    /// it. A factor fitted to a rating explains part of its noise, which items would learn as if it
    /// were common to users. See [`ItemResiduals`].
    ///
    /// The first of these rounds then learns taste factors afresh, starting at 0, because those of
    /// earlier rounds have learned such noise; its bound is that of a round of statistics. Before,
    /// what these factors say to all users alike, `<m, q_i>` with the users' mean taste vector m, is
    /// added to the item biases.
    #[serde(default)]
    pub leave_one_out: bool,
    /// Newly learned taste factors are dropped, if the dimension of the factors is by rule, unless
    /// their residual sums exceed the noise by enough:
    ///
    /// ```text
    /// S(m) = sum_i ||r_i - m r_i0||^2 - n (d + ||m||^2) sigma^2      r_i without its first coordinate r_i0, d = dim - 1
    /// S(0) >= least_signal U,   S(mean) >= U,   S(best) >= 2 U       U = G^2 B^2 tr(sum_j f_j f_j^T)
    /// ```
    ///
    /// `mean` is `sum_j f_j / sum_j f_j0`, along which errors of the item biases appear, and `best`
    /// the least-squares slopes of `r_i` on `r_i0`. All three must also be 4.5 standard deviations
    /// of what noise adds above it; otherwise the taste factors are dropped at once. `S(mean)` does
    /// not matter if `S(best)` is 10 standard deviations and at least `5 U`. Ratings without taste
    /// factors have at most about `U`, where every user is at the bound, but weak taste factors may
    /// have no more: where only a limit in `U` is missed, users [vote](Self::taste_vote_share). Uses
    /// releases only. 0 drops none.
    #[serde(default)]
    pub least_signal: f64,
    /// Share of the budget, below 1, for the users' votes on newly learned taste factors, after the
    /// second of these rounds, or the only one: see [`TasteVotes`](super::TasteVotes). Where nothing
    /// is left to decide, it is spent on noise. No effect if `least_signal` is 0, without
    /// `leave_one_out` or if the dimension of the factors is set. 0 releases no votes, and weak taste
    /// factors are then dropped.
    #[serde(default)]
    pub taste_vote_share: f64,
}

impl ItemUpdate {
    pub(super) fn check(&self, n_rounds: usize) -> Result<()> {
        match self {
            Self::Ssp => Ok(()),
            Self::NoisyGd(settings) => settings.check(),
            Self::Residual(settings) => settings.check(n_rounds),
        }
    }

    /// Whether round `round` (from 0) releases matrices and right-hand sides.
    pub(super) const fn releases_statistics(&self, round: usize) -> bool {
        match self {
            Self::Ssp => true,
            Self::NoisyGd(_) => false,
            Self::Residual(settings) => round < settings.n_statistics_rounds,
        }
    }

    /// Total number of releases of the first `n_rounds` rounds, at most 1000 rounds.
    pub(super) fn releases_of(&self, n_rounds: usize) -> usize {
        let double = match self {
            Self::Ssp => n_rounds,
            Self::NoisyGd(_) => 0,
            Self::Residual(settings) => n_rounds.min(settings.n_statistics_rounds),
        };
        n_rounds + double
    }
}

impl GradientRounds {
    /// Defaults by rule for labels within `label_bound`: residuals within the same bound, and the
    /// curvature of factors of norm 1 that is spread evenly over `dim` coordinates.
    #[must_use]
    pub fn new(label_bound: f64, dim: usize) -> Self {
        Self {
            residual_bound: label_bound,
            clip: GradientClip::Joint,
            step_size: StepSize::Curvature {
                rate: 1.0,
                curvature: (dim.max(1) as f64).recip(),
                damping: 1.0,
            },
            radius: 3.0 * label_bound,
            weight_share: 0.02,
        }
    }

    fn check(&self) -> Result<()> {
        in_public_range("residual_bound", self.residual_bound)?;
        in_public_range("radius", self.radius)?;
        params::open_unit("weight_share", self.weight_share)?;
        self.step_size.check()
    }
}

impl ResidualRounds {
    /// Three rounds of statistics, then bounds that shrink to 0.9 of the previous one, without pull
    /// and with all records of a user.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            n_statistics_rounds: 3,
            bounds: ResidualBounds::Geometric { ratio: 0.9 },
            clip: GradientClip::Joint,
            pull: 0.0,
            leave_one_out: false,
            least_signal: 0.0,
            taste_vote_share: 0.0,
        }
    }

    fn check(&self, n_rounds: usize) -> Result<()> {
        params::at_least_one("n_statistics_rounds", self.n_statistics_rounds)?;
        let n_residual = n_rounds.saturating_sub(self.n_statistics_rounds);
        self.bounds.check(n_residual)?;
        params::finite_non_negative("least_signal", self.least_signal)?;
        if self.taste_vote_share != 0.0 {
            params::open_unit("taste_vote_share", self.taste_vote_share)?;
        }
        if (0.0..=1.0).contains(&self.pull) {
            return Ok(());
        }
        Err(ParamError::new("pull", self.pull, "a number from 0 to 1").into())
    }

    /// `c_t` of round `round`, counted from 0 at the first of all rounds.
    pub(super) fn bound(&self, label_bound: f64, round: usize) -> f64 {
        let step = round.saturating_sub(self.n_statistics_rounds);
        match &self.bounds {
            ResidualBounds::Geometric { .. } => self.bounds.at(label_bound, step + 1),
            ResidualBounds::Listed { .. } => self.bounds.at(label_bound, step),
        }
    }
}

impl Default for ResidualRounds {
    fn default() -> Self {
        Self::new()
    }
}

/// Taste factors are kept if their sums are this many standard deviations above noise: see
/// [`ResidualRounds::least_signal`].
const LEAST_DEVIATIONS: f64 = 4.5;
/// Least signal without the part along the users' mean taste vector.
const LEAST_ACROSS: f64 = 1.0;
/// Least signal without the part that goes with the sums of the biases.
const LEAST_BESIDE_BIASES: f64 = 2.0;
/// Where this part exceeds so many standard deviations and so much signal, nothing is asked of that
/// without the users' mean taste vector: the longer the vector, the more noise it adds.
const CLEAR: (f64, f64) = (10.0, 5.0);

/// Approximate part of a residual that the bound on users' residuals does not clip, with item
/// biases alone and with taste factors: large contributions are scaled down. Only the speed of
/// convergence and the weighting of rounds depend on it.
const PASSES: [f64; 2] = [0.5, 0.7];

/// Sampling variance of items' sums in units of the squared label bound, with item biases alone and
/// with taste factors. Residuals are divided by [`PASSES`] although more of them passes in later
/// rounds, so the true values are larger; these were chosen on validation ratings
/// (`docs/decisions/0087-sampling-noise.md`).
const SAMPLING: [f64; 2] = [1.0, 0.4];

/// Single labels are clipped to this many label bounds before the user's labels are clipped
/// jointly.
const SINGLE_LABEL_BOUNDS: f64 = 3.0;

/// One user's contribution to the item statistics of one round.
///
/// ```text
/// f_j    = [sqrt(1 - G^2), G v_j / ||v_j||]       user factor, norm at most 1; [1] without taste factors
/// r_ij   = clip(rating - c - offset_j, [-3 B, 3 B])            offset_j from the local user step
/// y_ij   = r_ij min(1, B / sqrt(sum_i w_ij^2 r_ij^2))          the user's joint clipping
/// w_ij     normalised so that sum_i w_ij^2 = 1
///          with ItemUpdate::Residual, pooled matrices and no taste factors: r_ij - h_i instead of r_ij, offset_j without record i
/// A_i += w_ij f_j f_j^T,    b_i += w_ij y_ij f_j
/// ```
///
/// Without biases ([`ScoreModel::Plain`]) a user's factor is `f_j = v_j min(1, G / ||v_j||)`, of norm at most
/// `F = G` instead of `F = 1`, `offset_j` is 0 and single labels are clipped to `[-B, B]`.
///
/// The constant coordinate makes the first coordinate of the item's solution an item bias; `G` is
/// the share of the norm for the taste factors. With implicit feedback every label is 1 and
/// `B = 1`. Source: Krichene et al. 2023, Algorithms 1 and 3, with the regulariser outside the
/// private sum (`docs/errata.md`).
///
/// # Privacy
/// L2 sensitivity of the two sums when one user is added or removed:
///
/// ```text
/// matrices:         sqrt(sum_i w_ij^2 ||f_j||^4)         <= F^2
/// right-hand sides: sqrt(sum_i w_ij^2 y_ij^2 ||f_j||^2)  <= F B
/// ```
///
/// because `sum_i w_ij^2 <= 1` for the records kept (sampling sets the others' weights to 0) and
/// every item has its own block. The contribution is a function of the user's own records, released
/// item factors, released counts and public constants.
pub struct ItemStatistics<'a> {
    design: Design,
    weights: &'a TaskWeights,
    bias: LocalBias,
    penalties: UserPenalties,
    clip_norm: f64,
    label_bound: f64,
    leave_one_out: bool,
    are_residuals: bool,
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
    /// Users' contribution to the item statistics of one round, for factors of dimension `dim`: a
    /// [`FactorContribution`] for [`dp_mechanism::GramSums`].
    ///
    /// # Privacy
    /// `item_factors` and `weights` must be public or released: the sensitivity bound is for a
    /// user's contribution given them.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when `item_factors` does not have one row of length `dim` for each
    /// weight.
    pub fn statistics<'a>(
        &self,
        dim: usize,
        item_factors: &[f64],
        weights: &'a TaskWeights,
    ) -> Result<ItemStatistics<'a>> {
        let expected = dim * weights.omega().len();
        if item_factors.len() != expected || self.params().score_model.coordinates(dim) == 0 {
            return Err(ShapeError::new("item_factors", item_factors.len(), expected).into());
        }
        let params = self.params();
        let pooled_residuals = params.pooled_matrices.is_some()
            && matches!(params.item_update, ItemUpdate::Residual(_));
        Ok(ItemStatistics {
            design: self.design(item_factors, dim),
            weights,
            bias: params.bias(),
            penalties: params.training_penalties,
            clip_norm: params.clip_norm,
            label_bound: params.rhs_bound(),
            leave_one_out: matches!(&params.item_update, ItemUpdate::Residual(of) if of.leave_one_out),
            are_residuals: dim == 1 && pooled_residuals,
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
    /// `item_weights` `W_i` and `C` the matrix divided by its trace:
    /// `x_i = (PSD(A_i) + ridge I)^-1 b_i`, as rows `[h_i, q_i]` with `h_i = sqrt(1 - G^2) x_i0`,
    /// because every user has that constant coordinate; `h_i = 0` without biases. The projection
    /// comes before the ridge. Post-processing of a release.
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
                let noise = released.rhs_noise_stddev() / self.params().label_bound;
                let ridge = ridge(self.params(), noise, n_coordinates);
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

    /// Standard deviations of the mechanism's noise in item factors that have a released matrix
    /// each, rows of length `dim`, to first order in the noise:
    ///
    /// ```text
    /// H_i = PSD(A_i) + common + ridge I          d x_i = H_i^-1 (d b_i - (E_i + E) x_i)
    /// ```
    ///
    /// `E_i` is the noise of the matrix, and `E` that of the `common` one, with variance
    /// `of_common` on the diagonal. What the projection and the ridge remove is not included. 0 for
    /// items that are not learned. Post-processing.
    pub(super) fn noise_of_grams(
        &self,
        released: &ReleasedGrams,
        (common, of_common): (&[f64], f64),
        (rows, length): (&[f64], usize),
    ) -> Result<Vec<f64>> {
        let dim = released.dim();
        let coefficients = self.coefficients(rows, length);
        let ridge = ridge(self.params(), released.matrix_noise_stddev(), dim);
        let noise = SystemNoise {
            rhs: released.rhs_noise_stddev().powi(2),
            matrix: released.matrix_noise_stddev().powi(2) + of_common,
        };
        let mut stddevs = vec![0.0; coefficients.len()];
        parallel::try_for_each(
            stddevs.chunks_mut(dim).enumerate(),
            || Ok((vec![0.0; dim * dim], vec![0.0; dim], vec![0.0; dim])),
            |(matrix, rhs, zero), (item, out)| {
                let x = &coefficients[item * dim..][..dim];
                if x.iter().all(|x| *x == 0.0) {
                    return Ok(());
                }
                released.write_item(item, matrix, rhs);
                project_psd_in_place(matrix, dim)?;
                matrix.iter_mut().zip(common).for_each(|(a, c)| *a += c);
                (0..dim).for_each(|k| matrix[k * dim + k] += ridge);
                noise.write_stddevs(&inverse(matrix, dim)?, (x, zero), out);
                Ok::<_, dp_linalg::Error>(())
            },
        )?;
        Ok(self.rows(stddevs, length))
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
    /// From now on, each record has a factor that is computed without it.
    #[cfg(test)]
    pub(super) const fn leave_out_records(&mut self) {
        self.leave_one_out = true;
    }

    /// Number of items used for users' factors.
    pub(super) fn n_items(&self) -> usize {
        self.weights.omega().len()
    }

    /// Dimension of users' factors `f_j`.
    pub(super) const fn n_coordinates(&self) -> usize {
        self.design.score_model().coordinates(self.design.dim())
    }

    fn write_factor(&self, solution: &[f64], factor: &mut [f64]) {
        let norm = lane_dot(solution, solution).sqrt();
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

    /// Clips each label separately.
    fn write_labels(&self, user: UserRow<'_>, offset: f64, out: &mut FactorBuffer) {
        for (label, &y) in out.labels.iter_mut().zip(user.values()) {
            *label = self.single_label(y, offset);
        }
    }

    fn single_label(&self, rating: f32, offset: f64) -> f64 {
        if self.design.is_implicit() {
            return 1.0;
        }
        let single = match self.design.score_model() {
            ScoreModel::Biased => SINGLE_LABEL_BOUNDS * self.label_bound,
            ScoreModel::Plain => self.label_bound,
        };
        (f64::from(rating) - (self.bias.center + offset)).clamp(-single, single)
    }

    /// Clips all labels of the user jointly.
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

    /// Writes one user's factor, weights and single labels; zeros if there is no scratch memory.
    fn write(&self, user: UserRow<'_>, scratch: &mut Option<UserScratch>, out: &mut FactorBuffer) {
        let Some(scratch) = scratch else { return };
        let solution = self.user_step().solve(user, scratch);
        self.write_factor(solution.factor, &mut out.factor);
        self.weights.weigh(user, &mut out.weights);
        self.write_labels(user, solution.offset, out);
    }

    /// As [`describe`](Self::describe), with a separate factor for each record, `f_j` or the user's
    /// factor without the record, and labels minus its offset.
    pub(super) fn describe_each(&self, user: UserRow<'_>, (described, each): &mut ResidualScratch) {
        self.describe(user, described);
        let (Some(step), own) = (&mut described.0, &mut described.1) else {
            return;
        };
        each.clear();
        if !self.leave_one_out {
            (0..user.len()).for_each(|_| each.extend_from_slice(&own.factor));
            return;
        }
        each.resize(user.len() * own.factor.len(), 0.0);
        let mut factors = each.chunks_exact_mut(own.factor.len());
        self.user_step().leave_one_out(user, step, |at, offset, w| {
            if let Some(factor) = factors.next() {
                self.write_factor(&w[1..], factor);
            }
            own.labels[at] = self.single_label(user.values()[at], offset);
        });
    }

    /// Whether right-hand sides use labels minus the current item biases.
    pub(super) const fn are_residuals(&self) -> bool {
        self.are_residuals
    }

    /// As [`write`](Self::write) with labels minus the item biases, for users without taste
    /// factors.
    fn write_residuals(
        &self,
        user: UserRow<'_>,
        scratch: &mut Option<UserScratch>,
        out: &mut FactorBuffer,
    ) {
        let mut described = ((scratch.take(), std::mem::take(out)), Vec::new());
        self.describe_each(user, &mut described);
        (*scratch, *out) = described.0;
        for (label, &item) in out.labels.iter_mut().zip(user.items()) {
            *label -= self.design.item_bias(item);
        }
    }

    const fn user_step(&self) -> UserStep<'_> {
        UserStep {
            design: &self.design,
            bias: self.bias,
            penalties: self.penalties,
        }
    }

    /// Scratch memory of [`describe`](Self::describe).
    pub(super) fn describing_scratch(&self) -> (Option<UserScratch>, FactorBuffer) {
        (self.scratch(), FactorBuffer::default())
    }

    /// Computes one user's factor, weights and single labels, for sums other than Gram sums.
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
        if self.are_residuals {
            self.write_residuals(user, scratch, out);
        } else {
            self.write(user, scratch, out);
        }
        self.clip_jointly(out);
    }
}

/// What released sums say about newly learned taste factors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Signal {
    /// No more than noise.
    None,
    /// More than noise, but no more than ratings without taste factors may have.
    Weak,
    Strong,
}

/// The average of users' `f f^T` and the sampling variances of the items, from releases.
pub(super) struct ReleasedUsers {
    pub(super) matrix: Vec<f64>,
    sampling: Vec<f64>,
}

/// `sum_j f_j f_j^T` as released.
#[derive(Debug, Clone)]
pub(super) struct UserMatrix {
    dim: usize,
    sum: Vec<f64>,
    /// Of its entries.
    pub(super) noise_stddev: f64,
}

impl UserMatrix {
    /// Of a pooled layout.
    pub(super) fn of_grams(released: &ReleasedGrams, clip_norm: f64) -> Self {
        let dim = released.dim();
        let mut sum = vec![0.0; dim * dim];
        released.write_item(0, &mut sum, &mut vec![0.0; dim]);
        Self {
            dim,
            sum,
            noise_stddev: released.matrix_noise_stddev(),
        }
        .with_constant(clip_norm)
    }

    /// From the release of [`UserGramian`].
    pub(super) fn of_vector(released: &ReleasedVector, dim: usize, clip_norm: f64) -> Result<Self> {
        let mut sum = vec![0.0; dim * dim];
        unpack_gramian(released, dim, &mut sum)?;
        let noise_stddev = released.noise_stddev();
        let of_users = Self {
            dim,
            sum,
            noise_stddev,
        };
        Ok(of_users.with_constant(clip_norm))
    }

    /// With the first entry from the trace: every user's factor has norm 1 (unless it has no tastes)
    /// and the constant coordinate `c`, so that the entry is `c^2` times the trace, which has much less noise relative
    /// to its size.
    fn with_constant(mut self, clip_norm: f64) -> Self {
        self.sum[0] = bias_coordinate(clip_norm, self.dim).powi(2) * self.n_users();
        self
    }

    /// Users' mean taste vector for a constant coordinate of 1, `sum_j f_j / sum_j f_j0` without its
    /// first coordinate. Users' taste vectors have norm `clip_norm` at most, so a longer mean is
    /// noise and is shortened; 0 where noise leaves no constant.
    pub(super) fn mean_tastes(&self, clip_norm: f64) -> Vec<f64> {
        let constant = self.sum[0];
        let tastes = &self.sum[1..self.dim];
        let norm = dot(tastes, tastes).sqrt();
        let longest = clip_norm / bias_coordinate(clip_norm, self.dim);
        let scale = match constant > 0.0 {
            true => constant.recip().min(longest / norm.max(f64::MIN_POSITIVE)),
            false => 0.0,
        };
        tastes.iter().map(|f| scale * f).collect()
    }

    /// The number of users, as released.
    pub(super) fn n_users(&self) -> f64 {
        let trace: f64 = self.sum.iter().step_by(self.dim + 1).sum();
        trace.max(0.0)
    }

    /// For factors of this length; for length 1, that of users without taste factors.
    pub(super) fn sum_for(&self, dim: usize) -> Vec<f64> {
        match dim == self.dim {
            true => self.sum.clone(),
            false => vec![1.0; dim * dim],
        }
    }
}

/// The average of users' `f f^T`: the positive semidefinite part of the released sum, scaled to
/// trace 1.
pub(super) fn share_matrix(mut sum: Vec<f64>, dim: usize) -> Result<Vec<f64>> {
    dp_linalg::project_psd_in_place(&mut sum, dim)?;
    let trace: f64 = sum.iter().step_by(dim + 1).sum();
    for (at, entry) in sum.iter_mut().enumerate() {
        *entry = match trace > 0.0 {
            true => *entry / trace,
            false if at % (dim + 1) == 0 => (dim as f64).recip(), // only noise: treat all directions as equal
            false => 0.0,
        };
    }
    Ok(sum)
}

/// The constant coordinate of every user's factor: `sqrt(1 - G^2)`, or 1 if there are no taste
/// factors.
pub(super) fn bias_coordinate(clip_norm: f64, dim: usize) -> f64 {
    if dim == 1 {
        1.0
    } else {
        (1.0 - clip_norm * clip_norm).sqrt()
    }
}

/// Ridge of the item step: it follows the released noise, so that directions with only noise stay
/// small, plus a public constant.
pub(super) fn ridge(params: &FactorizationParams, noise_stddev: f64, dim: usize) -> f64 {
    let noise = noise_stddev * (dim as f64).sqrt();
    params.item_ridge_factor * noise + params.item_l2_penalty
}

/// Scratch memory for a user's residuals: that for statistics, and the factor of each record.
pub(super) type ResidualScratch = ((Option<UserScratch>, FactorBuffer), Vec<f64>);

/// One user's contribution to the residual sums of all items.
///
/// ```text
/// e_ij = y_ij - <x_i, f_ij>         w_ij and single labels as in ItemStatistics; f_ij = f_j
/// Joint:    s_ij = w_ij e_ij min(1, c / sqrt(sum_i w_ij^2 e_ij^2))
/// PerTask:  s_ij = w_ij clip(e_ij, [-c, c])
/// r_i += s_ij f_ij
/// ```
///
/// With [`leave_one_out`](ResidualRounds::leave_one_out), `f_ij` and the offset of `y_ij` are those
/// of the user step without record `i`: a user's rating of an item is not predicted with a factor
/// that was fitted to it.
///
/// This is minus the gradient of `sum_j w_ij e_ij^2 / 2`, clipped for each user inside the sum
/// (`docs/errata.md`, Algorithm 2).
///
/// # Privacy
/// User `j` adds the blocks `s_ij f_ij`, one per item of the user, and `||f_ij|| <= F`. Joint
/// clipping: `sum_i s_ij^2 <= c^2` by construction. Separate clipping: `sum_i w_ij^2 c^2 <= c^2`,
/// because `sum_i w_ij^2 <= 1`. In both cases the squared norm of everything the user adds is
/// `sum_i s_ij^2 ||f_ij||^2 <= F^2 c^2`: the L2 sensitivity under add/remove is `F c`, whatever the
/// labels and the coefficients. `F` is 1 with biases and `clip_norm` without.
#[derive(Debug)]
pub struct ItemResiduals<'a> {
    /// The computation of users' factors, from released item factors.
    pub statistics: &'a ItemStatistics<'a>,
    /// Coefficients `x_i`, public or released, one row per item in the coordinates of `f_j`.
    pub coefficients: &'a [f64],
    /// The bound `c`, in data units, above 0.
    pub bound: f64,
    /// What is clipped.
    pub clip: GradientClip,
}

impl ItemResiduals<'_> {
    /// Overwrites the labels with the bounded, weighted residuals `s_ij`.
    pub(super) fn bounded_residuals(
        &self,
        user: UserRow<'_>,
        own: &mut FactorBuffer,
        each: &[f64],
    ) {
        let dim = own.factor.len();
        let labels = own.labels.iter_mut().zip(&own.weights);
        let records = labels.zip(user.items()).zip(each.chunks_exact(dim));
        let mut total = 0.0;
        for (((label, w), &item), f) in records {
            let x = &self.coefficients[item as usize * dim..][..dim];
            let residual = *label - lane_dot(x, f);
            *label = match self.clip {
                GradientClip::Joint => w * residual,
                GradientClip::PerTask => w * residual.clamp(-self.bound, self.bound),
            };
            total += *label * *label;
        }
        let norm = total.sqrt();
        if self.clip == GradientClip::Joint && norm > self.bound {
            let scale = self.bound / norm;
            own.labels.iter_mut().for_each(|s| *s *= scale);
        }
    }
}

impl VectorContribution for ItemResiduals<'_> {
    type Scratch = ResidualScratch;

    fn scratch(&self) -> Self::Scratch {
        (self.statistics.describing_scratch(), Vec::new())
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        self.statistics.describe_each(user, scratch);
        let ((_, own), each) = scratch;
        self.bounded_residuals(user, own, each);
        let factors = each.chunks_exact(own.factor.len());
        for ((&item, &s), f) in user.items().iter().zip(&own.labels).zip(factors) {
            if s != 0.0 {
                add_row(out, (0, item), s, f);
            }
        }
    }
}

/// Adds `scale` times the factor at the coordinates of an item; those of the first item start at
/// `origin`. The plan refuses catalogues for which these would overflow.
pub(super) fn add_row(
    out: &mut SparseBuffer,
    (origin, item): (u32, u32),
    scale: f64,
    factor: &[f64],
) {
    let dim = u32::try_from(factor.len()).unwrap_or(u32::MAX); // at most 256
    let first = origin.saturating_add(item.saturating_mul(dim));
    // in one piece: this is the inner loop of training, and adding single entries costs half as
    // much again
    let row = (0_u32..).zip(factor);
    out.extend(row.map(|(k, f)| (first.saturating_add(k), scale * f)));
}

impl MatrixFactorization {
    /// Users' contribution to a residual round: a [`VectorContribution`] with one block of
    /// coordinates per item.
    ///
    /// # Privacy
    /// `coefficients` must be public or released, like the inputs of `statistics`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when there is not one row of the statistics' length for each item.
    pub fn residuals<'a>(
        &self,
        statistics: &'a ItemStatistics<'a>,
        coefficients: &'a [f64],
        bound: f64,
        clip: GradientClip,
    ) -> Result<ItemResiduals<'a>> {
        let expected = statistics.n_items() * statistics.n_coordinates();
        dp_core::params::same_size("coefficients", coefficients.len(), expected)?;
        dp_core::params::finite_positive("residual bound", bound)?;
        Ok(ItemResiduals {
            statistics,
            coefficients,
            bound,
            clip,
        })
    }

    /// Releases the residual sums around these coefficients of the items; users' factors are
    /// computed from the item factors of `rounds`.
    pub(super) fn release_residuals(
        &self,
        coefficients: &[f64],
        on: &Weighted<'_>,
        rounds: &RoundState,
        (bound, clip): (f64, GradientClip),
        run: &mut Run<'_>,
    ) -> Result<ReleasedVector> {
        let statistics = self.statistics(rounds.dim, &rounds.factors, on.weights)?;
        let residuals = self.residuals(&statistics, coefficients, bound, clip)?;
        let shape = (coefficients.len(), self.params().factor_bound() * bound);
        Ok(run.vector(on.data, shape, &residuals)?)
    }

    /// One round of [`ItemUpdate::NoisyGd`](super::ItemUpdate::NoisyGd).
    pub(super) fn gradient_round(
        &self,
        settings: &GradientRounds,
        scales: &TaskScales,
        on: &Weighted<'_>,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let bound = settings.residual_bound;
        let clipped = (bound, settings.clip);
        let mut x = self.coefficients(&rounds.factors, rounds.dim);
        let released = self.release_residuals(&x, on, rounds, clipped, run)?;
        let n_coordinates = self.params().score_model.coordinates(rounds.dim);
        let descent = Descent {
            step: rounds.n_rounds + 1,
            dim: n_coordinates,
            radius: settings.radius,
            gradient_norm: self.params().factor_bound() * bound,
            noise_stddev: released.noise_stddev(),
        };
        let sums = released.values();
        let items = x
            .chunks_exact_mut(n_coordinates)
            .zip(sums.chunks_exact(n_coordinates));
        for (item, (x, sum)) in items.enumerate() {
            let size = settings.step_size.at(&descent, scales, item);
            x.iter_mut().zip(sum).for_each(|(x, r)| *x += size * r);
            crate::regression::shorten(x, settings.radius);
        }
        rounds.refine(self.rows(x, rounds.dim), released.noise_stddev() / bound);
        Ok(())
    }

    /// One round of [`ItemUpdate::Residual`](super::ItemUpdate::Residual) after those of statistics.
    pub(super) fn residual_round(
        &self,
        settings: &ResidualRounds,
        on: &Weighted<'_>,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let params = self.params();
        let dim = rounds.dim;
        let is_first = rounds.n_rounds == settings.n_statistics_rounds;
        let afresh = settings.leave_one_out
            && is_first
            && dim > 1
            && params.score_model.is_biased()
            && !rounds.are_described;
        let mut bound = settings.bound(params.label_bound, rounds.n_rounds);
        let mut x = self.coefficients(&rounds.factors, dim);
        if afresh {
            bound = params.label_bound;
            let mean = rounds.users.as_ref();
            let mean = mean.map_or_else(Vec::new, |users| users.mean_tastes(params.clip_norm));
            for x in x.chunks_exact_mut(dim) {
                // what the taste factors say to all users alike is a bias
                x[0] += mean.iter().zip(&x[1..]).map(|(m, x)| m * x).sum::<f64>();
                x[1..].fill(0.0);
            }
        }
        let clipped = (bound, settings.clip);
        let released = self.release_residuals(&x, on, rounds, clipped, run)?;
        let missing = crate::Error::Unsupported {
            what: "residual rounds before any round of statistics",
        };
        let (mut change, noise_stddev) = (released.values(), released.noise_stddev());
        match on.scales {
            Some(scales) => {
                let omega = on.weights.omega();
                x = self.posterior(rounds, (scales, omega), (&change, &x, noise_stddev))?;
                let may_drop = afresh && params.dim.is_none() && settings.least_signal > 0.0;
                if let (true, Some(users)) = (may_drop, &rounds.users) {
                    let found = self.signal(settings, users, &released);
                    rounds.tastes_are_open = found == Signal::Weak;
                    let votes = params.votes_on_tastes();
                    if found == Signal::None || rounds.tastes_are_open && !votes {
                        x = self.drop_tastes(on, scales, rounds)?;
                    }
                }
                if params.votes_on_tastes_in(rounds.n_rounds) {
                    self.vote_on_tastes(&mut x, on, scales, rounds, run)?;
                }
            }
            None => {
                let matrices = rounds.matrices.as_ref().ok_or(missing)?;
                self.step_per_item(settings, matrices, &x, &mut change)?;
                x.iter_mut().zip(&change).for_each(|(x, c)| *x += c);
            }
        }
        rounds.refine(self.rows(x, rounds.dim), noise_stddev / bound);
        Ok(())
    }

    /// How much signal of taste factors released residual sums around 0 have:
    /// [`ResidualRounds::least_signal`].
    fn signal(
        &self,
        settings: &ResidualRounds,
        users: &UserMatrix,
        released: &ReleasedVector,
    ) -> Signal {
        let dim = users.dim;
        let sums = released.values();
        let rows = || sums.chunks_exact(dim);
        let (n_items, d) = ((sums.len() / dim) as f64, (dim - 1) as f64);
        let variance = released.noise_stddev().powi(2);

        let unit = users.n_users() * (self.params().clip_norm * self.params().label_bound).powi(2);
        // what is left of the sums without the slopes times those of the biases, in standard
        // deviations of the noise and in units
        let left = |slopes: &[f64]| {
            let squares = rows().flat_map(|r| {
                let pairs = slopes.iter().zip(&r[1..]);
                pairs.map(|(m, y)| (y - m * r[0]).powi(2))
            });
            let m2: f64 = slopes.iter().map(|m| m * m).sum();
            let deviation = variance * (2.0 * n_items * (d + m2 * (2.0 + m2))).sqrt();
            let left = squares.sum::<f64>() - n_items * (d + m2) * variance;
            (left / deviation, left / unit)
        };
        let found = |(deviations, units): (f64, f64), least: f64| {
            if deviations >= LEAST_DEVIATIONS && units >= least {
                Signal::Strong
            } else if deviations >= LEAST_DEVIATIONS {
                Signal::Weak
            } else {
                Signal::None
            }
        };
        let of_biases: f64 = rows().map(|r| r[0] * r[0]).sum();
        let slope = |k: usize| rows().map(|r| r[0] * r[k]).sum::<f64>() / of_biases;
        let best_slopes: Vec<f64> = (1..dim).map(slope).collect();
        let all = left(&vec![0.0; dim - 1]);
        let across = left(&users.mean_tastes(self.params().clip_norm));
        let best = left(&best_slopes);
        let signal = found(all, settings.least_signal).min(found(best, LEAST_BESIDE_BIASES));
        let is_clear = best.0 >= CLEAR.0 && best.1 >= CLEAR.1;
        match is_clear {
            true => signal,
            false => signal.min(found(across, LEAST_ACROSS)),
        }
    }

    /// Overwrites released residual sums with the steps of the items, each with its own matrix.
    fn step_per_item(
        &self,
        settings: &ResidualRounds,
        matrices: &ReleasedGrams,
        x: &[f64],
        sums: &mut [f64],
    ) -> Result<()> {
        let dim = matrices.dim();
        let ridge = ridge(self.params(), matrices.matrix_noise_stddev(), dim);
        Ok(solve_systems(dim, sums, |item, matrix, rhs| {
            matrices.write_item(item, matrix, &mut vec![0.0; dim]);
            for (r, x) in rhs.iter_mut().zip(&x[item * dim..]) {
                *r -= settings.pull * ridge * x;
            }
            ridge
        })?)
    }

    /// Variances of what other users with the same items would change in the items' sums, per unit of
    /// `C`:
    ///
    /// ```text
    /// t_i = k B^2 sum_j w_ij^2,    sum_j w_ij^2 = n W_i omega_i / sum_i W_i omega_i
    /// ```
    ///
    /// for residuals of users whose norm is approximately `B`; `n` is the released number of users.
    /// Weights are `omega_i` divided by a number of the user, which is assumed to be as usual for
    /// every item. Empty without the matrix of users, and for taste factors of a prior.
    fn sampling_variances(
        &self,
        rounds: &RoundState,
        scales: &TaskScales,
        omega: &[f64],
    ) -> Vec<f64> {
        let weights = || {
            scales
                .totals()
                .iter()
                .zip(omega)
                .map(|(w, omega)| w * omega)
        };
        let all: f64 = weights().sum();
        let counts = all > 0.0 && !rounds.are_described;
        let Some(users) = rounds.users.as_ref().filter(|_| counts) else {
            return Vec::new();
        };
        let k = SAMPLING[usize::from(rounds.dim > 1)];
        let whole = k * self.params().label_bound.powi(2) * users.n_users();
        weights().map(|w| whole * w / all).collect()
    }

    /// What releases say about the users for factors of the current length.
    pub(super) fn users_in(
        &self,
        rounds: &RoundState,
        scales: &TaskScales,
        omega: &[f64],
    ) -> Result<ReleasedUsers> {
        Ok(ReleasedUsers {
            matrix: match &rounds.users {
                Some(users) => share_matrix(users.sum_for(rounds.dim), rounds.dim)?,
                None => vec![1.0],
            },
            sampling: self.sampling_variances(rounds, scales, omega),
        })
    }

    /// What is known of the items besides their sums.
    pub(super) fn known<'a>(
        &'a self,
        scales: &'a TaskScales,
        users: &'a ReleasedUsers,
    ) -> Known<'a> {
        Known {
            weights: scales.totals(),
            matrix: &users.matrix,
            sampling: &users.sampling,
            columns: self.prior.as_ref().map_or(&[], ItemPrior::columns),
            unit: self.params().label_bound,
        }
    }

    /// Coefficients of the items given the sums of all earlier rounds and those of this one around
    /// `x`: see [`ResidualRounds`].
    pub(super) fn posterior(
        &self,
        rounds: &mut RoundState,
        (scales, omega): (&TaskScales, &[f64]),
        (sums, x, noise_stddev): (&[f64], &[f64], f64),
    ) -> Result<Vec<f64>> {
        let users = self.users_in(rounds, scales, omega)?;
        let known = self.known(scales, &users);
        let passes = PASSES[usize::from(rounds.dim > 1)];
        let of = RoundSums {
            sums,
            around: x,
            noise_stddev,
            passes,
        };
        rounds.evidence.observe(&of, &known);
        rounds.evidence.estimates(&known)
    }
}
