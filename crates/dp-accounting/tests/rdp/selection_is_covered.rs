//! The best of a random number of runs costs no less than the exact divergence of small cases.

use dp_core::{DpEvent, Stopping};

use super::support::{ADD_REMOVE, REPLACE, divergence};

/// Divergence of order a between the published results of k-ary randomised response selected from
/// a random number of runs whose generating function is `f`, worst over which result ranks best.
fn selected_divergence(lie: f64, truth: f64, f: impl Fn(f64) -> f64, order: f64) -> f64 {
    let mut worst = 0.0_f64;
    // Two results, one ranked above the other, neighbours in both orders.
    for (q, q_other) in [(lie, truth), (truth, lie)] {
        let ranked = |low: f64| [f(0.0), f(low) - f(0.0), 1.0 - f(low)];
        let (a, b) = (ranked(q), ranked(q_other));
        let terms = a.iter().zip(b).filter(|(x, _)| **x > 0.0);
        let logs: Vec<f64> = terms
            .map(|(x, y)| x.ln() + (order - 1.0) * (x / y).ln())
            .collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let rest: f64 = logs.iter().map(|l| (l - top).exp()).sum();
        worst = worst.max((top + rest.ln()) / (order - 1.0));
    }
    worst
}

#[test]
fn selection_is_never_below_the_exact_divergence_of_small_cases() {
    for noise_probability in [0.9, 0.5, 0.1] {
        let run = DpEvent::randomized_response(noise_probability, 2);
        let (lie, truth) = (0.5 * noise_probability, 1.0 - 0.5 * noise_probability);
        let epsilon = (truth / lie).ln();
        for order in [1.05, 1.5, 3.0, 12.0, 200.0] {
            let bound = |stopping| {
                let event = run.clone().best_of(stopping);
                divergence(&event, REPLACE, order)
            };
            for gamma in [0.5, 0.05, 1e-3] {
                let success_probability = gamma;
                for shape in [-0.5_f64, 0.0, 1.0, 4.0] {
                    let f = |x: f64| {
                        let base = 1.0 - (1.0 - gamma) * x;
                        if shape == 0.0 {
                            return base.ln() / gamma.ln();
                        }
                        (base.powf(-shape) - 1.0) / (gamma.powf(-shape) - 1.0)
                    };
                    let upper = bound(Stopping::TruncatedNegativeBinomial {
                        shape,
                        success_probability,
                    });
                    let exact = selected_divergence(lie, truth, f, order);
                    assert!(upper >= exact, "{shape} {gamma} {order}: {upper} {exact}");
                    let mean = if shape == 0.0 {
                        (1.0 / gamma - 1.0) / -gamma.ln()
                    } else {
                        shape * (1.0 - gamma) / (gamma * (1.0 - gamma.powf(shape)))
                    };
                    let pure = (2.0 + shape) * epsilon + mean.ln() / (order - 1.0);
                    assert!(upper <= pure * (1.0 + 1e-12), "{shape} {gamma} {order}");
                }
                let logarithmic = bound(Stopping::Logarithmic {
                    success_probability,
                });
                let same = bound(Stopping::TruncatedNegativeBinomial {
                    shape: 0.0,
                    success_probability,
                });
                assert!((logarithmic / same - 1.0).abs() < 1e-14);
            }
            for mean in [0.3, 1.0, 20.0] {
                let f = |x: f64| (mean * (x - 1.0)).exp();
                let exact = selected_divergence(lie, truth, f, order);
                let upper = bound(Stopping::Poisson { mean });
                assert!(upper >= exact, "{mean} {order}: {upper} {exact}");
            }
        }
    }
}

#[test]
fn a_single_certain_run_costs_what_it_costs() {
    // gamma close to 1: the number of runs is 1 almost surely.
    let run = DpEvent::gaussian(1.5);
    let once = run.clone().best_of(Stopping::TruncatedNegativeBinomial {
        shape: 1.0,
        success_probability: 1.0 - 1e-9,
    });
    for order in [1.5, 4.0, 100.0] {
        let ratio = divergence(&once, ADD_REMOVE, order) / divergence(&run, ADD_REMOVE, order);
        assert!((1.0..1.0 + 1e-7).contains(&ratio), "{order}: {ratio}");
    }
}

#[test]
fn poisson_selection_of_a_gaussian_matches_the_formula() {
    // The run alone: r(a) = a/(2 z^2); the failure probability from the exact profile.
    let (z, mean, order) = (4.0_f64, 10.0_f64, 5.0_f64);
    let event = DpEvent::gaussian(z).best_of(Stopping::Poisson { mean });
    let s = order - 1.0;
    let failure = dp_accounting::gdp::delta(1.0 / z, (1.0 / s).ln_1p());
    let second = s * (order / (2.0 * z * z) + mean * failure);
    let expected = ((-mean).exp() + mean * second.exp()).ln() / s;
    let found = divergence(&event, ADD_REMOVE, order);
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
}
