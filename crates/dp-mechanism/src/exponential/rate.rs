//! Computes the integer rate of the weights from a loss range, using public numbers only.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    reason = "public parameters, rounded to the safe side"
)]

use super::ScoreChange;
use super::weight::{FRACTION_BITS, LOG_WEIGHT_ERROR, MAX_HALVINGS};

/// The range for a rate and an integer sensitivity, rounded up.
///
/// Deficits lie in `0..=cap`, so `ln W(x) - ln W(x')` lies between -cap and cap: an interval of
/// length 2 cap, whatever the sensitivity. For a general change that is one cap in each direction;
/// for a monotone change, where only one direction is possible, it is both caps together.
pub(super) fn range(rate: u64, sensitivity: u64, change: ScoreChange) -> f64 {
    #[cfg(privacy_mutants)]
    let change = crate::mutants::score_change(change);
    let units = u128::from(rate) * u128::from(sensitivity);
    let cap = u128::from(MAX_HALVINGS << FRACTION_BITS);
    let widest = match change {
        ScoreChange::General => cap,
        ScoreChange::Monotone => 2 * cap,
    };
    let capped = units.min(widest) as f64;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_change_are_capped_at_the_widest_interval_there_is() {
        let cap = MAX_HALVINGS << FRACTION_BITS;
        let widest = 2.0 * MAX_HALVINGS as f64 * std::f64::consts::LN_2;
        for change in [ScoreChange::General, ScoreChange::Monotone] {
            for units in [2 * cap, 3 * cap, u64::MAX] {
                let found = range(units, 1, change);
                assert!(
                    found >= widest && found < widest + 1e-9,
                    "{change:?}: {found}"
                );
            }
        }
        // between one and two caps, a monotone change is not capped at all
        let half_more = range(3 * cap / 2, 1, ScoreChange::Monotone);
        assert!((half_more / widest - 0.75).abs() < 1e-9, "{half_more}");
    }
}
