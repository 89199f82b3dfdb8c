//! Parameters at the ends of their ranges: bounded work, consistent bounds, and closed forms if
//! there are any.
//!
//! The default tests use a sample of the grid; `long_every_corner` uses all of it and prints the
//! slowest calls:
//!
//! ```text
//! cargo test --release -p dp-accounting --test all -- --ignored --nocapture extremes::long_
//! ```

use dp_accounting::{
    Accountant, Error, PrivacyBound, RdpAccountant, Result, TightestAccountant, gdp,
};
use dp_core::{Adjacency, DpEvent, Relation, Stopping};

use crate::shared::accountants::accountants;
use crate::shared::draw::Draw;

const SIGMAS: [f64; 9] = [0.01, 0.05, 0.3, 1.0, 4.0, 50.0, 1e3, 1e5, 1e6];

const PROBABILITIES: [f64; 8] = [1e-9, 1e-6, 1e-3, 0.03, 0.5, 0.999, 0.999_999_999, 1.0];

const STEPS: [u64; 6] = [1, 2, 30, 10_000, 1_000_000, 1_000_000_000];

const DELTAS: [f64; 6] = [1e-300, 1e-100, 1e-15, 1e-5, 0.01, 0.5];

const EPSILONS: [f64; 6] = [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3];

fn events_at_the_ends() -> Vec<DpEvent> {
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

/// Seconds of processor time that a call may take.
const PATIENCE: f64 = 20.0;

/// Processor time of this thread if the system provides it, otherwise elapsed time.
fn cpu_seconds() -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = schedule
        .split(' ')
        .next()
        .and_then(|text| text.parse::<f64>().ok());
    nanoseconds.map_or_else(
        || {
            let now = std::time::SystemTime::now();
            now.duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs_f64()
        },
        |x| 1e-9 * x,
    )
}

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
            // A sampling probability close to 1 gives a result close to that without sampling.
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

/// Many cheap steps are approximately one Gaussian mechanism of mu = q sqrt(n (e^(1/sigma^2) - 1)):
/// a check of the magnitude, not a bound.
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

#[derive(Debug, Clone, Copy)]
enum Ask {
    Epsilon(f64),
    Delta(f64),
}

type Slow = (f64, String);

fn check(bound: &Result<PrivacyBound>, question: Ask, case: &str) {
    match bound {
        Ok(bound) => {
            let ordered =
                0.0 <= bound.lower && bound.lower <= bound.value && bound.value <= bound.upper;
            let most = match question {
                Ask::Epsilon(_) => f64::MAX,
                Ask::Delta(_) => 1.0,
            };
            assert!(ordered && bound.upper <= most, "{case}: {bound:?}");
        }
        Err(
            Error::UnsupportedEvent { .. }
            | Error::NotCertified { .. }
            | Error::NoFiniteEpsilon { .. },
        ) => {}
        Err(error) => panic!("{case}: {error}"),
    }
}

/// Asks every accountant one question; all brackets must overlap.
fn ask_all(event: &DpEvent, count: u64, adjacency: Adjacency, question: Ask, slow: &mut Vec<Slow>) {
    let (mut lower, mut upper) = (0.0_f64, f64::INFINITY);
    let case = format!("{count} {event:?} {adjacency} {question:?}");
    for (name, mut accountant) in accountants(adjacency) {
        let start = cpu_seconds();
        let answer = accountant
            .compose(event, count)
            .and_then(|()| match question {
                Ask::Epsilon(delta) => accountant.epsilon(delta),
                Ask::Delta(epsilon) => accountant.delta(epsilon),
            });
        let seconds = cpu_seconds() - start;
        if seconds > 0.3 {
            slow.push((seconds, format!("{name} {case}")));
        }
        assert!(seconds < PATIENCE, "{name} {case}: {seconds} s");
        if let Err(Error::Param(error)) = &answer {
            // the total cost of all steps may exceed the range of numbers
            assert!(
                ["mu_squared", "rho", "epsilon"].contains(&error.name),
                "{case}: {error}"
            );
            continue;
        }
        check(&answer, question, &format!("{name} {case}"));
        if let Ok(bound) = answer {
            lower = lower.max(bound.lower);
            upper = upper.min(bound.upper);
        }
    }
    // envelopes are tested in soundness.rs
    let envelope = format!("{event:?}");
    if !envelope.contains("BoundedRange") && !envelope.contains("WithoutReplacement") {
        assert!(
            lower <= upper * (1.0 + 1e-11) + 1e-300,
            "{case}: {lower} {upper}"
        );
    }
}

/// Tests every event with one in `stride` of its combinations of steps and questions.
fn corners(stride: u64) -> Vec<Slow> {
    let mut slow = Vec::new();
    let mut draw = Draw(stride);
    let questions = (DELTAS.map(Ask::Epsilon).into_iter()).chain(EPSILONS.map(Ask::Delta));
    let questions: Vec<Ask> = questions.collect();
    for event in events_at_the_ends() {
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
            for count in STEPS {
                for question in &questions {
                    if draw.whole(1, stride) == 1 {
                        ask_all(&event, count, adjacency, *question, &mut slow);
                    }
                }
            }
        }
    }
    slow.sort_by(|a, b| b.0.total_cmp(&a.0));
    slow
}

#[test]
fn corners_are_answered_or_refused() {
    let slow = corners(4000);
    for (seconds, case) in slow.iter().take(5) {
        println!("{seconds:.2} s {case}");
    }
}

#[test]
#[ignore = "an hour: every combination"]
fn long_every_corner() {
    let stride = std::env::var("EXTREMES_STRIDE").map_or(1, |text| text.parse().unwrap());
    let slow = corners(stride);
    let over = slow.iter().filter(|(seconds, _)| *seconds > 2.0).count();
    println!("{} calls above 0.3 s, {over} above 2 s", slow.len());
    for (seconds, case) in slow.iter().take(40) {
        println!("{seconds:.2} s {case}");
    }
}

#[test]
fn epsilon_and_delta_are_inverse() {
    let events = [
        (DpEvent::gaussian(3.0), 7),
        (DpEvent::sampled_gaussian(0.8, 0.02), 300),
        (DpEvent::sampled_gaussian(50.0, 1e-3), 1_000_000),
        (DpEvent::laplace(5.0), 12),
        (DpEvent::discrete_laplace(0.2, 3), 5),
    ];
    for (event, count) in events {
        for delta in [1e-300, 1e-30, 1e-6, 0.1] {
            let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
            accountant.compose(&event, count).unwrap();
            let Ok(epsilon) = accountant.epsilon(delta) else {
                continue;
            };
            if epsilon.upper == 0.0 {
                continue;
            }
            let back = accountant.delta(epsilon.upper).unwrap();
            assert!(
                back.lower <= delta * (1.0 + 1e-9),
                "{event:?} {delta} {back:?}"
            );
            let below = accountant.delta(epsilon.lower).unwrap();
            assert!(
                below.upper >= delta * (1.0 - 1e-9),
                "{event:?} {delta} {below:?}"
            );
        }
    }
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_renyi_divergences_from_the_smallest_order_to_the_largest() {
    let mut draw = Draw(3);
    for event in events_at_the_ends() {
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
            let count = draw.pick(&STEPS);
            let mut accountant = RdpAccountant::new(adjacency);
            if accountant.compose(&event, count).is_err() {
                continue;
            }
            let mut last = 0.0;
            for order in [1.0001, 1.01, 1.5, 2.0, 17.3, 1e3, 1e6] {
                let start = cpu_seconds();
                let Ok(bound) = accountant.rdp(order) else {
                    continue;
                };
                assert!(cpu_seconds() - start < PATIENCE, "{event:?} {order}");
                let case = format!("{count} {event:?} {adjacency} {order}: {bound:?}");
                assert!(bound.lower >= 0.0 && bound.upper >= bound.lower, "{case}");
                // Renyi divergence increases with the order where it is exact.
                if bound.lower > 0.0 {
                    assert!(bound.upper >= last * (1.0 - 1e-9), "{case} after {last}");
                    last = bound.lower;
                }
            }
        }
    }
}
