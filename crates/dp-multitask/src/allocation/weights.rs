//! Weights of tasks, ready to be applied to users.

use dp_core::{UserRow, params};

use super::budget::{BudgetAllocation, UserRule};
use super::sampling::Selection;
use crate::Result;
use crate::counts::NoisyCounts;

/// Task weights `omega_i` with the rules that turn them into one user's weights `w_ij`.
///
/// Source: Krichene et al. 2023, eq. (11) with public or noisy counts; the user rule is eq. (12),
/// or by default that every user spends the whole budget:
///
/// ```text
/// w_ij = omega_i / sqrt(sum_{i' of j} omega_i'^2),    sum_i w_ij^2 = 1
/// ```
///
/// A user's weights depend on counts that are public or released and on the user's own records
/// alone. Exponent 0 weighs all items of a user alike, larger exponents favour rare items.
/// [`BudgetAllocation`] makes the other kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskWeights {
    omega: Vec<f64>,
    selection: Selection,
    scale_up: bool,
}

impl TaskWeights {
    /// Weights from released counts; counts below `floor` are raised to it, so that noise does
    /// not make an item infinitely rare.
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

    /// Gives a task weight 0.
    pub(super) fn leave_out(&mut self, task: usize) {
        self.omega[task] = 0.0;
    }

    /// The same weights for the records that `selection` keeps.
    pub(crate) fn keeping(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Weights of a checked allocation; one count per task where it needs counts.
    pub(super) fn allocated(
        allocation: &BudgetAllocation,
        n_tasks: usize,
        counts: Option<&[f64]>,
    ) -> Self {
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

    /// Writes one user's weights, one per record, with `sum w^2 <= 1`; 0 for tasks not kept or without weight.
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

/// The scale of eq. (16), where users are only scaled down: without their clipping the average
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
    use dp_core::{Interactions, InteractionsBuilder};

    use super::*;
    use crate::allocation::TaskCounts;

    fn user(items: &[u32]) -> Interactions {
        let mut builder = InteractionsBuilder::new(4);
        for &item in items {
            builder.push(0, item, 1.0).unwrap();
        }
        builder.build().0
    }

    fn weigh(weights: &TaskWeights, items: &[u32]) -> Vec<f64> {
        let mut w = vec![f64::NAN; items.len()];
        weights.weigh(user(items).user(0), &mut w);
        w
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
