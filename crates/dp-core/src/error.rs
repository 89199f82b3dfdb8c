//! Typed errors shared by all crates.

/// A parameter outside its stated range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{name} is {}; expected {expected}", shown(*.value))]
pub struct ParamError {
    /// The parameter's name as it appears in the public interface.
    pub name: &'static str,
    /// The value that was passed.
    pub value: f64,
    /// The accepted values, in words.
    pub expected: &'static str,
}

impl ParamError {
    /// Creates the error for one parameter.
    #[must_use]
    pub const fn new(name: &'static str, value: f64, expected: &'static str) -> Self {
        Self {
            name,
            value,
            expected,
        }
    }
}

/// Formats a number for reading, with an exponent where it would otherwise have many zeros.
fn shown(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && size.is_finite() && !(1e-5..1e16).contains(&size) {
        return format!("{value:e}");
    }
    value.to_string()
}

/// A dimension that does not match the one it must agree with. Dimensions count as public.
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

impl ShapeError {
    /// Creates the error for one dimension.
    #[must_use]
    pub const fn new(name: &'static str, found: usize, expected: usize) -> Self {
        Self {
            name,
            found,
            expected,
        }
    }
}

/// A scratch file that cannot be created, written or read (see [`crate::Scratch`]). The kind of
/// failure depends on the disk and on the size of the data, not on the values in the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot keep records in a scratch file: {kind}")]
pub struct ScratchError {
    /// The kind of I/O failure.
    pub kind: std::io::ErrorKind,
}

impl From<std::io::Error> for ScratchError {
    fn from(error: std::io::Error) -> Self {
        Self { kind: error.kind() }
    }
}

/// Errors of dp-core.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A dimension does not match.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Records cannot be written to or read from disk.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

/// `Result` with this crate's [`Error`] as the default error type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_and_huge_values_are_short() {
        let said = |value: f64| ParamError::new("x", value, "1").to_string();
        for (value, text) in [
            (0.0, "0"),
            (1e9, "1000000000"),
            (-0.5, "-0.5"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
            (-1e-320, "-1e-320"),
            (1e308, "1e308"),
        ] {
            assert_eq!(said(value), format!("x is {text}; expected 1"));
        }
    }
}
