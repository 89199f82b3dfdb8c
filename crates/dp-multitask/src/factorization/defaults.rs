//! Default settings from the privacy target alone.

use dp_core::ApproxDp;

use super::model::UserPenalties;
use super::params::FactorizationParams;

/// Taste dimensions grow with the square root of epsilon: each costs noise in every item.
const DIM_AT_ONE: f64 = 1.8;
/// Taste share of a user's factor norm at epsilon 1, and its ceiling.
const CLIP_AT_ONE: f64 = 0.35;
const CLIP_CEILING: f64 = 0.85;

pub(super) fn for_target(target: ApproxDp) -> FactorizationParams {
    let root = if target.epsilon.is_finite() {
        target.epsilon.max(0.0).sqrt()
    } else {
        1.0
    };
    FactorizationParams {
        dim: taste_dimensions(root),
        n_rounds: 4,
        round_growth: 1.7,
        weight_exponent: 0.25,
        count_share: 0.03,
        count_clip_norm: 10.0,
        count_floor: 50.0,
        matrix_share: 0.2,
        clip_norm: (CLIP_AT_ONE * root).clamp(0.05, CLIP_CEILING),
        label_center: 3.0,
        label_bound: 1.0,
        bias_shrinkage: 20.0,
        training_penalties: UserPenalties {
            offset: 20.0,
            factor: 0.3,
            factor_per_record: 0.005,
        },
        fold_in_penalties: UserPenalties {
            offset: 20.0,
            factor: 4.0,
            factor_per_record: 0.005,
        },
        item_ridge_factor: 0.7,
        item_l2_penalty: 1.0,
        init_stddev: 0.3,
        init_seed: 0,
    }
}

/// 1 to 16, rounded.
fn taste_dimensions(root: f64) -> usize {
    let wanted = DIM_AT_ONE * root;
    (1..16).find(|&dim| wanted < dim as f64 + 0.5).unwrap_or(16)
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
            let params = for_target(target);
            assert!(params.clone().check().is_ok(), "epsilon {epsilon}");
            assert!((1..=16).contains(&params.dim));
        }
    }
}
