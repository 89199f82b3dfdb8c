use dp_core::{ParamError, ShapeError};

/// Errors of dp-fedsgd. They depend on settings, on the shape of the input and on the number of
/// users in a table, never on the contents of users' rows. Where the number of users is private, as
/// under add/remove, the error of [`Client::new`](crate::Client::new) for a user that does not
/// exist is for the holder of the table only.
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
    /// An error of the run: its plan, spends, release list, workers or noise.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanism::Error),
}

/// Result with this crate's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;
