//! Settings of [`PpSgd`](super::PpSgd).

use dp_core::{ParamError, params};
use dp_mechanism::ClientSampling;
use rand::{Rng, RngExt};

use super::PpSgd;
use crate::Result;

/// Who takes part in a round. The accounting matches the run: the plan's events are derived from
/// this value, and every release takes a spend for exactly this scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Participation {
    /// All users (Algorithm 1): Gaussian mechanisms.
    Full,
    /// A fresh sample in every round (Algorithms 2 and 3): independent coins, or a fixed number
    /// without replacement.
    Sampled(ClientSampling),
}

impl Participation {
    /// Who takes part in a round of a simulation.
    pub(super) fn draw(self, n_users: usize, rng: &mut dyn Rng) -> Vec<usize> {
        match self {
            Self::Full => (0..n_users).collect(),
            Self::Sampled(ClientSampling::Poisson(poisson)) => {
                let q = poisson.sampling_probability();
                (0..n_users).filter(|_| rng.random_bool(q)).collect()
            }
            Self::Sampled(ClientSampling::FixedSize(fixed)) => {
                let size = fixed.sample_size().min(n_users);
                rand::seq::index::sample(rng, n_users, size).into_vec()
            }
        }
    }
}

/// How the gradients of a minibatch are combined.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum BatchReduction {
    /// Their mean (Algorithms 1 and 3): every user has the same weight.
    Mean,
    /// Their sum (Algorithm 2): every row has the same weight, up to clipping.
    Sum {
        /// `M / N`: rows in a minibatch of the average user, a declared number.
        rows_per_user: f64,
    },
}

/// Who makes a local step in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalTraining {
    /// All users, in every round: the released model reaches all of them.
    EveryRound,
    /// The users who take part in the round, as in the paper. Refused for samples of fixed size,
    /// see [`PpSgd`].
    WhenAsked,
}

/// Settings of [`PpSgd`] before validation. All are public.
///
/// | setting | default of [`new`](Self::new) | range |
/// |---|---|---|
/// | `alpha` | given | 0 or above, infinity included |
/// | `learning_rate` | given | above 0 |
/// | `n_rounds` | given | 1 to 2^20 |
/// | `n_users` | given | above 0 |
/// | `clip` | constant, given | see [`ClipSchedule`] |
/// | `participation` | `Full` | |
/// | `reduction` | `Mean` | |
/// | `local_training` | `EveryRound` | |
/// | `local_schedule`, `global_schedule` | `Constant` | see [`StepSchedule`] |
/// | `average` | false | |
/// | `keep_every` | 0 | |
/// | `extra_share` | 0.1 | above 0, at most 1 |
/// | `minimum_clients` | none | above 0 |
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PpSgdParams {
    /// Ratio of the global to the local step size. 0: users learn alone and nothing is released;
    /// infinity: local parameters stay 0.
    ///
    /// It is the paper's `alpha Q`: its `alpha` times the number of users in a round.
    #[serde(with = "ratio")]
    pub alpha: f64,
    /// The larger of the two step sizes, `eta`: local `eta` and global `alpha eta` up to
    /// `alpha = 1`, local `eta / alpha` and global `eta` above.
    pub learning_rate: f64,
    /// Rounds `T`.
    pub n_rounds: usize,
    /// Number of users, declared or a noisy count: under add/remove the true number is private.
    /// Sampled rounds divide by `q n_users`.
    pub n_users: f64,
    /// Bound on the norm of a user's gradient.
    pub clip: ClipSchedule,
    /// Who takes part in a round.
    pub participation: Participation,
    /// Sum or mean of a minibatch.
    pub reduction: BatchReduction,
    /// Who makes local steps.
    pub local_training: LocalTraining,
    /// Schedule of local step sizes.
    pub local_schedule: StepSchedule,
    /// Schedule of global step sizes.
    pub global_schedule: StepSchedule,
    /// Whether averages of the iterates `z_0, ..., z_(T-1)` are computed too.
    pub average: bool,
    /// Number of rounds between copies of `w_t` stored in the model for users' own choices; 0
    /// stores none.
    pub keep_every: usize,
    /// Size, in units of the clipping norm, of each extra coordinate of the release: the share
    /// within an adaptive clipping norm, and the number of clients.
    pub extra_share: f64,
    /// A round whose noisy number of clients is below this minimum leaves the model unchanged.
    /// None: the release has no such coordinate.
    pub minimum_clients: Option<f64>,
}

impl PpSgdParams {
    /// Algorithm 1, returning the last iterate.
    ///
    /// # Examples
    /// ```
    /// use dp_fedsgd::PpSgdParams;
    /// let fit = PpSgdParams::new(1.0, 0.5, 10.0, 100, 1000.0).check()?;
    /// assert_eq!(fit.step_sizes(1), (0.5, 0.5));
    /// assert!(PpSgdParams::new(-1.0, 0.5, 10.0, 100, 1000.0).check().is_err());
    /// # Ok::<(), dp_fedsgd::Error>(())
    /// ```
    #[must_use]
    pub const fn new(
        alpha: f64,
        learning_rate: f64,
        clip_norm: f64,
        n_rounds: usize,
        n_users: f64,
    ) -> Self {
        Self {
            alpha,
            learning_rate,
            n_rounds,
            n_users,
            clip: ClipSchedule::Constant { norm: clip_norm },
            participation: Participation::Full,
            reduction: BatchReduction::Mean,
            local_training: LocalTraining::EveryRound,
            local_schedule: StepSchedule::Constant,
            global_schedule: StepSchedule::Constant,
            average: false,
            keep_every: 0,
            extra_share: 0.1,
            minimum_clients: None,
        }
    }

    /// The same with sampled participation: Algorithm 3, or Algorithm 2 with
    /// [`BatchReduction::Sum`]. Users train when they are asked under Poisson sampling, and in
    /// every round under samples of fixed size.
    #[must_use]
    pub const fn sampled(mut self, sampling: ClientSampling) -> Self {
        self.participation = Participation::Sampled(sampling);
        self.local_training = match sampling {
            ClientSampling::Poisson(_) => LocalTraining::WhenAsked,
            ClientSampling::FixedSize(_) => LocalTraining::EveryRound,
        };
        self
    }

    /// Shrinks the clipping norm and the global steps at the same rate, so that the noise decreases
    /// with the remaining error. The best mode where many rounds are affordable; local steps do not
    /// change.
    ///
    /// `ratio` is the factor by which both have shrunk in the last round.
    #[must_use]
    pub fn shrinking(mut self, ratio: f64) -> Self {
        let per_round = ratio.powf(1.0 / (self.n_rounds.max(2) as f64 - 1.0));
        if let ClipSchedule::Constant { norm } = self.clip {
            self.clip = ClipSchedule::Geometric {
                start: norm,
                ratio: per_round,
                floor: norm * ratio,
            };
        }
        self.global_schedule = StepSchedule::Geometric { ratio: per_round };
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range; [`crate::Error::Shape`] when
    /// samples of fixed size are drawn from a number of users other than `n_users`.
    pub fn check(self) -> Result<PpSgd> {
        if self.alpha.is_nan() || self.alpha < 0.0 {
            return Err(
                ParamError::new("alpha", self.alpha, "0 or above, infinity included").into(),
            );
        }
        params::finite_positive("learning_rate", self.learning_rate)?;
        let expected = "a whole number from 1 to 2^20";
        params::in_range("n_rounds", self.n_rounds, 1, 1 << 20, expected)?;
        params::finite_positive("n_users", self.n_users)?;
        self.clip.check()?;
        self.local_schedule.check()?;
        self.global_schedule.check()?;
        if let BatchReduction::Sum { rows_per_user } = self.reduction {
            params::finite_positive("rows_per_user", rows_per_user)?;
        }
        params::finite_positive("extra_share", self.extra_share)?;
        params::closed_unit("extra_share", self.extra_share)?;
        if let Some(minimum) = self.minimum_clients {
            params::finite_positive("minimum_clients", minimum)?;
        }
        self.check_participation()?;
        Ok(PpSgd::new(self))
    }

    fn check_participation(&self) -> Result<()> {
        let Participation::Sampled(ClientSampling::FixedSize(fixed)) = self.participation else {
            return Ok(());
        };
        let population = fixed.population_size() as f64;
        if (self.n_users - population).abs() > 0.0 {
            return Err(ParamError {
                name: "n_users",
                value: self.n_users,
                expected: "the number of users that samples of fixed size are drawn from",
            }
            .into());
        }
        if self.local_training == LocalTraining::WhenAsked {
            return Err(ParamError {
                name: "local_training",
                value: fixed.sample_size() as f64,
                expected: "local steps in every round where samples have a fixed size",
            }
            .into());
        }
        Ok(())
    }

    /// Expected number of clients in a round: public.
    pub(crate) fn expected_clients(&self) -> f64 {
        match self.participation {
            Participation::Full => self.n_users,
            Participation::Sampled(ClientSampling::Poisson(poisson)) => {
                poisson.sampling_probability() * self.n_users
            }
            Participation::Sampled(ClientSampling::FixedSize(fixed)) => fixed.sample_size() as f64,
        }
    }

    /// The divisor of the sum over clients: `q N`, or `q M` for sums of rows.
    pub(crate) fn denominator(&self) -> f64 {
        let rows = match self.reduction {
            BatchReduction::Mean => 1.0,
            BatchReduction::Sum { rows_per_user } => rows_per_user,
        };
        self.expected_clients() * rows
    }
}

/// How a step size changes over rounds `t = 1, 2, ...`: a factor on the learning rate.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum StepSchedule {
    /// 1.
    Constant,
    /// `1 / sqrt t`.
    InverseSqrt,
    /// `ratio^(t - 1)`, for steps that follow a shrinking clipping norm.
    Geometric {
        /// From 0 (excluded) to 1.
        ratio: f64,
    },
}

impl StepSchedule {
    /// The factor of round `t`, from 1.
    #[must_use]
    pub fn factor(self, round: usize) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::InverseSqrt => 1.0 / (round.max(1) as f64).sqrt(),
            Self::Geometric { ratio } => ratio.powf(round.max(1) as f64 - 1.0),
        }
    }

    pub(super) fn check(self) -> Result<()> {
        if let Self::Geometric { ratio } = self {
            params::finite_positive("ratio", ratio)?;
            params::closed_unit("ratio", ratio)?;
        }
        Ok(())
    }
}

/// Serialises a ratio of steps as a number or as `"inf"`, because JSON has no infinity.
mod ratio {
    use serde::{Deserialize, Deserializer, Serializer};

    const INFINITE: &str = "inf";

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(String),
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(ratio: &f64, to: S) -> Result<S::Ok, S::Error> {
        if ratio.is_infinite() && *ratio > 0.0 {
            return to.serialize_str(INFINITE);
        }
        to.serialize_f64(*ratio)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(ratio) => Ok(ratio),
            Written::Word(word) if word == INFINITE => Ok(f64::INFINITY),
            Written::Word(_) => Err(serde::de::Error::custom("expected a number or \"inf\"")),
        }
    }
}

/// The clipping norm `C_t` of round `t`.
///
/// All three variants follow from public numbers and, for `Quantile`, from earlier releases, so a
/// round's sensitivity is known when it begins.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ClipSchedule {
    /// The same in every round.
    Constant {
        /// `C`, in units of a user's gradient.
        norm: f64,
    },
    /// `max(floor, start ratio^(t - 1))`: gradients shrink as the model improves, and noise shrinks
    /// with the clipping norm.
    Geometric {
        /// `C_1`.
        start: f64,
        /// From 0 (excluded) to 1.
        ratio: f64,
        /// The smallest clipping norm.
        floor: f64,
    },
    /// Follows a quantile of the users' gradient norms.
    ///
    /// ```text
    /// C_(t+1) = C_t exp(-rate (b_t - quantile)),   b_t = noisy share of users with norm at most C_t
    /// ```
    ///
    /// within `low..=high`. Source: Andrew, Thakkar, `McMahan`, Ramaswamy 2021 (arXiv 1905.03871), Algorithm 1.
    ///
    /// The share comes from one more coordinate of the same release: `extra C_t (b_i - 1/2) * 2`,
    /// so the user's whole contribution has norm at most `C_t sqrt(1 + extra^2)` and the noise
    /// multiplier stays that of the plan: the cost is noise on the gradient that is larger by that
    /// factor.
    Quantile {
        /// `C_1`.
        start: f64,
        /// The target quantile, strictly between 0 and 1.
        quantile: f64,
        /// `rate`.
        rate: f64,
        /// Smallest clipping norm.
        low: f64,
        /// Largest clipping norm.
        high: f64,
    },
}

impl ClipSchedule {
    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Constant { norm } => {
                params::finite_positive("clip_norm", norm)?;
            }
            Self::Geometric {
                start,
                ratio,
                floor,
            } => {
                params::finite_positive("start", start)?;
                params::finite_positive("floor", floor)?;
                params::finite_positive("ratio", ratio)?;
                params::closed_unit("ratio", ratio)?;
            }
            Self::Quantile {
                start,
                quantile,
                rate,
                low,
                high,
            } => {
                params::finite_positive("low", low)?;
                params::finite_positive("start - low", start - low)?;
                params::finite_positive("high - start", high - start)?;
                params::finite_positive("rate", rate)?;
                params::open_unit("quantile", quantile)?;
            }
        }
        Ok(())
    }

    /// Lower and upper bounds on the norms of all rounds.
    pub(super) fn extremes(self, n_rounds: usize) -> Vec<f64> {
        match self {
            Self::Constant { norm } => vec![norm],
            Self::Geometric {
                start,
                ratio,
                floor,
            } => {
                let last = start * ratio.powf(n_rounds.max(1) as f64 - 1.0);
                vec![start, last.max(floor)]
            }
            Self::Quantile { low, high, .. } => vec![low, high],
        }
    }

    pub(crate) const fn is_adaptive(self) -> bool {
        matches!(self, Self::Quantile { .. })
    }
}

/// Current state of a schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClipState {
    schedule: ClipSchedule,
    norm: f64,
}

impl ClipState {
    pub(crate) const fn new(schedule: ClipSchedule) -> Self {
        let norm = match schedule {
            ClipSchedule::Constant { norm } => norm,
            ClipSchedule::Geometric { start, .. } | ClipSchedule::Quantile { start, .. } => start,
        };
        Self { schedule, norm }
    }

    /// The clipping norm of the next round.
    pub(crate) const fn norm(&self) -> f64 {
        self.norm
    }

    /// Advances after a round: `share_within` is the released share of users whose norm was within
    /// the clipping norm.
    pub(crate) fn advance(&mut self, share_within: Option<f64>) {
        match self.schedule {
            ClipSchedule::Constant { .. } => {}
            ClipSchedule::Geometric { ratio, floor, .. } => {
                self.norm = (self.norm * ratio).max(floor);
            }
            ClipSchedule::Quantile {
                quantile,
                rate,
                low,
                high,
                ..
            } => {
                let share = share_within.unwrap_or(quantile).clamp(0.0, 1.0);
                self.norm = (self.norm * (-rate * (share - quantile)).exp()).clamp(low, high);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_follow_their_schedule_within_their_limits() {
        let shrinking = ClipSchedule::Geometric {
            start: 8.0,
            ratio: 0.5,
            floor: 1.5,
        };
        let mut state = ClipState::new(shrinking);
        let norms: Vec<_> = (0..4)
            .map(|_| {
                let norm = state.norm();
                state.advance(None);
                norm
            })
            .collect();
        assert_eq!(norms, [8.0, 4.0, 2.0, 1.5]);

        let following = ClipSchedule::Quantile {
            start: 1.0,
            quantile: 0.5,
            rate: 0.2,
            low: 0.9,
            high: 10.0,
        };
        let mut state = ClipState::new(following);
        state.advance(Some(0.0)); // every user above: the norm grows
        assert!((state.norm() - 0.1_f64.exp()).abs() < 1e-15);
        state.advance(Some(7.0)); // noise: a share of 1
        state.advance(Some(1.0));
        state.advance(Some(1.0));
        assert!((state.norm() - 0.9).abs() < 1e-15);
    }

    #[test]
    fn ranges_are_checked() {
        let good = ClipSchedule::Quantile {
            start: 1.0,
            quantile: 0.5,
            rate: 0.2,
            low: 0.1,
            high: 10.0,
        };
        assert!(good.check().is_ok());
        for bad in [
            ClipSchedule::Constant { norm: 0.0 },
            ClipSchedule::Constant { norm: f64::NAN },
            ClipSchedule::Geometric {
                start: 1.0,
                ratio: 1.1,
                floor: 0.1,
            },
            ClipSchedule::Geometric {
                start: 1.0,
                ratio: 0.0,
                floor: 0.1,
            },
            ClipSchedule::Quantile {
                start: 1.0,
                quantile: 1.0,
                rate: 0.2,
                low: 0.1,
                high: 10.0,
            },
            ClipSchedule::Quantile {
                start: 0.05,
                quantile: 0.5,
                rate: 0.2,
                low: 0.1,
                high: 10.0,
            },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
