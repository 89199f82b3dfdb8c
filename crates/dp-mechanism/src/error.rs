use dp_core::{ParamError, ShapeError};

/// Errors of dp-mechanism. None of them depends on private data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A kernel of dp-linalg refused its input.
    #[error(transparent)]
    Linalg(#[from] dp_linalg::Error),
    /// The operating system gave no entropy; nothing was released, and the spend stays spent.
    #[error("the operating system's entropy source failed; nothing was released")]
    EntropyUnavailable,
    /// The spend pays for less privacy loss than the release would cause.
    #[error(
        "the spend `{label}` pays for noise multiplier {paid}, the sum was made for {grid}: \
         nothing was released; make the sum on a grid of the noise multiplier that was paid for"
    )]
    SpendTooSmall {
        /// Label of the spend.
        label: String,
        /// Noise multiplier that the spend accounts for.
        paid: f64,
        /// Noise multiplier of the sum's grid.
        grid: f64,
    },
    /// The spend is for another kind of mechanism than the one released.
    #[error(
        "the spend `{label}` does not pay for {release}: nothing was released; hand over the spends of the plan in its order"
    )]
    WrongSpend {
        /// Label of the spend.
        label: String,
        /// The kind of release that was asked for.
        release: &'static str,
    },
    /// Sums over two samples that are not one sample of all their users.
    #[error("sums over these samples do not make a sum over one sample that can be accounted for")]
    Sampling,
    /// Sums that may hold the same users: each bounded them anew, so together they are not bounded.
    #[error("these sums are not known to be over different users: nothing was added")]
    SameUsers,
    /// Samples of fixed size are from another number of clients than there are. The number that there
    /// are is left out: who uses such samples by mistake may have to keep it secret.
    #[error("samples of fixed size are from {expected} clients, and the data hold another number")]
    Population {
        /// Clients that the samples are from.
        expected: usize,
    },
    /// The spend allows for another number of noise draws than the release makes.
    #[error(
        "the spend `{label}` allows for {paid} noise draws, the release makes {needed}: \
         nothing was released; plan the release with as many draws"
    )]
    DrawCount {
        /// Label of the spend.
        label: String,
        /// Draws that the spend accounts for.
        paid: u64,
        /// Draws that the release makes.
        needed: u64,
    },
    /// A plan that was made for other settings, or for data of another width.
    #[error(
        "the plan does not fit the settings or the data (first difference: release `{label}`): nothing was released"
    )]
    Plan {
        /// Label of the first release that differs.
        label: String,
    },
    /// The spends handed to a run are not those of its plan.
    #[error(
        "the run needs {expected} spends in plan order, found {found} (first mismatch: `{label}`)"
    )]
    Spends {
        /// Number of spends that the plan asks for.
        expected: usize,
        /// Number of spends given.
        found: usize,
        /// Label of the first release without its spend.
        label: String,
    },
    /// Planning, paying or certifying failed.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// A list of releases that belongs to another run.
    #[error("the list of releases belongs to {what}: it is left as it is")]
    ListOfAnotherRun {
        /// What differs.
        what: &'static str,
    },
    /// A list of releases that does not hold together.
    #[error("the list of releases is not usable: {what}")]
    List {
        /// What is wrong with it.
        what: String,
    },
    /// The run ended before its next release: a replayed list has no more, or the coordinator ended the worker.
    #[error("there are no more releases in the list")]
    EndOfList,
    /// A run whose users keep state that depends on secret coins of earlier rounds has releases to go on from.
    #[error(
        "the run cannot go on from a list of releases: users train only in rounds in which they are asked, and who was asked is in \
         no list; start a new run, or let everybody train in every round"
    )]
    NotResumable,
    /// Whoever observes the run ended it.
    #[error(
        "the run was cancelled; what it had released is kept, and what was paid in advance stays paid"
    )]
    Cancelled,
    /// An answer of a worker that does not count.
    #[error("the answer of shard {shard} does not count: {what}")]
    Answer {
        /// Number of the shard.
        shard: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The link between coordinator and worker broke.
    #[error("the link between coordinator and worker broke: {what}")]
    Link {
        /// How.
        what: &'static str,
    },
    /// A worker was given users who belong to another shard.
    #[error("shard {shard} holds users of another shard: deal users to shards by their ids")]
    UsersOfAnotherShard {
        /// Number of the shard.
        shard: usize,
    },
    /// A client takes no part in what a server asks for.
    #[error("the client refuses: {0}")]
    Refused(crate::Refusal),
    /// A client's record of what it answered cannot be used.
    #[error("{path}: not usable as a client's record: {what}")]
    ClientRecord {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The store that says when users were first seen cannot be used.
    #[error("{path}: not usable as the store of first nights: {what}")]
    FirstSeen {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it, and what to do.
        what: &'static str,
    },
    /// A release that a run of a paced lifetime does not make, or another run was asked for one of its nights.
    #[error("{what}")]
    Nightly {
        /// What was asked for, and where it can be had.
        what: &'static str,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
