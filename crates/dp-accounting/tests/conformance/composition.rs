//! Composing: counts, order and refusals.

use std::collections::BTreeSet;

use dp_accounting::{Error, PrivacyBound};
use dp_core::DpEvent;

use super::subject::{SOME, Subject, account, answers};
use crate::shared::events::{ADJACENCIES, every_form, kind, one_of_each};

#[test]
fn the_generator_knows_every_variant_once() {
    let names: Vec<&str> = one_of_each().iter().map(kind).collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), distinct.len());
    assert_eq!(names.len(), 18);
}

/// Equal answers; equal states need not be asked.
#[track_caller]
fn assert_same<A: Subject>(a: &A, b: &A, what: &str) {
    if a != b {
        assert_close(&answers(a), &answers(b), what);
    }
}

#[track_caller]
fn assert_close(a: &[Option<PrivacyBound>], b: &[Option<PrivacyBound>], what: &str) {
    for (a, b) in a.iter().zip(b) {
        match (a, b) {
            (Some(a), Some(b)) => {
                let scale = a.upper.abs().max(1e-300);
                assert!(
                    (a.upper - b.upper).abs() <= 1e-12 * scale,
                    "{what}: {a:?} {b:?}"
                );
                assert!(
                    (a.lower - b.lower).abs() <= 1e-12 * scale,
                    "{what}: {a:?} {b:?}"
                );
            }
            (None, None) => {}
            _ => panic!("{what}: {a:?} {b:?}"),
        }
    }
}

pub(super) fn count_is_repetition_of<A: Subject>() {
    for event in every_form() {
        for adjacency in SOME {
            for n in [2, 3, 7] {
                let Some(at_once) = account::<A>(&[(&event, n)], adjacency) else {
                    continue;
                };
                let singles = vec![(&event, 1); n as usize];
                let singly = account::<A>(&singles, adjacency).unwrap();
                let what = format!("{n} {event:?} {adjacency}");
                assert_same(&at_once, &singly, &what);
                let wrapped = event.clone().repeated(n);
                let wrapped = account::<A>(&[(&wrapped, 1)], adjacency).unwrap();
                assert_same(&at_once, &wrapped, &what);
                let listed = DpEvent::composed(vec![event.clone(); n as usize]);
                let listed = account::<A>(&[(&listed, 1)], adjacency).unwrap();
                assert_same(&at_once, &listed, &what);
            }
        }
    }
}

pub(super) fn order_is_irrelevant_to<A: Subject>() {
    for adjacency in SOME {
        let known: Vec<DpEvent> = every_form()
            .into_iter()
            .filter(|event| account::<A>(&[(event, 1)], adjacency).is_some())
            .collect();
        for pair in known.chunks(3) {
            let [a, b, c] = pair else { continue };
            let forth = account::<A>(&[(a, 1), (b, 2), (c, 1)], adjacency).unwrap();
            let back = account::<A>(&[(c, 1), (b, 1), (a, 1), (b, 1)], adjacency).unwrap();
            assert_close(&answers(&forth), &answers(&back), &format!("{pair:?}"));
        }
    }
}

pub(super) fn refusals_change_nothing_in<A: Subject>() {
    let good = DpEvent::gaussian(2.0);
    let bad = [
        DpEvent::NonPrivate,
        DpEvent::gaussian(f64::NAN),
        DpEvent::gaussian(1.0).repeated(0),
        DpEvent::Composed { events: vec![] },
        DpEvent::sampled_gaussian(1.0, 1.5),
        good.clone().repeated(u64::MAX).repeated(2),
    ];
    for adjacency in ADJACENCIES {
        let mut accountant = account::<A>(&[(&good, 3)], adjacency).unwrap();
        let before = (accountant.clone(), answers(&accountant));
        for bad in &bad {
            let events = vec![good.clone(), DpEvent::gaussian(1.0), bad.clone()];
            for event in [
                DpEvent::Composed { events }.repeated(2),
                bad.clone(),
                bad.clone().repeated(3),
            ] {
                assert!(accountant.compose(&event, 1).is_err(), "{event:?}");
                assert_eq!(accountant, before.0, "{event:?}");
            }
        }
        assert!(accountant.compose(&good, 0).is_err());
        assert_eq!(answers(&accountant), before.1);
    }
}

pub(super) fn nothing_composed_in<A: Subject>() {
    for adjacency in ADJACENCIES {
        let empty = A::fresh(adjacency);
        assert_eq!(empty.adjacency(), adjacency);
        assert!(matches!(
            empty.epsilon_at(1e-5),
            Err(Error::NothingComposed)
        ));
        assert!(matches!(empty.delta_at(1.0), Err(Error::NothingComposed)));
        let mut refused = empty.clone();
        assert!(refused.compose(&DpEvent::NonPrivate, 1).is_err());
        assert!(matches!(
            refused.epsilon_at(1e-5),
            Err(Error::NothingComposed)
        ));
        let none = DpEvent::Composed { events: vec![] };
        assert!(matches!(
            refused.compose(&none, 1),
            Err(Error::NothingComposed)
        ));
    }
}
