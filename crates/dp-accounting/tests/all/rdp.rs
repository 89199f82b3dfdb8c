//! Renyi and zCDP accounting through the public interface: divergences compared with 50-digit
//! values, bounds compared with exact answers on small cases, and the contract of every accountant.

use dp_accounting::rdp::conversion::{self, Conversion};
use dp_accounting::{Accountant, Error, RdpAccountant, ZcdpAccountant};
use dp_core::{Adjacency, DpEvent, Relation, ReplaceFactor, Stopping};

const ADD_REMOVE: Adjacency = Adjacency::AddRemoveRecord;

const REPLACE: Adjacency = Adjacency::ReplaceRecord;

const fn allocation(noise_multiplier: f64, n_selected: u64, n_steps: u64) -> DpEvent {
    DpEvent::random_allocation(noise_multiplier, n_selected, n_steps)
}

fn account(adjacency: Adjacency, events: &[(DpEvent, u64)]) -> RdpAccountant {
    let mut accountant = RdpAccountant::new(adjacency);
    for (event, count) in events {
        accountant.compose(event, *count).unwrap();
    }
    accountant
}

fn divergence(event: &DpEvent, adjacency: Adjacency, order: f64) -> f64 {
    account(adjacency, &[(event.clone(), 1)])
        .rdp(order)
        .unwrap()
        .upper
}

/// One event of every kind that the adjacency supports.
fn everything(adjacency: Adjacency) -> Vec<DpEvent> {
    let relation = adjacency.relation();
    let mut events = vec![
        DpEvent::gaussian(3.0),
        DpEvent::laplace(4.0),
        DpEvent::discrete_gaussian(5.0, 1),
        DpEvent::discrete_laplace(0.2, 1),
        DpEvent::bounded_range(0.3, relation),
        DpEvent::approx_dp(0.2, 1e-8, relation),
        DpEvent::zcdp(0.01, relation),
        DpEvent::rdp(8.0, 0.05, relation),
        DpEvent::sampled_gaussian(1.0, 0.01),
        DpEvent::laplace(1.0).poisson_sampled(0.1),
        DpEvent::approx_dp(0.5, 1e-8, Relation::AddRemove).poisson_sampled(0.1),
        allocation(2.0, 2, 40),
        DpEvent::mixture_of_gaussians(5.0, [0.0, 1.0, 2.0], [0.5, 0.25, 0.25]),
        DpEvent::tree_aggregation(9.0, 64),
    ];
    if adjacency.is_replace() {
        events.push(DpEvent::randomized_response(0.5, 4));
        events.push(DpEvent::gaussian(2.0).sampled_without_replacement(10, 100));
    }
    let select = |stopping| {
        DpEvent::sampled_gaussian(2.0, 0.05)
            .repeated(10)
            .best_of(stopping)
    };
    let success_probability = 0.2;
    events.push(select(Stopping::Poisson { mean: 3.0 }));
    events.push(select(Stopping::Logarithmic {
        success_probability,
    }));
    events.push(select(Stopping::TruncatedNegativeBinomial {
        shape: -0.5,
        success_probability,
    }));
    events
}

#[test]
fn single_orders_hold_below_and_not_above() {
    let point = DpEvent::rdp(8.0, 0.5, Relation::AddRemove);
    let accountant = account(ADD_REMOVE, &[(point, 1)]);
    for order in [8.0, 3.0] {
        let found = accountant.rdp(order).unwrap().upper;
        assert!(
            (0.5..0.5 * (1.0 + 1e-14)).contains(&found),
            "{order}: {found}"
        );
    }
    assert!(accountant.rdp(8.001).unwrap().upper.is_infinite());
    let direct = conversion::epsilon(8.0, 0.5, 1e-5, Conversion::Cks2020).unwrap();
    let epsilon = accountant.epsilon(1e-5).unwrap().upper;
    assert!(epsilon >= direct && epsilon < direct * (1.0 + 1e-13));
}

#[test]
fn bounded_range_is_the_worst_two_point_pair() {
    for (epsilon, order) in [
        (0.01, 1.5),
        (1.0, 2.0),
        (3.0, 20.0),
        (8.0, 1.01),
        (0.3, 900.0),
    ] {
        let event = DpEvent::bounded_range(epsilon, Relation::AddRemove);
        let found = divergence(&event, ADD_REMOVE, order);
        let worst = (1..20_000)
            .map(|i| {
                let t = epsilon * f64::from(i) / 20_000.0;
                let p = (epsilon.exp() - t.exp()) / epsilon.exp_m1();
                let s = order - 1.0;
                let moment = p * (s * t).exp_m1() + (1.0 - p) * (s * (t - epsilon)).exp_m1();
                moment.ln_1p() / s
            })
            .fold(0.0, f64::max);
        assert!(
            found >= worst * (1.0 - 1e-9),
            "{epsilon} {order}: {found} {worst}"
        );
        assert!(
            found <= worst * (1.0 + 1e-6),
            "{epsilon} {order}: {found} {worst}"
        );
        assert!(found <= order * epsilon * epsilon / 8.0 * (1.0 + 1e-12));
    }
}

#[test]
fn random_allocation_at_order_two_is_closed_form_and_more_steps_cost_less() {
    for (sigma, steps) in [(1.0, 7_u64), (0.5, 1000), (20.0, 1_000_000_000)] {
        let found = divergence(&allocation(sigma, 1, steps), ADD_REMOVE, 2.0);
        let expected = ((1.0 / (sigma * sigma)).exp_m1() / steps as f64).ln_1p();
        assert!((found / expected - 1.0).abs() < 1e-10, "{sigma} {steps}");
    }
    let epsilon = |k, t| {
        let event = allocation(2.0, k, t);
        account(ADD_REMOVE, &[(event, 1)])
            .epsilon(1e-6)
            .unwrap()
            .upper
    };
    assert!(epsilon(1, 100) < epsilon(1, 50));
    assert!(epsilon(1, 50) < epsilon(2, 100));
    let gaussian = account(ADD_REMOVE, &[(DpEvent::gaussian(2.0), 2)]);
    assert!(epsilon(2, 100) < 0.6 * gaussian.epsilon(1e-6).unwrap().upper);
    // under replacement no amplification is claimed
    let replaced = account(REPLACE, &[(allocation(2.0, 2, 100), 1)]);
    let plain = account(REPLACE, &[(DpEvent::gaussian(2.0), 2)]);
    let ratio = replaced.epsilon(1e-6).unwrap().upper / plain.epsilon(1e-6).unwrap().upper;
    assert!((ratio - 1.0).abs() < 1e-9);
}

#[test]
fn every_event_has_a_bound_and_n_at_once_are_n_singles() {
    for adjacency in [ADD_REMOVE, REPLACE] {
        for event in everything(adjacency) {
            let at_once = account(adjacency, &[(event.clone(), 5)]);
            let singly = account(adjacency, &vec![(event.clone(), 1); 5]);
            let repeated = account(adjacency, &[(event.clone().repeated(5), 1)]);
            let one = account(adjacency, &[(event.clone(), 1)]);
            let epsilon = |a: &RdpAccountant| a.epsilon(1e-6).unwrap().upper;
            let five = epsilon(&at_once);
            assert!(five.is_finite() && five > epsilon(&one), "{event:?}");
            let divergence = |a: &RdpAccountant| a.rdp(4.0).unwrap().upper;
            let five_times = 5.0 * divergence(&one);
            assert!(
                five_times.is_infinite() || (divergence(&at_once) / five_times - 1.0).abs() < 1e-12,
                "{event:?}"
            );
            assert!((epsilon(&singly) / five - 1.0).abs() < 1e-13, "{event:?}");
            assert!((epsilon(&repeated) / five - 1.0).abs() < 1e-13, "{event:?}");
            let delta = at_once.delta(five).unwrap().upper;
            assert!(delta > 0.5e-6 && delta < 1.0001e-6, "{event:?}: {delta}");
            assert!(at_once.epsilon(1e-7).unwrap().upper >= five, "{event:?}");
            assert!(at_once.delta(0.0).unwrap().upper <= 1.0);
        }
    }
}

#[test]
fn mixed_trees_add_up_and_errors_change_nothing() {
    for adjacency in [ADD_REMOVE, REPLACE] {
        let all = DpEvent::composed(everything(adjacency));
        let mut accountant = account(adjacency, &[(all.clone(), 2)]);
        let before = accountant.clone();
        let bad = DpEvent::composed(vec![DpEvent::laplace(1.0), DpEvent::NonPrivate]);
        assert!(accountant.compose(&bad, 1).is_err());
        assert!(accountant.compose(&all, 0).is_err());
        assert!(accountant.compose(&all, u64::MAX).is_err());
        assert_eq!(accountant, before);
        let epsilon = accountant.epsilon(1e-5).unwrap();
        assert!(epsilon.upper.is_finite() && epsilon.lower == 0.0);
    }
}

#[test]
fn failures_go_into_delta() {
    let relation = Relation::AddRemove;
    let approx = |epsilon, delta| DpEvent::approx_dp(epsilon, delta, relation);
    // alone, at its own delta: its own epsilon; below that: none
    let one = account(ADD_REMOVE, &[(approx(0.5, 1e-6), 1)]);
    assert!((one.epsilon(1e-6).unwrap().upper - 0.5).abs() < 1e-14);
    assert!(matches!(
        one.epsilon(0.9e-6),
        Err(Error::NoFiniteEpsilon { .. })
    ));
    assert!(one.rdp(2.0).unwrap().upper.is_infinite());
    // delta(epsilon) of 40 copies, exactly: failure or a binomial number of positive losses.
    let many = account(ADD_REMOVE, &[(approx(0.1, 1e-6), 40)]);
    let failure = -(40.0 * (-1e-6_f64).ln_1p()).exp_m1();
    for epsilon in [0.0, 0.5, 1.0, 2.0, 3.9] {
        let exact = failure + (1.0 - failure) * binary_response_delta(40, 0.1, epsilon);
        let bound = many.delta(epsilon).unwrap().upper;
        assert!(
            bound >= exact && bound < 12.0 * exact,
            "{epsilon}: {bound} {exact}"
        );
    }
    assert!((many.delta(4.001).unwrap().upper / failure - 1.0).abs() < 1e-12);
}

/// E[(1 - e^{epsilon - L})_+] for n binary randomised responses with parameter e.
fn binary_response_delta(n: u32, e: f64, epsilon: f64) -> f64 {
    let high = 1.0 / (1.0 + (-e).exp());
    let mut choose = 1.0;
    let mut sum = 0.0;
    for k in 0..=n {
        let loss = e * (2.0 * f64::from(k) - f64::from(n));
        let p = choose * high.powf(f64::from(k)) * (1.0 - high).powf(f64::from(n - k));
        sum += p * (1.0 - (epsilon - loss).exp()).max(0.0);
        choose *= f64::from(n - k) / f64::from(k + 1);
    }
    sum
}

#[test]
fn conversions_are_ordered_and_the_best_is_attained() {
    for (order, rdp) in [
        (1.1, 0.01),
        (2.0, 0.1),
        (8.0, 0.5),
        (32.0, 0.8),
        (500.0, 2.0),
    ] {
        for epsilon in [0.0, 0.3, 1.0, 2.5] {
            let delta = |c| conversion::delta(order, rdp, epsilon, c).unwrap();
            let best = delta(Conversion::Asoodeh2020);
            assert!(best <= delta(Conversion::Cks2020) * (1.0 + 1e-12));
            assert!(delta(Conversion::Cks2020) <= delta(Conversion::Mironov2017));
            let attained = two_point_delta(order, rdp, epsilon);
            assert!(attained <= best * (1.0 + 1e-9), "{order} {rdp} {epsilon}");
            assert!(
                attained >= best * 0.98 || best < 1e-20,
                "{order} {rdp} {epsilon}: {attained} {best}"
            );
        }
        for delta in [1e-12, 1e-5, 0.01, 0.3] {
            let epsilon = |c| conversion::epsilon(order, rdp, delta, c).unwrap();
            let best = epsilon(Conversion::Asoodeh2020);
            assert!(best <= epsilon(Conversion::Cks2020).max(0.0) + 1e-12);
            let back = conversion::delta(order, rdp, best, Conversion::Asoodeh2020).unwrap();
            assert!(back <= delta * (1.0 + 1e-9), "{order} {rdp} {delta}");
            assert!(
                best == 0.0 || back > delta * (1.0 - 1e-6),
                "{order} {rdp} {delta}"
            );
        }
    }
}

/// The largest p - e^epsilon q over pairs of binary distributions within the divergence: for every
/// q of a fine grid the largest p by bisection.
fn two_point_delta(order: f64, rdp: f64, epsilon: f64) -> f64 {
    let s = order - 1.0;
    let divergence = |p: f64, q: f64| {
        let one = s * (p / q).ln() + p.ln();
        let other = s * ((1.0 - p) / (1.0 - q)).ln() + (1.0 - p).ln();
        (one.max(other) + (-(one - other).abs()).exp().ln_1p()) / s
    };
    let mut best = 0.0_f64;
    for i in 0..6_000 {
        let q = (-80.0 * f64::from(i) / 6_000.0).exp() * 0.999;
        let (mut low, mut high) = (q, 1.0 - 1e-15);
        for _ in 0..60 {
            let p = (low * high).sqrt();
            if divergence(p, q) <= rdp {
                low = p;
            } else {
                high = p;
            }
        }
        best = best.max(low - epsilon.exp() * q);
    }
    best
}

#[test]
fn arguments_out_of_range_are_errors() {
    let empty = RdpAccountant::new(ADD_REMOVE);
    assert!(matches!(empty.epsilon(1e-5), Err(Error::NothingComposed)));
    assert!(matches!(empty.rdp(2.0), Err(Error::NothingComposed)));
    let accountant = account(ADD_REMOVE, &[(DpEvent::laplace(1.0), 1)]);
    for order in [f64::NAN, f64::INFINITY, 1.0, 0.5, -2.0] {
        assert!(accountant.rdp(order).is_err(), "{order}");
        assert!(RdpAccountant::with_orders(ADD_REMOVE, vec![2.0, order]).is_err());
        assert!(conversion::epsilon(order, 1.0, 0.1, Conversion::Cks2020).is_err());
    }
    assert!(RdpAccountant::with_orders(ADD_REMOVE, Vec::new()).is_err());
    for delta in [0.0, 1.0, -0.1, f64::NAN] {
        assert!(accountant.epsilon(delta).is_err());
        assert!(conversion::epsilon(2.0, 1.0, delta, Conversion::Mironov2017).is_err());
    }
    for epsilon in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(accountant.delta(epsilon).is_err());
        assert!(conversion::delta(2.0, 1.0, epsilon, Conversion::Asoodeh2020).is_err());
        assert!(conversion::delta(2.0, epsilon, 1.0, Conversion::Asoodeh2020).is_err());
    }
}

#[test]
fn extremes_are_finite_ordered_and_not_negative() {
    for sigma in [0.01, 0.3, 10.0, 1e6] {
        for q in [1e-9, 1e-3, 0.3, 1.0] {
            let mut before = 0.0;
            for count in [1, 1_000, 1_000_000_000] {
                let events = [(DpEvent::sampled_gaussian(sigma, q), count)];
                let accountant = account(ADD_REMOVE, &events);
                let mut last = f64::INFINITY;
                for delta in [1e-300, 1e-15, 1e-5, 0.5] {
                    let epsilon = accountant.epsilon(delta).unwrap().upper;
                    assert!(
                        epsilon >= 0.0 && epsilon <= last,
                        "{sigma} {q} {count} {delta}"
                    );
                    last = epsilon;
                }
                let strict = accountant.epsilon(1e-15).unwrap().upper;
                assert!(strict >= before, "{sigma} {q} {count}");
                before = strict;
                for order in [1.0001, 2.0, 1e3, 1e6] {
                    let divergence = accountant.rdp(order).unwrap();
                    assert!(divergence.upper.is_finite() && divergence.lower >= 0.0);
                    let gaussian = 0.5 * order / (sigma * sigma) * count as f64;
                    assert!(
                        divergence.upper <= gaussian * (1.0 + 1e-11 + 2e-15 * order),
                        "{sigma} {q} {order}"
                    );
                }
                for epsilon in [0.0, 1e-6, 1.0, 1e3] {
                    let delta = accountant.delta(epsilon).unwrap().upper;
                    assert!((0.0..=1.0).contains(&delta));
                }
            }
        }
    }
}

/// Kind, two parameters, order, divergence, generated by `tests/rdp_reference.py`.
const DIVERGENCES: [(&str, f64, f64, f64, f64); 35] = [
    ("sampled", 0.7, 0.0003, 2.5, 7.5580917354791205e-7),
    ("sampled", 20.0, 0.25, 33.7, 0.0026758498489977665),
    ("sampled", 3.0, 1e-07, 1.3, 7.6387394029207251e-16),
    ("sampled", 0.35, 0.6, 6.5, 25.926909234992701),
    ("sampled", 5000.0, 1e-05, 400.5, 8.0100001614767847e-16),
    ("sampled", 2.0, 0.999, 12.25, 1.5302260289421137),
    ("sampled", 0.11, 0.02, 3.25, 128.64682076442748),
    ("sampled", 0.01, 1e-09, 3.0, 14968.91510124458),
    ("sampled", 0.05, 1e-05, 900.0, 179988.47426816631),
    ("sampled", 1e6, 1e-09, 5000.0, 2.5000000000012503e-27),
    ("sampled", 300.0, 0.3, 20000.0, 0.010494250200533304),
    ("sampled", 12.0, 0.001, 3000.0, 3.5066089362297523),
    ("sampled", 1.5, 0.04, 64.0, 10.952253130309479),
    ("sampled-replace", 1.0, 0.01, 1.001, 0.00022863989926499708),
    ("sampled-replace", 2.5, 0.3, 17.5, 0.64624836798862324),
    ("sampled-replace", 0.6, 0.0001, 4.5, 7.1728768194743774e-7),
    (
        "sampled-replace",
        400.0,
        1e-06,
        90.5,
        1.1312500000002945e-15,
    ),
    ("sampled-replace", 0.9, 0.97, 3.0, 4.9500789102662908),
    ("mixture", 1.0, 0.0, 1.5, 0.56077343483267969),
    ("mixture", 4.0, 0.0, 40.5, 5.5494749433816845),
    ("mixture", 100.0, 0.0, 7.0, 7.0908272951233832e-5),
    ("mixture", 0.5, 0.0, 3.3, 37.946290953530283),
    ("laplace", 1.0, 0.01, 2.0, 8.5726290068416373e-5),
    ("laplace", 5.0, 0.3, 90.5, 3.7906670776467259),
    ("laplace", 0.01, 0.0001, 1.01, 5.0332924807740564e-13),
    ("laplace", 9.0, 0.001, 4.4, 0.22909998428144366),
    ("subset", 1.0, 0.0625, 2.0, 0.0096140194140984488),
    ("subset", 0.25, 0.5, 33.3, 0.47375179808121905),
    ("subset", 4.0, 0.125, 1.05, 0.92749176873342722),
    ("subset", 2.0, 0.0009765625, 12.5, 17.465791515652768),
    ("allocation", 1.0, 10.0, 2.0, 0.15856507874042911),
    ("allocation", 1.0, 1000.0, 12.0, 0.010413843108519559),
    ("allocation", 5.0, 100.0, 64.0, 0.013061320101829153),
    ("allocation", 50.0, 1e6, 100.0, 2.0004000529489667e-8),
    ("allocation", 0.5, 50.0, 5.0, 6.0879838961274498),
];

fn event_of(kind: &str, a: f64, b: f64) -> (DpEvent, Adjacency) {
    match kind {
        "sampled" => (DpEvent::sampled_gaussian(a, b), ADD_REMOVE),
        "sampled-replace" => (DpEvent::sampled_gaussian(a, b), REPLACE),
        "mixture" => (
            DpEvent::mixture_of_gaussians(a, [0.0, 1.0, 2.5], [0.7, 0.2, 0.1]),
            ADD_REMOVE,
        ),
        "laplace" => (DpEvent::laplace(1.0 / a).poisson_sampled(b), ADD_REMOVE),
        "subset" => (
            DpEvent::gaussian(2.0 / a).sampled_without_replacement((b * 1024.0) as u64, 1024),
            REPLACE,
        ),
        "allocation" => (allocation(a, 1, b as u64), ADD_REMOVE),
        other => panic!("{other}"),
    }
}

#[test]
fn divergences_match_50_digits() {
    for (kind, a, b, order, expected) in DIVERGENCES {
        let (event, adjacency) = event_of(kind, a, b);
        let bound = account(adjacency, &[(event, 1)]).rdp(order).unwrap();
        let error = bound.value / expected - 1.0;
        let allowed = if kind == "allocation" || kind == "subset" {
            2e-11
        } else {
            1e-13 + 2e-15 * order
        };
        assert!(error.abs() < allowed, "{kind} {a} {b} {order}: {error:e}");
        assert!(
            bound.lower <= expected && expected <= bound.upper,
            "{kind} {a} {b} {order}: {bound:?}"
        );
    }
}

/// Divergence of order a between the published results of k-ary randomised response selected from a
/// random number of runs whose generating function is `f`, for the worst ranking of the results.
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
    // gamma close to 1: the number of runs is almost surely 1
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

#[test]
fn rho_of_each_event() {
    let relation = Relation::Replace;
    let rho = |event: &DpEvent, adjacency| {
        let mut accountant = ZcdpAccountant::new(adjacency);
        accountant
            .compose(event, 3)
            .map(|()| accountant.rho() / 3.0)
    };
    let psd = DpEvent::Gaussian {
        noise_multiplier: 2.0,
        replace_factor: ReplaceFactor::SqrtTwo,
    };
    let response = DpEvent::randomized_response(0.5, 2);
    let range = DpEvent::bounded_range(0.4, relation);
    let cases = [
        (DpEvent::gaussian(2.0), ADD_REMOVE, 0.125),
        (DpEvent::gaussian(2.0), REPLACE, 0.5),
        (psd, REPLACE, 0.25),
        (DpEvent::laplace(5.0), ADD_REMOVE, 0.02),
        (DpEvent::laplace(5.0), REPLACE, 0.08),
        (range, REPLACE, 0.02),
        (response, REPLACE, 0.5 * 3_f64.ln() * 3_f64.ln()),
        (DpEvent::sampled_gaussian(2.0, 0.1), ADD_REMOVE, 0.125),
        (DpEvent::sampled_gaussian(2.0, 0.1), REPLACE, 0.5),
        (allocation(2.0, 3, 100), ADD_REMOVE, 0.375),
        (allocation(2.0, 3, 100), REPLACE, 1.5),
    ];
    for (event, adjacency, expected) in cases {
        let found = rho(&event, adjacency).unwrap();
        assert!(found >= expected * (1.0 - 2e-16), "{event:?}: {found}");
        assert!(found <= expected * (1.0 + 1e-12), "{event:?}: {found}");
    }
    let refused = [
        DpEvent::approx_dp(1.0, 1e-9, relation),
        DpEvent::rdp(2.0, 1.0, relation),
        DpEvent::gaussian(1.0).best_of(Stopping::Poisson { mean: 2.0 }),
    ];
    for event in refused {
        let error = rho(&event, REPLACE);
        assert!(
            matches!(error, Err(Error::UnsupportedEvent { .. })),
            "{event:?}"
        );
    }
}

#[test]
fn renyi_is_never_worse_than_zcdp() {
    for adjacency in [ADD_REMOVE, REPLACE] {
        for event in everything(adjacency) {
            let mut zcdp = ZcdpAccountant::new(adjacency);
            if zcdp.compose(&event, 10).is_err() {
                assert!(zcdp.rho() == 0.0);
                continue;
            }
            let rdp = account(adjacency, &[(event.clone(), 10)]);
            for order in [1.01, 2.0, 7.5, 100.0] {
                let divergence = rdp.rdp(order).unwrap();
                let bound = zcdp.rho() * order * (1.0 + 1e-10);
                assert!(
                    divergence.upper <= bound,
                    "{event:?} {order}: {divergence:?} {bound}"
                );
            }
            for delta in [1e-9, 1e-3] {
                let (r, z) = (rdp.epsilon(delta).unwrap(), zcdp.epsilon(delta).unwrap());
                assert!(r.upper <= z.upper * (1.0 + 1e-6), "{event:?}");
            }
        }
    }
}
