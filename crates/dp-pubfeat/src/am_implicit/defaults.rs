//! Default settings from the privacy target.

use dp_core::ApproxDp;

use super::{AmImplicitSspParams, LikesStep};
use crate::ExampleWeights;

pub(super) fn for_target(target: ApproxDp) -> AmImplicitSspParams {
    // from little noise to much: what the noise does not drown, users and items may use
    let (dim, round_growth, popularity_exponent, item_variance) = match target.epsilon {
        e if e < 2.5 => (14, 1.5, 0.75, 0.015),
        e if e < 10.0 => (24, 3.0, 1.0, 0.025),
        _ => (33, 3.0, 1.0, 0.025),
    };
    let noisy = target.epsilon < 2.5;
    let step = |unobserved_weight, level_penalty, l2_penalty| LikesStep {
        unobserved_weight,
        level_penalty,
        l2_penalty,
    };
    AmImplicitSspParams {
        dim,
        n_rounds: 3,
        round_growth,
        totals_share: 0.1,
        weights: ExampleWeights::equal(),
        taste_norm: 0.98,
        user_step: step(if noisy { 0.01 } else { 0.1 }, 10.0, 0.1),
        fold_in: step(0.3, 1.0, 3.0),
        item_unobserved_weight: if noisy { 0.01 } else { 0.03 },
        popularity_exponent,
        totals_floor: 0.5,
        item_variance,
        label_variance: 3e-4,
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
