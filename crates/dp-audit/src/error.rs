use dp_core::{ParamError, ShapeError};

/// Errors of dp-audit: the audit itself could not be carried out. The result of an audit is a
/// [`Verdict`](crate::Verdict), not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not match.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Planning or charging the budget failed.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// A release failed.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanism::Error),
    /// Data for the audit could not be built.
    #[error(transparent)]
    Data(#[from] dp_core::Error),
    /// The trainer under audit failed.
    #[error("the trainer under audit failed: {0}")]
    Trainer(Box<dyn std::error::Error + Send + Sync>),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
