//! Legal and useless numbers have sane answers or typed refusals.

use dp_accounting::Error;
use dp_core::{Adjacency, DpEvent, Relation};

use super::parameters::reals;
use super::support::{assert_delta, assert_epsilon, assert_typed, compose};
use crate::shared::accountants::accountants;
use crate::shared::events::{ADJACENCIES, every_form};

/// Legal and useless: the smallest and largest numbers there are.
#[test]
#[ignore = "minutes: the discretised method at every end of every range"]
fn long_extreme_numbers_give_sane_answers() {
    let extremes = [
        5e-324,
        1e-310,
        1e-200,
        1e-30,
        1e-9,
        1e9,
        1e30,
        1e200,
        f64::MAX,
    ];
    for event in every_form() {
        let n = reals(&mut event.clone()).len();
        for i in 0..n {
            for extreme in extremes {
                let mut changed = event.clone();
                {
                    let mut parameters = reals(&mut changed);
                    *parameters[i].0 = extreme;
                }
                for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
                    for (name, mut accountant) in accountants(adjacency) {
                        let what = format!("{name} {changed:?} {adjacency}");
                        // Small and refused is fine; what is private enough is never free.
                        if let Err(refusal) = compose(accountant.as_mut(), &changed) {
                            assert_typed(&refusal, &what);
                        }
                        if let Ok(bound) = accountant.delta(0.0) {
                            assert!(bound.upper > 0.0, "{what}: {bound:?}");
                        }
                    }
                }
            }
        }
    }
}

/// Every answer to the largest guarantees and the least noise is finite, or a typed error.
#[test]
fn the_costliest_events_have_finite_answers_or_none() {
    let relation = Relation::AddRemove;
    let of = |x: f64| {
        [
            DpEvent::Zcdp { rho: x, relation },
            DpEvent::approx_dp(x, 1e-9, relation),
            DpEvent::approx_dp(x, 0.0, relation),
            DpEvent::rdp(2.0, x, relation),
            DpEvent::bounded_range(x, relation),
            DpEvent::gaussian(1.0 / x),
            DpEvent::laplace(1.0 / x),
            DpEvent::gaussian(1e-300),
            DpEvent::gaussian(1e-153),
        ]
    };
    for x in [f64::MAX, 1e300] {
        for event in of(x) {
            for count in [1, u64::MAX] {
                for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
                    for (name, mut accountant) in accountants(adjacency) {
                        let what = format!("{name} {event:?} {count} {adjacency}");
                        if let Err(refusal) = accountant.compose(&event, count) {
                            assert_typed(&refusal, &what);
                            continue;
                        }
                        for delta in [1e-300, 0.2] {
                            assert_epsilon(&accountant.epsilon(delta), &what);
                        }
                        assert_delta(&accountant.delta(1.0), &what);
                    }
                }
            }
        }
    }
}

#[test]
fn counts_that_overflow_change_nothing() {
    for adjacency in ADJACENCIES {
        for (name, mut accountant) in accountants(adjacency) {
            let event = DpEvent::sampled_gaussian(10.0, 0.01);
            if let Err(refusal) = accountant.compose(&event, u64::MAX) {
                assert_typed(&refusal, name);
                continue;
            }
            let again = accountant.compose(&event, 1);
            assert!(matches!(again, Err(Error::Param(_))), "{again:?}");
            if let Ok(bound) = accountant.epsilon(1e-5) {
                assert!(bound.upper > 1.0, "{bound:?}");
            }
        }
    }
}
