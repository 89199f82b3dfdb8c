use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Everything a command can fail with. The exit code says what kind it was.
///
/// | code | meaning |
/// |---|---|
/// | 0 | done |
/// | 1 | anything not listed below |
/// | 2 | a bad argument or setting; nothing was read or spent |
/// | 3 | the ledger's budget does not allow the run; nothing was released |
/// | 4 | an input file is missing or malformed |
/// | 5 | the ledger is in use by another process, or damaged |
/// | 6 | a certificate does not hold |
/// | 7 | output could not be written |
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Param(#[from] dp_core::ParamError),
    #[error(transparent)]
    Data(#[from] dp_data::Error),
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    #[error("the certificate does not hold: {0}")]
    Certificate(#[source] dp_accounting::Error),
    #[error(transparent)]
    Training(#[from] dp_multitask::Error),
    #[error("{}: {reason}", path.display())]
    Model { path: PathBuf, reason: String },
    #[error("{} exists; choose another folder or pass --force to replace it", path.display())]
    OutputExists { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot print the result: {0}")]
    Print(#[from] serde_json::Error),
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn model(path: &Path, reason: impl ToString) -> Self {
        Self::Model {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Param(_) => 2,
            Self::Data(_) | Self::Read { .. } | Self::Model { .. } => 4,
            Self::Accounting(error) => accounting_code(error),
            Self::Training(dp_multitask::Error::Param(_)) => 2,
            Self::Training(dp_multitask::Error::Accounting(error)) => accounting_code(error),
            Self::Certificate(_) => 6,
            Self::OutputExists { .. } | Self::Write { .. } => 7,
            Self::Training(_) | Self::Print(_) => 1,
        })
    }
}

fn accounting_code(error: &dp_accounting::Error) -> u8 {
    use dp_accounting::Error;
    match error {
        Error::Param(_) | Error::SamplerAllowance { .. } => 2,
        Error::BudgetSpent { .. } => 3,
        Error::LedgerLocked { .. }
        | Error::LedgerCorrupt { .. }
        | Error::LedgerMismatch { .. }
        | Error::LedgerPoisoned { .. }
        | Error::Io { .. } => 5,
        _ => 1,
    }
}
