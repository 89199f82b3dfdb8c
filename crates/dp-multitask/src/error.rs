use dp_core::{ParamError, ShapeError};

/// Errors of dp-multitask. None of them depends on private data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A table that cannot be made.
    #[error(transparent)]
    Core(#[from] dp_core::Error),
    /// Planning, ledger or certificate.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// Settings that do not go together.
    #[error("not supported: {what}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
    /// Noise, a release, or the course of a run.
    #[error(transparent)]
    Mechanism(dp_mechanism::Error),
    /// A linear solve on released values failed.
    #[error(transparent)]
    Linalg(#[from] dp_linalg::Error),
}

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
