use dp_core::{ApproxDp, DpEvent, ReplaceFactor};

use super::*;
use super::{QUANTILE, rate};
use crate::{Budget, Ledger, Plan, ReleaseRequest, Spend};

fn statement(epsilon: f64, adjacency: Adjacency) -> PrivacyStatement {
    let target = ApproxDp {
        epsilon,
        delta: 1e-5,
    };
    let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 100)];
    let plan = Plan::calibrate(target, adjacency, &requests).unwrap();
    let mut ledger = Ledger::in_memory("ratings", Budget::new(target, adjacency).unwrap()).unwrap();
    let spends = ledger.reserve(&plan).unwrap();
    let certificate = Certificate::builder(&plan, "ratings")
        .releases(spends.iter().map(Spend::record).collect())
        .released_output("sums", "the board")
        .not_covered("run time")
        .build();
    PrivacyStatement::of(&certificate.unwrap()).unwrap()
}

#[test]
fn the_attacker_is_the_one_of_the_gaussian_trade_off() {
    // scipy: norm.cdf(norm.ppf(.05) + 1 / 3.730631634815942), and mu 1.0 for epsilon 4.3772
    for (epsilon, expected) in [(1.0, 0.084_286_6), (4.377_178_095_681_2, 0.259_511_1)] {
        let attacker = statement(epsilon, Adjacency::AddRemoveUser)
            .attacker
            .unwrap();
        let found = attacker.true_positive_rate;
        assert!(
            found >= expected - 1e-6 && found < expected + 1e-5,
            "{found}"
        );
    }
}

#[test]
fn a_profile_of_several_points_bounds_the_exact_rate() {
    // the bound for other mechanisms, applied to a Gaussian
    for mu in [0.1, 0.5, 1.0, 3.0] {
        let exact = 0.5 * libm::erfc(-(QUANTILE + mu) * std::f64::consts::FRAC_1_SQRT_2);
        let bound = (0..400)
            .map(|step| f64::from(step) * 0.05)
            .map(|epsilon| rate(epsilon, crate::engines::gdp::delta(mu, epsilon)))
            .fold(1.0, f64::min);
        assert!(
            bound >= exact * (1.0 - 1e-12) && bound < exact * 1.01,
            "{mu}: {bound} {exact}"
        );
    }
}

/// Bounds by Renyi divergences say where the profile bounds the attacker best, except where it bounds little.
#[test]
fn a_few_points_of_the_profile_bound_the_rate_as_well_as_all() {
    let laplace = DpEvent::laplace(2.0).repeated(3);
    let sampled = |z, q, n| DpEvent::sampled_gaussian(z, q).repeated(n);
    let both = DpEvent::composed(vec![DpEvent::gaussian(8.0), sampled(2.0, 0.2, 4)]);
    let coins = DpEvent::approx_dp(2.05, 0.0, dp_core::Relation::AddRemove).repeated(2);
    for event in [
        laplace,
        DpEvent::laplace(1.0 / 4.1),
        coins,
        sampled(1.0, 0.01, 1000),
        sampled(0.6, 0.1, 20),
        both,
    ] {
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
            let accountant = tightest(std::iter::once(&event), adjacency).unwrap();
            let (few, all) = (
                profile_rate(&accountant, N_ASKED),
                profile_rate(&accountant, PROFILE.len()),
            );
            assert!(all < 0.99 || adjacency.is_replace(), "{event:?}");
            assert!(
                (all..all + 1e-9).contains(&few),
                "{event:?} {adjacency}: {few} {all}"
            );
        }
    }
}

#[test]
fn it_says_everything_once() {
    let text = statement(1.0, Adjacency::ReplaceUser).to_string();
    for part in [
        "data set  ratings",
        "epsilon   1.0000    replace one user",
        "add or remove one user",
        "at most 2.72 times as likely to be drawn from everything released if a given user's data is one thing as if it is another, plus a probability of 1e-5.",
        "sums (seen by: the board)",
        "run time",
        "outside the guarantee",
    ] {
        let joined = text.replace("\n    ", " ");
        assert_eq!(joined.matches(part).count(), 1, "{part} in\n{text}");
    }
    assert!(text.lines().all(|line| line.len() < 110), "{text}");
}

#[test]
fn rates_are_probabilities_at_any_epsilon() {
    for (epsilon, delta) in [(0.0, 0.0), (1e3, 1e-5), (0.1, 1.0), (1e-9, 1e-300)] {
        assert!((0.05..=1.0).contains(&rate(epsilon, delta)), "{epsilon}");
    }
    assert_eq!(
        (short(2.0), short(2.711), short(148.41)),
        ("2".into(), "2.72".into(), "149".into())
    );
    assert_eq!(
        [percent(0.084_26), percent(2.0)].map(|x| x.to_string()),
        ["8.5", "100"]
    );
}
