//! Default settings from the privacy target, and the rule for the length of the factors.

use dp_core::ApproxDp;

use super::implicit::{Feedback, ImplicitFeedback, ItemGramian};
use super::item_update::{ItemUpdate, PooledMatrices, RecordSampling, ResidualRounds, ScoreModel};
use super::model::UserPenalties;
use super::params::FactorizationParams;
use crate::regression::{GradientClip, ResidualBounds};

/// Longest factor that the rule chooses: an item bias and 16 tastes.
const LARGEST_RULE_DIM: usize = 17;
/// Most tastes that the rule for implicit feedback chooses.
const IMPLICIT_TASTES: usize = 32;
/// Fewer tastes than this cost more in noise than they tell.
const LEAST_TASTES: usize = 2;

/// Fewest items in the head of the model without biases: lists of smaller catalogues need all of them.
const LEAST_HEAD: usize = 250;

pub(super) fn for_target(target: ApproxDp) -> FactorizationParams {
    FactorizationParams {
        n_rounds: 8,
        round_growth: 1.2,
        matrix_share: 0.01,
        item_ridge_factor: 1.0,
        item_l2_penalty: 3.0,
        item_update: ItemUpdate::Residual(ResidualRounds {
            n_statistics_rounds: 4,
            bounds: ResidualBounds::Geometric { ratio: 0.9 },
            pull: 0.25,
            clip: GradientClip::Joint,
        }),
        pooled_matrices: Some(PooledMatrices { weight_share: 0.04 }),
        ..adadpals_for_target(target)
    }
}

pub(super) fn adadpals_for_target(target: ApproxDp) -> FactorizationParams {
    FactorizationParams {
        dim: None,
        rule_epsilon: target.epsilon,
        n_rounds: 5,
        round_growth: 2.5,
        weight_exponent: 0.25,
        count_share: 0.03,
        count_clip_norm: 10.0,
        count_floor: 50.0,
        matrix_share: 0.2,
        clip_norm: 0.95,
        label_center: 3.0,
        label_bound: 1.0,
        bias_shrinkage: 30.0,
        training_penalties: UserPenalties {
            offset: 20.0,
            factor: 0.3,
            factor_per_record: 0.0,
        },
        fold_in_penalties: UserPenalties {
            offset: 20.0,
            factor: 5.0,
            factor_per_record: 0.0,
        },
        item_ridge_factor: 0.7,
        item_l2_penalty: 2.0,
        init_stddev: 0.3,
        init_seed: 0,
        feedback: Feedback::Explicit,
        score_model: ScoreModel::Biased,
        record_sampling: RecordSampling::All,
        head_fraction: None,
        least_head: 0,
        item_update: ItemUpdate::Ssp,
        pooled_matrices: None,
    }
}

pub(super) fn implicit_for_target(target: ApproxDp) -> FactorizationParams {
    // from little noise to much: what the noise does not drown, the user step may use
    let noisy = target.epsilon < 3.0;
    FactorizationParams {
        n_rounds: 3,
        round_growth: 2.0,
        weight_exponent: if noisy { 0.0 } else { 0.1 },
        count_share: 0.03,
        clip_norm: if noisy { 0.95 } else { 0.98 },
        training_penalties: UserPenalties {
            offset: if noisy { 10.0 } else { 1.0 },
            factor: 0.1,
            factor_per_record: 0.0,
        },
        fold_in_penalties: UserPenalties {
            offset: 1.0,
            factor: if noisy { 1.0 } else { 0.3 },
            factor_per_record: 0.0,
        },
        item_ridge_factor: if noisy { 0.1 } else { 3.0 },
        item_l2_penalty: 1.0,
        init_stddev: 0.1,
        feedback: Feedback::Implicit(ImplicitFeedback {
            training_unobserved_weight: if noisy { 0.01 } else { 0.3 },
            fold_in_unobserved_weight: 0.3,
            item_unobserved_weight: if noisy { 0.3 } else { 0.01 },
            item_gramian: ItemGramian::Pooled,
            gramian_share: 0.05,
        }),
        ..adadpals_for_target(target)
    }
}

pub(super) fn implicit_plain_for_target(target: ApproxDp) -> FactorizationParams {
    let of = ImplicitPlain::at(target.epsilon);
    let penalties = |factor| UserPenalties {
        offset: 1.0, // without biases there is no offset
        factor,
        factor_per_record: 0.0,
    };
    FactorizationParams {
        score_model: ScoreModel::Plain,
        dim: Some(1 + of.tastes),
        n_rounds: of.n_rounds,
        round_growth: of.round_growth,
        weight_exponent: of.weight_exponent,
        count_share: of.count_share,
        count_clip_norm: of.count_clip_norm,
        head_fraction: Some(of.head),
        least_head: LEAST_HEAD,
        clip_norm: of.clip_norm,
        training_penalties: penalties(of.penalties[0]),
        fold_in_penalties: penalties(of.penalties[1]),
        item_ridge_factor: of.ridge,
        item_l2_penalty: of.l2_penalty,
        init_stddev: of.init_stddev,
        feedback: Feedback::Implicit(ImplicitFeedback {
            training_unobserved_weight: of.unobserved[0],
            fold_in_unobserved_weight: of.unobserved[1],
            item_unobserved_weight: of.unobserved[2],
            item_gramian: ItemGramian::Pooled,
            gramian_share: 0.05,
        }),
        ..implicit_for_target(target)
    }
}

/// What the model without biases has otherwise at little, middle and much privacy loss.
struct ImplicitPlain {
    tastes: usize,
    n_rounds: usize,
    round_growth: f64,
    weight_exponent: f64,
    head: f64,
    count_share: f64,
    count_clip_norm: f64,
    clip_norm: f64,
    /// Of the user step: training, fold-in.
    penalties: [f64; 2],
    ridge: f64,
    l2_penalty: f64,
    init_stddev: f64,
    /// Weights of the unobserved: training, fold-in, items.
    unobserved: [f64; 3],
}

impl ImplicitPlain {
    fn at(epsilon: f64) -> Self {
        let middle = Self {
            tastes: 24,
            n_rounds: 3,
            round_growth: 3.0,
            weight_exponent: 0.25,
            head: 0.15,
            count_share: 0.1,
            count_clip_norm: 5.0,
            clip_norm: 0.1,
            penalties: [0.15, 2.9],
            ridge: 0.12,
            l2_penalty: 1.8,
            init_stddev: 0.1,
            unobserved: [0.27, 0.35, 0.37],
        };
        match epsilon {
            epsilon if epsilon < 2.5 => Self {
                tastes: 8,
                n_rounds: 4,
                weight_exponent: 0.0,
                head: 0.1,
                count_share: 0.15,
                count_clip_norm: 3.0,
                clip_norm: 0.08,
                penalties: [0.87, 1.4],
                ridge: 0.7,
                l2_penalty: 2.2,
                unobserved: [0.33, 0.24, 0.02],
                ..middle
            },
            epsilon if epsilon < 10.0 => middle,
            _ => Self {
                tastes: 40,
                n_rounds: 4,
                round_growth: 2.0,
                head: 0.2,
                count_share: 0.03,
                clip_norm: 0.2,
                penalties: [0.15, 4.0],
                l2_penalty: 1.0,
                init_stddev: 0.03,
                ..middle
            },
        }
    }
}

impl FactorizationParams {
    /// The length of the factors when `dim` is not set: an item bias, and as many tastes as the
    /// signal carries above the noise.
    ///
    /// ```text
    /// tastes = round(log2(mu * mean released count) - 4.2)     with counts
    /// tastes = round(log2(epsilon) + 0.68)                      without
    /// ```
    ///
    /// `mu` is the Gaussian-DP parameter of the whole plan. Below two tastes there are none, above
    /// sixteen there are sixteen. With implicit feedback `tastes = mu * mean released count / 4`
    /// (`4 epsilon` without counts), at most 32. Found on MovieLens-1M, see `docs/results.md`.
    ///
    /// # Privacy
    /// Post-processing: looks at released counts and public settings only.
    #[must_use]
    pub fn rule_dim(&self, mu: f64, mean_count: Option<f64>) -> usize {
        if self.feedback.implicit().is_some() {
            return 1 + self.rule_tastes_implicit(mu, mean_count);
        }
        let tastes = match mean_count {
            Some(count) => (mu * count.max(1.0)).log2() - 4.2,
            None => self.rule_epsilon.log2() + 0.68,
        };
        let tastes = tastes.round();
        (LEAST_TASTES..LARGEST_RULE_DIM)
            .rev()
            .find(|&n| tastes >= n as f64)
            .map_or(1, |n| n + 1)
    }

    /// The rule for implicit feedback: `tastes = mu * mean released count / 4`, or `4 epsilon` without counts, at
    /// most 32; below two there are none. Found on MovieLens-1M as the other.
    fn rule_tastes_implicit(&self, mu: f64, mean_count: Option<f64>) -> usize {
        let tastes = mean_count.map_or(4.0 * self.rule_epsilon, |count| mu * count / 4.0);
        (LEAST_TASTES..=IMPLICIT_TASTES)
            .rev()
            .find(|&n| tastes.round() >= n as f64)
            .unwrap_or(0)
    }

    /// The longest factor that a fit with these settings can release.
    pub(super) fn largest_dim(&self) -> usize {
        self.dim.unwrap_or(match self.feedback {
            Feedback::Explicit => LARGEST_RULE_DIM,
            Feedback::Implicit(_) => IMPLICIT_TASTES + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epsilon: f64) -> FactorizationParams {
        for_target(ApproxDp {
            epsilon,
            delta: 1e-5,
        })
    }

    #[test]
    fn defaults_pass_their_own_checks_at_every_epsilon() {
        for epsilon in [1e-6, 0.1, 1.0, 5.0, 20.0, 1e6] {
            assert!(at(epsilon).check().is_ok(), "epsilon {epsilon}");
            let target = ApproxDp {
                epsilon,
                delta: 1e-5,
            };
            assert!(adadpals_for_target(target).check().is_ok());
            assert!(implicit_for_target(target).check().is_ok());
            assert!(implicit_plain_for_target(target).check().is_ok());
        }
    }

    #[test]
    fn the_rule_for_dim_is_the_documented_one() {
        // (epsilon, mu, tastes found best on MovieLens-1M, whose mean released count is 147)
        for (epsilon, mu, tastes) in [
            (0.5, 0.1422, 0),
            (1.0, 0.2681, 0),
            (2.0, 0.5016, 2),
            (5.0, 1.1212, 3),
            (10.0, 2.0004, 4),
            (20.0, 3.4478, 5),
        ] {
            assert_eq!(at(epsilon).rule_dim(mu, Some(146.5)), tastes + 1);
            assert_eq!(at(epsilon).rule_dim(mu, None), tastes + 1);
        }
    }

    #[test]
    fn the_rule_stays_in_range_whatever_was_released() {
        for count in [
            f64::NAN,
            f64::NEG_INFINITY,
            -1e300,
            0.0,
            1e300,
            f64::INFINITY,
        ] {
            let dim = at(1.0).rule_dim(1.0, Some(count));
            assert!((1..=LARGEST_RULE_DIM).contains(&dim));
        }
        assert_eq!(at(1.0).rule_dim(1.0, Some(1e300)), LARGEST_RULE_DIM);
    }
}
