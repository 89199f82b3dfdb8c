use dp_core::params::same_size;
use dp_core::{ParamError, ShapeError};

/// Errors of dp-linalg.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A slice's length does not match the dimension.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A gathered index is beyond the last row. The index is not reported, because indices may be
    /// private.
    #[error("an index is out of range; expected all below {n_rows}")]
    IndexOutOfRange {
        /// Number of rows.
        n_rows: usize,
    },
    /// A list that must be increasing is not.
    #[error("{name} is not sorted in increasing order")]
    NotSorted {
        /// What was checked.
        name: &'static str,
    },
    /// The pivot was zero, negative, infinite or NaN: the matrix has no Cholesky factor.
    #[error("matrix is not positive definite at pivot {pivot}")]
    NotPositiveDefinite {
        /// Zero-based position of the pivot on the diagonal.
        pivot: usize,
    },
    /// An input contains NaN or an infinity.
    #[error("{name} has an entry that is not finite")]
    NotFinite {
        /// Which input.
        name: &'static str,
    },
    /// The eigenvalue iteration stopped before it converged.
    #[error("eigenvalues of a matrix of dimension {dim} did not converge")]
    NotConverged {
        /// Dimension of the matrix.
        dim: usize,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Fails with [`ShapeError`] unless `found` is `expected`.
pub(crate) fn check_len(name: &'static str, found: usize, expected: usize) -> Result<()> {
    Ok(same_size(name, found, expected)?)
}
