//! The quantiser of Gram sums: how a user's numbers become integers, and how integers that a float
//! represents exactly are read back.
#![allow(
    clippy::float_arithmetic,
    reason = "the quantiser itself; what it makes is bounded in exact integers afterwards"
)]

use super::grids::{GramGrids, LABEL_LIMIT};

#[allow(
    clippy::cast_possible_truncation,
    reason = "one rounding to f32; the grid's margin of 2^-20 covers its growth of norms"
)]
pub(super) fn narrow(wide: &[f64], out: &mut [f32]) {
    for (out, &v) in out.iter_mut().zip(wide) {
        *out = v as f32;
    }
}

/// `scale = sqrt(w / g_A)` and `l = trunc(sqrt(w) y sqrt(g_A) / g_b)`.
///
/// The f32 roundings of scale and factor grow `||x||^4` by at most `(1 + 2^-24)^8 < 1 + 2^-20`,
/// which the margin of the grid absorbs.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the scale is rounded by design"
)]
pub(super) fn quantise_record(grids: &GramGrids, weight: f64, label: f64) -> (f32, f32) {
    let root = weight.sqrt();
    let label = root * label * grids.label_scale();
    ((root * grids.factor_scale()) as f32, truncated(label))
}

/// `l = trunc(w y sqrt(g_A) / g_b)`, for factors that include no weight.
pub(super) fn quantise_label(grids: &GramGrids, weight: f64, label: f64) -> f32 {
    let label = weight * label * grids.label_scale();
    truncated(label)
}

/// `trunc(label)` within the limit, 0 for NaN. A cast is one instruction, whereas `trunc` may be a
/// function call.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the label is a clamped integer, exact in an f32"
)]
fn truncated(label: f64) -> f32 {
    label.clamp(-LABEL_LIMIT, LABEL_LIMIT) as i32 as f32
}

/// Replaces `v` by the integer factor `trunc(v / sqrt(g_A))`; returns its squared norm.
///
/// Coordinates are at most 2^22 in absolute value, so they are exact in an f32.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the scale is rounded by design; integers of at most 23 bits are exact in an f32"
)]
pub(super) fn quantise_factor(
    grids: &GramGrids,
    factor: &mut [f32],
    scratch: &mut Vec<f64>,
) -> crate::Result<f64> {
    let scale = grids.factor_scale() as f32;
    let mut norm = [0.0];
    dp_linalg::integer_squared_norms(factor, &[scale], &mut norm)?;
    scratch.resize(factor.len(), 0.0);
    dp_linalg::integer_row(factor, scale, scratch)?;
    for (v, &integer) in factor.iter_mut().zip(&*scratch) {
        *v = integer as f32;
    }
    Ok(norm[0])
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a sum of at most 256 squares of at most 2^44: an integer up to 2^52"
)]
pub(super) const fn integer_norm(norm: f64) -> u64 {
    norm as u64
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the label is an integer of at most 25 bits"
)]
pub(super) const fn integer_label(label: f32) -> i64 {
    label as i64
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "coordinates of integer rows have at most 23 bits"
)]
pub(super) const fn integer(x: f64) -> i64 {
    x as i64
}

/// Integers up to this limit, and all sums and differences computed on the way, are exact in f64
/// and are read back by [`whole`].
pub(super) const EXACT_LIMIT: u64 = 1 << 51;

/// 1.5 * 2^52: around this number the floats are exactly the integers, and their bit patterns are
/// in the same order.
const WHOLE_UNITS: f64 = 6_755_399_441_055_744.0;

/// An integer of at most [`EXACT_LIMIT`] in absolute value that is stored in a float. Equivalent to
/// a cast, but always the same two cheap instructions, which can be vectorised.
#[inline(always)]
pub(super) const fn whole(x: f64) -> i64 {
    let bits = (x + WHOLE_UNITS).to_bits();
    bits.wrapping_sub(WHOLE_UNITS.to_bits()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_come_out_of_floats_unchanged() {
        let limit = EXACT_LIMIT.cast_signed();
        for z in [0, 1, 2, 3, 1 << 20, (1 << 50) + 1, limit - 1, limit] {
            assert_eq!(whole(z as f64), z);
            assert_eq!(whole(-z as f64), -z);
        }
        assert_eq!(whole(-0.0), 0);
    }
}
