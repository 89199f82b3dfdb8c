//! The inversion against profiles computed in 40-digit arithmetic from another quadrature; made by
//! `saddle_point_values.py` beside this file.

use dp_accounting::{Accountant, PrivacyBound, SaddlePointAccountant};
use dp_core::{Adjacency, DpEvent, Relation};

fn delta(events: &[(DpEvent, u64)], adjacency: Adjacency, epsilon: f64) -> PrivacyBound {
    let mut accountant = SaddlePointAccountant::new(adjacency);
    for (event, count) in events {
        accountant.compose(event, *count).unwrap();
    }
    accountant.delta(epsilon).unwrap()
}

fn three() -> DpEvent {
    DpEvent::mixture_of_gaussians(4.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25])
}

#[test]
fn profiles_agree_with_forty_digits() {
    let failing = DpEvent::approx_dp(0.2, 1e-6, Relation::AddRemove);
    let (one, other) = (Adjacency::AddRemoveUser, Adjacency::ReplaceUser);
    // Where directions differ the reference is the larger of the two that the script prints.
    let table = [
        (
            vec![(DpEvent::sampled_gaussian(1.0, 0.05), 200)],
            one,
            2.0,
            0.015_440_247_011_441_559_2,
        ),
        (
            vec![(DpEvent::sampled_gaussian(2.0, 0.1), 50)],
            other,
            2.0,
            0.001_217_072_164_811_657_46,
        ),
        (vec![(three(), 40)], one, 2.0, 0.061_837_957_445_068_352_4),
        (
            vec![
                (DpEvent::laplace(10.0), 30),
                (DpEvent::gaussian(20.0_f64.sqrt()), 1),
            ],
            one,
            1.0,
            0.016_127_963_694_483_357,
        ),
        (
            vec![(failing, 5), (DpEvent::gaussian(2.0), 1)],
            one,
            1.0,
            0.031_147_547_167_164_504_4,
        ),
    ];
    for (events, adjacency, epsilon, expected) in table {
        let found = delta(&events, adjacency, epsilon);
        assert!(
            (found.value / expected - 1.0).abs() < 1e-12,
            "{events:?}: {}",
            found.value
        );
        assert!(
            found.lower <= expected && expected <= found.upper,
            "{events:?}: {found:?}"
        );
        assert!(
            found.upper - found.lower < 1e-10 * expected,
            "{events:?}: {found:?}"
        );
    }
}

#[test]
fn epsilon_and_delta_are_inverse() {
    let events = [(DpEvent::sampled_gaussian(1.0, 0.01), 5_000), (three(), 3)];
    for target in [1e-3, 1e-6, 1e-15, 1e-60] {
        let mut accountant = SaddlePointAccountant::new(Adjacency::AddRemoveRecord);
        for (event, count) in &events {
            accountant.compose(event, *count).unwrap();
        }
        let epsilon = accountant.epsilon(target).unwrap();
        assert!(accountant.delta(epsilon.upper).unwrap().lower <= target);
        assert!(accountant.delta(epsilon.lower).unwrap().upper >= target);
        assert!(
            epsilon.upper - epsilon.lower < 1e-8 * epsilon.value,
            "{target}: {epsilon:?}"
        );
    }
}
