//! Errors of the crates below as errors of workflows, with parameters named as settings are.

use dp_accounting::Error as AccountingError;
use dp_core::ParamError;
use dp_mechanism::Error as KernelError;

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

/// Errors of a run that are the same whatever it trains.
fn of_run(error: KernelError) -> Result<Error, KernelError> {
    match error {
        KernelError::Cancelled => Ok(Error::Cancelled),
        KernelError::Accounting(inner) => Ok(inner.into()),
        KernelError::List { .. }
        | KernelError::ListOfAnotherRun { .. }
        | KernelError::EndOfList
        | KernelError::NotResumable
        | KernelError::Io { .. } => Ok(Error::Releases(error)),
        other => Err(other),
    }
}

impl From<KernelError> for Error {
    fn from(error: KernelError) -> Self {
        of_run(error).unwrap_or_else(|other| dp_fedsgd::Error::from(other).into())
    }
}

impl From<dp_multitask::Error> for Error {
    fn from(error: dp_multitask::Error) -> Self {
        match error {
            dp_multitask::Error::Param(param) => param.into(),
            dp_multitask::Error::Accounting(inner) => inner.into(),
            dp_multitask::Error::Mechanism(inner) => of_run(inner)
                .unwrap_or_else(|inner| Self::Training(dp_multitask::Error::Mechanism(inner))),
            other => Self::Training(other),
        }
    }
}

impl From<dp_personalize::Error> for Error {
    fn from(error: dp_personalize::Error) -> Self {
        match error {
            dp_personalize::Error::Param(param) => param.into(),
            dp_personalize::Error::Accounting(inner) => inner.into(),
            dp_personalize::Error::Mechanism(inner) => of_run(inner).unwrap_or_else(|inner| {
                Self::Personalization(dp_personalize::Error::Mechanism(inner))
            }),
            other => Self::Personalization(other),
        }
    }
}

impl From<dp_fedsgd::Error> for Error {
    fn from(error: dp_fedsgd::Error) -> Self {
        match error {
            dp_fedsgd::Error::Param(param) => param.into(),
            dp_fedsgd::Error::Accounting(inner) => inner.into(),
            dp_fedsgd::Error::Mechanism(inner) => of_run(inner)
                .unwrap_or_else(|inner| Self::Federation(dp_fedsgd::Error::Mechanism(inner))),
            other => Self::Federation(other),
        }
    }
}

impl From<dp_pubfeat::Error> for Error {
    fn from(error: dp_pubfeat::Error) -> Self {
        match error {
            dp_pubfeat::Error::Param(param) => param.into(),
            dp_pubfeat::Error::Accounting(inner) => inner.into(),
            dp_pubfeat::Error::Mechanism(inner) => of_run(inner)
                .unwrap_or_else(|inner| Self::Features(dp_pubfeat::Error::Mechanism(inner))),
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
