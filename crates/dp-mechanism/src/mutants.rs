//! Deliberate bugs of the kernel, in `--cfg privacy_mutants` builds only; see `docs/audits.md`.

use std::sync::OnceLock;

use dp_core::mutants::{active, pick};
use dp_core::{DpEvent, Interactions, UserRow};

use crate::gram_sum::GramGrids;
use crate::random_bits::RandomBits;
use crate::{Grid, ReleasedScalar, ScoreChange};

/// Wrong scales, and noise on too few coordinates.
pub(crate) fn noise(sigma: u64, sums: &mut [i64]) -> (u64, &mut [i64]) {
    let n = pick("noise-on-half-the-coordinates", sums.len(), sums.len() / 2);
    let n = pick("no-noise", n, 0);
    (scale(sigma), &mut sums[..n])
}

/// The same for packed triangles.
pub(crate) fn packed_noise(
    diagonal: u64,
    off_diagonal: u64,
    sums: &mut [i64],
) -> (u64, u64, &mut [i64]) {
    let off = pick("off-diagonal-noise-half", off_diagonal, diagonal / 2);
    let n = pick("matrices-without-noise", sums.len(), 0);
    let n = pick("no-noise", n, 0);
    (scale(diagonal), scale(off), &mut sums[..n])
}

fn scale(sigma: u64) -> u64 {
    let sigma = pick("noise-half", sigma, sigma / 2);
    let sigma = pick("noise-nine-tenths", sigma, sigma / 10 * 9);
    let sigma = pick("noise-99-percent", sigma, sigma / 100 * 99);
    let sigma = pick("square-root-of-the-scale", sigma, sigma.isqrt());
    sigma.max(32)
}

/// Keys that are reused.
pub(crate) fn key(key: &mut [u8; 32]) {
    static FIRST: OnceLock<[u8; 32]> = OnceLock::new();
    if active("fixed-key") {
        *key = [7; 32];
    }
    if active("one-key-for-the-process") {
        *key = *FIRST.get_or_init(|| *key);
    }
}

/// Draws from another distribution; `after - before` is a correct draw.
pub(crate) fn redraw(sigma: u64, before: i64, after: &mut i64) {
    let y = after.wrapping_sub(before);
    let reach = sigma.cast_signed() * 5 / 2;
    let y = pick("one-sided-noise", y, y.max(!y));
    let y = pick("low-bits-missing", y, y & !15);
    let y = pick("tails-cut", y, y.clamp(-reach, reach));
    let y = pick("floor-toward-zero", y, y + i64::from(y < 0));
    let y = pick("sign-biased", y, if y & 31 == 0 { y.max(!y) } else { y });
    *after = before.wrapping_add(y);
}

/// The squared norm of the entries without merging, with repetitions counted separately.
pub(crate) fn unmerged_norm(grid: &Grid, entries: &[(u32, f64)]) -> u128 {
    squares(grid, entries).fold(0, u128::saturating_add)
}

/// Squared norms that accept too much.
pub(crate) fn vector_norm(
    grid: &Grid,
    entries: &[(u32, f64)],
    unmerged: u128,
    right: u128,
) -> u128 {
    let largest = squares(grid, entries).max().unwrap_or(0);
    let wrapped = entries.iter().fold(0_u64, |sum, e| {
        let z = grid.quantise(e.1).unsigned_abs();
        sum.wrapping_add(z.wrapping_mul(z))
    });
    let norm = pick("no-clip", right, 0);
    let norm = pick("clip-per-record", norm, largest);
    let norm = pick("clip-at-twice-the-bound", norm, right / 4);
    let norm = pick("clip-before-merge", norm, unmerged);
    pick("squares-overflow", norm, wrapped.into())
}

/// The same for a user with values in all coordinates.
pub(crate) fn dense_norm(grid: &Grid, values: &[f64], right: u128) -> u128 {
    let entries: Vec<_> = (0..).zip(values.iter().copied()).collect();
    vector_norm(grid, &entries, right, right)
}

fn squares(grid: &Grid, entries: &[(u32, f64)]) -> impl Iterator<Item = u128> {
    entries
        .iter()
        .map(|e| u128::from(grid.quantise(e.1).unsigned_abs()).pow(2))
}

/// Bounds of Gram sums that accept too much; `None` for the correct ones.
pub(crate) fn gram_bounds(
    grids: &GramGrids,
    in_matrices: &[f64],
    norms: &[f64],
    labels: &[f32],
) -> Option<bool> {
    let bound = |grid: &Grid| (grid.l2_bound() as f64).powi(2);
    let (a, b) = (bound(grids.matrix()), bound(grids.rhs()));
    let matrix: Vec<f64> = in_matrices.iter().map(|n| n * n).collect();
    let rhs: Vec<f64> = norms
        .iter()
        .zip(labels)
        .map(|(n, &l)| n * f64::from(l) * f64::from(l))
        .collect();
    let sum = |v: &[f64]| v.iter().sum::<f64>();
    let top = |v: &[f64]| v.iter().copied().fold(0.0, f64::max);
    if active("gram-no-clip") {
        return Some(true);
    }
    if active("gram-clip-per-record") {
        return Some(top(&matrix) <= a && top(&rhs) <= b);
    }
    if active("gram-right-hand-sides-unchecked") {
        return Some(sum(&matrix) <= a);
    }
    if active("gram-matrices-unchecked") {
        return Some(sum(&rhs) <= b);
    }
    if active("gram-norm-for-its-square") {
        return Some(sum(in_matrices) <= a && sum(&rhs) <= b);
    }
    None
}

/// Poisson sampling with another threshold than the accounted one.
pub(crate) fn threshold(right: u128) -> u128 {
    pick("sampling-more-than-accounted", right, right + right / 100)
}

/// A probability below that of the sampling; `None` to account for the correct one.
pub(crate) fn accounted_probability(threshold: u128) -> Option<f64> {
    let less = threshold.saturating_sub(1) as f64 / 2.0_f64.powi(64);
    active("sampling-probability-accounted-down").then_some(less)
}

/// The inner event of any sampled event, whatever its scheme; `None` to compare schemes.
pub(crate) fn any_scheme(event: &DpEvent) -> Option<&DpEvent> {
    match event {
        DpEvent::PoissonSampled { event, .. }
        | DpEvent::SampledWithoutReplacement { event, .. }
            if active("sampling-scheme-unchecked") =>
        {
            Some(event)
        }
        _ => None,
    }
}

/// Discrete noise of too small a scale, from one party or from each server.
pub(crate) fn discrete_scale(sigma: u64) -> u64 {
    pick("discrete-noise-99-percent", sigma, sigma / 100 * 99).max(32)
}

/// The scale of one server's noise if the noise of both servers is counted.
pub(crate) fn server_scale(sigma: u64) -> u64 {
    let squared = u128::from(sigma).pow(2) / 2;
    let shared = u64::try_from(squared.isqrt()).unwrap_or(sigma);
    pick("server-noise-counted-together", sigma, shared).max(32)
}

/// A choice by the remainder of a byte, which favours small numbers.
pub(crate) fn choice(right: usize, last: usize, bits: &mut RandomBits) -> usize {
    if active("fixed-size-biased") {
        return usize::from(bits.word().to_le_bytes()[0]) % (last + 1);
    }
    right
}

/// A general change of scores treated as a monotone one.
pub(crate) fn score_change(right: ScoreChange) -> ScoreChange {
    pick(
        "exponential-factor-two-missing",
        right,
        ScoreChange::Monotone,
    )
}

/// Weights at whole halvings only.
pub(crate) fn weight(right: u128) -> u128 {
    pick(
        "exponential-weights-rounded-up",
        right,
        right.next_power_of_two(),
    )
}

/// The neighbour of the selected candidate.
pub(crate) fn selected(right: usize, n_candidates: usize) -> usize {
    pick(
        "selection-off-by-one",
        right,
        (right + 1).min(n_candidates - 1),
    )
}

/// A user's share of a score that exceeds its bound.
pub(crate) fn share(right: i64, unbounded: i64, bounded_before_merge: i64) -> i64 {
    let share = pick("score-share-unclipped", right, unbounded);
    pick("score-share-clip-before-merge", share, bounded_before_merge)
}

/// The largest value in the data instead of the public end of a range; `None` to proceed correctly.
pub(crate) fn range_end(
    data: &Interactions,
    value: impl Fn(UserRow<'_>) -> f64,
    high: f64,
) -> Option<f64> {
    let values = data.users().map(value).filter(|v| v.is_finite());
    let largest = values.fold(high, f64::max);
    (active("quantile-range-from-the-data") && largest > high).then_some(largest)
}

/// One vote for each record instead of one for each user.
pub(crate) fn votes(right: u64, user: UserRow<'_>) -> u64 {
    pick("quantile-counts-every-record", right, user.len() as u64)
}

/// A user without records is not counted; `None` for the correct value.
pub(crate) fn user_value() -> Option<fn(UserRow<'_>) -> f64> {
    let one_if_any = |user: UserRow<'_>| if user.is_empty() { 0.0 } else { 1.0 };
    active("user-count-skips-the-empty").then_some(one_if_any)
}

/// The exact count instead of the noisy one.
pub(crate) fn counted(released: ReleasedScalar, data: &Interactions) -> ReleasedScalar {
    let exact = data.n_users() as f64;
    released.with_value(pick("user-count-exact", released.value(), exact))
}

/// Ages that let a user spend more than a lifetime: everybody is new every night, or the number of
/// nights made is used instead of the nights since a user was first seen.
pub(crate) fn age(right: Option<u32>, n_nights: usize, horizon: usize) -> Option<u32> {
    let by_nights = u32::try_from(n_nights % horizon).ok();
    let age = pick("paced-first-seen-ignored", right, Some(0));
    pick("paced-age-by-nights-made", age, by_nights)
}

/// The same key for the shares of all clients.
pub(crate) fn share_key(key: &mut [u8; 32]) {
    static FIRST: OnceLock<[u8; 32]> = OnceLock::new();
    if active("share-key-of-another-client") {
        *key = *FIRST.get_or_init(|| *key);
    }
}

/// Masks that do not hide everything.
pub(crate) fn mask(mut right: Vec<i64>) -> Vec<i64> {
    let first = right.first().copied().unwrap_or(0);
    for r in &mut right {
        *r = pick("share-mask-narrow", *r, *r & (i64::MAX >> 7));
        *r = pick("share-mask-repeated", *r, first);
        *r = pick("share-without-mask", *r, 0);
    }
    right
}
