use dp_core::{ParamError, ShapeError};

/// Errors of dp-fedsgd. They depend on settings, on the shape of what was handed over and on the number of users in a table, never on what
/// the users' rows say. Where the number of users is private, as under add/remove, what [`Client::new`](crate::Client::new) says of a user that is not there is for
/// whoever holds the table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Planning, ledger or certificate.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// The run: its plan, spends, list of releases, workers or noise.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanism::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
