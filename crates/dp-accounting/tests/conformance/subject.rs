//! An accountant under test, and its answers.

use std::fmt::Debug;

use dp_accounting::{Accountant, Error, PrivacyBound, Result};
use dp_core::{Adjacency, DpEvent};

/// An accountant under test.
pub(super) trait Subject: Accountant + Clone + PartialEq + Debug {
    fn fresh(adjacency: Adjacency) -> Self;

    /// Through the trait only: some accountants have methods of the same name.
    fn epsilon_at(&self, delta: f64) -> Result<PrivacyBound> {
        Accountant::epsilon(self, delta)
    }

    fn delta_at(&self, epsilon: f64) -> Result<PrivacyBound> {
        Accountant::delta(self, epsilon)
    }
}

pub(super) const SOME: [Adjacency; 2] = [Adjacency::AddRemoveUser, Adjacency::ReplaceRecord];

/// An accountant of `events`, `None` if one of them is not supported.
pub(super) fn account<A: Subject>(events: &[(&DpEvent, u64)], adjacency: Adjacency) -> Option<A> {
    let mut accountant = A::fresh(adjacency);
    for (event, count) in events {
        match accountant.compose(event, *count) {
            Ok(()) => {}
            Err(Error::UnsupportedEvent { .. } | Error::NonPrivateEvent) => return None,
            Err(error) => panic!("{error} for {event:?}"),
        }
    }
    Some(accountant)
}

/// An answer, `None` where the method does not apply.
pub(super) fn answered(result: Result<PrivacyBound>) -> Option<PrivacyBound> {
    match result {
        Ok(bound) => {
            let ordered =
                0.0 <= bound.lower && bound.lower <= bound.value && bound.value <= bound.upper;
            assert!(ordered && bound.upper.is_finite(), "{bound:?}");
            Some(bound)
        }
        Err(
            Error::UnsupportedEvent { .. }
            | Error::NotCertified { .. }
            | Error::NoFiniteEpsilon { .. },
        ) => None,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn answers<A: Subject>(accountant: &A) -> Vec<Option<PrivacyBound>> {
    vec![
        answered(accountant.epsilon_at(1e-5)),
        answered(accountant.delta_at(0.7)),
    ]
}
