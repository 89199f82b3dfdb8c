//! The bound on users' gradients, round by round: from public and released values alone.

use dp_core::params;

use crate::Result;

/// The clip norm `C_t` of round `t`.
///
/// All three follow from public numbers and, for `Quantile`, from what was released before, so that a round's sensitivity
/// is known when it begins.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum ClipSchedule {
    /// The same in every round.
    Constant {
        /// `C`, in units of a user's gradient.
        norm: f64,
    },
    /// `max(floor, start ratio^(t - 1))`: gradients shrink as the model gets better, and noise shrinks with the clip.
    Geometric {
        /// `C_1`.
        start: f64,
        /// From 0 (excluded) to 1.
        ratio: f64,
        /// The least clip norm.
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
    /// The share comes from one more coordinate of the same release: `extra C_t (b_i - 1/2) * 2`, so the user's whole
    /// contribution has norm at most `C_t sqrt(1 + extra^2)` and the noise multiplier stays that of the plan: it is charged by
    /// noise on the gradient that is larger by that factor.
    Quantile {
        /// `C_1`.
        start: f64,
        /// The quantile aimed at, strictly between 0 and 1.
        quantile: f64,
        /// `rate`.
        rate: f64,
        /// Least clip norm.
        low: f64,
        /// Largest clip norm.
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

    /// Norms between which those of all rounds lie.
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

/// Where a schedule stands.
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

    /// The clip norm of the round to come.
    pub(crate) const fn norm(&self) -> f64 {
        self.norm
    }

    /// After a round: `share_within` is the released share of users whose norm was within the clip.
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
        state.advance(Some(0.0)); // everybody above: more room
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
