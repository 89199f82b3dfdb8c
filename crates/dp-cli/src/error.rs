//! Errors of commands.

use std::path::PathBuf;

use dp_accounting::Error as AccountingError;
use dp_accounting::questions::QuestionError;
use dp_core::ParamError;
use dp_personal::error::{Error as WorkflowError, ErrorKind};
use dp_personal::quality::Verdict;

/// All errors of commands. The exit code indicates the kind.
///
/// | code | meaning |
/// |---|---|
/// | 0 | done |
/// | 1 | anything not listed below; for `dp account`, some case has no answer |
/// | 2 | a bad argument or setting; nothing was read, spent or written |
/// | 3 | the ledger's budget does not allow the run; nothing was released |
/// | 4 | an input file is missing or malformed |
/// | 5 | the ledger is in use by another process, belongs to something else, or is damaged |
/// | 6 | a certificate is invalid or has no guarantee; an audit found a claim violated |
/// | 7 | output could not be written |
/// | 8 | an audit had too little power to find a claim violated |
/// | 9 | with `--fail-if-worse`: the model was released, and the best baseline is better |
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    #[error("{}: intact, but it promises no privacy: {reason}", path.display())]
    NotPrivate { path: PathBuf, reason: String },
    #[error("the model was not recomputed: {0}")]
    NotRecomputed(String),
    #[error("the model does not follow from its list of releases: {0}")]
    Differs(String),
    #[error(
        "the audit found a larger privacy loss than claimed, or noise that is not what was paid for"
    )]
    Broken,
    #[error("the audit had too little power to support or refute the claim")]
    Inconclusive,
    #[error("{}", worse(.0))]
    Worse(Verdict),
    #[error(transparent)]
    Param(#[from] ParamError),
    #[error("{0}")]
    Usage(String),
    #[error("{}: {source}", path.display())]
    Questions {
        path: PathBuf,
        source: QuestionError,
    },
    #[error("{n_failed} of {n_cases} cases have no answer")]
    Unanswered { n_failed: usize, n_cases: usize },
    #[error(transparent)]
    Calibration(QuestionError),
    /// An invalid command line; clap has printed the message.
    #[error("the command line was refused")]
    Refused,
    /// Help or a version, which clap has printed.
    #[error("help was printed")]
    Helped,
    #[error("{}: {reason}", path.display())]
    Config { path: PathBuf, reason: String },
    #[error("cannot print the result: {0}")]
    Print(std::io::Error),
    #[error("cannot write the result as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// A verdict that was not paid for has no figures here: standard error may be forwarded.
fn worse(verdict: &Verdict) -> String {
    match verdict.is_released {
        true => verdict.to_string(),
        false => "do not ship this: the best baseline is better (by how much: internal.md in the internal folder). \
                  This message and the exit code follow from private data: do not publish them".to_owned(),
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl From<AccountingError> for Error {
    fn from(error: AccountingError) -> Self {
        match error {
            AccountingError::Param(param) => param.into(),
            other => WorkflowError::from(other).into(),
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

impl Error {
    pub(crate) fn exit_code(&self) -> u8 {
        let kind = match self {
            Self::Helped => return 0,
            Self::Workflow(error) => error.kind(),
            Self::Param(_) | Self::Usage(_) | Self::Refused | Self::Config { .. } => {
                ErrorKind::Setting
            }
            Self::Questions { .. } | Self::NotRecomputed(_) => ErrorKind::Input,
            Self::NotPrivate { .. } | Self::Differs(_) | Self::Broken => ErrorKind::Broken,
            Self::Inconclusive => ErrorKind::Inconclusive,
            Self::Worse(_) => ErrorKind::Worse,
            Self::Print(_) => ErrorKind::Output,
            Self::Json(_) | Self::Unanswered { .. } | Self::Calibration(_) => ErrorKind::Other,
        };
        kind as u8
    }
}
