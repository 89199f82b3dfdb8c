//! Mistakes that are known of other libraries.

use dp_accounting::{
    Accountant, Error, PldAccountant, PrivacyBound, RdpAccountant, SaddlePointAccountant,
    TightestAccountant, ZcdpAccountant,
};
use dp_core::{Adjacency, DpEvent};

use super::subject::{SOME, Subject, account, answered};
use crate::shared::events::{ADJACENCIES, every_form};

/// The answers of all accountants, in the same order whether they have one or not.
fn all_epsilons(event: &DpEvent, count: u64, adjacency: Adjacency, delta: f64) -> [Option<f64>; 5] {
    fn of<A: Subject>(event: &DpEvent, n: u64, adjacency: Adjacency, d: f64) -> Option<f64> {
        let accountant = account::<A>(&[(event, n)], adjacency)?;
        answered(accountant.epsilon_at(d)).map(|bound| bound.upper)
    }
    [
        of::<ZcdpAccountant>(event, count, adjacency, delta),
        of::<RdpAccountant>(event, count, adjacency, delta),
        of::<PldAccountant>(event, count, adjacency, delta),
        of::<SaddlePointAccountant>(event, count, adjacency, delta),
        of::<TightestAccountant>(event, count, adjacency, delta),
    ]
}

fn epsilons(event: &DpEvent, count: u64, adjacency: Adjacency, delta: f64) -> Vec<f64> {
    let all = all_epsilons(event, count, adjacency, delta);
    all.into_iter().flatten().collect()
}

fn best(event: &DpEvent, count: u64, adjacency: Adjacency, delta: f64) -> PrivacyBound {
    let accountant = account::<TightestAccountant>(&[(event, count)], adjacency).unwrap();
    accountant.epsilon_at(delta).unwrap()
}

/// Whatever is composed so often that nothing is left has a probability of error close to 0, so
/// epsilon cannot stay near that of one run.
#[test]
fn count_is_not_forgotten() {
    let response = DpEvent::randomized_response(0.5, 4);
    let exponential = DpEvent::bounded_range(0.5, dp_core::Relation::Replace);
    for event in [response, exponential] {
        let one = all_epsilons(&event, 1, Adjacency::ReplaceRecord, 1e-6);
        let many = all_epsilons(&event, 400, Adjacency::ReplaceRecord, 1e-6);
        let both: Vec<(f64, f64)> = one
            .iter()
            .zip(many)
            .filter_map(|(one, many)| one.zip(many))
            .collect();
        assert!(both.len() >= 4, "{event:?} {both:?}");
        for (one, many) in both {
            assert!(many > 10.0 * one, "{event:?} {one} {many}");
        }
    }
}

/// 10 runs at (eps, 0): pure composition is the limit as delta falls.
#[test]
fn pure_composition_is_reached() {
    let response = DpEvent::randomized_response(0.5, 4);
    let one = 5.0_f64.ln();
    for epsilon in epsilons(&response, 10, Adjacency::ReplaceRecord, 1e-300) {
        assert!(epsilon >= 10.0 * one * (1.0 - 1e-12), "{epsilon}");
    }
}

#[test]
fn replacement_doubles() {
    let double = |event: &DpEvent, half: &DpEvent| {
        let replace = best(event, 3, Adjacency::ReplaceUser, 1e-6);
        let add = best(half, 3, Adjacency::AddRemoveUser, 1e-6);
        assert!(
            (replace.upper / add.upper - 1.0).abs() < 1e-5,
            "{event:?} {replace:?} {add:?}"
        );
    };
    double(&DpEvent::gaussian(4.0), &DpEvent::gaussian(2.0));
    double(&DpEvent::laplace(4.0), &DpEvent::laplace(2.0));
    let discrete = |rate, sensitivity| DpEvent::DiscreteLaplace { rate, sensitivity };
    double(&discrete(0.1, 1), &discrete(0.1, 2));
    let tree = |z, n_steps| DpEvent::tree_aggregation(z, n_steps);
    double(&tree(8.0, 63), &tree(4.0, 63));
    let psd = best(&DpEvent::gaussian_psd(2.0), 2, Adjacency::ReplaceUser, 1e-6);
    let plain = best(&DpEvent::gaussian(2.0), 4, Adjacency::AddRemoveUser, 1e-6);
    assert!((psd.upper / plain.upper - 1.0).abs() < 1e-12);
    // A sampled unit may leave and come back different: more than the one-sided cost.
    let sampled = DpEvent::sampled_gaussian(1.0, 0.1);
    let replace = best(&sampled, 10, Adjacency::ReplaceUser, 1e-6);
    let add = best(&sampled, 10, Adjacency::AddRemoveUser, 1e-6);
    assert!(replace.lower > 1.15 * add.upper, "{replace:?} {add:?}");
}

/// Fast Fourier transforms leave noise of 1e-16: no negative delta, no infinite epsilon.
#[test]
fn delta_far_below_rounding() {
    for (event, count) in [
        (DpEvent::sampled_gaussian(1.0, 0.01), 1000),
        (DpEvent::laplace(20.0), 100),
        (DpEvent::laplace(10.0).poisson_sampled(0.2), 50),
    ] {
        let mut last = 0.0;
        for delta in [1e-5, 1e-15, 1e-16, 1e-30, 1e-100] {
            let bound = best(&event, count, Adjacency::AddRemoveUser, delta);
            assert!(bound.upper.is_finite() && bound.upper >= last, "{bound:?}");
            last = bound.upper * (1.0 - 1e-12);
            let accountant =
                account::<PldAccountant>(&[(&event, count)], Adjacency::AddRemoveUser).unwrap();
            let back = accountant.delta_at(bound.upper).unwrap();
            let slack = 1.0 + 1e-9;
            assert!(back.upper >= 0.0 && back.lower <= delta * slack, "{back:?}");
        }
    }
}

#[test]
fn not_a_number_is_no_privacy() {
    for adjacency in ADJACENCIES {
        for event in [
            DpEvent::gaussian(f64::NAN),
            DpEvent::sampled_gaussian(f64::NAN, 0.1),
            DpEvent::sampled_gaussian(1.0, f64::NAN),
            DpEvent::laplace(f64::NAN),
        ] {
            let mut accountant = TightestAccountant::new(adjacency);
            assert!(matches!(
                accountant.compose(&event, 1),
                Err(Error::Param(_))
            ));
        }
    }
}

/// At sigma 1000 the best order is in the thousands; stopping at 1024 costs a factor of 2.
#[test]
fn orders_are_not_capped() {
    let event = DpEvent::gaussian(1000.0);
    let exact = best(&event, 1, Adjacency::AddRemoveUser, 1e-5).value;
    let accountant = account::<RdpAccountant>(&[(&event, 1)], Adjacency::AddRemoveUser).unwrap();
    let renyi = accountant.epsilon_at(1e-5).unwrap().upper;
    assert!(exact <= renyi && renyi < 1.35 * exact, "{renyi} {exact}");
}

/// Renyi divergence of order a is a q^2 (e^{1/s^2} - 1) / 2 to leading order in q.
#[test]
fn tiny_sampling_probability_does_not_cancel() {
    for (q, sigma) in [(1e-6_f64, 1.0_f64), (1e-9, 5.0), (1e-12, 100.0)] {
        let mut accountant = RdpAccountant::new(Adjacency::AddRemoveUser);
        accountant
            .compose(&DpEvent::sampled_gaussian(sigma, q), 1)
            .unwrap();
        for order in [1.5, 2.0, 4.5] {
            let found = accountant.rdp(order).unwrap().value;
            let expected = 0.5 * order * q * q * libm::expm1(1.0 / (sigma * sigma));
            assert!(
                (found / expected - 1.0).abs() < 1e-3,
                "{q} {order}: {found} {expected}"
            );
        }
    }
}

/// The central limit theorem says mu = q sqrt(n (e^{1/s^2} - 1)), which is below the truth here.
#[test]
fn central_limit_is_no_bound() {
    let (sigma, q, n) = (0.6, 0.01, 100_u64);
    let mu = q * (n as f64 * libm::expm1(1.0 / (sigma * sigma))).sqrt();
    let limit = dp_accounting::gdp::epsilon(mu, 1e-6);
    for epsilon in epsilons(
        &DpEvent::sampled_gaussian(sigma, q),
        n,
        Adjacency::AddRemoveUser,
        1e-6,
    ) {
        assert!(epsilon > 1.1 * limit, "{epsilon} {limit}");
    }
}

#[test]
fn epsilon_is_never_negative() {
    for event in every_form() {
        for adjacency in SOME {
            for delta in [0.9, 0.999_999, 1.0_f64.next_down()] {
                if account::<TightestAccountant>(&[(&event, 1)], adjacency).is_none() {
                    continue;
                }
                for epsilon in epsilons(&event, 1, adjacency, delta) {
                    assert!(epsilon >= 0.0, "{event:?} {delta} {epsilon}");
                }
            }
        }
    }
}
