//! Errors of workflows.

use std::path::{Path, PathBuf};

use dp_accounting::Error as AccountingError;
use dp_core::{ApproxDp, ParamError};
use dp_mechanism::Error as KernelError;

use crate::output::{releases_in_words, rounded_down};
use crate::settings::Unread;

/// All errors of workflows; [`kind`](Self::kind) classifies them.
///
/// Errors about settings use the names in [`crate::settings`]: as the name of a [`ParamError`], and
/// between backticks in [`Self::Usage`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting out of range.
    #[error(transparent)]
    Param(ParamError),
    /// Settings that conflict, or do not fit the public properties of the data. Every word between
    /// backticks is the name of a setting.
    #[error("{0}")]
    Usage(String),
    /// A setting that is missing or cannot be parsed.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The caller cancelled the run before anything was paid.
    #[error("cancelled")]
    Cancelled,
    /// The end of a worker's part in a run: it has sent its sums, and the coordinator writes the
    /// released files.
    #[error("the worker has sent its sums; its coordinator writes the model")]
    WorkerDone,
    /// A run failed or was cancelled after it had paid.
    #[error("{error}; the budget that the run paid stays spent: {}", next_step(*resumable))]
    AfterPayment {
        /// The error that ended the run.
        #[source]
        error: Box<Self>,
        /// Whether a run with `resume` continues from the releases.
        resumable: bool,
    },
    /// The model was released and is in place, but its internal results could not be computed or
    /// written.
    #[error(
        "{error}; the model is complete in {}, and what it cost stays spent: use it as it is, only internal results are missing",
        model.display()
    )]
    Unmeasured {
        /// The error that ended the measurement.
        #[source]
        error: Box<Self>,
        /// Path of the model.
        model: PathBuf,
    },
    /// The released steps of a run did not converge. Determined from releases alone.
    #[error(
        "the run diverged: its released steps are large and oscillate, or are not finite. Its budget is spent, and {} holds what was \
         released with its certificate, but do not use the shared part. Give a smaller `learning_rate`, or leave it out: the default follows from a bound on the \
         curvature",
        model.display()
    )]
    Diverged {
        /// Path of the release.
        model: PathBuf,
    },
    /// The ledger lacks releases of the model: the budget that they cost would be spent a second
    /// time.
    #[error(
        "the ledger {} lacks releases of the model in {}: {source}; do not publish the model until the newest version of the \
         ledger has been restored",
        ledger.display(), model.display()
    )]
    ReleasesMissing {
        /// The ledger.
        ledger: PathBuf,
        /// Path of the model.
        model: PathBuf,
        /// What the ledger lacks, or why it cannot be read.
        source: Box<AccountingError>,
    },
    /// An input file that cannot be read.
    #[error(transparent)]
    Data(dp_data::Error),
    /// Records cannot be written to or read from disk: the folder is full, or missing.
    #[error("{0}; nothing was paid this time")]
    Scratch(dp_core::ScratchError),
    /// A plan that cannot be made, or a ledger that cannot be used.
    #[error(transparent)]
    Accounting(AccountingError),
    /// The ledger cannot pay for the run.
    #[error(transparent)]
    Budget(Box<Shortfall>),
    /// The ledger counts only Gaussian releases, and the run has others.
    #[error(
        "the ledger {} {} only Gaussian releases, and this run samples users or chooses among models; nothing was paid",
        ledger.display(), if *is_new { "would count" } else { "counts" }
    )]
    GaussianLedger {
        /// The ledger.
        ledger: PathBuf,
        /// Whether it was about to be created.
        is_new: bool,
    },
    /// The ledger belongs to other data, judging by their users. Shown to the operator only: it
    /// depends on private records.
    #[error(
        "fewer than half of the users match those that the ledger {} was charged for; nothing was paid or released",
        ledger.display()
    )]
    OtherUsers {
        /// The ledger.
        ledger: PathBuf,
    },
    /// Nights cannot be continued with these users or this ledger.
    #[error("{}: {reason}; nothing was paid or released", state.display())]
    Nights {
        /// The state folder of the nights.
        state: PathBuf,
        /// The problem.
        reason: &'static str,
    },
    /// The files next to a ledger that identify its data set are missing, damaged or of another
    /// ledger.
    #[error("the ledger {} cannot be used: {reason}", ledger.display())]
    Binding {
        /// The ledger.
        ledger: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The ledger is missing, but the files that belong to it exist.
    #[error(
        "there is no ledger {}, but {} records which users it was charged for: restore the ledger from a backup, since a new one \
         would not know what was spent; if nothing was ever released, delete that file",
        ledger.display(), users.display()
    )]
    LedgerLost {
        /// The ledger.
        ledger: PathBuf,
        /// The file of its users that still exists.
        users: PathBuf,
    },
    /// The ledger lacks releases, notes, nights or its end, which its users file records.
    #[error(
        "the ledger {} was truncated or is an older copy: {} records more than it has",
        ledger.display(), users.display()
    )]
    LedgerCut {
        /// The ledger.
        ledger: PathBuf,
        /// The file that records more releases.
        users: PathBuf,
    },
    /// The values of a certificate do not follow from its releases.
    #[error("{}: the certificate does not hold: {source}", path.display())]
    Certificate {
        /// The certificate.
        path: PathBuf,
        /// What does not verify.
        source: AccountingError,
    },
    /// A file differs from the one for which its certificate was issued.
    #[error("{} is not the file that the certificate was issued for: {reason}", path.display())]
    Artifact {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A file in a release folder is not covered by the certificate.
    #[error(
        "{} is not covered by the certificate, {}",
        path.display(), uncovered(*n_others)
    )]
    NotReleased {
        /// The file.
        path: PathBuf,
        /// Number of other such files.
        n_others: usize,
    },
    /// The model must not be published.
    #[error("{}: intact, but it promises no privacy: {reason}; nothing was published", path.display())]
    NotPublished {
        /// The certificate.
        path: PathBuf,
        /// Why it promises no privacy.
        reason: String,
    },
    /// A release list cannot be read or resumed, or belongs to another run.
    #[error(transparent)]
    Releases(dp_mechanism::Error),
    /// Training of factors failed.
    #[error(transparent)]
    Training(dp_multitask::Error),
    /// Learning a subspace failed.
    #[error(transparent)]
    Personalization(dp_personalize::Error),
    /// Federated rounds failed.
    #[error(transparent)]
    Federation(dp_fedsgd::Error),
    /// Training with public features failed.
    #[error(transparent)]
    Features(dp_pubfeat::Error),
    /// A file of a model, or an input in addition to the data, is invalid.
    #[error("{}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        reason: String,
    },
    /// An audit ended without a result.
    #[error("the audit could not be carried out: {0}")]
    Audit(dp_audit::Error),
    /// The output exists and must not be replaced.
    #[error("{} exists and is not replaced", path.display())]
    OutputExists {
        /// The output.
        path: PathBuf,
    },
    /// The output path contains something that no run created, or a ledger.
    #[error("{} is not replaced: {reason}", path.display())]
    NotReplaced {
        /// The output.
        path: PathBuf,
        /// What exists there.
        reason: String,
    },
    /// Output of an earlier run, which ended between payment and its last file, was moved into
    /// place.
    #[error(
        "an earlier run paid for its model and wrote it, but ended before moving it into place; the model is now in {}, without figures on \
         held-out data, and nothing was paid this time",
        path.display()
    )]
    Recovered {
        /// The output.
        path: PathBuf,
    },
    /// Another process is writing the output.
    #[error("another run is currently writing to {}", path.display())]
    OutputBusy {
        /// The output.
        path: PathBuf,
    },
    /// Output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The output is complete but could not be moved into place.
    #[error(
        "cannot move the finished output to {}: {source}; it is complete in {}",
        target.display(), kept.display()
    )]
    Move {
        /// The intended path.
        target: PathBuf,
        /// The current path.
        kept: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// An input file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A result cannot be printed.
    #[error("cannot print the result: {0}")]
    Print(#[from] std::io::Error),
    /// A result cannot be converted to JSON.
    #[error("cannot write the result as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The result of a workflow.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors, by what the user can do about them. The numbers are exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorKind {
    /// Anything not listed below.
    Other = 1,
    /// An invalid setting; nothing was read, spent or written.
    Setting = 2,
    /// The ledger's budget does not allow the run; nothing was released.
    Budget = 3,
    /// An input file is missing or malformed.
    Input = 4,
    /// The ledger is in use by another process, belongs to something else, or is damaged.
    Ledger = 5,
    /// A certificate does not verify.
    Broken = 6,
    /// Output could not be written.
    Output = 7,
    /// An audit had too little power to find anything.
    Inconclusive = 8,
    /// A model was released that is worse than a baseline, and the caller asked for an error
    /// in that case.
    Worse = 9,
}

/// How to continue a run that has paid.
const fn next_step(resumable: bool) -> &'static str {
    if resumable {
        "run the same command with `resume` to continue from what it has released"
    } else {
        "a new run has to be paid for again"
    }
}

/// The shortfall of a run that its ledger cannot pay for, in epsilon at the delta of the run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{ledger} does not cover this run; nothing was released\n  \
     asked   epsilon {}, delta {:e}\n  \
     left    epsilon {}, delta {:e}{}\n  \
     budget  epsilon {}, delta {:e}, for all runs on `{data_set}`; {} so far",
    asked.epsilon, asked.delta, rounded_down(*left), asked.delta,
    if needed.is_some() { " in Gaussian releases" } else { "" }, total.epsilon, total.delta,
    releases_in_words(*n_releases)
)]
pub struct Shortfall {
    /// Description of the ledger.
    pub ledger: String,
    /// The name of the data set.
    pub data_set: String,
    /// The cost of the run.
    pub asked: ApproxDp,
    /// Remaining epsilon at the delta of the run, for Gaussian releases.
    pub left: f64,
    /// For a run with releases that are not Gaussian: the total epsilon of a ledger that could pay
    /// for it.
    pub needed: Option<f64>,
    /// The total budget for all runs.
    pub total: ApproxDp,
    /// Releases paid for so far.
    pub n_releases: u64,
}

impl Error {
    /// An error for output that cannot be written.
    #[must_use]
    pub fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// An error for an input file that cannot be read.
    #[must_use]
    pub fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// An error for an invalid file.
    pub fn model(path: &Path, reason: impl ToString) -> Self {
        Self::Model {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Param(_) | Self::Usage(_) | Self::Unread(_) => ErrorKind::Setting,
            Self::AfterPayment { error, .. } | Self::Unmeasured { error, .. } => error.kind(),
            Self::Budget(_) => ErrorKind::Budget,
            Self::GaussianLedger { .. }
            | Self::OtherUsers { .. }
            | Self::Nights { .. }
            | Self::Binding { .. }
            | Self::LedgerLost { .. }
            | Self::ReleasesMissing { .. }
            | Self::LedgerCut { .. }
            | Self::Releases(
                dp_mechanism::Error::FirstSeen { .. } | dp_mechanism::Error::UnpaidNight { .. },
            ) => ErrorKind::Ledger,
            Self::Data(_) | Self::Read { .. } | Self::Model { .. } => ErrorKind::Input,
            Self::Certificate { .. }
            | Self::Artifact { .. }
            | Self::NotReleased { .. }
            | Self::NotPublished { .. } => ErrorKind::Broken,
            Self::OutputExists { .. }
            | Self::NotReplaced { .. }
            | Self::Recovered { .. }
            | Self::OutputBusy { .. }
            | Self::Write { .. }
            | Self::Move { .. }
            | Self::Scratch(_)
            | Self::Print(_)
            | Self::Releases(dp_mechanism::Error::Io { .. }) => ErrorKind::Output,
            Self::Releases(_) => ErrorKind::Setting,
            Self::Accounting(error) | Self::Training(dp_multitask::Error::Accounting(error)) => {
                ErrorKind::of_accounting(error)
            }
            Self::Training(
                dp_multitask::Error::Mechanism(dp_mechanism::Error::Param(_))
                | dp_multitask::Error::Unsupported { .. },
            )
            | Self::Personalization(dp_personalize::Error::Mechanism(
                dp_mechanism::Error::Param(_),
            ))
            | Self::Federation(dp_fedsgd::Error::Mechanism(dp_mechanism::Error::Param(_)))
            | Self::Features(dp_pubfeat::Error::Mechanism(dp_mechanism::Error::Param(_))) => {
                ErrorKind::Setting
            }
            Self::Training(_)
            | Self::Personalization(_)
            | Self::Federation(_)
            | Self::Features(_)
            | Self::Json(_)
            | Self::Diverged { .. }
            | Self::Cancelled
            | Self::WorkerDone
            | Self::Audit(_) => ErrorKind::Other,
        }
    }
}

impl ErrorKind {
    /// The kind of an accountant error.
    #[must_use]
    pub const fn of_accounting(error: &AccountingError) -> Self {
        match error {
            AccountingError::Param(_)
            | AccountingError::SamplerAllowance { .. }
            | AccountingError::LedgerSuccession { .. }
            | AccountingError::TargetMissed { .. } => Self::Setting,
            AccountingError::BudgetSpent { .. } | AccountingError::ScheduleReserved { .. } => {
                Self::Budget
            }
            AccountingError::LedgerLocked { .. }
            | AccountingError::LedgerCorrupt { .. }
            | AccountingError::LedgerCutOff { .. }
            | AccountingError::LedgerMissing { .. }
            | AccountingError::LedgerExists { .. }
            | AccountingError::LedgerReplaced { .. }
            | AccountingError::LedgerClosed { .. }
            | AccountingError::LedgerVersion { .. }
            | AccountingError::LedgerMismatch { .. }
            | AccountingError::LedgerPoisoned { .. }
            | AccountingError::NotGaussian { .. }
            | AccountingError::Io { .. } => Self::Ledger,
            _ => Self::Other,
        }
    }
}

/// Text for the number of other files that are not covered.
fn uncovered(n_others: usize) -> String {
    let others = match n_others {
        0 => String::new(),
        1 => "nor is 1 other file; ".to_owned(),
        n => format!("nor are {n} other files; "),
    };
    others + "move it elsewhere, or use dp publish, which leaves it out"
}

/// The setting that determines a parameter: most have the same name.
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

impl From<dp_core::Error> for Error {
    fn from(error: dp_core::Error) -> Self {
        match error {
            dp_core::Error::Param(param) => param.into(),
            dp_core::Error::Scratch(error) => Self::Scratch(error),
            other => Self::Data(other.into()),
        }
    }
}

impl From<dp_data::Error> for Error {
    fn from(error: dp_data::Error) -> Self {
        match error {
            dp_data::Error::Core(dp_core::Error::Scratch(error)) => Self::Scratch(error),
            other => Self::Data(other),
        }
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

/// Errors of a run that do not depend on what it trains.
fn of_run(error: KernelError) -> Result<Error, KernelError> {
    match error {
        KernelError::Cancelled => Ok(Error::Cancelled),
        KernelError::Accounting(inner) => Ok(inner.into()),
        KernelError::List { .. }
        | KernelError::ListOfAnotherRun { .. }
        | KernelError::EndOfList
        | KernelError::NotResumable
        | KernelError::FirstSeen { .. }
        | KernelError::UnpaidNight { .. }
        | KernelError::Nightly { .. }
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
            dp_multitask::Error::Core(dp_core::Error::Scratch(error)) => Self::Scratch(error),
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
