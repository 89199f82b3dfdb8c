//! A parameter out of its range is refused by every accountant.

use dp_accounting::{Accountant, Error, TightestAccountant};
use dp_core::{Adjacency, DpEvent, Relation};

use super::parameters::{bad_whole_numbers, reals};
use super::support::{assert_typed, compose};
use crate::shared::accountants::accountants;
use crate::shared::events::{ADJACENCIES, every_form};

#[track_caller]
fn assert_refused(event: &DpEvent) {
    for adjacency in ADJACENCIES {
        for (name, mut accountant) in accountants(adjacency) {
            let what = format!("{name} {event:?} {adjacency}");
            let Err(refusal) = compose(accountant.as_mut(), event) else {
                panic!("{what} was composed");
            };
            assert_typed(&refusal, &what);
            assert!(matches!(
                accountant.epsilon(1e-5),
                Err(Error::NothingComposed)
            ));
        }
    }
}

#[test]
fn every_real_parameter_has_its_range() {
    const BAD: [f64; 9] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        -1e-300,
        0.0,
        -0.0,
        1.000_000_000_000_000_2,
        2.0,
    ];
    let mut n_refused = 0;
    for event in every_form() {
        let n = reals(&mut event.clone()).len();
        for i in 0..n {
            for bad in BAD {
                let mut changed = event.clone();
                let allowed = {
                    let mut parameters = reals(&mut changed);
                    let (place, range) = &mut parameters[i];
                    **place = bad;
                    range.holds(bad)
                };
                if !allowed {
                    assert_refused(&changed);
                    n_refused += 1;
                }
            }
        }
    }
    assert!(n_refused > 200, "{n_refused}");
}

#[test]
fn every_whole_number_has_its_range() {
    for event in bad_whole_numbers() {
        assert_refused(&event);
        assert_refused(&DpEvent::composed(vec![DpEvent::gaussian(1.0), event]));
    }
}

#[test]
fn guarantees_of_the_wrong_relation_are_refused() {
    for event in [
        DpEvent::approx_dp(1.0, 1e-9, Relation::Replace),
        DpEvent::zcdp(1.0, Relation::Replace),
        DpEvent::rdp(2.0, 1.0, Relation::Replace),
        DpEvent::bounded_range(1.0, Relation::Replace),
        DpEvent::randomized_response(0.5, 3),
    ] {
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::AddRemoveRecord] {
            let mut accountant = TightestAccountant::new(adjacency);
            let refused = accountant.compose(&event, 1);
            assert!(
                matches!(refused, Err(Error::UnsupportedEvent { .. })),
                "{event:?}"
            );
        }
    }
}
