//! Default settings from the privacy target.

use dp_core::ApproxDp;

use super::{AmImplicitSspParams, LikesStep};
use crate::ExampleWeights;

pub(super) fn for_target(target: ApproxDp) -> AmImplicitSspParams {
    // from much noise to little: ridge of training, weight of noes in it, growth of rounds, prior
    let (l2_penalty, user_noes, item_noes, round_growth) = match target.epsilon {
        e if e < 2.5 => (1.0, 0.1, 0.01, 1.5),
        e if e < 10.0 => (0.3, 0.1, 0.03, 2.0),
        _ => (0.1, 0.03, 0.03, 3.0),
    };
    let (item_variance, label_variance) = match target.epsilon {
        e if e < 2.5 => (0.015, 0.003),
        e if e < 10.0 => (0.02, 0.001),
        _ => (0.025, 0.003),
    };
    let step = |unobserved_weight, l2_penalty| LikesStep {
        unobserved_weight,
        level_penalty: 1.0,
        l2_penalty,
    };
    AmImplicitSspParams {
        dim: 33,
        n_rounds: 3,
        round_growth,
        totals_share: 0.05,
        weights: ExampleWeights::equal(),
        taste_norm: 0.98,
        user_step: step(user_noes, l2_penalty),
        fold_in: step(0.3, 3.0),
        item_unobserved_weight: item_noes,
        popularity_exponent: 0.5,
        totals_floor: 0.5,
        item_variance,
        label_variance,
        init_scale: 0.05,
        init_seed: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_pass_their_own_checks_at_every_epsilon() {
        for epsilon in [1e-6, 0.1, 1.0, 5.0, 20.0, 1e6] {
            let target = ApproxDp {
                epsilon,
                delta: 1e-5,
            };
            assert!(for_target(target).check().is_ok(), "epsilon {epsilon}");
        }
    }
}
