use std::path::PathBuf;

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
    /// Planning, ledger or certificate.
    #[error(transparent)]
    Accounting(#[from] dp_accounting::Error),
    /// Settings that do not go together.
    #[error("not supported: {what}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
    /// Noise or release.
    #[error(transparent)]
    Mechanism(#[from] dp_mechanism::Error),
    /// A linear solve on released values failed.
    #[error(transparent)]
    Linalg(#[from] dp_linalg::Error),
    /// The spends handed to a fit are not those of its plan.
    #[error(
        "the fit needs {expected} spends in plan order, found {found} (first mismatch: {label})"
    )]
    Spends {
        /// Number of releases in the plan.
        expected: usize,
        /// Number of spends given.
        found: usize,
        /// Label of the first release without its spend.
        label: String,
    },
    /// A checkpoint belongs to another run.
    #[error("the checkpoint is of another run: it differs in {what}")]
    CheckpointMismatch {
        /// What differs.
        what: &'static str,
    },
    /// A file is no checkpoint.
    #[error("{} is not a checkpoint of this program, or was damaged", path.display())]
    CheckpointDamaged {
        /// The file.
        path: PathBuf,
    },
    /// Repeatable noise was asked for in a run with checkpoints.
    #[error(
        "a run with checkpoints needs noise of the operating system: seeded noise would repeat"
    )]
    SeededCheckpoint,
    /// A checkpoint could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
