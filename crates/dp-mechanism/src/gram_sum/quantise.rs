//! The quantiser of Gram sums: what happens to a user's numbers before they are integers, and how
//! integers that a float holds exactly come out of it.
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
    reason = "the scale is rounded by design; the label is a clamped integer, exact in an f32"
)]
pub(super) fn quantise_record(grids: &GramGrids, weight: f64, label: f64) -> (f32, f32) {
    let root = weight.sqrt();
    let label = root * label * grids.label_scale();
    let label = if label.is_nan() { 0.0 } else { label };
    (
        (root * grids.factor_scale()) as f32,
        label.clamp(-LABEL_LIMIT, LABEL_LIMIT).trunc() as f32,
    )
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
