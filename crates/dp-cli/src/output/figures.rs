//! Numbers of a guarantee as text: never smaller than they are.

/// Significant digits of a printed epsilon.
const DIGITS: i32 = 5;

/// At least `value`, to five significant digits.
pub(crate) fn rounded_up(value: f64) -> String {
    rounded(value, f64::ceil)
}

/// At most `value`, to five significant digits.
pub(crate) fn rounded_down(value: f64) -> String {
    rounded(value, f64::floor)
}

fn rounded(value: f64, toward: fn(f64) -> f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return format!("{value}");
    }
    let magnitude = log10_floor(value);
    if !(-4..=4).contains(&magnitude) {
        let scale = 10_f64.powi(magnitude);
        let digits = toward(value / scale * 1e4) / 1e4;
        return format!("{digits:.4}e{magnitude}");
    }
    let decimals = DIGITS - 1 - magnitude;
    let scale = 10_f64.powi(decimals);
    let places = usize::try_from(decimals).unwrap_or(0);
    format!("{:.places$}", toward(value * scale) / scale)
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
            (4.999_999_999_999_975, "5.0000", "4.9999"),
            (5.0, "5.0000", "5.0000"),
            (10.812_546_78, "10.813", "10.812"),
            (2.5, "2.5000", "2.5000"),
            (0.000_123_456, "0.00012346", "0.00012345"),
            (1.000_01e-9, "1.0001e-9", "1.0000e-9"),
            (123_456.0, "1.2346e5", "1.2345e5"),
            (9.999_99, "10.0000", "9.9999"),
        ] {
            assert_eq!(rounded_up(value), up);
            assert_eq!(rounded_down(value), down);
        }
        assert_eq!(rounded_up(0.0), "0");
        assert_eq!(rounded_up(f64::INFINITY), "inf");
    }
}
