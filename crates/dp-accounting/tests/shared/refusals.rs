//! Checks that errors name their cause.

use dp_accounting::Error;

/// Whether this error can be caused by a mechanism or a question, and its message names the cause.
pub(crate) fn is_explained(error: &Error) -> bool {
    let message = error.to_string();
    let said = |parts: &[&str]| parts.iter().all(|p| !p.is_empty() && message.contains(p));
    let names_its_cause = match error {
        Error::Param(bad) => said(&[bad.name, bad.expected]),
        Error::UnsupportedEvent {
            event, accountant, ..
        } => said(&[event, accountant]),
        Error::NotCertified { method, reason } => said(&[method, reason]),
        &Error::NoFiniteEpsilon {
            delta,
            infinite_mass,
        } => delta <= infinite_mass && infinite_mass <= 1.0,
        &Error::TargetOutOfReach { epsilon, delta, .. } => epsilon >= 0.0 && delta >= 0.0,
        Error::NothingComposed | Error::NonPrivateEvent => true,
        _ => false,
    };
    names_its_cause && !message.is_empty()
}
