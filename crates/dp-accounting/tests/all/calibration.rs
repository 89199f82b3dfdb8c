//! Calibrated parameters are safe, and not much further from the target than necessary.

use dp_accounting::{Accountant, Error, TightestAccountant, calibrate};
use dp_core::{Adjacency, ApproxDp, DpEvent, Relation, Stopping};

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

fn composed(events: Vec<DpEvent>) -> DpEvent {
    DpEvent::Composed { events }
}

fn target() -> ApproxDp {
    ApproxDp::target(1.0, 1e-5).unwrap()
}

/// Both ends of the bracket of epsilon at the target's delta.
fn ends(event: &DpEvent) -> (f64, f64) {
    let mut accountant = TightestAccountant::new(ADJACENCY);
    accountant.compose(event, 1).unwrap();
    let bound = accountant.epsilon(target().delta).unwrap();
    (bound.lower, bound.upper)
}

/// Checks that `event` meets the target at the calibrated value, with epsilon at most `waste` below
/// it.
fn check_noise(name: &str, waste: f64, event: impl Fn(f64) -> DpEvent) {
    let found = calibrate::noise(target(), ADJACENCY, &event).unwrap();
    let (_, upper) = ends(&event(found.value));
    assert!(upper <= 1.0, "{name}: {upper}");
    assert!(upper >= 1.0 - waste, "{name}: {upper}");
    assert_eq!(found.bound.upper.to_bits(), upper.to_bits(), "{name}");
}

#[test]
fn noise_is_found_where_only_an_inversion_answers_and_where_none_does() {
    let sampled = |n: u64, q: f64| move |z| DpEvent::sampled_gaussian(z, q).repeated(n);
    check_noise("smooth", 1e-10, sampled(1_000, 0.01));
    check_noise("few", 1e-5, sampled(20, 0.01));
    check_noise("two", 1e-5, sampled(2, 0.1));
    check_noise("laplace", 1e-5, |z| DpEvent::laplace(z).repeated(3));
    // no mechanism attains the composed choices, so that the lower end of the bracket is 0
    check_noise("choices", 1e-5, |z| {
        let choice = DpEvent::bounded_range(0.2, Relation::AddRemove).repeated(2);
        composed(vec![DpEvent::gaussian(z).repeated(3), choice])
    });
    let stopping = Stopping::Logarithmic {
        success_probability: 0.1,
    };
    check_noise("the best of some", 1e-5, |z| {
        DpEvent::gaussian(z).best_of(stopping)
    });
    check_noise("mixed", 1e-5, |z| {
        composed(vec![
            DpEvent::laplace(5.0 * z),
            DpEvent::sampled_gaussian(z, 0.02).repeated(5),
        ])
    });
    check_noise("once", 1e-10, |z| DpEvent::sampled_gaussian(z, 0.1));
}

#[test]
fn the_last_count_is_the_last_that_is_certified() {
    for (z, q) in [(0.9, 0.01), (2.0, 0.1), (0.6, 0.001)] {
        let step = DpEvent::sampled_gaussian(z, q);
        let event = |n: u64| step.clone().repeated(n);
        let found = calibrate::count(target(), ADJACENCY, event).unwrap();
        assert!(ends(&event(found.value)).1 <= 1.0, "{z} {q}");
        assert!(ends(&event(found.value + 1)).1 > 1.0, "{z} {q}");
        assert!(found.value > 1, "{z} {q}");
    }
}

#[test]
fn the_last_sampling_probability_is_found() {
    let event = |q: f64| DpEvent::sampled_gaussian(1.2, q).repeated(30);
    let found = calibrate::sampling_probability(target(), ADJACENCY, event).unwrap();
    let upper = ends(&event(found.value)).1;
    assert!((1.0 - 1e-5..=1.0).contains(&upper), "{upper}");
}

#[test]
fn an_end_that_meets_the_target_is_the_answer() {
    let event = |q: f64| DpEvent::sampled_gaussian(100.0, q);
    let found = calibrate::sampling_probability(target(), ADJACENCY, event).unwrap();
    assert_eq!(found.value.to_bits(), 1.0_f64.to_bits());
    assert!(found.bound.upper < 0.1);
}

#[test]
fn what_no_noise_can_mend_is_out_of_reach() {
    let leaks = composed(vec![DpEvent::gaussian(0.5), DpEvent::laplace(2.0)]);
    let event = |z: f64| {
        composed(vec![
            leaks.clone(),
            DpEvent::sampled_gaussian(z, 0.1).repeated(3),
        ])
    };
    let found = calibrate::noise(target(), ADJACENCY, event);
    assert!(
        matches!(found, Err(Error::TargetOutOfReach { .. })),
        "{found:?}"
    );
    let single = calibrate::count(target(), ADJACENCY, |n| DpEvent::gaussian(0.5).repeated(n));
    assert!(
        matches!(single, Err(Error::TargetOutOfReach { .. })),
        "{single:?}"
    );
}
