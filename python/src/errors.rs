//! The only place where an error of the facade becomes an exception of `dp_personal.errors`.

use std::error::Error as _;
use std::io::ErrorKind as IoKind;

use dp_personal::accounting::Error as AccountingError;
use dp_personal::data::Error as DataError;
use dp_personal::error::{Error, ErrorKind};
use dp_personal::multitask::Error as TrainingError;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Converts the error of a result into an exception.
pub(crate) trait Raise<T> {
    /// Returns the value, or the exception for the error.
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> Raise<T> for Result<T, E> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error.into()).unwrap_or_else(|failed| failed))
    }
}

/// The exception for an error: its class, its message with all causes, and the position that it
/// names.
fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let module = py.import("dp_personal.errors")?;
    let class = module.getattr(class_of(error))?.cast_into::<PyType>()?;
    let raised = PyErr::from_type(class, (message(error),));
    let value = raised.value(py);
    match innermost(error) {
        Error::Param(param) => value.setattr("setting", param.name)?,
        Error::Budget(shortfall) => value.setattr("epsilon_left", shortfall.left)?,
        Error::Unread(unread) => value.setattr("setting", &unread.name)?,
        Error::Data(data) => {
            if let Some((source, line, column)) = place(data) {
                value.setattr("source", source)?;
                value.setattr("line", line)?;
                value.setattr("column", column)?;
            }
        }
        _ => {}
    }
    Ok(raised)
}

/// The error that ended a run after it had paid, or the error itself.
fn innermost(error: &Error) -> &Error {
    match error {
        Error::AfterPayment { error, .. } | Error::Unmeasured { error, .. } => innermost(error),
        other => other,
    }
}

/// The name of the exception's class.
fn class_of(error: &Error) -> &'static str {
    match innermost(error) {
        Error::Accounting(of) => match of {
            AccountingError::LedgerLocked { .. } => return "LedgerInUse",
            AccountingError::LedgerExists { .. } => return "LedgerExists",
            AccountingError::LedgerMissing { .. } => return "LedgerMissing",
            AccountingError::Io { source, .. } if source.kind() == IoKind::NotFound => {
                return "LedgerMissing";
            }
            _ => {}
        },
        Error::Data(DataError::Open { source, .. }) | Error::Read { source, .. }
            if source.kind() == IoKind::NotFound =>
        {
            return "InputMissing";
        }
        Error::OutputExists { .. } => return "OutputExists",
        _ => {}
    }
    match error.kind() {
        ErrorKind::Setting => "BadSetting",
        ErrorKind::Budget => "BudgetExceeded",
        ErrorKind::Input => "BadInput",
        ErrorKind::Ledger => "LedgerError",
        ErrorKind::Broken => "CertificateError",
        ErrorKind::Output => "OutputError",
        ErrorKind::Other | ErrorKind::Inconclusive | ErrorKind::Worse => "DpError",
    }
}

/// Messages of commands, and what they are here.
const IN_PYTHON: [(&str, &str); 6] = [
    (
        "run the same command with `resume`",
        "call `fit` with the same `resume`",
    ),
    ("`dp nightly run`, or `run-rows`, makes", "`run` makes"),
    (
        "`dp nightly run-rows` makes its nights",
        "use `dp.NightlySubspace`",
    ),
    ("`dp nightly run` makes its nights", "use `dp.Nightly`"),
    ("`dp nightly init`", "`create`"),
    ("`dp ledger show`", "`dp.Ledger(...).show()`"),
];

/// The error and its causes, unless the error's message already includes them, and what to do.
fn message(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    for (command, here) in IN_PYTHON {
        text = text.replace(command, here);
    }
    match hint(innermost(error)) {
        Some(hint) => format!("{text}\nhint: {hint}"),
        None => text,
    }
}

/// What to do about an error, if its message does not say so in the words of Python.
fn hint(error: &Error) -> Option<String> {
    let text = match error {
        Error::OtherUsers { .. } => {
            "each data set has its own ledger: name the one for these data; if this is the same data and the users were renamed, or \
             most of them left, give `same_data_set=True`"
        }
        Error::Binding { .. } => {
            "if the other files cannot be restored and you are sure that these are the ledger's data, `same_data_set=True` binds it to \
             them again"
        }
        Error::LedgerCut { .. } => {
            "restore the newest copy of the ledger, with its .key and .users files; if it is lost, `dp.Ledger(...).accept_rollback()` \
             lets runs use this one"
        }
        Error::GaussianLedger { .. } => {
            "`dp.Ledger.create(..., kind=\"mixed\")` makes a ledger that counts both, and `dp ledger upgrade --kind mixed` on the \
             command line converts this one; nothing is chosen if `alpha_grid` is one ratio, as in `alpha_grid=[1.0]`"
        }
        Error::Accounting(AccountingError::SamplerAllowance { .. })
        | Error::Training(TrainingError::Accounting(AccountingError::SamplerAllowance {
            ..
        })) => {
            "exact noise sampling uses up a tiny part of delta, and this needs more than that: choose a smaller epsilon or a larger delta"
        }
        Error::Accounting(AccountingError::LedgerMismatch {
            field: "data_set",
            found,
            ..
        }) => {
            return Some(format!(
                "one ledger counts one data set: if this is a newer version of the same data, give `data_set={found:?}`"
            ));
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Source, line and column that a reader error names.
fn place(error: &DataError) -> Option<(&str, Option<usize>, Option<usize>)> {
    Some(match error {
        DataError::Malformed {
            path, line, column, ..
        } => (path, Some(*line), Some(*column)),
        DataError::UnknownColumn { path, line, .. } => (path, Some(*line), None),
        DataError::Open { path, .. }
        | DataError::Read { path, .. }
        | DataError::Gzip { path, .. }
        | DataError::Parquet { path, .. }
        | DataError::Empty { path }
        | DataError::NotACatalogue { path, .. } => (path, None, None),
        _ => return None,
    })
}

/// A table that cannot be read before it reaches the facade.
pub(crate) fn bad_input(py: Python<'_>, source: &str, reason: &str) -> PyErr {
    let raised = || {
        let class = py.import("dp_personal.errors")?.getattr("BadInput")?;
        let class = class.cast_into::<PyType>()?;
        let raised = PyErr::from_type(class, (format!("{source}: {reason}"),));
        raised.value(py).setattr("source", source)?;
        Ok::<_, PyErr>(raised)
    };
    raised().unwrap_or_else(|failed| failed)
}
