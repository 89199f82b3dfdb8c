//! Plans whose noise is calibrated for releases of any kind.

use dp_accounting::{Budget, Error, Ledger, Plan, PlannedRelease};
use dp_core::{Adjacency, ApproxDp, DpEvent};

const TARGET: ApproxDp = ApproxDp {
    epsilon: 2.0,
    delta: 1e-6,
};

/// A count of all users and forty sampled steps.
fn releases(z: f64) -> Vec<PlannedRelease> {
    let step = DpEvent::sampled_gaussian(z, 0.05);
    let mut list = vec![PlannedRelease::new("users", DpEvent::gaussian(8.0 * z), 1)];
    list.extend((0..40).map(|_| PlannedRelease::new("step", step.clone(), 100)));
    list
}

#[test]
fn the_least_noise_that_meets_the_target_is_found_and_can_be_reserved() {
    let adjacency = Adjacency::AddRemoveUser;
    let (plan, z) = Plan::calibrate_noise(TARGET, adjacency, releases).unwrap();
    assert_eq!(plan.releases(), releases(z));
    assert!(plan.target() == TARGET && plan.n_draws() == 4001);
    assert!(plan.guarantee().epsilon <= 2.0 && plan.guarantee().delta <= 1e-6);
    let less = releases(z * (1.0 - 1e-6));
    let less = Plan::with_noise_multipliers(TARGET.delta, adjacency, less).unwrap();
    assert!(less.guarantee().epsilon > 2.0);
    let budget = Budget::schedule(TARGET, adjacency).unwrap();
    let mut ledger = Ledger::in_memory("test", budget).unwrap();
    assert_eq!(ledger.reserve(&plan).unwrap().len(), 41);
}

#[test]
fn what_no_noise_can_pay_for_is_an_error() {
    let adjacency = Adjacency::AddRemoveUser;
    let public = |_| vec![PlannedRelease::new("public", DpEvent::NonPrivate, 1)];
    assert!(Plan::calibrate_noise(TARGET, adjacency, public).is_err());
    let fixed = |_| vec![PlannedRelease::new("fixed", DpEvent::gaussian(0.1), 1)];
    assert!(Plan::calibrate_noise(TARGET, adjacency, fixed).is_err());
    let draws = |z| {
        vec![PlannedRelease::new(
            "large",
            DpEvent::sampled_gaussian(z, 0.1),
            u64::MAX,
        )]
    };
    assert!(matches!(
        Plan::calibrate_noise(TARGET, adjacency, draws),
        Err(Error::SamplerAllowance { .. })
    ));
    let nothing = Plan::calibrate_noise(TARGET, adjacency, |_| Vec::new());
    assert!(nothing.is_err(), "a composition of nothing has no noise");
}
