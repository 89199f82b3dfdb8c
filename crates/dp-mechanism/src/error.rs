use dp_core::{ParamError, ShapeError};

/// Errors of dp-mechanism. None of them depends on private data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not match.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A kernel of dp-linalg rejected its input.
    #[error(transparent)]
    Linalg(#[from] dp_linalg::Error),
    /// The operating system provided no entropy. Nothing was released, and the spend stays spent.
    #[error("the operating system's entropy source failed; nothing was released")]
    EntropyUnavailable,
    /// The spend covers less privacy loss than the release would cause.
    #[error(
        "the spend `{label}` pays for noise multiplier {paid}, the sum was made for {grid}: \
         nothing was released; make the sum on a grid of the noise multiplier that was paid for"
    )]
    SpendTooSmall {
        /// Label of the spend.
        label: String,
        /// Noise multiplier of the spend.
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
        /// The requested kind of release.
        release: &'static str,
    },
    /// Sums over two samples that together are not one sample of all their users.
    #[error("sums over these samples do not make a sum over one sample that can be accounted for")]
    Sampling,
    /// Sums that may contain the same users: each sum bounds its users separately, so together they
    /// are not bounded.
    #[error("these sums are not known to be over different users: nothing was added")]
    SameUsers,
    /// Samples of fixed size were configured for another number of clients. The actual number is
    /// left out, because it may be secret if such samples are used by mistake.
    #[error("samples of fixed size are from {expected} clients, and the data hold another number")]
    Population {
        /// Number of clients that the samples were configured for.
        expected: usize,
    },
    /// The spend is for another number of noise draws than the release makes.
    #[error(
        "the spend `{label}` allows for {paid} noise draws, the release makes {needed}: \
         nothing was released; plan the release with as many draws"
    )]
    DrawCount {
        /// Label of the spend.
        label: String,
        /// Number of draws of the spend.
        paid: u64,
        /// Number of draws of the release.
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
    /// The spends passed to a run are not those of its plan.
    #[error(
        "the run needs {expected} spends in plan order, found {found} (first mismatch: `{label}`)"
    )]
    Spends {
        /// Number of spends required by the plan.
        expected: usize,
        /// Number of spends passed.
        found: usize,
        /// Label of the first release without its spend.
        label: String,
    },
    /// Planning, charging the budget or certifying failed.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// A list of releases that belongs to another run.
    #[error("the list of releases belongs to {what}: it is left as it is")]
    ListOfAnotherRun {
        /// What differs.
        what: &'static str,
    },
    /// A list of releases that is not consistent.
    #[error("the list of releases is not usable: {what}")]
    List {
        /// What is wrong with it.
        what: String,
    },
    /// The run ended before its next release: a replayed list has no more releases, or the
    /// coordinator stopped the worker.
    #[error("there are no more releases in the list")]
    EndOfList,
    /// A run cannot be resumed from its releases because its users keep state that depends on
    /// secret coins of earlier rounds.
    #[error(
        "the run cannot go on from a list of releases: users train only in rounds in which they are asked, and who was asked is in \
         no list; start a new run, or let everybody train in every round"
    )]
    NotResumable,
    /// The observer of the run cancelled it.
    #[error(
        "the run was cancelled; what it had released is kept, and what was paid in advance stays paid"
    )]
    Cancelled,
    /// A worker's answer that was rejected.
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
        /// How it broke.
        what: &'static str,
    },
    /// A worker was given users who belong to another shard.
    #[error("shard {shard} holds users of another shard: deal users to shards by their ids")]
    UsersOfAnotherShard {
        /// Number of the shard.
        shard: usize,
    },
    /// A client refuses a server's request.
    #[error("the client refuses: {0}")]
    Refused(crate::Refusal),
    /// A client's record of its answers cannot be used.
    #[error("{path}: not usable as a client's record: {what}")]
    ClientRecord {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The store that records when users were first seen cannot be used.
    #[error("{path}: not usable as the store of first nights: {what}")]
    FirstSeen {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it, and what to do.
        what: &'static str,
    },
    /// The list of releases holds a night that the ledger did not hand out.
    #[error(
        "the ledger did not pay for night {night}, which the list of releases holds: one of them is an older copy. Restore ledger, store of first nights and list \
         of releases from the same copy; nothing was paid or released"
    )]
    UnpaidNight {
        /// The first such night.
        night: u32,
    },
    /// A release that a run of a paced lifetime does not make, or a night of a lifetime that was
    /// requested from another kind of run.
    #[error("{what}")]
    Nightly {
        /// What was requested, and which call provides it.
        what: &'static str,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
