//! Where there is a closed form or a limit, it is met.

use dp_accounting::{Accountant, TightestAccountant, gdp};
use dp_core::{Adjacency, DpEvent};

use super::grid::{DELTAS, SIGMAS, STEPS};

#[test]
fn a_sample_of_everyone_is_the_gaussian_mechanism() {
    for sigma in [0.3, 1.0, 20.0, 1e4] {
        for (adjacency, factor) in [
            (Adjacency::AddRemoveUser, 1.0),
            (Adjacency::ReplaceUser, 2.0),
        ] {
            let mut accountant = TightestAccountant::new(adjacency);
            accountant
                .compose(&DpEvent::sampled_gaussian(sigma, 1.0), 9)
                .unwrap();
            let mu = 3.0 * factor / sigma;
            for delta in DELTAS {
                let bound = accountant.epsilon(delta).unwrap();
                let exact = gdp::epsilon(mu, delta);
                assert!(
                    (bound.upper - exact).abs() <= 1e-11 * exact,
                    "{bound:?} {exact}"
                );
            }
            // Close to everyone is close to it.
            let mut close = TightestAccountant::new(adjacency);
            close
                .compose(&DpEvent::sampled_gaussian(sigma, 1.0 - 1e-12), 9)
                .unwrap();
            let (a, b) = (accountant.delta(mu).unwrap(), close.delta(mu).unwrap());
            assert!(
                b.lower <= a.upper && b.upper >= a.lower * (1.0 - 1e-9),
                "{a:?} {b:?}"
            );
        }
    }
}

/// delta(epsilon) = 1 - e^((epsilon - 1/b)/2).
#[test]
fn one_laplace_has_its_closed_form() {
    for noise_multiplier in [0.01, 0.5, 3.0, 1e3, 1e6] {
        let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
        accountant
            .compose(&DpEvent::laplace(noise_multiplier), 1)
            .unwrap();
        let top = 1.0 / noise_multiplier;
        for share in [0.0, 0.1, 0.5, 0.999] {
            let exact = -libm::expm1(0.5 * (share - 1.0) * top);
            let bound = accountant.delta(share * top).unwrap();
            assert!(bound.lower <= exact * (1.0 + 1e-14), "{bound:?} {exact}");
            assert!(bound.upper >= exact * (1.0 - 1e-14), "{bound:?} {exact}");
            assert!(
                bound.upper - bound.lower <= 1e-10 * exact,
                "{bound:?} {exact}"
            );
        }
        let beyond = accountant.epsilon(1e-300).unwrap();
        assert!((beyond.upper / top - 1.0).abs() < 1e-12, "{beyond:?}");
    }
}

/// Many cheap steps look like one Gaussian mechanism of mu = q sqrt(n (e^(1/sigma^2) - 1)): a check of
/// size, not a bound.
#[test]
fn many_small_steps_are_nearly_gaussian() {
    for (sigma, q, n) in [
        (1e3, 0.01, 1_000_000_000),
        (20.0, 1e-3, 100_000_000),
        (5.0, 0.5, 100),
    ] {
        let mu = q * (n as f64 * libm::expm1(1.0 / (sigma * sigma))).sqrt();
        let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
        accountant
            .compose(&DpEvent::sampled_gaussian(sigma, q), n)
            .unwrap();
        for delta in [1e-9, 1e-5, 1e-2] {
            let ratio = accountant.epsilon(delta).unwrap().value / gdp::epsilon(mu, delta);
            assert!(
                (0.9..1.15).contains(&ratio),
                "{sigma} {q} {n} {delta}: {ratio}"
            );
        }
    }
}

#[test]
fn gaussians_alone_never_leave_the_closed_form() {
    for sigma in SIGMAS {
        for count in STEPS {
            let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
            accountant
                .compose(&DpEvent::gaussian(sigma), count)
                .unwrap();
            for delta in DELTAS {
                let bound = accountant.epsilon(delta).unwrap();
                assert!(bound.upper.is_finite() && bound.upper >= bound.lower);
                let mu = gdp::mu_squared(
                    &DpEvent::gaussian(sigma).repeated(count),
                    accountant.adjacency(),
                );
                let back = gdp::delta(mu.unwrap().sqrt(), bound.upper);
                assert!(
                    back <= delta * (1.0 + 1e-12),
                    "{sigma} {count} {delta}: {back}"
                );
            }
        }
    }
}
