//! Formats answers of the accountants: values rounded to the safe side, and the widths of their
//! brackets.

use dp_accounting::questions::{Answer, Quantity};

/// Significant digits after the first.
const DIGITS: i32 = 6;

/// Widths below this are rounding errors of the accountant.
const EXACT: f64 = 1e-11;

/// Formats a number that is at least `value`, with seven significant digits.
pub(crate) fn at_least(value: f64) -> String {
    let (text, nearest) = nearest(value);
    if nearest < value {
        stepped(value, 1.0)
    } else {
        text
    }
}

/// Formats a number that is at most `value`, with seven significant digits.
pub(crate) fn at_most(value: f64) -> String {
    let (text, nearest) = nearest(value);
    if nearest > value {
        stepped(value, -1.0)
    } else {
        text
    }
}

fn nearest(value: f64) -> (String, f64) {
    let text = plain(format!("{value:.6e}"));
    let nearest = text.parse().unwrap_or(value);
    (text, nearest)
}

/// The nearest number with seven digits, moved by one unit in the last digit. Below a power of ten,
/// the numbers with seven digits are ten times closer to each other.
fn stepped(value: f64, sign: f64) -> String {
    let scientific = format!("{value:.6e}");
    let nearest: f64 = scientific.parse().unwrap_or(value);
    let from_power =
        scientific.trim_start_matches('-').starts_with("1.000000") && nearest.abs() > value.abs();
    let last = exponent(&scientific) - DIGITS - i32::from(from_power);
    let unit: f64 = format!("1e{last}").parse().unwrap_or(0.0);
    plain(format!("{:.6e}", nearest + sign * unit))
}

fn exponent(scientific: &str) -> i32 {
    let (_, exponent) = scientific.split_once('e').unwrap_or(("", "0"));
    exponent.parse().unwrap_or(0)
}

/// Formats numbers of ordinary magnitude without an exponent.
fn plain(scientific: String) -> String {
    let exponent = exponent(&scientific);
    if scientific
        .trim_start_matches(['-', '0', '.'])
        .starts_with('e')
    {
        return "0".to_owned();
    }
    if !(-4..=DIGITS).contains(&exponent) {
        return scientific;
    }
    let places = usize::try_from(DIGITS - exponent).unwrap_or(0);
    let value: f64 = scientific.parse().unwrap_or(f64::NAN);
    format!("{value:.places$}")
}

/// The value on the safe side.
pub(crate) fn figure(answer: &Answer) -> String {
    match answer.quantity {
        Quantity::Count => format!("{}", answer.value),
        quantity if quantity.safe_above() => at_least(answer.upper),
        _ => at_most(answer.lower),
    }
}

/// How far the true value can be from the printed one: relatively, or as the other end of a count.
pub(crate) fn bracket(answer: &Answer) -> String {
    let width = answer.relative_width();
    match answer.quantity {
        quantity if quantity.safe_above() => bracket_of(answer.lower, answer.upper),
        _ if width < EXACT => "exact".to_owned(),
        Quantity::Count if answer.upper > 1e18 => "or more".to_owned(),
        Quantity::Count => format!("to {}", answer.upper),
        _ => format!("+{width:.0e}"),
    }
}

/// The same for a value whose upper end is the safe one.
pub(crate) fn bracket_of(lower: f64, upper: f64) -> String {
    if upper - lower <= EXACT * upper.abs() {
        "exact".to_owned()
    } else if lower == 0.0 {
        "at most".to_owned()
    } else {
        format!("-{:.0e}", (upper - lower) / upper.abs())
    }
}

/// Formats a duration in a suitable unit, with two or three digits.
pub(crate) fn duration(seconds: f64) -> String {
    let [micro, milli] = [1e6, 1e3].map(|per_second| seconds * per_second);
    if micro < 999.5 {
        format!("{micro:.0} µs")
    } else if milli < 9.95 {
        format!("{milli:.1} ms")
    } else if milli < 999.5 {
        format!("{milli:.0} ms")
    } else {
        format!("{seconds:.2} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (seconds, shown) in [
            (0.0, "0 µs"),
            (12.3e-6, "12 µs"),
            (0.000_999_6, "1.0 ms"),
            (0.009_949, "9.9 ms"),
            (0.009_96, "10 ms"),
            (0.412, "412 ms"),
            (0.9996, "1.00 s"),
            (123.456, "123.46 s"),
        ] {
            assert_eq!(duration(seconds), shown);
        }
    }

    #[test]
    fn seven_digits_stay_on_their_side() {
        for (value, above, below) in [
            (1.0, "1.000000", "1.000000"),
            (4.377_178_095_681, "4.377179", "4.377178"),
            (9.999_999_9, "10.00000", "9.999999"),
            (0.000_123_456_78, "0.0001234568", "0.0001234567"),
            (1.234_567_89e-5, "1.234568e-5", "1.234567e-5"),
            (1_234_567.8, "1234568", "1234567"),
            (12_345_678.0, "1.234568e7", "1.234567e7"),
            (1.234_567_89e-300, "1.234568e-300", "1.234567e-300"),
            (-1.234_567_89, "-1.234567", "-1.234568"),
            (0.0, "0", "0"),
        ] {
            assert_eq!(at_least(value), above);
            assert_eq!(at_most(value), below);
        }
        for value in [5e-324, 1e-310, f64::MIN_POSITIVE] {
            assert!(at_least(value).parse::<f64>().unwrap() >= value);
            assert!(at_most(value).parse::<f64>().unwrap() <= value);
        }
    }
}
