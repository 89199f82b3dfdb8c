//! Brackets of privacy loss distributions compared with exact finite sums and with each other.

use dp_accounting::{Accountant, Error, Method, PldAccountant, SaddlePointAccountant, gdp};
use dp_core::{Adjacency, DpEvent, Relation};

fn account(events: &[(DpEvent, u64)], adjacency: Adjacency) -> PldAccountant {
    let mut accountant = PldAccountant::new(adjacency);
    for (event, count) in events {
        accountant.compose(event, *count).unwrap();
    }
    accountant
}

const fn approx(epsilon: f64, delta: f64) -> DpEvent {
    DpEvent::approx_dp(epsilon, delta, Relation::AddRemove)
}

/// Kairouz, Oh, Viswanath 2015: a binomial sum.
fn optimal_composition(epsilon: f64, delta: f64, n: u32, target: f64) -> f64 {
    let high = 1.0 / (1.0 + (-epsilon).exp());
    let (mut sum, mut weight) = (0.0, (1.0 - high).powi(n as i32));
    for k in 0..=n {
        let loss = epsilon * (2.0 * f64::from(k) - f64::from(n));
        sum += weight * (1.0 - (target - loss).exp()).max(0.0);
        weight *= f64::from(n - k) / f64::from(k + 1) * high / (1.0 - high);
    }
    let alive = (1.0 - delta).powi(n as i32);
    1.0 - alive + alive * sum
}

#[test]
fn lattice_losses_are_exact() {
    for (epsilon, delta, n, target) in [(0.1, 0.0, 90, 1.7), (0.4, 1e-6, 37, 2.3)] {
        let accountant = account(
            &[(approx(epsilon, delta), u64::from(n))],
            Adjacency::AddRemoveUser,
        );
        let bound = accountant.delta(target).unwrap();
        let exact = optimal_composition(epsilon, delta, n, target);
        assert!(bound.lower <= exact * (1.0 + 1e-12) && exact * (1.0 - 1e-12) <= bound.upper);
        assert!(bound.upper - bound.lower < 1e-9 * exact, "{bound:?}");
        assert_eq!(bound.method, Method::Pld);
    }
}

#[test]
fn gaussian_composition_holds_the_closed_form() {
    let events = [(DpEvent::gaussian(4.0), 3)];
    let accountant = account(&events, Adjacency::AddRemoveUser);
    let mu = (3.0_f64 / 16.0).sqrt();
    for delta in [1e-2, 1e-6, 1e-60] {
        let bound = accountant.epsilon(delta).unwrap();
        let exact = gdp::epsilon(mu, delta);
        assert!(
            bound.lower <= exact && exact * (1.0 - 1e-12) <= bound.upper,
            "{bound:?} {exact}"
        );
        assert!(bound.upper - bound.lower < 1e-4 * exact, "{bound:?}");
    }
}

#[test]
fn infinite_loss_above_delta_has_no_epsilon() {
    let accountant = account(&[(approx(0.1, 1e-4), 100)], Adjacency::AddRemoveUser);
    assert!(matches!(
        accountant.epsilon(1e-3),
        Err(Error::NoFiniteEpsilon { .. })
    ));
    assert!(accountant.epsilon(2e-2).is_ok());
}

#[test]
fn a_finer_description_of_the_same_mechanism_has_the_same_epsilon() {
    let sampled = DpEvent::sampled_gaussian(1.1, 0.02);
    let mixture = DpEvent::mixture_of_gaussians(1.1, [0.0, 1.0], [0.98, 0.02]);
    for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
        let a = account(&[(sampled.clone(), 200)], adjacency)
            .epsilon(1e-6)
            .unwrap();
        let b = account(&[(mixture.clone(), 200)], adjacency)
            .epsilon(1e-6)
            .unwrap();
        assert!(a.lower <= b.upper && b.lower <= a.upper, "{a:?} {b:?}");
        assert!(a.upper - a.lower <= 1e-4 * a.upper, "{a:?}");
    }
}

#[test]
fn extremes_are_ordered_or_refused() {
    let events = [
        DpEvent::sampled_gaussian(0.01, 1e-9),
        DpEvent::sampled_gaussian(1e6, 0.5),
        DpEvent::laplace(1e-2),
        DpEvent::laplace(1e5),
        DpEvent::laplace(0.7).poisson_sampled(1e-3),
    ];
    for event in events {
        for count in [1, 1_000] {
            let accountant = account(&[(event.clone(), count)], Adjacency::AddRemoveUser);
            for delta in [1e-300, 1e-5, 0.5] {
                match accountant.epsilon(delta) {
                    Ok(b) => assert!(0.0 <= b.lower && b.lower <= b.upper && b.upper.is_finite()),
                    Err(Error::NotCertified { .. }) => {}
                    Err(other) => panic!("{event:?}: {other}"),
                }
            }
        }
    }
}

/// Two methods that share nothing but the tails of the losses.
#[test]
fn brackets_hold_what_the_inversion_proves() {
    let cases = [
        (0.7, 1e-4, 1_000_000, 1e-8),
        (1.19, 1.13e-3, 1_526, 2.25e-8),
        (2.0, 0.01, 100, 1e-6),
        (0.6, 1e-3, 5_000, 1e-6),
    ];
    for (sigma, q, count, delta) in cases {
        let event = DpEvent::sampled_gaussian(sigma, q);
        let mut inversion = SaddlePointAccountant::new(Adjacency::AddRemoveUser);
        inversion.compose(&event, count).unwrap();
        let known = inversion.epsilon(delta).unwrap();
        let events = [(event, count)];
        let bound = account(&events, Adjacency::AddRemoveUser)
            .epsilon(delta)
            .unwrap();
        assert!(
            bound.lower <= known.upper && known.lower <= bound.upper,
            "{bound:?} {known:?}"
        );
        assert!(bound.upper - bound.lower <= 1e-4 * bound.upper, "{bound:?}");
        assert!(
            (bound.value - known.value).abs() <= 2e-5 * known.value,
            "{bound:?} {known:?}"
        );
    }
}

/// Regression test: almost all of the relevant loss is at its maximum, and the lower end was 0.
#[test]
fn epsilon_close_to_the_largest_loss_has_both_ends() {
    let laplace = [(DpEvent::laplace(1.0), 3)];
    let response = [(approx(1.2, 0.0), 20)];
    for (events, largest) in [(laplace, 3.0), (response, 24.0)] {
        let bound = account(&events, Adjacency::AddRemoveUser)
            .epsilon(1e-6)
            .unwrap();
        assert!(bound.upper < largest && bound.upper > 0.99 * largest);
        assert!(
            bound.upper - bound.lower <= 1e-10 * bound.upper,
            "{bound:?}"
        );
    }
}
