//! Costs add up over counts and trees, failures go into delta, refusals change nothing.

use dp_accounting::{Accountant, Error, RdpAccountant};
use dp_core::{DpEvent, Relation};

use super::support::{ADD_REMOVE, REPLACE, account, everything};

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
    // Alone, at its own delta: its own epsilon. Below: none.
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
