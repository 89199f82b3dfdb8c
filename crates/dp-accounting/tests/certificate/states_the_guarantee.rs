//! The figures of a certificate are those of the plan that was paid.

use dp_accounting::{Budget, Certificate, Error, Ledger, Method, Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};

use super::support::{Change, TARGET, builder, claimed, mismatched_field, paid, run};

#[test]
fn says_the_plans_guarantee_under_both_neighbours() {
    let (plan, _) = run(Adjacency::AddRemoveUser);
    let certificate = builder(Adjacency::AddRemoveUser).build().unwrap();
    let guarantee = certificate.guarantee.as_ref().unwrap();
    assert_eq!(Some(guarantee.epsilon), Some(plan.guarantee().epsilon));
    assert_eq!(
        (guarantee.gdp_mu, guarantee.rho),
        (Some(plan.gdp().unwrap().mu), Some(plan.zcdp().unwrap().rho))
    );
    assert_eq!(guarantee.epsilon_add_remove, Some(guarantee.epsilon));
    // Replacement costs 4 x the counts and 2 x the gramians: (4 + 2 * 7.3) / 8.3 of mu^2.
    let mu = guarantee.gdp_mu.unwrap() * ((4.0 + 2.0 * 7.3) / 8.3_f64).sqrt();
    let expected = dp_accounting::gdp::epsilon(mu, TARGET.delta);
    assert!((guarantee.epsilon_replace.unwrap() / expected - 1.0).abs() < 1e-6);

    let replaced = builder(Adjacency::ReplaceUser)
        .build()
        .unwrap()
        .guarantee
        .unwrap();
    assert_eq!(replaced.epsilon_replace, Some(replaced.epsilon));
    assert!(replaced.epsilon_add_remove.unwrap() < 0.75 * replaced.epsilon);
}

#[test]
fn the_bracket_of_gaussians_is_tight() {
    let guarantee = builder(Adjacency::ReplaceUser)
        .build()
        .unwrap()
        .guarantee
        .unwrap();
    let lower = guarantee.epsilon_lower.unwrap();
    assert_eq!(guarantee.method, Some(Method::Gdp));
    // apart only by the millionth of delta that the sampler may use either way
    assert!(lower < guarantee.epsilon && lower > guarantee.epsilon * (1.0 - 1e-6));
}

#[test]
fn replacement_is_certified_where_the_usual_reserve_is_too_small() {
    // epsilon 20 under add/remove is about 48 under replacement: e^48 times millions of draws
    let target = ApproxDp::target(20.0, 1e-5).unwrap();
    let requests = [
        ReleaseRequest::new("matrices", 1.0, ReplaceFactor::SqrtTwo, 3_000_000),
        ReleaseRequest::new("sides", 4.0, ReplaceFactor::Two, 300_000),
    ];
    let (plan, records) = paid(target, Adjacency::AddRemoveUser, &requests);
    let certificate = Certificate::builder(&plan, "ratings")
        .releases(records)
        .build()
        .unwrap();
    let replace = certificate.guarantee.unwrap().epsilon_replace.unwrap();
    // independent route: the Gaussian profile at twice (root of 2 and 4 mixed) the mu, same delta
    let mut accountant = dp_accounting::GdpAccountant::new(Adjacency::ReplaceUser);
    for release in plan.releases() {
        accountant.compose(release.event(), 1).unwrap();
    }
    let without_sampler = accountant.epsilon(1e-5);
    assert!(replace >= without_sampler && replace < without_sampler * 1.001);
}

/// A plan of one sampled step, or nothing while no accountant answers for it.
fn sampled_plan(adjacency: Adjacency) -> Option<Plan> {
    let event = DpEvent::sampled_gaussian(1.0, 0.01).repeated(1_000);
    let release = dp_accounting::PlannedRelease::new("sgd", event, 10);
    match Plan::with_noise_multipliers(1e-5, adjacency, vec![release]) {
        Ok(plan) => Some(plan),
        Err(Error::NotCertified { .. }) => {
            eprintln!("SKIPPED: no accountant for sampled events");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn sampled_runs_carry_a_bracket_and_no_gaussian_figures() {
    let adjacency = Adjacency::AddRemoveUser;
    let Some(plan) = sampled_plan(adjacency) else {
        return;
    };
    assert!(matches!(plan.gdp(), Err(Error::NotGaussian { .. })));
    let budget = Budget::schedule(plan.target(), adjacency).unwrap();
    let mut ledger = Ledger::in_memory("d", budget).unwrap();
    let spends = ledger.reserve(&plan).unwrap();
    assert!(spends[0].noise_multiplier().is_err());
    let certificate = Certificate::builder(&plan, "d")
        .releases(spends.iter().map(Spend::record).collect())
        .build()
        .unwrap();
    let guarantee = certificate.verify().unwrap().guarantee.unwrap();
    assert_eq!((guarantee.gdp_mu, guarantee.rho), (None, None));
    assert!(guarantee.epsilon_lower.unwrap() <= guarantee.epsilon);
    // 1.82823667 at delta without the sampler's reserve
    assert!(
        guarantee.epsilon > 1.828_236 && guarantee.epsilon < 1.828_238,
        "{guarantee:?}"
    );
    let lies: [(&str, Change); 3] = [
        ("epsilon", |c| claimed(c).epsilon *= 1.0 - 1e-6),
        ("gdp_mu", |c| claimed(c).gdp_mu = Some(0.1)),
        ("epsilon_lower", |c| claimed(c).epsilon_lower = Some(1e9)),
    ];
    for (field, lie) in lies {
        let mut forged = certificate.clone();
        lie(&mut forged);
        assert_eq!(mismatched_field(forged), field);
    }
}
