use dp_core::{ParamError, ShapeError};

/// Errors of dp-personalize. None of them depends on private data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// Dimensions do not match.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// An error of the planner, ledger or certificate.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// An error of a run, its plan, its noise or one of its releases.
    #[error(transparent)]
    Mechanism(dp_mechanism::Error),
    /// A linear solve on released values failed.
    #[error(transparent)]
    Linalg(#[from] dp_linalg::Error),
}

impl From<dp_mechanism::Error> for Error {
    fn from(error: dp_mechanism::Error) -> Self {
        match error {
            dp_mechanism::Error::Accounting(error) => Self::Accounting(error),
            other => Self::Mechanism(other),
        }
    }
}

/// Result with this crate's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;
