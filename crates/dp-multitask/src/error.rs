use dp_core::{ParamError, ShapeError};

/// Errors of dp-multitask. None of them depends on private data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// Dimensions do not match.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A table cannot be built.
    #[error(transparent)]
    Core(#[from] dp_core::Error),
    /// An error of the planner, ledger or certificate.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// An unsupported combination of settings.
    #[error("not supported: {what}")]
    Unsupported {
        /// The requested combination.
        what: &'static str,
    },
    /// An error of the noise, a release, or the run.
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

/// Result with this crate's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;
