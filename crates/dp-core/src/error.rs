//! Typed errors shared by all crates.

/// A parameter outside its stated range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{name} is {}; expected {expected}", shown(*.value))]
pub struct ParamError {
    /// The parameter's name as the public interface spells it.
    pub name: &'static str,
    /// The value found.
    pub value: f64,
    /// What the interface accepts, in words.
    pub expected: &'static str,
}

impl ParamError {
    /// The error of one parameter.
    #[must_use]
    pub const fn new(name: &'static str, value: f64, expected: &'static str) -> Self {
        Self {
            name,
            value,
            expected,
        }
    }
}

/// As a person writes it: with an exponent where there would be many zeros.
fn shown(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && size.is_finite() && !(1e-5..1e16).contains(&size) {
        return format!("{value:e}");
    }
    value.to_string()
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

impl ShapeError {
    /// The error of one dimension.
    #[must_use]
    pub const fn new(name: &'static str, found: usize, expected: usize) -> Self {
        Self {
            name,
            found,
            expected,
        }
    }
}

/// A scratch file that cannot be made, written or read: see [`crate::Scratch`]. Which kind of failure it is follows from the disk and the
/// size of the data, not from their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot keep records in a scratch file: {kind}")]
pub struct ScratchError {
    /// Why.
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
    /// A dimension does not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Records do not go to or come from disk.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

/// Result with this crate's [`Error`].
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
