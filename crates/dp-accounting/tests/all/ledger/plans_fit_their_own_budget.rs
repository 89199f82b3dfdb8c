//! A plan's guarantee, used as a budget, covers the plan and nothing noticeable beyond it.

use dp_accounting::{Budget, Error, Ledger, Plan, PlannedRelease, ReleaseRequest};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
use proptest::prelude::*;

use super::support::{ADD_REMOVE, TARGET, plan};

/// Releases with given noise, for a plan.
fn gaussians(noise: &[(f64, bool)]) -> Vec<PlannedRelease> {
    let factor = |psd| match psd {
        true => ReplaceFactor::SqrtTwo,
        false => ReplaceFactor::Two,
    };
    noise
        .iter()
        .map(|&(z, psd)| PlannedRelease::gaussian("r", z, factor(psd), 1).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A plan's guarantee, used as a budget, covers the plan and nothing noticeable beyond it.
    #[test]
    fn every_plan_fits_a_budget_of_its_own_guarantee(
        noise in prop::collection::vec((0.5..2000.0_f64, any::<bool>()), 1..30),
        log_delta in -12.0..-0.3_f64,
        replace: bool,
    ) {
        let adjacency = if replace { Adjacency::ReplaceUser } else { ADD_REMOVE };
        let delta = 10.0_f64.powf(log_delta);
        let chosen = Plan::with_noise_multipliers(delta, adjacency, gaussians(&noise));
        prop_assume!(!matches!(chosen, Err(Error::SamplerAllowance { .. })));
        let chosen = chosen.unwrap();
        let requests: Vec<_> = noise
            .iter()
            .map(|&(share, _)| ReleaseRequest::new("r", share, ReplaceFactor::SqrtTwo, 1))
            .collect();
        let calibrated = Plan::calibrate(chosen.target(), adjacency, &requests).unwrap();
        for (plan, target) in [
            (&chosen, chosen.target()),
            (&calibrated, calibrated.target()),
            (&calibrated, calibrated.guarantee()),
        ] {
            if target.epsilon > 0.0 {
                let budget = Budget::new(target, adjacency).unwrap();
                let mut ledger = Ledger::in_memory("d", budget).unwrap();
                let spends = ledger.reserve(plan);
                prop_assert!(spends.is_ok(), "{:?}", spends.err());
                prop_assert_eq!(spends.unwrap().len(), noise.len());
                // epsilon 0 costs nothing that delta does not cover
                prop_assert!(plan.guarantee().epsilon <= 0.0 || ledger.reserve(plan).is_err());
            }
        }
    }
}

#[test]
fn a_plan_a_hair_above_the_budget_is_refused() {
    let full = plan(1.0);
    let budget = Budget::new(full.guarantee(), ADD_REMOVE).unwrap();
    let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1)];
    let above = ApproxDp {
        epsilon: full.guarantee().epsilon * (1.0 + 1e-9),
        ..TARGET
    };
    let above = Plan::calibrate(above, ADD_REMOVE, &requests).unwrap();
    let mut ledger = Ledger::in_memory("d", budget).unwrap();
    assert!(ledger.reserve(&above).is_err());
    assert!(ledger.reserve(&full).is_ok());
}
