//! From a loss range to the whole-numbered rate of the weights, in public numbers.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    reason = "public parameters, rounded to the safe side"
)]

use super::ScoreChange;
use super::weight::{FRACTION_BITS, LOG_WEIGHT_ERROR, MAX_HALVINGS};

/// The range for a rate and an integer sensitivity, rounded up.
pub(super) fn range(rate: u64, sensitivity: u64, change: ScoreChange) -> f64 {
    #[cfg(privacy_mutants)]
    let change = crate::mutants::score_change(change);
    let units = u128::from(rate) * u128::from(sensitivity);
    let capped = units.min(u128::from(MAX_HALVINGS << FRACTION_BITS)) as f64;
    let one_way = capped / f64::from(1_u32 << FRACTION_BITS) * std::f64::consts::LN_2
        + 2.0 * LOG_WEIGHT_ERROR;
    let both = match change {
        ScoreChange::General => 2.0 * one_way,
        ScoreChange::Monotone => one_way,
    };
    // four roundings of 2^-53 each
    both * (1.0 + 8.0 * f64::EPSILON)
}

/// The largest rate whose range is at most `epsilon`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number below 2^31; the loop makes the rounding safe"
)]
pub(super) fn rate_for(epsilon: f64, sensitivity: u64, change: ScoreChange) -> u64 {
    #[cfg(privacy_mutants)]
    let change = crate::mutants::score_change(change);
    let one_way = match change {
        ScoreChange::General => epsilon / 2.0,
        ScoreChange::Monotone => epsilon,
    };
    let units = one_way / std::f64::consts::LN_2 * f64::from(1_u32 << FRACTION_BITS);
    let mut rate = (units / sensitivity as f64) as u64;
    while rate > 0 && range(rate, sensitivity, change) > epsilon {
        rate = rate.saturating_sub(1);
    }
    rate
}

/// floor(log2) of a positive normal number.
#[allow(clippy::cast_possible_truncation, reason = "11 bits")]
pub(super) const fn floor_log2(value: f64) -> i32 {
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
}
