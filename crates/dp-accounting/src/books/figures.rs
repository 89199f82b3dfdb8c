//! Formats the numbers of a guarantee as text, rounded in the safe direction.

/// Significant digits of a printed epsilon.
const DIGITS: i32 = 5;

/// How far, relatively, a printed value may lie on the wrong side: the rounding of the accountant.
const SLACK: f64 = 1e-12;

/// At least `value`, to five significant digits.
pub fn rounded_up(value: f64) -> String {
    rounded(value * (1.0 - SLACK), f64::ceil)
}

/// At most `value`, to five significant digits.
pub fn rounded_down(value: f64) -> String {
    rounded(value * (1.0 + SLACK), f64::floor)
}

fn rounded(value: f64, toward: fn(f64) -> f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return format!("{value}");
    }
    let mut magnitude = log10_floor(value);
    // one power alone is infinite for the smallest floats
    let shift = DIGITS - 1 - magnitude;
    let first = shift.min(300);
    let mut digits = toward(value * 10_f64.powi(first) * 10_f64.powi(shift - first));
    if digits >= 10_f64.powi(DIGITS) {
        magnitude += 1;
        digits /= 10.0;
    }
    if !(-4..DIGITS).contains(&magnitude) {
        return format!("{:.4}e{magnitude}", digits / 1e4);
    }
    let decimals = DIGITS - 1 - magnitude;
    let places = usize::try_from(decimals).unwrap_or(0);
    format!("{:.places$}", digits / 10_f64.powi(decimals))
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the logarithm of a finite positive f64 lies within -324 and 309"
)]
fn log10_floor(value: f64) -> i32 {
    value.log10().floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarantee_is_never_printed_smaller_than_it_is() {
        for (value, up, down) in [
            (4.999_999_999_999_975, "5.0000", "5.0000"),
            (4.999_999_999, "5.0000", "4.9999"),
            (0.999_999_999, "1.0000", "0.99999"),
            (5.0, "5.0000", "5.0000"),
            (10.812_546_78, "10.813", "10.812"),
            (2.5, "2.5000", "2.5000"),
            (0.000_123_456, "0.00012346", "0.00012345"),
            (1.000_01e-9, "1.0001e-9", "1.0000e-9"),
            (123_456.0, "1.2346e5", "1.2345e5"),
            (1.0e-320, "9.9999e-321", "9.9998e-321"),
            (9.999_99, "10.000", "9.9999"),
            (99_999.5, "1.0000e5", "99999"),
        ] {
            assert_eq!(rounded_up(value), up);
            assert_eq!(rounded_down(value), down);
        }
        assert_eq!(rounded_up(0.0), "0");
        assert_eq!(rounded_up(f64::INFINITY), "inf");
    }
}
