//! The ends of every range.

use dp_core::{DpEvent, Relation, Stopping};

pub(super) const SIGMAS: [f64; 9] = [0.01, 0.05, 0.3, 1.0, 4.0, 50.0, 1e3, 1e5, 1e6];

pub(super) const PROBABILITIES: [f64; 8] = [1e-9, 1e-6, 1e-3, 0.03, 0.5, 0.999, 0.999_999_999, 1.0];

pub(super) const STEPS: [u64; 6] = [1, 2, 30, 10_000, 1_000_000, 1_000_000_000];

pub(super) const DELTAS: [f64; 6] = [1e-300, 1e-100, 1e-15, 1e-5, 0.01, 0.5];

pub(super) const EPSILONS: [f64; 6] = [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3];

pub(super) fn events_at_the_ends() -> Vec<DpEvent> {
    let mut all = Vec::new();
    for sigma in SIGMAS {
        all.push(DpEvent::gaussian(sigma));
        for q in PROBABILITIES {
            all.push(DpEvent::sampled_gaussian(sigma, q));
        }
    }
    for z in [0.001, 0.1, 1.0, 30.0, 1e4, 1e6] {
        all.push(DpEvent::laplace(z));
        for q in [1e-9, 1e-3, 0.5, 0.999_999] {
            all.push(DpEvent::laplace(z).poisson_sampled(q));
        }
    }
    for sigma in [0.01, 0.1, 1.0, 30.0, 1e3, 1e5] {
        for sensitivity in [1, 100] {
            all.push(DpEvent::DiscreteGaussian { sigma, sensitivity });
        }
    }
    for rate in [1e-6, 1e-3, 0.1, 3.0, 50.0, 1e3] {
        for sensitivity in [1, 2, 1000] {
            all.push(DpEvent::DiscreteLaplace { rate, sensitivity });
        }
    }
    for buckets in [2, 3, 1000, 1_000_000] {
        for noise_probability in [1e-12, 1e-3, 0.5, 0.999_999] {
            all.push(DpEvent::randomized_response(noise_probability, buckets));
        }
    }
    for n in [1, 2, 50] {
        for sigma in [0.05, 2.0, 1e4] {
            all.push(DpEvent::mixture_of_gaussians(
                sigma,
                (0..n).map(|i| f64::from(i) + 0.5).collect::<Vec<_>>(),
                vec![1.0 / f64::from(n); n as usize],
            ));
            let skewed = |i: i32| libm::exp2(f64::from(-i));
            all.push(DpEvent::mixture_of_gaussians(
                sigma,
                (0..=n).map(f64::from).collect::<Vec<_>>(),
                (0..=n).map(|i| skewed((i + 1).min(n))).collect::<Vec<_>>(),
            ));
        }
    }
    for n_steps in [1, 2, 1_000_000, 1_000_000_000_000] {
        all.push(DpEvent::tree_aggregation(10.0, n_steps));
    }
    for n_steps in [1, 2, 50, 10_000, 1_000_000] {
        for noise_multiplier in [0.05, 1.0, 1e3] {
            for n_selected in [1, 2, 40] {
                if n_selected <= n_steps {
                    all.push(DpEvent::random_allocation(
                        noise_multiplier,
                        n_selected,
                        n_steps,
                    ));
                }
            }
        }
    }
    for sample_size in [1, 500_000, 999_999, 1_000_000] {
        for z in [0.1, 1.0, 100.0] {
            all.push(DpEvent::gaussian(z).sampled_without_replacement(sample_size, 1_000_000));
        }
    }
    all.extend(known_by_guarantees());
    all
}

fn known_by_guarantees() -> Vec<DpEvent> {
    let relation = Relation::AddRemove;
    let mut all = Vec::new();
    for epsilon in [1e-9, 1e-3, 1.0, 30.0, 1e3] {
        all.push(DpEvent::BoundedRange { epsilon, relation });
        all.push(DpEvent::zcdp(epsilon, relation));
        for delta in [0.0, 1e-300, 1e-9, 0.3] {
            let event = DpEvent::approx_dp(epsilon, delta, relation);
            all.push(event.clone());
            all.push(event.poisson_sampled(1e-3));
        }
        for order in [1.0001, 2.0, 1e6] {
            all.push(DpEvent::rdp(order, epsilon, relation));
        }
    }
    let runs = [
        DpEvent::gaussian(1.0),
        DpEvent::laplace(1.0),
        DpEvent::sampled_gaussian(1.0, 0.01).repeated(1000),
    ];
    for event in runs {
        for stopping in [
            Stopping::Logarithmic {
                success_probability: 1e-6,
            },
            Stopping::TruncatedNegativeBinomial {
                shape: -0.999,
                success_probability: 0.5,
            },
            Stopping::TruncatedNegativeBinomial {
                shape: 100.0,
                success_probability: 1e-9,
            },
            Stopping::Poisson { mean: 1e-6 },
            Stopping::Poisson { mean: 1e6 },
        ] {
            all.push(event.clone().best_of(stopping));
        }
    }
    all
}
