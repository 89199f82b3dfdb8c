//! Events nested without end are refused; what is allowed fits a small stack.

use dp_accounting::{Accountant, Error, GdpAccountant, RdpAccountant, Result};
use dp_core::{Adjacency, DpEvent, Stopping};

use super::support::{assert_delta, assert_epsilon, assert_typed};
use crate::shared::accountants::accountants;

fn nested(depth: usize, inner: DpEvent, wrap: impl Fn(DpEvent) -> DpEvent) -> DpEvent {
    (0..depth).fold(inner, |event, _| wrap(event))
}

/// Runs `check` on a stack an eighth of what threads are given.
fn on_a_small_stack(check: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    thread.spawn(check).unwrap().join().unwrap();
}

type Wrap = fn(DpEvent) -> DpEvent;

const WRAPS: [Wrap; 5] = [
    |event| event.repeated(1),
    |event| DpEvent::composed(vec![event]),
    |event| event.poisson_sampled(1.0),
    |event| event.sampled_without_replacement(1, 1),
    |event| {
        event.best_of(Stopping::Logarithmic {
            success_probability: 0.5,
        })
    },
];

/// What is allowed is answered on a small stack, every way of nesting at its deepest.
#[test]
fn the_deepest_events_fit_a_small_stack() {
    for wrap in WRAPS {
        for inner in [DpEvent::gaussian(2.0), DpEvent::laplace(3.0)] {
            let event = nested(DpEvent::MAX_DEPTH - 1, inner, wrap);
            on_a_small_stack(move || {
                for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceUser] {
                    for (name, mut accountant) in accountants(adjacency) {
                        match accountant.compose(&event, 1) {
                            Ok(()) => {
                                assert_epsilon(&accountant.epsilon(1e-6), name);
                                assert_delta(&accountant.delta(1.0), name);
                            }
                            Err(refusal) => assert_typed(&refusal, name),
                        }
                    }
                    costs_what_it_wraps(&event, adjacency);
                }
            });
        }
    }
}

/// None of [`WRAPS`] repeats or samples anything, so what is Gaussian costs as much as its core.
fn costs_what_it_wraps(event: &DpEvent, adjacency: Adjacency) {
    match dp_accounting::gdp::mu_squared(event, adjacency) {
        Ok(found) => {
            let core = dp_accounting::gdp::mu_squared(&DpEvent::gaussian(2.0), adjacency).unwrap();
            let ratio = found / core;
            assert!((1.0..1.0 + 1e-12).contains(&ratio), "{found} {core}");
        }
        Err(refusal) => {
            let unsupported = matches!(refusal, Error::UnsupportedEvent { .. });
            assert!(unsupported, "{refusal:?}");
            assert_typed(&refusal, "gdp");
        }
    }
}

/// Ten thousand samples of samples overflowed the stack.
#[test]
fn deep_events_do_not_overflow_the_stack() {
    for wrap in WRAPS {
        for depth in [DpEvent::MAX_DEPTH, 1_000, 20_000] {
            // Built and dropped here, on a large stack: dropping a box drops what is in it.
            let build = move || {
                let event = std::sync::Arc::new(nested(depth, DpEvent::gaussian(2.0), wrap));
                let shared = std::sync::Arc::clone(&event);
                on_a_small_stack(move || refused_for_depth(&shared));
            };
            let thread = std::thread::Builder::new().stack_size(64 << 20);
            thread.spawn(build).unwrap().join().unwrap();
        }
    }
}

fn refused_for_depth(event: &DpEvent) {
    let adjacency = Adjacency::AddRemoveUser;
    let refusal = |result: Result<()>| match result {
        Err(Error::Param(error)) => assert_eq!(error.name, "depth"),
        other => panic!("{other:?}"),
    };
    for (_, mut accountant) in accountants(adjacency) {
        refusal(accountant.compose(event, 1));
    }
    refusal(GdpAccountant::new(adjacency).compose(event, 1));
    refusal(dp_accounting::gdp::mu_squared(event, adjacency).map(|_| ()));
}

#[test]
fn deep_selection_ends() {
    let stopping = Stopping::Logarithmic {
        success_probability: 0.5,
    };
    let event = nested(40, DpEvent::laplace(10.0), |event| event.best_of(stopping));
    let mut accountant = RdpAccountant::new(Adjacency::AddRemoveUser);
    accountant.compose(&event, 1).unwrap();
    let delta = accountant.delta(1.0);
    assert_delta(&delta, "40 selections");
    assert!(delta.unwrap().upper > 0.0);
}
