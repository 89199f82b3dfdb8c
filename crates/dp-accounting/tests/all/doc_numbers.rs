//! Recomputes the numbers in `docs/pitfalls.md`, so that the page stays consistent with the code.
//!
//! `cargo test --release -p dp-accounting --test all -- --nocapture doc_numbers::` prints them.

use dp_accounting::{
    Accountant, Error, GdpAccountant, Odometer, RdpAccountant, TightestAccountant, ZcdpAccountant,
    gdp, usable_delta,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, Relation, Stopping};

const ADD: Adjacency = Adjacency::AddRemoveUser;
const REPLACE: Adjacency = Adjacency::ReplaceUser;
const DELTA: f64 = 1e-5;

/// Upper bound on epsilon of `event`.
fn epsilon(event: &DpEvent, adjacency: Adjacency, delta: f64) -> f64 {
    let mut accountant = TightestAccountant::new(adjacency);
    accountant.compose(event, 1).unwrap();
    accountant.epsilon(delta).unwrap().upper
}

/// Asserts that `found` rounds to the number printed on the page.
fn printed(what: &str, found: f64, text: &str) {
    println!("{what}: {found:.6}");
    let digits = text.split_once('.').map_or(0, |(_, after)| after.len());
    assert_eq!(format!("{found:.digits$}"), text, "{what}");
}

/// Private SGD: noise multiplier 1, sampling probability 0.01, 1,000 steps.
fn sgd() -> DpEvent {
    DpEvent::sampled_gaussian(1.0, 0.01).repeated(1_000)
}

/// mu of the Gaussian mechanism that is (1, 1e-5)-DP.
fn unit_mu() -> f64 {
    gdp::mu_for(ApproxDp::target(1.0, DELTA).unwrap()).unwrap()
}

/// That mechanism under add/remove.
fn unit() -> DpEvent {
    DpEvent::gaussian(1.0 / unit_mu())
}

/// A mechanism known only to be (1, 1e-5)-DP.
fn stated() -> DpEvent {
    DpEvent::approx_dp(1.0, DELTA, Relation::AddRemove)
}

#[test]
fn what_is_not_private_has_no_figure() {
    let mut accountant = TightestAccountant::new(ADD);
    let refused = accountant.compose(&DpEvent::NonPrivate, 1);
    assert!(matches!(refused, Err(Error::NonPrivateEvent)));
}

#[test]
fn records_for_users() {
    printed("1 record", gdp::epsilon(unit_mu(), DELTA), "1.00");
    printed("20 records", gdp::epsilon(20.0 * unit_mu(), DELTA), "36.5");
}

#[test]
fn shuffled_batches() {
    let poisson = DpEvent::sampled_gaussian(0.8, 0.01).repeated(100);
    printed("Poisson", epsilon(&poisson, ADD, DELTA), "1.51");
    let once = DpEvent::gaussian(0.8);
    printed("each unit once", epsilon(&once, ADD, DELTA), "5.68");
}

#[test]
fn sampling_without_replacement() {
    let fixed = DpEvent::gaussian(1.0)
        .sampled_without_replacement(100, 10_000)
        .repeated(1_000);
    printed("fixed size", epsilon(&fixed, REPLACE, DELTA), "14.82");
}

#[test]
fn tuning() {
    let geometric = Stopping::TruncatedNegativeBinomial {
        shape: 1.0,
        success_probability: 0.01,
    };
    let best = unit().best_of(geometric);
    let all = unit().repeated(100);
    printed("100 runs, all charged", epsilon(&all, ADD, DELTA), "14.43");
    printed("best of 100 on average", epsilon(&best, ADD, DELTA), "2.91");
}

#[test]
fn adjacency() {
    printed("Gaussian", epsilon(&unit(), REPLACE, DELTA), "2.15");
    printed("sgd, add/remove", epsilon(&sgd(), ADD, DELTA), "1.83");
    printed("sgd, replace", epsilon(&sgd(), REPLACE, DELTA), "2.84");
}

#[test]
fn stated_guarantees_under_replacement() {
    let mut accountant = TightestAccountant::new(REPLACE);
    accountant.compose(&stated(), 1).unwrap();
    let delta = accountant.delta(2.0).unwrap().upper;
    printed("delta at 2, times 1e5", delta * 1e5, "3.72");
}

#[test]
fn central_limit() {
    let (sigma, q, n) = (0.7_f64, 0.01, 1_000_u16);
    let mu = q * (f64::from(n) * (sigma * sigma).recip().exp_m1()).sqrt();
    printed("central limit", gdp::epsilon(mu, DELTA), "3.48");
    let event = DpEvent::sampled_gaussian(sigma, q).repeated(u64::from(n));
    printed("truth", epsilon(&event, ADD, DELTA), "4.62");
}

#[test]
fn sums_of_epsilons() {
    printed(
        "ten Gaussian runs",
        epsilon(&unit().repeated(10), ADD, DELTA),
        "3.62",
    );
    let mut accountant = TightestAccountant::new(ADD);
    accountant.compose(&stated(), 10).unwrap();
    let refused = accountant.epsilon(DELTA);
    assert!(matches!(refused, Err(Error::NoFiniteEpsilon { .. })));
}

#[test]
fn stopping_when_it_looks_good() {
    let mut odometer = Odometer::new(DELTA, ADD, Gdp { mu: 0.1 }).unwrap();
    let mut running = GdpAccountant::new(ADD);
    let step = DpEvent::gaussian(40.0);
    odometer.compose(&step, 100).unwrap();
    running.compose(&step, 100).unwrap();
    printed("running total", running.epsilon(DELTA), "0.93");
    printed("odometer", odometer.reading().unwrap().epsilon, "1.25");
}

#[test]
fn one_mechanism_at_four_deltas() {
    for (delta, text) in [
        (1e-3, "0.64"),
        (1e-5, "1.00"),
        (1e-8, "1.39"),
        (1e-12, "1.79"),
    ] {
        printed("epsilon", epsilon(&unit(), ADD, delta), text);
    }
}

#[test]
fn rounded_sampling_probability() {
    let at = |q: f64| {
        let event = DpEvent::sampled_gaussian(0.8, q).repeated(10_000);
        epsilon(&event, ADD, DELTA)
    };
    printed("q = .004", at(0.004), "3.53");
    printed("q = 5/1200", at(5.0 / 1_200.0), "3.70");
}

#[test]
fn loose_methods() {
    let event = DpEvent::gaussian(1_000.0);
    let capped = (2..=1_024).map(f64::from).collect();
    let mut capped = RdpAccountant::with_orders(ADD, capped).unwrap();
    capped.compose(&event, 1).unwrap();
    let found = capped.epsilon(DELTA).unwrap().upper;
    printed("orders to 1024, times 1000", 1e3 * found, "4.01");
    let exact = epsilon(&event, ADD, DELTA);
    printed("exact, times 1000", 1e3 * exact, "1.94");
    let mut zcdp = ZcdpAccountant::new(ADD);
    zcdp.compose(&sgd(), 1).unwrap();
    printed("sgd by zCDP", zcdp.epsilon(DELTA).unwrap().upper, "649");
    let mut rdp = RdpAccountant::new(ADD);
    rdp.compose(&sgd(), 1).unwrap();
    printed("sgd by Renyi", rdp.epsilon(DELTA).unwrap().upper, "2.10");
}

#[test]
fn price_of_the_sampler() {
    let more = gdp::epsilon(unit_mu(), usable_delta(DELTA)) - gdp::epsilon(unit_mu(), DELTA);
    assert!(more > 0.0 && more < 1e-7, "{more:e}");
}
