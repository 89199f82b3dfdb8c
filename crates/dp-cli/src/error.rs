//! What a command can fail with, and what to do about it.

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
pub(crate) enum Error {
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
    #[error("{} exists and is not replaced; choose another --out, or with `dp train` pass --force", path.display())]
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

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A run that its ledger cannot pay for, in epsilon at the delta of the run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{ledger} does not cover this run; nothing was released\n  \
     asked   epsilon {}, delta {:e}\n  \
     left    epsilon {}, delta {:e}\n  \
     budget  epsilon {}, delta {:e}, for all runs on `{data_set}`; {n_releases} releases so far",
    asked.epsilon, asked.delta, rounded_down(*left), asked.delta, total.epsilon, total.delta
)]
pub(crate) struct Shortfall {
    pub(crate) ledger: String,
    pub(crate) data_set: String,
    pub(crate) asked: ApproxDp,
    /// Epsilon at the delta of the run.
    pub(crate) left: f64,
    pub(crate) total: ApproxDp,
    pub(crate) n_releases: u64,
}

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
            | Self::Print(_) => 7,
            Self::Accounting(error) | Self::Training(dp_multitask::Error::Accounting(error)) => {
                accounting_code(error)
            }
            Self::Training(dp_multitask::Error::Mechanism(dp_mechanism::Error::Param(_)))
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

    /// What to do about it, where that is not plain from the message.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Budget(shortfall) => Some(shortfall.hint()),
            Self::Accounting(error) | Self::Training(dp_multitask::Error::Accounting(error)) => {
                accounting_hint(error)
            }
            Self::Training(dp_multitask::Error::Mechanism(dp_mechanism::Error::Param(_))) => Some(
                "these settings leave one release too little of the budget, or too much, for \
                     its noise to be drawn exactly; change --epsilon, --count-share or --steps"
                    .to_owned(),
            ),
            Self::Questions {
                source: QuestionError::Syntax(_),
                ..
            } => Some(
                "dp account reads cases and events, dp calibrate an event with one parameter \
                 null; docs/command-line.md shows both layouts"
                    .to_owned(),
            ),
            Self::Broken => Some(
                "do not launch this configuration; the failed checks of the report say which release \
                 is at fault"
                    .to_owned(),
            ),
            Self::Data(dp_data::Error::UnknownColumn { .. }) => Some(
                "columns with other names are named by --user-col; of ratings by --item-col and --rating-col, of \
                 labelled rows by --target-col and --feature-cols"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

impl Shortfall {
    fn hint(&self) -> String {
        if self.left > 0.0 {
            let left = rounded_down(self.left);
            return format!(
                "a run with --epsilon {left} still fits; a spent budget does not come back"
            );
        }
        "nothing more can be released from this data; a spent budget does not come back".to_owned()
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

fn accounting_hint(error: &AccountingError) -> Option<String> {
    Some(match error {
        AccountingError::SamplerAllowance { .. } => {
            "the noise is exact only up to a tiny part of delta, which these settings exhaust; \
             choose a smaller --epsilon or a larger --delta"
                .to_owned()
        }
        AccountingError::LedgerLocked { .. } => {
            "runs on one data set go one after another; start again when the other has ended"
                .to_owned()
        }
        AccountingError::LedgerCorrupt { .. } => {
            "restore it from a backup; starting a new one would forget what was spent".to_owned()
        }
        AccountingError::LedgerMismatch { field, found, .. } => mismatch_hint(field, found),
        _ => return None,
    })
}

fn mismatch_hint(field: &str, found: &str) -> String {
    match field {
        "data_set" => format!(
            "one ledger counts one data set; if this file is a version of the same data, pass \
             --data-set '{found}'"
        ),
        "epsilon" | "delta" => format!(
            "the budget was fixed when the ledger was made; leave --ledger-{field} out to use it"
        ),
        "filter" => "a ledger counts Gaussian releases of any number of runs, or one run with others among them: of dp \
                     federate a choice among alphas or sampled users; use another ledger file and add the two budgets"
            .to_owned(),
        _ => "it was made by another version or for other neighbours".to_owned(),
    }
}

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
        "min_items" => "--min-items",
        "k" => "-k",
        "n_canaries" => "--canaries",
        "n_runs" => "--runs",
        "confidence" => "--confidence",
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
