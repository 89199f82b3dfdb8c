//! Typed errors of this crate.

use std::fmt;
use std::path::PathBuf;

use dp_core::{Adjacency, ParamError};
use serde::Serialize;

/// Errors of dp-accounting. No message contains data; labels, identifiers and paths are chosen by
/// the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// An event has no guarantee, so it has no cost that could be counted.
    #[error("the event carries no privacy guarantee and cannot be accounted for")]
    NonPrivateEvent,
    /// The accountant does not support the event, or does not support it under this adjacency.
    #[error("{accountant} has no answer for {event} under {adjacency}")]
    UnsupportedEvent {
        /// The event's name in files.
        event: &'static str,
        /// The accountant that rejected the event.
        accountant: &'static str,
        /// The requested adjacency.
        adjacency: Adjacency,
    },
    /// Nothing was composed, so there is no guarantee to compute.
    #[error("nothing was composed, so there is no guarantee to state")]
    NothingComposed,
    /// The mechanisms fail completely with a probability above delta.
    #[error(
        "no epsilon is finite at delta {delta}: the mechanisms fail with probability {infinite_mass}"
    )]
    NoFiniteEpsilon {
        /// The requested delta.
        delta: f64,
        /// Probability of an infinite privacy loss.
        infinite_mass: f64,
    },
    /// No parameter in the range that was searched meets the target.
    #[error("epsilon {epsilon} at delta {delta} is out of reach, even with {nearest}")]
    TargetOutOfReach {
        /// The target's epsilon.
        epsilon: f64,
        /// The target's delta.
        delta: f64,
        /// The parameter that came closest.
        nearest: f64,
    },
    /// A numerical method cannot answer within its limits; another one may.
    #[error("{method} cannot answer here: {reason}")]
    NotCertified {
        /// The method.
        method: &'static str,
        /// Which limit was reached.
        reason: &'static str,
    },
    /// Two objects that must have the same adjacency do not.
    #[error("the plan is for {found}, the ledger for {expected}")]
    AdjacencyMismatch {
        /// The plan's adjacency.
        found: Adjacency,
        /// The ledger's adjacency.
        expected: Adjacency,
    },
    /// More noise draws than the part of delta set aside for the sampler can cover.
    #[error("{n_draws} noise draws exceed the {allowed} that the reserve of delta covers")]
    SamplerAllowance {
        /// Total number of draws requested.
        n_draws: u64,
        /// Largest number covered at this epsilon and delta.
        allowed: u64,
    },
    /// Rounding could not be kept within the target, because the shares span more than f64 can
    /// represent.
    #[error("the calibrated noise costs mu^2 = {mu_squared}, above the allowed {allowed}")]
    TargetMissed {
        /// Recomputed cost.
        mu_squared: f64,
        /// Cost that the target allows.
        allowed: f64,
    },
    /// The budget does not suffice; nothing was written or counted.
    #[error(
        "budget spent: {requested} is asked for, {spent} of {budget} is already spent ({measure})"
    )]
    BudgetSpent {
        /// The requested cost.
        requested: f64,
        /// Cost of everything charged so far.
        spent: f64,
        /// Cost that the budget allows.
        budget: f64,
        /// The measure of the three values.
        measure: Measure,
    },
    /// The ledger is for one whole schedule, which has already been reserved.
    #[error("the ledger paid for its one schedule already: {n_releases} releases are reserved{}", if *n_releases == 0 { ", and the remains of an interrupted line are counted" } else { "" })]
    ScheduleReserved {
        /// Releases reserved, without the remains of an interrupted line.
        n_releases: u64,
    },
    /// A held release was already handed out; a release is made only once.
    #[error("release {label} was taken already; each held release is handed out once")]
    AlreadyTaken {
        /// The label that the plan gave the release.
        label: String,
    },
    /// Only a part of the schedule was to be reserved from a ledger for one schedule.
    #[error("a ledger for one schedule pays for it whole, and not for a part of it")]
    ScheduleInParts,
    /// The ledger holds no such release.
    #[error("the ledger does not hold release {release}: {reason}")]
    NotHeld {
        /// The release's id, or its number in the reservation.
        release: String,
        /// The reason.
        reason: &'static str,
    },
    /// A plan that cannot be reserved as a paced lifetime.
    #[error("this plan pays for no paced lifetime: {reason}")]
    LifetimePlan {
        /// The reason, and what to plan instead.
        reason: &'static str,
    },
    /// The ledger holds no such lifetime.
    #[error(
        "the ledger holds no paced lifetime {release} ({reason}): name the ledger and the release id with which it was begun"
    )]
    NotALifetime {
        /// The requested id.
        release: String,
        /// The reason.
        reason: &'static str,
    },
    /// A night that was handed out before, or that is before the last one handed out.
    #[error(
        "night {night} is not after night {last}, the last one that was paid for, and no night is made twice: \
         go on with a later night; if the clock was set back, wait until it has passed night {last}"
    )]
    NightPassed {
        /// The requested night.
        night: u32,
        /// The last night handed out.
        last: u32,
    },
    /// The ledger names another store of first nights than the one that was changed.
    #[error(
        "another program made a night or erased somebody meanwhile, so the store of first nights that this night was prepared with is old: \
         open ledger and lifetime again"
    )]
    FirstSeenChanged,
    /// The noise draws reserved for a lifetime are used up.
    #[error(
        "the night needs {asked} noise draws, and {left} of those reserved for the lifetime are left: \
         release fewer coordinates, or reserve a new lifetime with more nights or coordinates from what is left of the budget"
    )]
    NightDraws {
        /// Draws of the night.
        asked: u64,
        /// Draws left.
        left: u64,
    },
    /// The ledger's file has a version that does not support held releases.
    #[error(
        "a ledger file of version {found} cannot hold releases, which needs version {needed}: \
         pay with `reserve`, or start a new file with what is left of the budget"
    )]
    CannotHold {
        /// The file's version.
        found: u32,
        /// First version that supports them.
        needed: u32,
    },
    /// Something has no value in terms of Gaussian differential privacy, because it is not
    /// Gaussian.
    #[error("{what} is not Gaussian")]
    NotGaussian {
        /// The release, plan or ledger concerned.
        what: String,
    },
    /// A certificate claims a release that was never charged to the ledger.
    #[error("the ledger does not hold release {label} of the certificate: {reason}")]
    NotInLedger {
        /// The label of the release in the certificate.
        label: String,
        /// What disagrees.
        reason: &'static str,
    },
    /// Another process, or another handle in this one, holds the ledger.
    #[error("ledger {} is in use by another writer", path.display())]
    LedgerLocked {
        /// The ledger file.
        path: PathBuf,
    },
    /// There is no ledger at the path. One is created only on explicit request.
    #[error("there is no ledger {}", path.display())]
    LedgerMissing {
        /// The path.
        path: PathBuf,
    },
    /// A ledger was to be created where a file already exists.
    #[error("{} exists already; a new ledger never takes the place of a file", path.display())]
    LedgerExists {
        /// The file.
        path: PathBuf,
    },
    /// The file is empty or breaks off in its first line. Ledgers get their name only when they are
    /// complete, so something emptied or truncated it, and what was spent from it is unknown.
    #[error(
        "ledger {} is empty or cut off in its first line ({length} bytes): what was spent from it is unknown",
        path.display()
    )]
    LedgerCutOff {
        /// The ledger file.
        path: PathBuf,
        /// Number of bytes left.
        length: usize,
    },
    /// The ledger's path names another file than the one that was opened, or the file was changed
    /// by another program. No spend was handed out.
    #[error("ledger {} was replaced or changed while it was open: {reason}", path.display())]
    LedgerReplaced {
        /// The ledger file.
        path: PathBuf,
        /// What was found.
        reason: &'static str,
    },
    /// The spends of this ledger are continued in another one, and this one accepts no more
    /// charges.
    #[error("ledger {} is closed: its spends go on in {successor}", path.display())]
    LedgerClosed {
        /// The ledger file.
        path: PathBuf,
        /// Name of the other ledger's file.
        successor: String,
    },
    /// The ledger's file has a version that does not support what is to be written.
    #[error(
        "a ledger file of version {found} has no {what}, which version {needed} has; upgrade it first"
    )]
    LedgerVersion {
        /// The file's version.
        found: u32,
        /// First version that supports it.
        needed: u32,
        /// What is to be written.
        what: &'static str,
    },
    /// No ledger of this kind and budget can take over from these ledgers.
    #[error("no ledger of {kind} with epsilon {epsilon} and delta {delta} can take over: {reason}")]
    LedgerSuccession {
        /// How the new ledger would count spending.
        kind: crate::BudgetKind,
        /// Its epsilon.
        epsilon: f64,
        /// Its delta.
        delta: f64,
        /// The reason.
        reason: String,
    },
    /// The operating system provided no random bytes.
    #[error("the operating system gave no random bytes")]
    EntropyUnavailable,
    /// A line of the ledger is malformed or breaks the hash chain.
    #[error("ledger {} is damaged at line {line}", path.display())]
    LedgerCorrupt {
        /// The ledger file.
        path: PathBuf,
        /// First bad line, counted from 1.
        line: usize,
    },
    /// The ledger exists and was created for something else.
    #[error("the ledger {} was created with {} {found}, and this run has {expected}", path.display(), field.replace('_', " "))]
    LedgerMismatch {
        /// The ledger file.
        path: PathBuf,
        /// What differs: `schema_version`, `filter`, `data_set`, `adjacency`, `epsilon` or `delta`.
        field: &'static str,
        /// The file's value.
        found: String,
        /// The caller's value.
        expected: String,
    },
    /// An earlier write failed, so the contents of the disk are unknown until the ledger is opened
    /// again.
    #[error("ledger {} failed to write earlier; open it again", path.display())]
    LedgerPoisoned {
        /// The ledger file.
        path: PathBuf,
    },
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file concerned.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A certificate of a private run that lists no release.
    #[error("a certificate of a private run needs at least one release")]
    NothingReleased,
    /// The text is not a certificate.
    #[error("not a certificate: {0}")]
    CertificateSyntax(#[source] serde_json::Error),
    /// The certificate has a layout version that is not supported.
    #[error("certificate schema {found} is unknown; this version reads up to {supported}")]
    CertificateSchema {
        /// Version in the text.
        found: u32,
        /// Newest version that this crate reads.
        supported: u32,
    },
    /// The text is not what this crate writes: a number, name or order was edited.
    #[error("the certificate is not in the form it was written in; it was edited")]
    CertificateEdited,
    /// A field disagrees with what follows from the events.
    #[error("certificate field {field}: claimed {claimed}, recomputed {recomputed}")]
    CertificateMismatch {
        /// Name of the field.
        field: &'static str,
        /// The value in the certificate.
        claimed: String,
        /// The value that follows from its events, or from the plan.
        recomputed: String,
    },
}

/// The measure in which a budget or a balance is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// mu^2 of Gaussian differential privacy.
    MuSquared,
    /// Renyi divergence of the budget's order, in nats.
    Rdp,
    /// Epsilon of a whole schedule at the budget's delta, in nats.
    Epsilon,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MuSquared => "mu^2",
            Self::Rdp => "Renyi divergence",
            Self::Epsilon => "epsilon",
        })
    }
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
