//! Typed errors shared by all crates.

/// A parameter outside its stated range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{name} is {value}; expected {expected}")]
pub struct ParamError {
    /// The parameter's name as the public interface spells it.
    pub name: &'static str,
    /// The value found.
    pub value: f64,
    /// What the interface accepts, in words.
    pub expected: &'static str,
}

/// A dimension that does not fit its partner. Dimensions count as public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} has size {found}; expected {expected}")]
pub struct ShapeError {
    /// What was measured.
    pub name: &'static str,
    /// The size found.
    pub found: usize,
    /// The size expected.
    pub expected: usize,
}

/// Errors of dp-core.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
