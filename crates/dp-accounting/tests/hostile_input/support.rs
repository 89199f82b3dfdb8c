//! Composing and asking, with every answer and every refusal looked at.

use dp_accounting::{Accountant, Error, PrivacyBound, Result};
use dp_core::DpEvent;

use crate::shared::refusals::is_explained;

/// A bracket of finite numbers in order, or a typed refusal.
#[track_caller]
pub(super) fn assert_epsilon(answer: &Result<PrivacyBound>, what: &str) {
    match answer {
        Ok(bound) => {
            let ordered =
                0.0 <= bound.lower && bound.lower <= bound.value && bound.value <= bound.upper;
            assert!(ordered && bound.upper.is_finite(), "{what}: {bound:?}");
        }
        Err(error) => assert_typed(error, what),
    }
}

/// The same of probabilities.
#[track_caller]
pub(super) fn assert_delta(answer: &Result<PrivacyBound>, what: &str) {
    assert_epsilon(answer, what);
    if let Ok(bound) = answer {
        assert!(bound.upper <= 1.0, "{what}: {bound:?}");
    }
}

/// An error that a mechanism or a question can be at fault for, and whose message says at what.
#[track_caller]
pub(super) fn assert_typed(error: &Error, what: &str) {
    assert!(is_explained(error), "{what}: {error:?}");
}

/// Composes one run and asks everything; what is composed must have a sane answer or a typed refusal.
pub(super) fn compose(accountant: &mut dyn Accountant, event: &DpEvent) -> Result<()> {
    accountant.compose(event, 1)?;
    for delta in [1e-9, 0.2] {
        let what = format!("{event:?} at delta {delta}");
        assert_epsilon(&accountant.epsilon(delta), &what);
    }
    for epsilon in [0.0, 2.0] {
        let what = format!("{event:?} at epsilon {epsilon}");
        assert_delta(&accountant.delta(epsilon), &what);
    }
    Ok(())
}
