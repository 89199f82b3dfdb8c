//! How items learn from users, and which records they learn from.

use dp_core::{ParamError, params};

use super::params::in_public_range;
use crate::allocation::Selection;
use crate::regression::{GradientClip, ResidualBounds, StepSize};
use crate::{NoisyCounts, Result};

/// What a predicted rating is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreModel {
    /// `c + o_j + h_i + <q_i, v_j>`: a user offset and an item bias besides the tastes. Users' taste
    /// vectors are scaled to norm `clip_norm`, the rest of norm 1 is a constant coordinate.
    #[default]
    Biased,
    /// `c + <q_i, v_j>`, the model of Krichene et al. 2023: no offset, `h_i = 0`. Users' vectors are shortened to
    /// norm `clip_norm` where they are longer; single labels are clipped to `label_bound`. With implicit feedback `c`
    /// is 0.
    Plain,
}

impl ScoreModel {
    pub(crate) const fn is_biased(&self) -> bool {
        matches!(self, Self::Biased)
    }

    /// Coordinates that item statistics have for factors of length `dim`.
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
    /// All.
    #[default]
    All,
    /// This many, chosen by a hash of the user's own records, as
    /// [`BudgetAllocation::UniformSampling`](crate::BudgetAllocation::UniformSampling) does.
    Uniform {
        /// Records kept of a user, 1 or above.
        records_per_user: usize,
        /// Public seed of the hash.
        seed: u64,
    },
    /// This many, those of the items with the smallest released counts.
    Tail {
        /// Records kept of a user, 1 or above.
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

/// How a round turns what users send into item factors. For ratings; with implicit feedback only
/// [`Ssp`](Self::Ssp).
///
/// | variant | releases in a round | source |
/// |---|---|---|
/// | `Ssp` | matrices and right-hand sides of all items | Krichene et al. 2023, Algorithms 1 and 3 (DPALS, AdaDPALS) |
/// | `NoisyGd` | one sum of clipped gradients | Algorithms 2 and 3 (DPSGD, AdaDPSGD) |
/// | `Residual` | as `Ssp` at first, then one sum of clipped residuals | see [`ResidualRounds`] |
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemUpdate {
    /// Sufficient statistics, solved anew in every round.
    #[default]
    Ssp,
    /// One noisy gradient step per round.
    NoisyGd(GradientRounds),
    /// Sufficient statistics, then Newton steps on residuals.
    Residual(ResidualRounds),
}

/// One released matrix for all items in place of one each: `A_i = W_i C`, with `C` the average of users' `f_j f_j^T`
/// from one sum per round, and `W_i` the items' released total weights.
///
/// Noise on `d(d+1)/2` numbers instead of that many per item, and nearly no work. Right as far as an item's users
/// are like all users.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PooledMatrices {
    /// Share of the budget (after the counts) spent on the `W_i`, once, strictly between 0 and 1.
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
/// Every round solves the users anew and takes one step: a second step for the same users would
/// be one more release, no cheaper than a round. `f_j`, `w_ij` and `y_ij` are those of
/// [`ItemStatistics`](crate::ItemStatistics), whose joint clip of labels gives way to that of the shares;
/// `x_i` are the item's coefficients in their coordinates.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradientRounds {
    /// Bound on a user's residuals, data units: see [`clip`](Self::clip).
    pub residual_bound: f64,
    /// Whether all of a user's weighted residuals are bounded together or each by itself.
    pub clip: GradientClip,
    /// Steps `eta_i`, for the released total weights `W_i`.
    pub step_size: StepSize,
    /// Radius `R` of the ball that every item's coefficients are kept in, data units.
    pub radius: f64,
    /// Share of the budget (after the counts) spent on the `W_i`, once, strictly between 0 and 1.
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
/// everything on right-hand sides, whose noise shrinks with `c_t`. That is sound as long as users'
/// factors have settled: steps converge where `A_i` is more than half of the current one. With
/// `pull` 1 the fixed point is the ridge solution; with 0 it has no ridge and the noise of all steps adds up in
/// directions without data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualRounds {
    /// Rounds of sufficient statistics before the residual ones, 1 or above.
    pub n_statistics_rounds: usize,
    /// Bounds `c_t`, data units. Geometric ones are `label_bound * ratio^t`, `t` from 1 at the first residual
    /// round; listed ones have one entry per residual round.
    pub bounds: ResidualBounds,
    /// Whether all of a user's weighted residuals are bounded together or each by itself.
    pub clip: GradientClip,
    /// From 0 to 1.
    pub pull: f64,
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

    /// Releases of the first `n_rounds` rounds together, at most 1000 rounds.
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
    /// Defaults by rule for labels within `label_bound`: residuals within it too, curvature of
    /// factors of norm 1 spread evenly over `dim` coordinates.
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
    /// Three rounds of statistics, then bounds that shrink to 0.9 of the one before, without pull.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            n_statistics_rounds: 3,
            bounds: ResidualBounds::Geometric { ratio: 0.9 },
            clip: GradientClip::Joint,
            pull: 0.0,
        }
    }

    fn check(&self, n_rounds: usize) -> Result<()> {
        params::at_least_one("n_statistics_rounds", self.n_statistics_rounds)?;
        let n_residual = n_rounds.saturating_sub(self.n_statistics_rounds);
        self.bounds.check(n_residual)?;
        if (0.0..=1.0).contains(&self.pull) {
            return Ok(());
        }
        Err(ParamError {
            name: "pull",
            value: self.pull,
            expected: "a number from 0 to 1",
        }
        .into())
    }

    /// `c_t` of round `round`, from 0 at the first round of all.
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
