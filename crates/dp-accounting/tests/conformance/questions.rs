//! Asking: every event has an answer or a typed refusal, and so has every bad question.

use dp_accounting::Error;
use dp_core::DpEvent;

use super::subject::{SOME, Subject, account, answered};
use crate::shared::events::{ADJACENCIES, every_form};

/// Every event is answered or refused by name; what is composed has an answer or a typed refusal.
pub(super) fn unknown_events_are_refused_by<A: Subject>() {
    for event in every_form() {
        for adjacency in ADJACENCIES {
            let mut accountant = A::fresh(adjacency);
            match accountant.compose(&event, 1) {
                Ok(()) => {
                    let figures = [accountant.epsilon_at(1e-9), accountant.delta_at(0.0)];
                    for answer in figures.into_iter().filter_map(answered) {
                        assert!(answer.upper > 0.0, "{event:?} {answer:?}");
                        assert_eq!(answer.adjacency, adjacency);
                    }
                }
                Err(Error::NonPrivateEvent) => assert_eq!(event, DpEvent::NonPrivate),
                Err(error) => {
                    let refused = matches!(error, Error::UnsupportedEvent { .. });
                    assert!(refused, "{event:?}: {error}");
                    assert!(matches!(
                        accountant.epsilon_at(1e-5),
                        Err(Error::NothingComposed)
                    ));
                }
            }
        }
    }
}

pub(super) fn bad_questions_are_errors_for<A: Subject>() {
    let accountant = account::<A>(&[(&DpEvent::gaussian(1.0), 1)], SOME[0]).unwrap();
    for delta in [
        0.0,
        -1e-9,
        1.0,
        2.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ] {
        let answer = accountant.epsilon_at(delta);
        assert!(matches!(answer, Err(Error::Param(_))), "{delta} {answer:?}");
    }
    for epsilon in [-1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let answer = accountant.delta_at(epsilon);
        assert!(
            matches!(answer, Err(Error::Param(_))),
            "{epsilon} {answer:?}"
        );
    }
}
