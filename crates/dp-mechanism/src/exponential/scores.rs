//! Scores as whole numbers of public steps.

/// Largest magnitude of a score in steps.
pub(super) const MAX_STEPS: i64 = 1 << 40;

/// floor(score / 2^`log2_step`) from the bits of the score, clamped to `MAX_STEPS` on either side;
/// NaN counts as the lowest score.
///
/// Exact for every finite score, including denormals. Changing a score by at most Delta changes the
/// result by at most ceil(Delta / step): floor(a) <= floor(b + d) <= floor(b) + ceil(d).
#[allow(
    clippy::cast_possible_truncation,
    reason = "clamped to MAX_STEPS before"
)]
pub(super) fn quantise(score: f64, log2_step: i32) -> i64 {
    if score.is_nan() {
        return -MAX_STEPS;
    }
    if score.is_infinite() {
        return if score > 0.0 { MAX_STEPS } else { -MAX_STEPS };
    }
    let (mantissa, exponent) = decompose(score);
    let shift = exponent.saturating_sub(log2_step);
    let steps = match u32::try_from(shift) {
        // a mantissa of 53 bits by up to 63 places stays within 128 bits; beyond, clamp or zero
        Ok(left) => i128::from(mantissa) << left.min(63),
        Err(_) => i128::from(mantissa) >> shift.unsigned_abs().min(127),
    };
    steps.clamp(i128::from(-MAX_STEPS), i128::from(MAX_STEPS)) as i64
}

/// A finite number as mantissa 2^exponent, exactly.
const fn decompose(value: f64) -> (i64, i32) {
    const PLACES: u32 = 52;
    let bits = value.to_bits();
    let field = (bits >> PLACES) & 0x7ff;
    let fraction = (bits & ((1 << PLACES) - 1)).cast_signed();
    let (magnitude, exponent) = if field == 0 {
        (fraction, -1074)
    } else {
        (
            fraction | (1 << PLACES),
            EXPONENT_OFFSET.saturating_add(field_to_i32(field)),
        )
    };
    if value.is_sign_negative() {
        (magnitude.wrapping_neg(), exponent)
    } else {
        (magnitude, exponent)
    }
}

/// Exponent of the last mantissa bit minus the exponent field.
const EXPONENT_OFFSET: i32 = -1075;

#[allow(clippy::cast_possible_truncation, reason = "11 bits")]
const fn field_to_i32(field: u64) -> i32 {
    field as i32
}

/// ceil(`value` / 2^`log2_step`) for a positive finite value; `None` above `MAX_STEPS`.
pub(super) fn steps_up(value: f64, log2_step: i32) -> Option<u64> {
    let below = quantise(value.copysign(-1.0), log2_step);
    (below > -MAX_STEPS).then_some(below.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_exact_at_every_scale() {
        for (score, log2_step, expected) in [
            (2.5, 0, 2),
            (-2.5, 0, -3),
            (0.0, 0, 0),
            (-0.0, 0, 0),
            (5e-324, 0, 0),
            (-5e-324, 0, -1),
            (5e-324, -1074, 1),
            (3.0, -2, 12),
            (3.0, 1, 1),
            (-3.0, 1, -2),
            (-3.0, 900, -1),
            (1e308, 1000, 9332636),
            (f64::MIN_POSITIVE, -1022, 1),
        ] {
            assert_eq!(
                quantise(score, log2_step),
                expected,
                "{score} by 2^{log2_step}"
            );
        }
    }

    #[test]
    fn bad_scores_have_their_place() {
        for (score, expected) in [
            (f64::NAN, -MAX_STEPS),
            (-f64::NAN, -MAX_STEPS),
            (f64::NEG_INFINITY, -MAX_STEPS),
            (f64::INFINITY, MAX_STEPS),
            (f64::MAX, MAX_STEPS),
            (-f64::MAX, -MAX_STEPS),
            (1e13, MAX_STEPS),
        ] {
            assert_eq!(quantise(score, 0), expected, "{score}");
        }
        assert_eq!(quantise(1e-300, -1074), MAX_STEPS);
    }

    #[test]
    fn sensitivities_are_rounded_up() {
        assert_eq!(steps_up(1.0, 0), Some(1));
        assert_eq!(steps_up(1.0_f64.next_up(), 0), Some(2));
        assert_eq!(steps_up(0.1, -10), Some(103));
        assert_eq!(steps_up(5e-324, 0), Some(1));
        assert_eq!(steps_up(1e13, 0), None);
    }

    #[test]
    fn neighbouring_scores_stay_within_the_integer_sensitivity() {
        let mut rng = crate::test_support::Lcg(5);
        for _ in 0..100_000 {
            let sensitivity = rng.signed().abs() + 1e-9;
            let score = rng.signed() * 100.0;
            let (low, high) = (score, score + sensitivity);
            let bound = steps_up(high - low, -7).unwrap();
            let moved = quantise(high, -7).abs_diff(quantise(low, -7));
            assert!(moved <= bound + 1, "rounding of the sum itself may add one");
            if (high - low).to_bits() == sensitivity.to_bits() {
                assert!(moved <= steps_up(sensitivity, -7).unwrap());
            }
        }
    }
}
