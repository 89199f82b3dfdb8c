//! Range checks for parameters. Every check rejects NaN, and the error names the parameter.

use crate::{ParamError, ShapeError};

fn ensure(
    holds: bool,
    name: &'static str,
    value: f64,
    expected: &'static str,
) -> Result<f64, ParamError> {
    if holds {
        Ok(value)
    } else {
        Err(ParamError::new(name, value, expected))
    }
}

/// Accepts any finite number.
///
/// # Errors
/// [`ParamError`] for NaN and infinite values.
pub fn finite(name: &'static str, value: f64) -> Result<f64, ParamError> {
    ensure(value.is_finite(), name, value, "a finite number")
}

/// Accepts finite numbers above zero.
///
/// # Errors
/// [`ParamError`] for zero, negative numbers, NaN and infinite values.
///
/// # Examples
/// ```
/// use dp_core::params::finite_positive;
/// assert!(finite_positive("clip_norm", 0.5).is_ok());
/// assert!(finite_positive("clip_norm", f64::NAN).is_err());
/// ```
pub fn finite_positive(name: &'static str, value: f64) -> Result<f64, ParamError> {
    ensure(
        value.is_finite() && value > 0.0,
        name,
        value,
        "a finite number above 0",
    )
}

/// Accepts finite numbers that are at least zero.
///
/// # Errors
/// [`ParamError`] for negative numbers, NaN and infinite values.
pub fn finite_non_negative(name: &'static str, value: f64) -> Result<f64, ParamError> {
    ensure(
        value.is_finite() && value >= 0.0,
        name,
        value,
        "a finite number, 0 or above",
    )
}

/// Accepts numbers strictly between zero and one.
///
/// # Errors
/// [`ParamError`] for anything outside the open interval, and NaN.
pub fn open_unit(name: &'static str, value: f64) -> Result<f64, ParamError> {
    ensure(
        value > 0.0 && value < 1.0,
        name,
        value,
        "a number strictly between 0 and 1",
    )
}

/// Accepts numbers from zero to one, both included.
///
/// # Errors
/// [`ParamError`] for anything outside the closed interval, and NaN.
pub fn closed_unit(name: &'static str, value: f64) -> Result<f64, ParamError> {
    ensure(
        (0.0..=1.0).contains(&value),
        name,
        value,
        "a number from 0 to 1",
    )
}

/// Accepts counts of at least one.
///
/// # Errors
/// [`ParamError`] for zero.
pub fn at_least_one(name: &'static str, value: usize) -> Result<usize, ParamError> {
    in_range(name, value, 1, usize::MAX, "a whole number, 1 or above")
}

/// Accepts counts from `low` to `high`, both included; `expected` describes the range in words.
///
/// # Errors
/// [`ParamError`] for counts outside the range.
pub fn in_range(
    name: &'static str,
    value: usize,
    low: usize,
    high: usize,
    expected: &'static str,
) -> Result<usize, ParamError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(ParamError::new(name, value as f64, expected))
    }
}

/// Accepts a size that equals `expected`; `name` says what was measured.
///
/// # Errors
/// [`ShapeError`] when the sizes differ.
pub const fn same_size(
    name: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), ShapeError> {
    if found == expected {
        return Ok(());
    }
    Err(ShapeError::new(name, found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_must_agree_and_the_error_holds_both() {
        assert!(same_size("labels", 3, 3).is_ok());
        let error = same_size("labels", 2, 3).unwrap_err();
        assert_eq!(error.to_string(), "labels has size 2; expected 3");
    }

    type Check = fn(&'static str, f64) -> Result<f64, ParamError>;

    #[test]
    fn each_range_holds_on_both_sides() {
        let tiny = f64::MIN_POSITIVE;
        let below_one = 1.0_f64.next_down();
        let table: [(Check, &[f64], &[f64]); 5] = [
            (finite, &[-1.0, 0.0, f64::MAX], &[]),
            (finite_positive, &[tiny, 3.0], &[0.0, -0.0, -tiny]),
            (finite_non_negative, &[0.0, -0.0, tiny], &[-tiny]),
            (open_unit, &[tiny, below_one], &[0.0, 1.0]),
            (closed_unit, &[0.0, 1.0], &[-tiny, 1.0_f64.next_up()]),
        ];
        for (check, good, bad) in table {
            for &v in good {
                assert_eq!(check("p", v), Ok(v));
            }
            for &v in bad {
                assert!(check("p", v).is_err(), "{v} passed");
            }
            for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                assert!(check("p", v).is_err(), "{v} passed");
            }
        }
    }

    #[test]
    fn counts_start_at_one() {
        assert_eq!(at_least_one("dim", 1), Ok(1));
        assert_eq!(
            at_least_one("dim", 0).unwrap_err().to_string(),
            "dim is 0; expected a whole number, 1 or above"
        );
        assert!(in_range("k", 5, 5, 40, "5 to 40").is_ok());
        assert!(in_range("k", 41, 5, 40, "5 to 40").is_err());
    }
}
