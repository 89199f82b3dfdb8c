//! Division of a user's privacy budget among the user's tasks.

use dp_accounting::ReleaseRequest;
use dp_core::{ParamError, ReplaceFactor, ShapeError, UserRow, params};

use crate::{NoisyCounts, Result};

/// How each user's budget is divided among the user's own tasks.
///
/// Under every rule, user `j` has weights `w_ij >= 0` that satisfy `sum_i w_ij^2 <= 1` and are a
/// function of the user's own records, of public settings and of released counts.
///
/// | variant | weights before the user rule | source |
/// |---|---|---|
/// | `UniformSampling` | 1/sqrt(k) on k of the user's tasks | Krichene et al. 2023, section 5 |
/// | `TailSampling` | 1/sqrt(k) on the k tasks with the smallest counts | Chien et al. 2021 |
/// | `AdaptiveWeights` | `omega_i ~ max(n_i + s, floor)^-mu` on all tasks | eq. (11), (16), (19) |
///
/// # Randomness of sampling
/// Uniform sampling takes the tasks with the smallest hashes of (public seed, all records of the
/// user, task). With a random generator that runs over the users, one user's presence would change
/// which tasks of the next user are kept; and the row number is not a property of the user: it
/// shifts when somebody leaves, and differs between shards. The hash makes the choice a fixed
/// function of the user's own data, which is all that the sensitivity bound requires; no
/// amplification by sampling is claimed, so nothing depends on the choice being unpredictable. Two
/// users with identical data keep the same tasks.
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
    /// Keeps some of each user's tasks, all with equal probability.
    UniformSampling {
        /// Number of tasks kept per user `k`, 1 or above.
        tasks_per_user: usize,
        /// Public seed of the hash.
        seed: u64,
        /// The rule for users with fewer tasks.
        rule: UserRule,
    },
    /// Keeps those of each user's tasks that the fewest users have.
    TailSampling {
        /// Number of tasks kept per user `k`, 1 or above.
        tasks_per_user: usize,
        /// Source of the counts.
        counts: TaskCounts,
        /// The rule for users with fewer tasks.
        rule: UserRule,
    },
    /// Keeps all tasks, with larger weights for small ones.
    AdaptiveWeights {
        /// Exponent `mu`, 0 or above; 0 gives all tasks equal weight. The bounds favour 1/4 for
        /// convex losses and 1/2 for strongly convex ones.
        exponent: f64,
        /// Source of the counts; not needed for exponent 0 under [`UserRule::Normalise`].
        counts: Option<TaskCounts>,
        /// Added to counts before use, 0 or above: the `s` of eq. (19), for counts known to within
        /// `s`, so that errors make weights smaller.
        slack: f64,
        /// Lower bound on counts, above 0.
        floor: f64,
        /// How a user's weights satisfy the budget.
        rule: UserRule,
    },
}

/// How a user's weights satisfy `sum_i w_ij^2 <= 1`.
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
    /// Users are only scaled down, never up, eq. (12) and (20):
    /// `w_ij = omega_i min(1, 1/sqrt(sum_i' omega_i'^2))`. Under sampling the weights stay
    /// 1/sqrt(k).
    Clip {
        /// Number of users in the data `n`, public or noisy, above 0. No effect under sampling.
        n_users: f64,
        /// `c(n)` of eq. (10), above 0: the average user would spend `1/c(n)` of the budget.
        concentration: f64,
    },
}

/// Source of task counts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum TaskCounts {
    /// Public knowledge; the certificate says so.
    Public {
        /// One finite count per task.
        values: Vec<f64>,
    },
    /// Released once with noise, and paid for.
    Released {
        /// Share of the budget, strictly between 0 and 1.
        share: f64,
        /// L2 norm of one user's votes, above 0; see [`crate::CountContribution`].
        clip_norm: f64,
    },
}

impl BudgetAllocation {
    /// Equal weights for all tasks of a user; every user spends the whole budget; no counts.
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

    /// Weights `n_i^-exponent`, normalised for each user, with counts below 1 raised to 1.
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
    /// [`crate::Error::Param`] naming the first setting out of range, or missing counts.
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

    /// The counts that the allocation needs, if any.
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

    /// The releases of a run: the counts if needed, and `rest` (shares summing to 1) with the
    /// remaining budget.
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

    /// The weights of `n_tasks` tasks, given the released counts if the setting requires them.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the number of counts differs from the number of tasks, or
    /// required counts were not released; otherwise as [`check`](Self::check).
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
            return Err(ShapeError::new("task counts", found, n_tasks).into());
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

/// `ceil(fraction n_tasks)`.
pub(crate) fn n_head(fraction: f64, n_tasks: usize) -> usize {
    let places = (0..n_tasks).zip(0_u32..);
    places
        .take_while(|&(_, place)| f64::from(place) < fraction * n_tasks as f64)
        .count()
}

impl TaskWeights {
    /// The same weights restricted to the head: the `ceil(fraction n_tasks)` tasks with the largest
    /// released counts; among tasks with equal counts, the first. All others have weight 0, so that
    /// users spend nothing on them.
    ///
    /// For tasks that few users have, the noise exceeds the signal: they learn nothing, and the
    /// budget that users spend on them is missing in the head. Source: the published settings of
    /// Krichene et al. 2023 for MovieLens-20M, with the head from noisy counts instead of exact
    /// ones (`docs/errata.md`).
    ///
    /// # Privacy
    /// Post-processing of the counts, which are already released; no user's own data are used.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `fraction` is not strictly between 0 and 1,
    /// [`crate::Error::Shape`] when the number of counts differs from the number of tasks.
    pub fn head(self, counts: &NoisyCounts, fraction: f64) -> Result<Self> {
        params::open_unit("head_fraction", fraction)?;
        let n_head = n_head(fraction, counts.values().len());
        self.with_head(counts, n_head)
    }

    /// The same weights on the `n_head` tasks with the largest released counts.
    pub(crate) fn with_head(mut self, counts: &NoisyCounts, n_head: usize) -> Result<Self> {
        let counts = counts.values();
        if counts.len() != self.omega().len() {
            return Err(ShapeError::new("task counts", counts.len(), self.omega().len()).into());
        }
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]).then(a.cmp(&b)));
        for &task in order.iter().skip(n_head) {
            self.leave_out(task);
        }
        Ok(self)
    }

    /// Sets the rows of tasks without weight to 0, in a table with one row for each task.
    pub fn clear_others(&self, rows: &mut [f64]) {
        let width = rows.len() / self.omega().len().max(1);
        for (row, &omega) in rows.chunks_exact_mut(width.max(1)).zip(self.omega()) {
            if omega <= 0.0 {
                row.fill(0.0);
            }
        }
    }
}

/// The rule that selects which of a user's tasks are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selection {
    /// All tasks.
    All,
    /// `tasks_per_user` tasks, selected by a hash of the user's own records.
    Uniform { tasks_per_user: usize, seed: u64 },
    /// `tasks_per_user` tasks, those with the smallest counts.
    Tail {
        tasks_per_user: usize,
        counts: Vec<f64>,
    },
}

impl Selection {
    /// Sets the weights of tasks that are not kept to 0; tasks of weight 0 do not count as kept.
    fn apply(&self, user: UserRow<'_>, weights: &mut [f64]) {
        match self {
            Self::All => {}
            Self::Uniform {
                tasks_per_user,
                seed,
            } => {
                let own = fingerprint(*seed, user);
                keep_smallest(user, *tasks_per_user, weights, |task| {
                    mix(own ^ mix(u64::from(task)))
                });
            }
            Self::Tail {
                tasks_per_user,
                counts,
            } => keep_smallest(user, *tasks_per_user, weights, |task| {
                ordered(counts.get(task as usize).copied().unwrap_or(f64::INFINITY))
            }),
        }
    }
}

/// Keeps the `n_kept` tasks with the smallest keys among those with weight, with ties broken by
/// task number.
fn keep_smallest(user: UserRow<'_>, n_kept: usize, weights: &mut [f64], key: impl Fn(u32) -> u64) {
    if user.len() <= n_kept {
        return;
    }
    let mut order: Vec<(u64, usize)> = (0..)
        .zip(user.items())
        .filter(|&(at, _)| weights.get(at).is_some_and(|&w| w > 0.0))
        .map(|(at, &t)| (key(t), at))
        .collect();
    if order.len() <= n_kept {
        return;
    }
    if n_kept > 0 {
        order.select_nth_unstable(n_kept - 1);
    }
    for &(_, at) in &order[n_kept..] {
        weights[at] = 0.0;
    }
}

/// A number that depends on all of a user's records and on the public seed only.
pub(crate) fn fingerprint(seed: u64, user: UserRow<'_>) -> u64 {
    let records = user
        .iter()
        .map(|(task, value)| (u64::from(task) << 32) | u64::from(value.to_bits()));
    let features = user.features().iter().map(|x| u64::from(x.to_bits()));
    records
        .chain(features)
        .fold(mix(seed), |state, word| mix(state ^ word))
}

/// The finaliser of `SplitMix64` (Steele, Lea and Flood 2014): a bijection that mixes its input.
pub(crate) const fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An integer that preserves the order of the reals.
const fn ordered(x: f64) -> u64 {
    let bits = x.to_bits();
    if bits >> 63 == 0 {
        bits | (1 << 63)
    } else {
        !bits
    }
}

/// Task weights `omega_i` with the rules that convert them to one user's weights `w_ij`.
///
/// Source: Krichene et al. 2023, eq. (11) with public or noisy counts; the user rule is eq. (12),
/// or by default that every user spends the whole budget:
///
/// ```text
/// w_ij = omega_i / sqrt(sum_{i' of j} omega_i'^2),    sum_i w_ij^2 = 1
/// ```
///
/// A user's weights depend only on counts that are public or released and on the user's own
/// records. Exponent 0 gives all items of a user equal weight, larger exponents favour rare items.
/// [`BudgetAllocation`] creates the other kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskWeights {
    omega: Vec<f64>,
    selection: Selection,
    scale_up: bool,
}

impl TaskWeights {
    /// Weights from released counts; counts below `floor` are raised to it, so that noise does not
    /// make an item infinitely rare.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `exponent` is negative or not finite, or `floor` is not
    /// finite and positive.
    pub fn from_counts(counts: &NoisyCounts, exponent: f64, floor: f64) -> Result<Self> {
        params::finite_non_negative("weight_exponent", exponent)?;
        params::finite_positive("count_floor", floor)?;
        Ok(Self::normalised(powers(counts.values(), exponent, floor)))
    }

    /// The same weight for each of `n_items` items.
    #[must_use]
    pub fn uniform(n_items: usize) -> Self {
        Self::normalised(vec![1.0; n_items])
    }

    const fn normalised(omega: Vec<f64>) -> Self {
        Self {
            omega,
            selection: Selection::All,
            scale_up: true,
        }
    }

    /// Sets the weight of a task to 0.
    fn leave_out(&mut self, task: usize) {
        self.omega[task] = 0.0;
    }

    /// The same weights for the records that `selection` keeps.
    pub(crate) fn keeping(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Weights of a validated allocation, with one count per task if it needs counts.
    fn allocated(allocation: &BudgetAllocation, n_tasks: usize, counts: Option<&[f64]>) -> Self {
        let constant = |k: usize| vec![(k as f64).sqrt().recip(); n_tasks];
        let (omega, selection, rule) = match allocation {
            BudgetAllocation::UniformSampling {
                tasks_per_user,
                seed,
                rule,
            } => {
                let selection = Selection::Uniform {
                    tasks_per_user: *tasks_per_user,
                    seed: *seed,
                };
                (constant(*tasks_per_user), selection, *rule)
            }
            BudgetAllocation::TailSampling {
                tasks_per_user,
                rule,
                ..
            } => {
                let selection = Selection::Tail {
                    tasks_per_user: *tasks_per_user,
                    counts: counts.unwrap_or_default().to_vec(),
                };
                (constant(*tasks_per_user), selection, *rule)
            }
            BudgetAllocation::AdaptiveWeights {
                exponent,
                slack,
                floor,
                rule,
                ..
            } => {
                let counts = counts.map_or_else(
                    || vec![1.0; n_tasks],
                    |counts| counts.iter().map(|n| (n + slack).max(*floor)).collect(),
                );
                let omega = scaled(powers(&counts, *exponent, *floor), &counts, *rule);
                (omega, Selection::All, *rule)
            }
        };
        Self {
            omega,
            selection,
            scale_up: rule == UserRule::Normalise,
        }
    }

    /// Weight of every item before the user rule.
    #[must_use]
    pub fn omega(&self) -> &[f64] {
        &self.omega
    }

    /// Writes one user's weights, one per record, with `sum w^2 <= 1`; 0 for tasks that are not
    /// kept or have no weight.
    ///
    /// # Panics
    /// When an item is outside the catalogue or `out` is shorter than the user's records.
    pub fn weigh(&self, user: UserRow<'_>, out: &mut [f64]) {
        let out = &mut out[..user.len()];
        for (w, &item) in out.iter_mut().zip(user.items()) {
            *w = self.omega[item as usize];
        }
        self.selection.apply(user, out);
        let norm = out.iter().map(|w| w * w).sum::<f64>().sqrt();
        if norm > 1.0 || (self.scale_up && norm > 0.0) {
            for w in out {
                *w /= norm;
            }
        }
    }
}

fn powers(counts: &[f64], exponent: f64, floor: f64) -> Vec<f64> {
    let power = |&count: &f64| count.max(floor).powf(-exponent);
    counts.iter().map(power).collect()
}

/// The scale of eq. (16), for users who are only scaled down: without their clipping the average
/// user spends `1 / concentration`.
fn scaled(mut omega: Vec<f64>, counts: &[f64], rule: UserRule) -> Vec<f64> {
    let UserRule::Clip {
        n_users,
        concentration,
    } = rule
    else {
        return omega;
    };
    let spent: f64 = omega.iter().zip(counts).map(|(w, n)| n * w * w).sum();
    let scale = (n_users / (concentration * spent)).sqrt();
    for w in &mut omega {
        *w *= scale;
    }
    omega
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    fn counts() -> NoisyCounts {
        let values = vec![5.0, -2.0, 40.0, 9.0, 40.0, 1.0, 7.0];
        NoisyCounts::released_elsewhere(values, 1.0, true).unwrap()
    }

    fn weigh(weights: &TaskWeights, items: &[u32]) -> Vec<f64> {
        let mut builder = InteractionsBuilder::new(7);
        for &item in items {
            builder.push(0, item, 1.0).unwrap();
        }
        let mut w = vec![f64::NAN; items.len()];
        weights.weigh(builder.build().0.user(0), &mut w);
        w
    }

    fn head_of(fraction: f64) -> Vec<usize> {
        let weights = TaskWeights::from_counts(&counts(), 0.5, 1.0).unwrap();
        let weights = weights.head(&counts(), fraction).unwrap();
        (0..7).filter(|&task| weights.omega()[task] > 0.0).collect()
    }

    #[test]
    fn the_head_has_the_largest_counts_and_never_nothing() {
        assert_eq!(head_of(1e-9), [2]);
        assert_eq!(head_of(2.0 / 7.0), [2, 4]);
        assert_eq!(head_of(0.5), [2, 3, 4, 6]); // 3.5 tasks
        assert_eq!(head_of(0.999), [0, 1, 2, 3, 4, 5, 6]);
        for bad in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(TaskWeights::uniform(7).head(&counts(), bad).is_err());
        }
        assert!(TaskWeights::uniform(6).head(&counts(), 0.5).is_err());
    }

    #[test]
    fn users_spend_everything_on_the_head() {
        let weights = TaskWeights::uniform(7).head(&counts(), 0.5).unwrap();
        let half = 2.0_f64.sqrt().recip();
        assert_eq!(weigh(&weights, &[0, 3, 5, 6]), [0.0, half, 0.0, half]);
        assert_eq!(weigh(&weights, &[0, 1]), [0.0, 0.0]);
    }

    #[test]
    fn samples_are_drawn_within_the_head() {
        for selection in [
            Selection::Uniform {
                tasks_per_user: 2,
                seed: 1,
            },
            Selection::Tail {
                tasks_per_user: 2,
                counts: counts().values().to_vec(),
            },
        ] {
            let weights = TaskWeights::uniform(7).keeping(selection);
            let weights = weights.head(&counts(), 0.5).unwrap();
            let w = weigh(&weights, &[0, 1, 2, 3, 4, 5, 6]);
            assert_eq!(w.iter().filter(|&&w| w > 0.0).count(), 2, "{w:?}");
            assert!(w[0] + w[1] + w[5] <= 0.0, "{w:?}");
        }
    }

    #[test]
    fn rows_outside_the_head_are_cleared() {
        let weights = TaskWeights::uniform(7).head(&counts(), 2.0 / 7.0).unwrap();
        let mut rows = vec![1.0; 14];
        weights.clear_others(&mut rows);
        let expected = [0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0];
        assert_eq!(rows, expected.map(f64::from));
    }

    #[test]
    fn keys_order_as_the_reals_do() {
        let reals = [
            f64::NEG_INFINITY,
            -3.0,
            -1e-300,
            0.0,
            2.0,
            1e9,
            f64::INFINITY,
        ];
        assert!(reals.windows(2).all(|w| ordered(w[0]) < ordered(w[1])));
    }

    #[test]
    fn every_task_of_a_user_is_kept_equally_often() {
        let (n_users, n_tasks, k) = (20_000_u32, 10_u32, 3);
        let mut builder = InteractionsBuilder::new(n_tasks as usize);
        for user in 0..n_users {
            for task in 0..n_tasks {
                builder.push(user, task, user as f32).unwrap();
            }
        }
        let (table, _) = builder.build();
        let selection = Selection::Uniform {
            tasks_per_user: k,
            seed: 5,
        };
        let mut kept = vec![0.0; n_tasks as usize];
        for row in table.users() {
            let mut weights = vec![1.0; row.len()];
            selection.apply(row, &mut weights);
            assert!((weights.iter().sum::<f64>() - k as f64).abs() < 1e-12);
            kept.iter_mut().zip(&weights).for_each(|(n, w)| *n += w);
        }
        // binomial(20000, 0.3): standard deviation 65; 7 of them over 10 tasks: false alarm 3e-11
        for n in kept {
            assert!((n - 6_000.0).abs() < 7.0 * 65.0, "{n}");
        }
    }

    fn spent(w: &[f64]) -> f64 {
        w.iter().map(|w| w * w).sum()
    }

    #[test]
    fn every_user_spends_exactly_the_budget() {
        let weights = TaskWeights::normalised(vec![1.0, 0.5, 1e-9, 40.0]);
        for items in [&[0_u32][..], &[2], &[0, 1, 2, 3]] {
            assert!((spent(&weigh(&weights, items)) - 1.0).abs() < 1e-12);
        }
        let w = weigh(&weights, &[0, 1]);
        assert!((w[0] / w[1] - 2.0).abs() < 1e-12);
    }

    fn public(values: &[f64]) -> TaskCounts {
        TaskCounts::Public {
            values: values.to_vec(),
        }
    }

    #[test]
    fn clipping_only_ever_scales_down() {
        // mu = 1/2: sum n omega^2 = m, so omega_i = sqrt(n_users / (c m n_i)) = (10, 5, 5, 1) / 5
        let allocation = BudgetAllocation::AdaptiveWeights {
            exponent: 0.5,
            counts: Some(public(&[1.0, 4.0, 4.0, 100.0])),
            slack: 0.0,
            floor: 1.0,
            rule: UserRule::Clip {
                n_users: 32.0,
                concentration: 2.0,
            },
        };
        let weights = allocation.weights(4, None).unwrap();
        assert!((weights.omega()[0] - 2.0).abs() < 1e-12);
        assert!((weigh(&weights, &[3])[0] - 0.2).abs() < 1e-12, "scaled up");
        assert!((spent(&weigh(&weights, &[0, 1])) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn slack_makes_weights_no_larger_than_with_the_counts_it_covers() {
        let with = |slack, counts: &[f64]| {
            let allocation = BudgetAllocation::AdaptiveWeights {
                exponent: 0.5,
                counts: Some(public(counts)),
                slack,
                floor: 1.0,
                rule: UserRule::Normalise,
            };
            allocation.weights(2, None).unwrap().omega().to_vec()
        };
        let exact = with(0.0, &[50.0, 9.0]);
        for (noisy, exact) in with(3.0, &[47.5, 11.0]).iter().zip(&exact) {
            assert!(noisy <= exact);
        }
        assert!((with(7.0, &[2.0, -40.0])[0] - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn tail_sampling_keeps_the_rarest_tasks() {
        let tail = |rule| {
            let allocation = BudgetAllocation::TailSampling {
                tasks_per_user: 2,
                counts: public(&[9.0, -1.0, 5.0, 7.0]),
                rule,
            };
            allocation.weights(4, None).unwrap()
        };
        let half = 0.5_f64.sqrt();
        let clip = UserRule::Clip {
            n_users: 1.0,
            concentration: 1.0,
        };
        for rule in [UserRule::Normalise, clip] {
            let w = weigh(&tail(rule), &[0, 1, 2, 3]);
            for (w, expected) in w.iter().zip([0.0, half, half, 0.0]) {
                assert!((w - expected).abs() < 1e-12);
            }
        }
        assert!((weigh(&tail(clip), &[3])[0] - half).abs() < 1e-12);
        assert!((weigh(&tail(UserRule::Normalise), &[3])[0] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn bad_allocations_are_refused() {
        let mut allocation = BudgetAllocation::adaptive(0.25, public(&[1.0]));
        assert!(allocation.weights(2, None).is_err(), "a count is missing");
        if let BudgetAllocation::AdaptiveWeights { counts, .. } = &mut allocation {
            *counts = None;
        }
        assert!(allocation.check().is_err(), "no counts");
        let released = TaskCounts::Released {
            share: 0.1,
            clip_norm: 3.0,
        };
        assert!(
            BudgetAllocation::adaptive(0.25, released)
                .weights(2, None)
                .is_err()
        );
        for bad in [f64::NAN, -1.0, f64::INFINITY] {
            assert!(
                BudgetAllocation::adaptive(bad, public(&[1.0]))
                    .check()
                    .is_err()
            );
        }
        assert!(
            BudgetAllocation::adaptive(1.0, public(&[f64::NAN]))
                .check()
                .is_err()
        );
    }
}
