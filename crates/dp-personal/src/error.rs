//! What a workflow can fail with.

use std::path::{Path, PathBuf};

use dp_accounting::Error as AccountingError;
use dp_core::{ApproxDp, ParamError};
use dp_mechanism::Error as KernelError;

use crate::output::rounded_down;
use crate::settings::Unread;

/// Everything a workflow can fail with; [`kind`](Self::kind) says of which kind it is.
///
/// Errors about settings name them as [`crate::settings`] does: as the name of a [`ParamError`], and between backticks in
/// [`Self::Usage`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting out of range.
    #[error(transparent)]
    Param(ParamError),
    /// Settings that do not go together, or do not fit the data's public side. Every word between backticks is the name
    /// of a setting.
    #[error("{0}")]
    Usage(String),
    /// A setting that is missing or cannot be read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The caller asked for an end, before anything was paid.
    #[error("cancelled")]
    Cancelled,
    /// The end of a worker's part in a run: it has sent its sums, and the coordinator writes what is released.
    #[error("the worker has sent its sums; its coordinator writes the model")]
    WorkerDone,
    /// A run that failed or was cancelled after it had paid.
    #[error("{error}; the budget that the run paid stays spent: {}", next_step(*resumable))]
    AfterPayment {
        /// What ended it.
        #[source]
        error: Box<Self>,
        /// Whether a run with `resume` goes on from what was released.
        resumable: bool,
    },
    /// A run whose released steps did not settle. Told by releases alone.
    #[error(
        "the run diverged: its released steps are large and oscillate, or are not finite. Its budget is spent, and {} holds what was \
         released with its certificate, but do not use the shared part. Give a smaller `learning_rate`, or leave it out: the default follows from a bound on the \
         curvature",
        model.display()
    )]
    Diverged {
        /// Where the release is.
        model: PathBuf,
    },
    /// A model whose releases its ledger lacks: the budget that they cost would be spent a second time.
    #[error(
        "the ledger {} lacks releases of the model in {}: {source}; do not publish the model until the newest version of the \
         ledger has been restored",
        ledger.display(), model.display()
    )]
    ReleasesMissing {
        /// The ledger.
        ledger: PathBuf,
        /// Where the model is.
        model: PathBuf,
        /// What the ledger lacks, or why it cannot be asked.
        source: Box<AccountingError>,
    },
    /// An input file that cannot be read.
    #[error(transparent)]
    Data(dp_data::Error),
    /// Records that do not go to disk, or do not come from there: the folder is full, or gone.
    #[error("{0}; nothing was paid this time")]
    Scratch(dp_core::ScratchError),
    /// A plan that cannot be made, or a ledger that cannot be used.
    #[error(transparent)]
    Accounting(AccountingError),
    /// A run that its ledger cannot pay for.
    #[error(transparent)]
    Budget(Box<Shortfall>),
    /// A ledger that counts Gaussian releases alone, for a run that has others.
    #[error(
        "the ledger {} {} only Gaussian releases, and this run samples users or chooses among models; nothing was paid",
        ledger.display(), if *is_new { "would count" } else { "counts" }
    )]
    GaussianLedger {
        /// The ledger.
        ledger: PathBuf,
        /// Whether it was to be made.
        is_new: bool,
    },
    /// A ledger of other data, by their users. Told to the operator alone: it rests on private records.
    #[error(
        "fewer than half of the users match those that the ledger {} was charged for; nothing was paid or released",
        ledger.display()
    )]
    OtherUsers {
        /// The ledger.
        ledger: PathBuf,
    },
    /// Nights that cannot go on with these users or this ledger.
    #[error("{}: {reason}; nothing was paid or released", state.display())]
    Nights {
        /// The folder of the nights.
        state: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// The files beside a ledger that say which data it belongs to are missing, damaged or of another ledger.
    #[error("the ledger {} cannot be used: {reason}", ledger.display())]
    Binding {
        /// The ledger.
        ledger: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A ledger that is gone while the files beside it are there.
    #[error(
        "there is no ledger {}, but {} records which users it was charged for: restore the ledger from a backup, since a new one \
         would not know what was spent; if nothing was ever released, delete that file",
        ledger.display(), users.display()
    )]
    LedgerLost {
        /// The ledger.
        ledger: PathBuf,
        /// What is left of it.
        users: PathBuf,
    },
    /// A ledger that has forgotten releases which the file beside it remembers.
    #[error(
        "the ledger {} was truncated or is an older copy: {} records payments that are missing from it; nothing was paid or released",
        ledger.display(), users.display()
    )]
    LedgerCut {
        /// The ledger.
        ledger: PathBuf,
        /// What remembers more.
        users: PathBuf,
    },
    /// A certificate whose figures do not follow from its releases.
    #[error("{}: the certificate does not hold: {source}", path.display())]
    Certificate {
        /// The certificate.
        path: PathBuf,
        /// What does not hold.
        source: AccountingError,
    },
    /// A file that is not the one its certificate was issued for.
    #[error("{} is not the file that the certificate was issued for: {reason}", path.display())]
    Artifact {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A file in a folder of released files that no certificate covers.
    #[error(
        "{} is not covered by the certificate, {}",
        path.display(), uncovered(*n_others)
    )]
    NotReleased {
        /// The file.
        path: PathBuf,
        /// How many others there are.
        n_others: usize,
    },
    /// A model that nothing may be published of.
    #[error("{}: intact, but it promises no privacy: {reason}; nothing was published", path.display())]
    NotPublished {
        /// The certificate.
        path: PathBuf,
        /// Why it promises none.
        reason: String,
    },
    /// A list of releases that cannot be read or gone on with, or is of another run.
    #[error(transparent)]
    Releases(dp_mechanism::Error),
    /// Training factors failed.
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
    /// A file of a model, or an input beside the data, that is not what it should be.
    #[error("{}: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An audit that ended without a result.
    #[error("the audit could not be carried out: {0}")]
    Audit(dp_audit::Error),
    /// Output that is there and is not to be replaced.
    #[error("{} exists and is not replaced", path.display())]
    OutputExists {
        /// The output.
        path: PathBuf,
    },
    /// Output in whose place something stands that no run left there, or that holds a ledger.
    #[error("{} is not replaced: {reason}", path.display())]
    NotReplaced {
        /// The output.
        path: PathBuf,
        /// What is there.
        reason: String,
    },
    /// Output of an earlier run, which ended between payment and its last file, was put in its place.
    #[error(
        "an earlier run paid for its model and wrote it, but ended before moving it into place; the model is now in {}, without figures on \
         held-out data, and nothing was paid this time",
        path.display()
    )]
    Recovered {
        /// The output.
        path: PathBuf,
    },
    /// Output that another process is writing.
    #[error("another run is currently writing to {}", path.display())]
    OutputBusy {
        /// The output.
        path: PathBuf,
    },
    /// Output that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Output that is complete but not in its place.
    #[error(
        "cannot move the finished output to {}: {source}; it is complete in {}",
        target.display(), kept.display()
    )]
    Move {
        /// Where it should be.
        target: PathBuf,
        /// Where it is.
        kept: PathBuf,
        /// Why it is not there.
        source: std::io::Error,
    },
    /// An input file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A result that cannot be written as text.
    #[error("cannot print the result: {0}")]
    Print(#[from] std::io::Error),
    /// A result that cannot be written as JSON.
    #[error("cannot write the result as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The result of a workflow.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors, by what whoever runs it can do about them. The numbers are those of exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ErrorKind {
    /// Anything not listed below.
    Other = 1,
    /// A bad setting; nothing was read, spent or written.
    Setting = 2,
    /// The ledger's budget does not allow the run; nothing was released.
    Budget = 3,
    /// An input file is missing or malformed.
    Input = 4,
    /// The ledger is in use by another process, belongs to something else, or is damaged.
    Ledger = 5,
    /// A certificate does not hold.
    Broken = 6,
    /// Output could not be written.
    Output = 7,
    /// An audit had too little power to find anything.
    Inconclusive = 8,
    /// A model was released that is worse than a free baseline, and the caller asked to be told.
    Worse = 9,
}

/// How a run that has paid is continued.
const fn next_step(resumable: bool) -> &'static str {
    if resumable {
        "run the same command with `resume` to continue from what it has released"
    } else {
        "a new run has to be paid for again"
    }
}

/// A run that its ledger cannot pay for, in epsilon at the delta of the run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{ledger} does not cover this run; nothing was released\n  \
     asked   epsilon {}, delta {:e}\n  \
     left    epsilon {}, delta {:e}{}\n  \
     budget  epsilon {}, delta {:e}, for all runs on `{data_set}`; {n_releases} releases so far",
    asked.epsilon, asked.delta, rounded_down(*left), asked.delta,
    if needed.is_some() { " in Gaussian releases" } else { "" }, total.epsilon, total.delta
)]
pub struct Shortfall {
    /// The ledger, in words.
    pub ledger: String,
    /// The name of the data set.
    pub data_set: String,
    /// What the run would cost.
    pub asked: ApproxDp,
    /// Epsilon at the delta of the run, of Gaussian releases.
    pub left: f64,
    /// Of a run with other releases than Gaussian ones: the total epsilon of a ledger that would pay for it.
    pub needed: Option<f64>,
    /// The budget of all runs.
    pub total: ApproxDp,
    /// Releases paid for so far.
    pub n_releases: u64,
}

impl Error {
    /// Output that cannot be written.
    #[must_use]
    pub fn write(path: &Path, source: std::io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// An input file that cannot be read.
    #[must_use]
    pub fn read(path: &Path, source: std::io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// A file that is not what it should be.
    pub fn model(path: &Path, reason: impl ToString) -> Self {
        Self::Model {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Of which kind it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Param(_) | Self::Usage(_) | Self::Unread(_) => ErrorKind::Setting,
            Self::AfterPayment { error, .. } => error.kind(),
            Self::Budget(_) => ErrorKind::Budget,
            Self::GaussianLedger { .. }
            | Self::OtherUsers { .. }
            | Self::Nights { .. }
            | Self::Binding { .. }
            | Self::LedgerLost { .. }
            | Self::ReleasesMissing { .. }
            | Self::LedgerCut { .. }
            | Self::Releases(dp_mechanism::Error::FirstSeen { .. }) => ErrorKind::Ledger,
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
    /// Of which kind an error of the accountant is.
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

/// How many files are not covered either.
fn uncovered(n_others: usize) -> String {
    let others = match n_others {
        0 => String::new(),
        1 => "nor is 1 other file; ".to_owned(),
        n => format!("nor are {n} other files; "),
    };
    others + "move it elsewhere, or use dp publish, which leaves it out"
}

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

/// Errors of a run that are the same whatever it trains.
fn of_run(error: KernelError) -> Result<Error, KernelError> {
    match error {
        KernelError::Cancelled => Ok(Error::Cancelled),
        KernelError::Accounting(inner) => Ok(inner.into()),
        KernelError::List { .. }
        | KernelError::ListOfAnotherRun { .. }
        | KernelError::EndOfList
        | KernelError::NotResumable
        | KernelError::FirstSeen { .. }
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
