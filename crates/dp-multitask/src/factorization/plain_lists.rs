//! Default settings of implicit feedback without biases: one matrix for all items, and the head alone.

use dp_core::ApproxDp;

use super::defaults;
use super::feedback::{Feedback, ImplicitFeedback, ItemGramian};
use super::item_update::ScoreModel;
use super::model::UserPenalties;
use super::params::FactorizationParams;

/// Fewest items in the head of the model without biases: lists of smaller catalogues need all of them.
const LEAST_HEAD: usize = 250;

pub(super) fn for_target(target: ApproxDp) -> FactorizationParams {
    let of = PlainLists::at(target.epsilon);
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
        ..defaults::implicit_for_target(target)
    }
}

/// What the model without biases has otherwise at little, middle and much privacy loss.
struct PlainLists {
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

impl PlainLists {
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
