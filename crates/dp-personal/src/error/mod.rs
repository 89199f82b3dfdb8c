//! What a command can fail with, and what to do about it.

mod convert;
mod hints;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dp_accounting::Error as AccountingError;
use dp_accounting::questions::QuestionError;
use dp_core::{ApproxDp, ParamError};

use crate::output::rounded_down;

/// Everything a command can fail with. The exit code says what kind it was.
///
/// | code | meaning |
/// |---|---|
/// | 0 | done |
/// | 1 | anything not listed below; of `dp account`, some case has no answer |
/// | 2 | a bad argument or setting; nothing was read, spent or written |
/// | 3 | the ledger's budget does not allow the run; nothing was released |
/// | 4 | an input file is missing or malformed |
/// | 5 | the ledger is in use by another process, belongs to something else, or is damaged |
/// | 6 | a certificate does not hold, or promises nothing; an audit found a claim broken |
/// | 7 | output could not be written |
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Param(ParamError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Data(#[from] dp_data::Error),
    #[error(transparent)]
    Accounting(AccountingError),
    #[error(transparent)]
    Budget(Box<Shortfall>),
    #[error("{}: the certificate does not hold: {source}", path.display())]
    Certificate {
        path: PathBuf,
        source: AccountingError,
    },
    #[error("{}: intact, but it promises no privacy: {reason}", path.display())]
    NotPrivate { path: PathBuf, reason: String },
    #[error("{} is not the file that the certificate was issued for: {reason}", path.display())]
    Artifact { path: PathBuf, reason: String },
    #[error(transparent)]
    Training(dp_multitask::Error),
    #[error(transparent)]
    Personalization(dp_personalize::Error),
    #[error(transparent)]
    Federation(dp_fedsgd::Error),
    #[error(transparent)]
    Features(dp_pubfeat::Error),
    #[error("{}: {reason}", path.display())]
    Model { path: PathBuf, reason: String },
    #[error("{}: {source}", path.display())]
    Questions {
        path: PathBuf,
        source: QuestionError,
    },
    #[error("{n_failed} of {n_cases} cases have no answer")]
    Unanswered { n_failed: usize, n_cases: usize },
    #[error(transparent)]
    Calibration(QuestionError),
    #[error("the audit could not be carried out: {0}")]
    Audit(dp_audit::Error),
    #[error("the audit found more given away than claimed, or noise that is not what was paid for")]
    Broken,
    #[error("{} exists and is not replaced; choose another --out, or pass --force where the command has it", path.display())]
    OutputExists { path: PathBuf },
    #[error(
        "an earlier run ended after it had paid for its model and written it; the model is now in {}, without figures on \
         held-out data, and nothing was paid this time: to train anew, run again with another --out or with --force",
        path.display()
    )]
    Recovered { path: PathBuf },
    #[error("another run is writing to {} at this moment", path.display())]
    OutputBusy { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "cannot move the finished output to {}: {source}; it is complete in {}",
        target.display(), kept.display()
    )]
    Move {
        target: PathBuf,
        kept: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot read {}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// A bad command line, of which clap has said all.
    #[error("the command line was refused")]
    Refused,
    #[error("{}: {reason}", path.display())]
    Config { path: PathBuf, reason: String },
    #[error("cannot print the result: {0}")]
    Print(#[from] std::io::Error),
    #[error("cannot write the result as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A run that its ledger cannot pay for, in epsilon at the delta of the run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{ledger} does not cover this run; nothing was released\n  \
     asked   epsilon {}, delta {:e}\n  \
     left    epsilon {}, delta {:e}\n  \
     budget  epsilon {}, delta {:e}, for all runs on `{data_set}`; {n_releases} releases so far",
    asked.epsilon, asked.delta, rounded_down(*left), asked.delta, total.epsilon, total.delta
)]
pub struct Shortfall {
    pub ledger: String,
    pub data_set: String,
    pub asked: ApproxDp,
    /// Epsilon at the delta of the run.
    pub left: f64,
    pub total: ApproxDp,
    pub n_releases: u64,
}

impl Error {
    pub fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    pub fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub fn model(path: &Path, reason: impl ToString) -> Self {
        Self::Model {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Param(_) | Self::Usage(_) | Self::Refused | Self::Config { .. } => 2,
            Self::Budget(_) => 3,
            Self::Data(_) | Self::Read { .. } | Self::Model { .. } | Self::Questions { .. } => 4,
            Self::Certificate { .. }
            | Self::Artifact { .. }
            | Self::NotPrivate { .. }
            | Self::Broken => 6,
            Self::OutputExists { .. }
            | Self::Recovered { .. }
            | Self::OutputBusy { .. }
            | Self::Write { .. }
            | Self::Move { .. }
            | Self::Print(_)
            | Self::Training(dp_multitask::Error::Mechanism(dp_mechanism::Error::Io { .. })) => 7,
            Self::Accounting(error) | Self::Training(dp_multitask::Error::Accounting(error)) => {
                accounting_code(error)
            }
            Self::Training(
                dp_multitask::Error::Mechanism(
                    dp_mechanism::Error::Param(_)
                    | dp_mechanism::Error::ListOfAnotherRun { .. }
                    | dp_mechanism::Error::List { .. },
                )
                | dp_multitask::Error::Unsupported { .. },
            )
            | Self::Personalization(dp_personalize::Error::Mechanism(
                dp_mechanism::Error::Param(_),
            ))
            | Self::Federation(dp_fedsgd::Error::Mechanism(dp_mechanism::Error::Param(_)))
            | Self::Features(dp_pubfeat::Error::Mechanism(dp_mechanism::Error::Param(_))) => 2,
            Self::Training(_)
            | Self::Personalization(_)
            | Self::Federation(_)
            | Self::Features(_)
            | Self::Json(_)
            | Self::Unanswered { .. }
            | Self::Calibration(_)
            | Self::Audit(_) => 1,
        })
    }
}

fn accounting_code(error: &AccountingError) -> u8 {
    match error {
        AccountingError::Param(_)
        | AccountingError::SamplerAllowance { .. }
        | AccountingError::TargetMissed { .. } => 2,
        AccountingError::BudgetSpent { .. } | AccountingError::ScheduleReserved { .. } => 3,
        AccountingError::LedgerLocked { .. }
        | AccountingError::LedgerCorrupt { .. }
        | AccountingError::LedgerMismatch { .. }
        | AccountingError::LedgerPoisoned { .. }
        | AccountingError::NotGaussian { .. }
        | AccountingError::Io { .. } => 5,
        _ => 1,
    }
}
