use dp_core::{ParamError, ShapeError};

/// Errors of dp-mechanism. None of them depends on private data.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
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
         nothing was released"
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
    #[error("the spend `{label}` does not pay for {release}: nothing was released")]
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
         nothing was released"
    )]
    DrawCount {
        /// Label of the spend.
        label: String,
        /// Draws that the spend accounts for.
        paid: u64,
        /// Draws that the release makes.
        needed: u64,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
