//! Properties that must hold for any input.

use dp_accounting::{
    Budget, Certificate, GdpAccountant, Ledger, Plan, ReleaseRequest, Spend, gdp, usable_delta,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};
use proptest::prelude::*;

fn adjacencies() -> impl Strategy<Value = Adjacency> {
    prop_oneof![
        Just(Adjacency::AddRemoveUser),
        Just(Adjacency::ReplaceUser),
        Just(Adjacency::AddRemoveRecord),
        Just(Adjacency::ReplaceRecord),
    ]
}

/// A number uniformly distributed on a logarithmic scale between two powers of ten.
fn decades(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low..high).prop_map(|exponent| 10.0_f64.powf(exponent))
}

fn targets() -> impl Strategy<Value = ApproxDp> {
    (decades(-3.0, 50.0_f64.log10()), decades(-12.0, -2.0))
        .prop_map(|(epsilon, delta)| ApproxDp { epsilon, delta })
}

/// Shares over twelve decades, with both replace factors and without draws: at epsilon 50 the
/// reserve covers none at small delta.
fn requests() -> impl Strategy<Value = Vec<ReleaseRequest>> {
    let request = (decades(-6.0, 6.0), any::<bool>()).prop_map(|(share, psd)| {
        let factor = if psd {
            ReplaceFactor::SqrtTwo
        } else {
            ReplaceFactor::Two
        };
        ReleaseRequest::new("r", share, factor, 0)
    });
    prop::collection::vec(request, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn calibrate_then_account_is_just_inside_the_target(
        target in targets(),
        adjacency in adjacencies(),
        requests in requests(),
    ) {
        let plan = Plan::calibrate(target, adjacency, &requests).unwrap();
        let epsilon = plan.guarantee().epsilon;
        prop_assert!(epsilon <= target.epsilon && epsilon >= 0.9999 * target.epsilon, "{epsilon}");

        // the accountant gives the same result for the events; the whole delta gives a smaller
        // epsilon
        let mut accountant = GdpAccountant::new(adjacency);
        for release in plan.releases() {
            accountant.compose(release.event(), 1).unwrap();
        }
        let again = accountant.epsilon(usable_delta(target.delta));
        prop_assert!(again <= target.epsilon && again >= 0.9999 * target.epsilon, "{again}");
        prop_assert!(accountant.delta(target.epsilon) <= target.delta);

        // a budget of exactly the target covers the plan once, and the certificate agrees
        let budget = Budget::new(target, adjacency).unwrap();
        let mut ledger = Ledger::in_memory("d", budget).unwrap();
        let spends = ledger.reserve(&plan).unwrap();
        prop_assert!(ledger.reserve(&plan).is_err());
        let certificate = Certificate::builder(&plan, "d")
            .releases(spends.iter().map(Spend::record).collect())
            .build()
            .unwrap();
        prop_assert!(certificate.verify().unwrap().is_private());
        prop_assert_eq!(Certificate::from_json(&certificate.to_json()).unwrap(), certificate);
    }

    #[test]
    fn epsilon_and_delta_are_inverse_and_monotone(
        mu in decades(-3.0, 1.5),
        eps in decades(-3.0, 2.5),
        delta in decades(-300.0, -0.01),
        step in 1.001..2.0_f64,
    ) {
        let at = gdp::epsilon(mu, delta);
        prop_assert!(gdp::delta(mu, at) <= delta);
        prop_assert!(gdp::epsilon(mu * step, delta) >= at);
        prop_assert!(gdp::epsilon(mu, delta / step) >= at);
        let value = gdp::delta(mu, eps);
        prop_assert!((0.0..=1.0).contains(&value));
        prop_assert!(gdp::delta(mu * step, eps) >= value);
        prop_assert!(gdp::delta(mu, eps * step) <= value);
    }

    #[test]
    fn cost_is_monotone_in_noise_and_count(
        z in decades(-3.0, 6.0),
        step in 1.001..2.0_f64,
        count in 0..1_000_000_u64,
        adjacency in adjacencies(),
    ) {
        let cost = |noise: f64, n| {
            gdp::mu_squared(&DpEvent::gaussian(noise).repeated(n), adjacency).unwrap()
        };
        prop_assert!(cost(z * step, count) <= cost(z, count));
        prop_assert!(cost(z, count) < cost(z, count + 1));
        let replace = if adjacency.is_replace() { 4.0 } else { 1.0 };
        let exact = replace * (count + 1) as f64 / (z * z);
        prop_assert!((cost(z, count + 1) / exact - 1.0).abs() < 2e-15);
    }
}
