use dp_core::{ParamError, ShapeError};

/// Errors of dp-pubfeat. None of them depends on private data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A table could not be made.
    #[error(transparent)]
    Core(#[from] dp_core::Error),
    /// Planning, ledger or certificate.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// Noise or release.
    #[error(transparent)]
    Mechanism(dp_mechanism::Error),
    /// A linear solve on released values failed.
    #[error(transparent)]
    Linalg(#[from] dp_linalg::Error),
    /// Settings that do not go together.
    #[error("not supported: {what}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
    /// Training on released values left the finite numbers: too large a step, or raw matrices run for
    /// too long. What was paid stays paid.
    #[error("training diverged: take smaller or fewer steps, project the matrices, or add a ridge")]
    Diverged,
}

/// What went wrong in the books is [`Error::Accounting`], whichever crate came upon it.
impl From<dp_mechanism::Error> for Error {
    fn from(error: dp_mechanism::Error) -> Self {
        match error {
            dp_mechanism::Error::Accounting(inner) => Self::Accounting(inner),
            other => Self::Mechanism(other),
        }
    }
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
