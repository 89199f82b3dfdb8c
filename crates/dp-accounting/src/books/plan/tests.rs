use dp_core::ReplaceFactor;

use super::*;
use crate::engines::gdp::mu_squared;

const TARGET: ApproxDp = ApproxDp {
    epsilon: 1.0,
    delta: 1e-5,
};

fn request(share: f64, n_draws: u64) -> ReleaseRequest {
    ReleaseRequest::new("x", share, ReplaceFactor::SqrtTwo, n_draws)
}

#[test]
fn single_release_gets_the_known_noise() {
    // Smallest sigma for (1, 1e-5): 3.7306316348159418; the reserve of delta adds 1e-7 or so.
    let plan = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &[request(7.0, 10)]).unwrap();
    let z = plan.releases()[0].noise_multiplier().unwrap();
    assert!(z > 3.730_631_634_815_9 && z < 3.730_631_634_8 * (1.0 + 2e-7));
    let psd = Plan::calibrate(TARGET, Adjacency::ReplaceUser, &[request(7.0, 10)]).unwrap();
    let ratio = psd.releases()[0].noise_multiplier().unwrap() / z;
    assert!((ratio - 2.0_f64.sqrt()).abs() < 1e-14);
}

#[test]
fn shares_are_of_mu_squared_under_the_plans_adjacency() {
    let requests = [
        ReleaseRequest::new("a", 3.0, ReplaceFactor::Two, 0),
        ReleaseRequest::new("b", 1.0, ReplaceFactor::SqrtTwo, 0),
    ];
    for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
        let plan = Plan::calibrate(TARGET, adjacency, &requests).unwrap();
        let cost = |i: usize| mu_squared(plan.releases()[i].event(), adjacency).unwrap();
        assert!((cost(0) / cost(1) - 3.0).abs() < 1e-13, "{adjacency}");
    }
}

#[test]
fn empty_plan_costs_nothing() {
    let plan = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &[]).unwrap();
    assert!(plan.mu_squared().unwrap() == 0.0 && plan.guarantee().epsilon == 0.0);
    assert_eq!(plan.target(), TARGET);
}

#[test]
fn bad_shares_are_refused() {
    let adjacency = Adjacency::AddRemoveUser;
    for share in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let requests = [request(1.0, 0), request(share, 0)];
        let error = Plan::calibrate(TARGET, adjacency, &requests).unwrap_err();
        assert!(error.to_string().starts_with("budget_share"), "{share}");
    }
    let overflow = [request(f64::MAX, 0), request(f64::MAX, 0)];
    assert!(Plan::calibrate(TARGET, adjacency, &overflow).is_err());
    let too_far_apart = [request(f64::MAX, 0), request(5e-324, 0)];
    assert!(Plan::calibrate(TARGET, adjacency, &too_far_apart).is_err());
}

#[test]
fn draws_beyond_the_reserve_are_refused() {
    let high = ApproxDp {
        epsilon: 40.0,
        delta: 1e-9,
    };
    let plan = |n| Plan::calibrate(high, Adjacency::AddRemoveUser, &[request(1.0, n); 1]);
    assert!(plan(1_411).is_ok());
    assert!(matches!(
        plan(1_412),
        Err(Error::SamplerAllowance { n_draws: 1_412, .. })
    ));
    let requests = [request(1.0, u64::MAX), request(1.0, u64::MAX)];
    assert!(Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &requests).is_err());
}

#[test]
fn chosen_noise_gives_its_own_guarantee() {
    let releases = (0..4)
        .map(|_| PlannedRelease::gaussian("r", 2.0, ReplaceFactor::Two, 5).unwrap())
        .collect();
    let plan = Plan::with_noise_multipliers(1e-5, Adjacency::AddRemoveUser, releases).unwrap();
    assert!((plan.mu_squared().unwrap() - 1.0).abs() < 1e-15);
    // epsilon(mu = 1, 1e-5) = 4.3771780956812246, plus a little for the reserve.
    let epsilon = plan.guarantee().epsilon;
    assert!(
        epsilon > 4.377_178_095 && epsilon < 4.377_178_6,
        "{epsilon}"
    );
    assert_eq!(plan.target(), plan.guarantee());
    assert_eq!(plan.n_draws(), 20);
}

#[test]
fn chosen_noise_is_checked() {
    for z in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(PlannedRelease::gaussian("r", z, ReplaceFactor::Two, 5).is_err());
    }
    let plan = |delta| Plan::with_noise_multipliers(delta, Adjacency::ReplaceUser, vec![]);
    assert!(plan(0.5).is_ok());
    assert!(plan(0.0).is_err() && plan(1.0).is_err() && plan(f64::NAN).is_err());
}
