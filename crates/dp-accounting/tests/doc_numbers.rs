//! The numbers of `docs/pitfalls.md`, recomputed, so that the page cannot drift from the code.
//!
//! `cargo test -p dp-accounting --test doc_numbers -- --nocapture` prints them.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use dp_accounting::{
    Accountant, Error, GdpAccountant, Odometer, RdpAccountant, TightestAccountant, ZcdpAccountant,
    gdp,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, Relation, Stopping};

const ADD: Adjacency = Adjacency::AddRemoveUser;
const REPLACE: Adjacency = Adjacency::ReplaceUser;

/// Upper bound on epsilon of `event`, composed once.
fn epsilon(event: &DpEvent, adjacency: Adjacency, delta: f64) -> f64 {
    let mut accountant = TightestAccountant::new(adjacency);
    accountant.compose(event, 1).unwrap();
    accountant.epsilon(delta).unwrap().upper
}

/// Asserts that `found` rounds to the figure printed in the page.
fn printed(what: &str, found: f64, text: &str) {
    println!("{what}: {found:.6}");
    let digits = text.split_once('.').map_or(0, |(_, after)| after.len());
    if text != "?" { assert_eq!(format!("{found:.digits$}"), text, "{what}"); }
}

/// Private SGD: noise 1, one in a hundred, a thousand steps.
fn sgd() -> DpEvent {
    DpEvent::sampled_gaussian(1.0, 0.01).repeated(1_000)
}

/// The Gaussian mechanism that is (1, 1e-5)-DP under add/remove.
fn unit() -> DpEvent {
    let mu = gdp::mu_for(ApproxDp::target(1.0, 1e-5).unwrap()).unwrap();
    DpEvent::gaussian(1.0 / mu)
}

#[test]
fn adjacency() {
    printed("gaussian, replace", epsilon(&unit(), REPLACE, 1e-5), "?");
    printed("sgd, add/remove", epsilon(&sgd(), ADD, 1e-5), "?");
    printed("sgd, replace", epsilon(&sgd(), REPLACE, 1e-5), "?");
}

#[test]
fn users_of_many_records() {
    let mu = gdp::mu_for(ApproxDp::target(1.0, 1e-5).unwrap()).unwrap();
    printed("20 records", gdp::epsilon(20.0 * mu, 1e-5), "?");
    printed("100 records", gdp::epsilon(100.0 * mu, 1e-5), "?");
}

#[test]
fn nothing_is_said_about_what_is_not_private() {
    let mut accountant = TightestAccountant::new(ADD);
    let refused = accountant.compose(&DpEvent::NonPrivate, 1);
    assert!(matches!(refused, Err(Error::NonPrivateEvent)));
}

#[test]
fn shuffled_batches() {
    let poisson = DpEvent::sampled_gaussian(0.8, 0.01).repeated(100);
    printed("one epoch, poisson", epsilon(&poisson, ADD, 1e-5), "?");
    printed("one epoch, each once", epsilon(&DpEvent::gaussian(0.8), ADD, 1e-5), "?");
}

#[test]
fn sampling_without_replacement() {
    let fixed = DpEvent::SampledWithoutReplacement {
        sample_size: 100,
        population_size: 10_000,
        event: Box::new(DpEvent::gaussian(1.0)),
    }
    .repeated(1_000);
    printed("poisson, add/remove", epsilon(&sgd(), ADD, 1e-5), "?");
    printed("fixed size, replace", epsilon(&fixed, REPLACE, 1e-5), "?");
}

#[test]
fn tuning() {
    let geometric = Stopping::TruncatedNegativeBinomial { shape: 1.0, success_probability: 0.01 };
    let best = DpEvent::RepeatAndSelect { event: Box::new(unit()), stopping: geometric };
    printed("best of 100, charged each", epsilon(&unit().repeated(100), ADD, 1e-5), "?");
    printed("best of geometric 100", epsilon(&best, ADD, 1e-5), "?");
}

#[test]
fn central_limit() {
    for (sigma, q, n) in [(0.5_f64, 0.001_f64, 1_000_u64), (0.6, 0.001, 1000), (1.0,0.01,1000),(0.5,0.01,1000), (0.7,0.01,1000)] {
        let mu = q * (n as f64 * (1.0 / (sigma * sigma)).exp_m1()).sqrt();
        let event = DpEvent::sampled_gaussian(sigma, q).repeated(n);
        println!("{sigma} {q} {n} clt {} true {}", gdp::epsilon(mu, 1e-5), epsilon(&event, ADD, 1e-5));
    }
}

#[test]
fn epsilon_at_another_delta() {
    for delta in [1e-3, 1e-5, 1e-8, 1e-12] {
        printed("unit", epsilon(&unit(), ADD, delta), "?");
    }
}

#[test]
fn capped_orders() {
    let event = DpEvent::gaussian(1_000.0);
    let orders = (2..=1_024).map(f64::from).collect();
    let mut capped = RdpAccountant::with_orders(ADD, orders).unwrap();
    capped.compose(&event, 1).unwrap();
    let mut free = RdpAccountant::new(ADD);
    free.compose(&event, 1).unwrap();
    println!("{} {} {}", capped.epsilon(1e-5).unwrap().upper, free.epsilon(1e-5).unwrap().upper, epsilon(&event, ADD, 1e-5));
    let tiny = DpEvent::gaussian(100.0);
    let mut free = RdpAccountant::new(ADD);
    free.compose(&tiny, 1).unwrap();
    println!("{} {}", free.epsilon(1e-5).unwrap().upper, epsilon(&tiny, ADD, 1e-5));
}

#[test]
fn closed_forms() {
    let mut zcdp = ZcdpAccountant::new(ADD);
    zcdp.compose(&sgd(), 1).unwrap();
    printed("sgd, zcdp", zcdp.epsilon(1e-5).unwrap().upper, "?");
    let mut rdp = RdpAccountant::new(ADD);
    rdp.compose(&sgd(), 1).unwrap();
    printed("sgd, rdp", rdp.epsilon(1e-5).unwrap().upper, "?");
    let mut zcdp = ZcdpAccountant::new(ADD);
    zcdp.compose(&unit(), 1).unwrap();
    printed("unit, zcdp", zcdp.epsilon(1e-5).unwrap().upper, "?");
}

#[test]
fn ten_certificates() {
    printed("ten runs", epsilon(&unit().repeated(10), ADD, 1e-5), "?");
    let stated = DpEvent::ApproxDp { epsilon: 1.0, delta: 1e-5, relation: Relation::AddRemove };
    let mut accountant = TightestAccountant::new(ADD);
    accountant.compose(&stated, 10).unwrap();
    println!("{:?}", accountant.epsilon(1e-5));
    printed("ten stated, 2e-4", epsilon(&stated.clone().repeated(10), ADD, 2e-4), "?");
    println!("once at its delta {:?}", {let mut a = TightestAccountant::new(ADD); a.compose(&stated, 1).unwrap(); (a.epsilon(1e-5), a.epsilon(1.0000001e-5))});
    let twice = DpEvent::ApproxDp { epsilon: 1.0, delta: 1e-5, relation: Relation::AddRemove };
    let mut a = TightestAccountant::new(REPLACE); a.compose(&twice, 1).unwrap();
    println!("replace {:?}", a.delta(1.9999999999));
}

#[test]
fn rounded_sampling_probability() {
    // 5 of 1200 is .0041667; written as .004
    let at = |q: f64| epsilon(&DpEvent::sampled_gaussian(0.8, q).repeated(10_000), ADD, 1e-5);
    println!("{} {}", at(0.004), at(5.0/1200.0));
}

#[test]
fn stopping_when_it_looks_good() {
    let mut odometer = Odometer::new(1e-5, ADD, Gdp { mu: 0.1 }).unwrap();
    let mut accountant = GdpAccountant::new(ADD);
    let step = DpEvent::gaussian(40.0);
    odometer.compose(&step, 100).unwrap();
    accountant.compose(&step, 100).unwrap();
    println!("{:?} {}", odometer.reading(), accountant.epsilon(1e-5));
}

#[test]
fn psd_lower() {
    let psd = DpEvent::gaussian_psd(4.0);
    println!("psd {}", epsilon(&psd, REPLACE, 1e-5));
    let sampled = DpEvent::gaussian_psd(4.0).poisson_sampled(1.0);
    let mut a = TightestAccountant::new(REPLACE); a.compose(&sampled, 1).unwrap();
    println!("psd sampled at 1: {:?}", a.epsilon(1e-5));
}
