//! Default settings from the privacy target.

use dp_core::ApproxDp;

use super::{AmResidualSspParams, LevelStep};
use crate::{ExampleWeights, ShrinkingBound};

pub(super) fn for_target(target: ApproxDp) -> AmResidualSspParams {
    let (dim, n_rounds, taste_norm, l2_penalty) = match target.epsilon {
        e if e < 2.0 => (3, 6, 0.5, 5.0),
        e if e < 10.0 => (4, 10, 0.7, 5.0),
        _ => (8, 12, 0.7, 8.0),
    };
    AmResidualSspParams {
        dim,
        n_rounds,
        round_growth: 1.2,
        totals_share: 0.08,
        weights: ExampleWeights::equal(),
        bound: ShrinkingBound {
            first: 0.95,
            ratio: 0.95,
            floor: 0.7,
        },
        taste_norm,
        user_step: LevelStep {
            label_center: 3.5,
            level_penalty: 5.0,
            l2_penalty,
        },
        memory: 0.8,
        totals_floor: 0.5,
        item_variance: 0.15,
        label_variance: 0.08,
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
