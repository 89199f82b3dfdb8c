//! Errors of the crates below as errors of commands, with parameters named by their flags.

use dp_accounting::Error as AccountingError;
use dp_accounting::questions::QuestionError;
use dp_core::ParamError;

use super::Error;

/// The flag that sets a parameter, or its name when none does.
fn flag(name: &'static str) -> &'static str {
    match name {
        "epsilon" | "rule_epsilon" => "--epsilon",
        "delta" => "--delta",
        "dim" => "--dim",
        "n_rounds" => "--steps",
        "weight_exponent" => "--weight-exponent",
        "clip_norm" | "taste_norm" => "--clip-norm",
        "label_center" => "--label-center",
        "label_bound" => "--label-bound",
        "item_ridge_factor" => "--reg",
        "count_share" => "--count-share",
        "head_fraction" => "--head-fraction",
        "min_items" => "--min-items",
        "k" => "-k",
        "n_canaries" => "--canaries",
        "n_runs" => "--runs",
        "confidence" => "--confidence",
        "score_share" => "--score-share",
        "held_out_fraction" => "--compare-on",
        other => other,
    }
}

impl From<ParamError> for Error {
    fn from(error: ParamError) -> Self {
        Self::Param(ParamError {
            name: flag(error.name),
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

impl From<QuestionError> for Error {
    fn from(error: QuestionError) -> Self {
        match error {
            QuestionError::Accounting(error) => error.into(),
            other => Self::Calibration(other),
        }
    }
}

impl From<dp_multitask::Error> for Error {
    fn from(error: dp_multitask::Error) -> Self {
        match error {
            dp_multitask::Error::Param(param) => param.into(),
            dp_multitask::Error::Accounting(inner) => inner.into(),
            other => Self::Training(other),
        }
    }
}

impl From<dp_personalize::Error> for Error {
    fn from(error: dp_personalize::Error) -> Self {
        match error {
            dp_personalize::Error::Param(param) => param.into(),
            dp_personalize::Error::Accounting(inner) => inner.into(),
            other => Self::Personalization(other),
        }
    }
}

impl From<dp_fedsgd::Error> for Error {
    fn from(error: dp_fedsgd::Error) -> Self {
        match error {
            dp_fedsgd::Error::Param(param) => param.into(),
            dp_fedsgd::Error::Accounting(inner) => inner.into(),
            other => Self::Federation(other),
        }
    }
}

impl From<dp_pubfeat::Error> for Error {
    fn from(error: dp_pubfeat::Error) -> Self {
        match error {
            dp_pubfeat::Error::Param(param) => param.into(),
            dp_pubfeat::Error::Accounting(inner) => inner.into(),
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
