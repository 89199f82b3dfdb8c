//! The public settings of a budget allocation.

use dp_accounting::ReleaseRequest;
use dp_core::{ParamError, ReplaceFactor, ShapeError, params};

use super::weights::TaskWeights;
use crate::{NoisyCounts, Result};

/// How each user's budget is spread over the user's own tasks.
///
/// Whatever the rule, user `j` ends with weights `w_ij >= 0` that satisfy `sum_i w_ij^2 <= 1` and
/// are a function of the user's own records, of public settings and of released counts.
///
/// | variant | weights before the user rule | source |
/// |---|---|---|
/// | `UniformSampling` | 1/sqrt(k) on k of the user's tasks | Krichene et al. 2023, section 5 |
/// | `TailSampling` | 1/sqrt(k) on the k tasks with the smallest counts | Chien et al. 2021 |
/// | `AdaptiveWeights` | `omega_i ~ max(n_i + s, floor)^-mu` on all tasks | eq. (11), (16), (19) |
///
/// # Whose randomness samples
/// Uniform sampling takes the tasks with the smallest hashes of (public seed, all records of the
/// user, task). A draw from a generator that runs over the users would let one user's presence
/// change what is kept of the next, and the row number is not the user's own: it shifts when
/// somebody leaves, and differs between shards. The hash makes the choice a fixed function of the
/// user's own data, which is all that the sensitivity bound asks for; no amplification by sampling
/// is claimed, so nothing depends on the choice being unpredictable. Two users with the very same
/// data keep the same tasks.
///
/// # Examples
/// ```
/// use dp_multitask::{BudgetAllocation, TaskCounts};
/// let public = TaskCounts::Public { values: vec![400.0, 100.0] };
/// let weights = BudgetAllocation::adaptive(0.5, public).weights(2, None)?;
/// assert!((weights.omega()[1] / weights.omega()[0] - 2.0).abs() < 1e-12);
/// # Ok::<(), dp_multitask::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum BudgetAllocation {
    /// Keeps some of each user's tasks, all tasks alike.
    UniformSampling {
        /// Tasks kept of a user `k`, 1 or above.
        tasks_per_user: usize,
        /// Public seed of the hash.
        seed: u64,
        /// What users with fewer tasks do.
        rule: UserRule,
    },
    /// Keeps those of each user's tasks that fewest users hold.
    TailSampling {
        /// Tasks kept of a user `k`, 1 or above.
        tasks_per_user: usize,
        /// Where the counts come from.
        counts: TaskCounts,
        /// What users with fewer tasks do.
        rule: UserRule,
    },
    /// Keeps all tasks, small ones with larger weights.
    AdaptiveWeights {
        /// Exponent `mu`, 0 or above; 0 weighs all tasks alike. The bounds favour 1/4 for convex
        /// losses and 1/2 for strongly convex ones.
        exponent: f64,
        /// Where the counts come from; not needed for exponent 0 under [`UserRule::Normalise`].
        counts: Option<TaskCounts>,
        /// Added to counts before use, 0 or above: the `s` of eq. (19), for counts known to
        /// within `s`, so that weights err on the small side.
        slack: f64,
        /// Counts below this are raised to it, above 0.
        floor: f64,
        /// How a user's weights meet the budget.
        rule: UserRule,
    },
}

/// How a user's weights meet `sum_i w_ij^2 <= 1`.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum UserRule {
    /// Every user spends the whole budget: `w_ij = omega_i / sqrt(sum_i' omega_i'^2)`.
    #[default]
    Normalise,
    /// Users are only ever scaled down, eq. (12) and (20): `w_ij = omega_i min(1, 1/sqrt(sum_i'
    /// omega_i'^2))`. Under sampling the weights stay 1/sqrt(k).
    Clip {
        /// Users in the data `n`, a public or noisy figure, above 0. Without effect under
        /// sampling.
        n_users: f64,
        /// `c(n)` of eq. (10), above 0: the average user would spend `1/c(n)` of the budget.
        concentration: f64,
    },
}

/// Where task counts come from.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum TaskCounts {
    /// They are public knowledge; the certificate says so.
    Public {
        /// One finite count per task.
        values: Vec<f64>,
    },
    /// They are released with noise, once, and paid for.
    Released {
        /// Share of the budget, strictly between 0 and 1.
        share: f64,
        /// L2 norm of one user's votes, above 0; see [`crate::CountContribution`].
        clip_norm: f64,
    },
}

impl BudgetAllocation {
    /// All tasks of a user alike, the whole budget of every user spent, no counts.
    #[must_use]
    pub const fn equal() -> Self {
        Self::AdaptiveWeights {
            exponent: 0.0,
            counts: None,
            slack: 0.0,
            floor: 1.0,
            rule: UserRule::Normalise,
        }
    }

    /// Weights `n_i^-exponent`, normalised per user, counts below 1 raised to 1.
    #[must_use]
    pub const fn adaptive(exponent: f64, counts: TaskCounts) -> Self {
        Self::AdaptiveWeights {
            exponent,
            counts: Some(counts),
            slack: 0.0,
            floor: 1.0,
            rule: UserRule::Normalise,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range, or counts that are missing.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::UniformSampling { tasks_per_user, .. }
            | Self::TailSampling { tasks_per_user, .. } => {
                params::at_least_one("tasks_per_user", *tasks_per_user)?;
            }
            Self::AdaptiveWeights {
                exponent,
                slack,
                floor,
                ..
            } => {
                params::finite_non_negative("weight_exponent", *exponent)?;
                params::finite_non_negative("count_slack", *slack)?;
                params::finite_positive("count_floor", *floor)?;
                self.check_counts_given(*exponent)?;
            }
        }
        if let Some(counts) = self.counts() {
            counts.check()?;
        }
        if let UserRule::Clip {
            n_users,
            concentration,
        } = self.rule()
        {
            params::finite_positive("n_users", n_users)?;
            params::finite_positive("concentration", concentration)?;
        }
        Ok(())
    }

    fn check_counts_given(&self, exponent: f64) -> Result<()> {
        let needed = exponent > 0.0 || self.rule() != UserRule::Normalise;
        if needed && self.counts().is_none() {
            return Err(ParamError {
                name: "weight_exponent",
                value: exponent,
                expected: "0 and every user normalised where no counts are given",
            }
            .into());
        }
        Ok(())
    }

    /// The counts it needs, if any.
    #[must_use]
    pub const fn counts(&self) -> Option<&TaskCounts> {
        match self {
            Self::UniformSampling { .. } => None,
            Self::TailSampling { counts, .. } => Some(counts),
            Self::AdaptiveWeights { counts, .. } => counts.as_ref(),
        }
    }

    const fn rule(&self) -> UserRule {
        match self {
            Self::UniformSampling { rule, .. }
            | Self::TailSampling { rule, .. }
            | Self::AdaptiveWeights { rule, .. } => *rule,
        }
    }

    /// The count release, if there is one: its share and the norm of a user's votes.
    pub(crate) const fn released_counts(&self) -> Option<(f64, f64)> {
        match self.counts() {
            Some(TaskCounts::Released { share, clip_norm }) => Some((*share, *clip_norm)),
            _ => None,
        }
    }

    /// The releases of a run: the counts if needed, and `rest` (shares summing to 1) with what is
    /// left of the budget.
    pub(crate) fn with_count_request(
        &self,
        n_tasks: usize,
        rest: Vec<ReleaseRequest>,
    ) -> Vec<ReleaseRequest> {
        let Some((share, _)) = self.released_counts() else {
            return rest;
        };
        let counts = ReleaseRequest::new("task counts", share, ReplaceFactor::Two, n_tasks as u64);
        let scaled = rest.into_iter().map(|request| ReleaseRequest {
            budget_share: request.budget_share * (1.0 - share),
            ..request
        });
        std::iter::once(counts).chain(scaled).collect()
    }

    /// The weights of `n_tasks` tasks, given the released counts if the setting asks for them.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when there is not one count per task, or none was released where
    /// one is needed; otherwise as [`check`](Self::check).
    pub fn weights(&self, n_tasks: usize, released: Option<&NoisyCounts>) -> Result<TaskWeights> {
        self.check()?;
        let counts: Option<&[f64]> = match self.counts() {
            None => None,
            Some(TaskCounts::Public { values }) => Some(values),
            Some(TaskCounts::Released { .. }) => {
                Some(released.map_or(&[][..], NoisyCounts::values))
            }
        };
        if let Some(found) = counts.map(<[f64]>::len).filter(|&len| len != n_tasks) {
            return Err(ShapeError {
                name: "task counts",
                found,
                expected: n_tasks,
            }
            .into());
        }
        Ok(TaskWeights::allocated(self, n_tasks, counts))
    }
}

impl TaskCounts {
    fn check(&self) -> Result<()> {
        match self {
            Self::Public { values } => {
                for &value in values {
                    params::finite("task count", value)?;
                }
            }
            Self::Released { share, clip_norm } => {
                params::open_unit("count_share", *share)?;
                params::finite_positive("count_clip_norm", *clip_norm)?;
            }
        }
        Ok(())
    }
}
