//! Errors of the crates below as errors of workflows, with parameters named as settings are.

use dp_accounting::Error as AccountingError;
use dp_core::ParamError;

use super::Error;

/// The setting that decides a parameter: most are called alike.
fn setting(name: &'static str) -> &'static str {
    match name {
        "rule_epsilon" => "epsilon",
        "taste_norm" => "clip_norm",
        "k" => "count",
        other => other,
    }
}

impl From<ParamError> for Error {
    fn from(error: ParamError) -> Self {
        Self::Param(ParamError {
            name: setting(error.name),
            ..error
        })
    }
}

impl From<AccountingError> for Error {
    fn from(error: AccountingError) -> Self {
        match error {
            AccountingError::Param(param) => param.into(),
            other => Self::Accounting(other),
        }
    }
}

impl From<dp_multitask::Error> for Error {
    fn from(error: dp_multitask::Error) -> Self {
        match error {
            dp_multitask::Error::Param(param) => param.into(),
            dp_multitask::Error::Accounting(inner) => inner.into(),
            dp_multitask::Error::Mechanism(dp_mechanism::Error::Cancelled) => Self::Cancelled,
            other => Self::Training(other),
        }
    }
}

impl From<dp_personalize::Error> for Error {
    fn from(error: dp_personalize::Error) -> Self {
        match error {
            dp_personalize::Error::Param(param) => param.into(),
            dp_personalize::Error::Accounting(inner) => inner.into(),
            dp_personalize::Error::Mechanism(dp_mechanism::Error::Cancelled) => Self::Cancelled,
            other => Self::Personalization(other),
        }
    }
}

impl From<dp_fedsgd::Error> for Error {
    fn from(error: dp_fedsgd::Error) -> Self {
        match error {
            dp_fedsgd::Error::Param(param) => param.into(),
            dp_fedsgd::Error::Accounting(inner) => inner.into(),
            dp_fedsgd::Error::Mechanism(dp_mechanism::Error::Cancelled) => Self::Cancelled,
            other => Self::Federation(other),
        }
    }
}

impl From<dp_pubfeat::Error> for Error {
    fn from(error: dp_pubfeat::Error) -> Self {
        match error {
            dp_pubfeat::Error::Param(param) => param.into(),
            dp_pubfeat::Error::Accounting(inner) => inner.into(),
            dp_pubfeat::Error::Mechanism(dp_mechanism::Error::Cancelled) => Self::Cancelled,
            other => Self::Features(other),
        }
    }
}

impl From<dp_audit::Error> for Error {
    fn from(error: dp_audit::Error) -> Self {
        match error {
            dp_audit::Error::Param(param) => param.into(),
            dp_audit::Error::Accounting(error) => error.into(),
            dp_audit::Error::Trainer(inner) => match inner.downcast::<dp_multitask::Error>() {
                Ok(error) => (*error).into(),
                Err(inner) => Self::Audit(dp_audit::Error::Trainer(inner)),
            },
            other => Self::Audit(other),
        }
    }
}
