//! First pass: each user's contribution, quantised and bounded.

use dp_core::{Interactions, UserRow};
use rayon::prelude::*;

use super::grids::{GramGrids, LABEL_LIMIT};
use crate::contribution::{FactorBuffer, FactorContribution};

/// Factor coordinates are clamped to this: squares stay below 2^45, sums of 256 below 2^53.
const FACTOR_LIMIT: f64 = (1 << 22) as f64;
/// Users handled by one task.
const USERS_PER_TASK: usize = 256;

/// What one record contributes, apart from the user's factor. Both are zero for a rejected user.
#[derive(Clone, Copy, Default)]
pub(super) struct Record {
    /// Integers per data unit of the factor for this record: `sqrt(w / g_A)`.
    pub(super) scale: f32,
    /// The integer label, exact in an f32.
    pub(super) label: f32,
}

/// Per-user factors (data units) and per-record scales, everything within the bounds.
pub(super) struct BoundedFactors {
    pub(super) dim: usize,
    /// Factors, `(n_users, dim)` row-major.
    pub(super) factors: Vec<f32>,
    /// Records in user order.
    pub(super) records: Vec<Record>,
}

/// A record's integer factor `x = trunc(scale * v)`, clamped; NaN becomes 0.
///
/// Both passes and the client call exactly this function, so the integers that were bounded are
/// the integers that are summed. The product of two f32 is exact in f64.
#[inline]
#[allow(
    clippy::cast_possible_truncation,
    reason = "clamped to 23 bits first; truncation toward zero and NaN to 0 are wanted"
)]
pub(super) fn integer_coordinate(scale: f32, v: f32) -> i32 {
    (f64::from(scale) * f64::from(v)).clamp(-FACTOR_LIMIT, FACTOR_LIMIT) as i32
}

/// Runs every user's contribution and keeps what stays within the bounds.
pub(super) fn bounded_factors<C: FactorContribution>(
    data: &Interactions,
    grids: &GramGrids,
    contribution: &C,
) -> BoundedFactors {
    let dim = contribution.dim();
    let mut factors = vec![0.0_f32; data.n_users() * dim];
    let mut records = vec![Record::default(); data.n_records()];
    let tasks = user_tasks(data, dim, &mut factors, &mut records);
    tasks.into_par_iter().for_each_init(
        || (contribution.scratch(), FactorBuffer::default()),
        |(scratch, buffer), task| {
            let mut records = task.records;
            for (user, factor) in (task.first_user..).zip(task.factors.chunks_exact_mut(dim)) {
                let row = data.user(user);
                let (mine, rest) = records.split_at_mut(row.len());
                records = rest;
                bound_user(grids, contribution, row, scratch, buffer, factor, mine);
            }
        },
    );
    BoundedFactors {
        dim,
        factors,
        records,
    }
}

/// A run of users with their own slices of the output.
struct UserTask<'a> {
    first_user: usize,
    factors: &'a mut [f32],
    records: &'a mut [Record],
}

fn user_tasks<'a>(
    data: &Interactions,
    dim: usize,
    factors: &'a mut [f32],
    mut records: &'a mut [Record],
) -> Vec<UserTask<'a>> {
    let mut tasks = Vec::new();
    let mut first_user = 0;
    for factors in factors.chunks_mut(USERS_PER_TASK * dim) {
        let n_users = factors.len() / dim;
        let start = data.user_range(first_user).start;
        let end = data.user_range(first_user + n_users - 1).end;
        let (mine, rest) = records.split_at_mut(end - start);
        records = rest;
        tasks.push(UserTask {
            first_user,
            factors,
            records: mine,
        });
        first_user += n_users;
    }
    tasks
}

/// One user: contribution, quantisation, exact check. A user above a bound is zeroed.
fn bound_user<C: FactorContribution>(
    grids: &GramGrids,
    contribution: &C,
    row: UserRow<'_>,
    scratch: &mut C::Scratch,
    buffer: &mut FactorBuffer,
    factor: &mut [f32],
    records: &mut [Record],
) {
    buffer.reset(contribution.dim(), row.len());
    contribution.contribute(row, scratch, buffer);
    // a contribution that resized its buffers still cannot add more than its records
    buffer.factor.resize(factor.len(), 0.0);
    buffer.weights.resize(records.len(), 0.0);
    buffer.labels.resize(records.len(), 0.0);
    narrow(&buffer.factor, factor);
    for ((record, &weight), &label) in records.iter_mut().zip(&buffer.weights).zip(&buffer.labels) {
        *record = quantise_record(grids, weight, label);
    }
    if !within_bounds(grids, factor, records) {
        records.fill(Record::default());
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "one rounding to f32; the grid's margin of 2^-20 covers its growth of norms"
)]
fn narrow(wide: &[f64], out: &mut [f32]) {
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
fn quantise_record(grids: &GramGrids, weight: f64, label: f64) -> Record {
    let root = weight.sqrt();
    let label = root * label * grids.label_scale();
    let label = if label.is_nan() { 0.0 } else { label };
    Record {
        scale: (root * grids.factor_scale()) as f32,
        label: label.clamp(-LABEL_LIMIT, LABEL_LIMIT).trunc() as f32,
    }
}

/// The kernel's check, in exact integers: `sum ||x||^4 <= D_A^2` and `sum l^2 ||x||^2 <= D_b^2`.
fn within_bounds(grids: &GramGrids, factor: &[f32], records: &[Record]) -> bool {
    let mut matrix = 0_u128;
    let mut rhs = 0_u128;
    for record in records {
        let norm = u128::from(squared_norm(factor, record.scale));
        let label = u128::from(integer_label(record.label).unsigned_abs());
        matrix = matrix.saturating_add(norm * norm);
        rhs = rhs.saturating_add(label * label * norm);
    }
    grids.matrix().admits(matrix) && grids.rhs().admits(rhs)
}

/// `||x||^2` of a record's integer factor; below 2^53 by the clamp and the largest `dim`.
fn squared_norm(factor: &[f32], scale: f32) -> u64 {
    factor
        .iter()
        .map(|&v| {
            let x = u64::from(integer_coordinate(scale, v).unsigned_abs());
            x * x
        })
        .sum()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the label is an integer of at most 24 bits"
)]
const fn integer_label(label: f32) -> i64 {
    label as i64
}

/// What one user adds, in exact integers: what a client would send to a secure sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GramContribution {
    /// Item of each record.
    pub items: Vec<u32>,
    /// Integer factors `x`, `(n_records, dim)` row-major; all zero when the user is rejected.
    pub factors: Vec<i64>,
    /// Integer labels `l`.
    pub labels: Vec<i64>,
}

/// Computes the integers that [`super::GramSums`] adds for one user.
///
/// # Errors
/// [`crate::Error::Param`] when the contribution's `dim` is out of range.
pub fn gram_contribution<C: FactorContribution>(
    grids: &GramGrids,
    contribution: &C,
    user: UserRow<'_>,
) -> crate::Result<GramContribution> {
    let dim = super::grids::check_dim(contribution.dim())?;
    let mut factor = vec![0.0; dim];
    let mut records = vec![Record::default(); user.len()];
    bound_user(
        grids,
        contribution,
        user,
        &mut contribution.scratch(),
        &mut FactorBuffer::default(),
        &mut factor,
        &mut records,
    );
    let coordinates = |record: &Record| {
        let scale = record.scale;
        factor
            .iter()
            .map(move |&v| i64::from(integer_coordinate(scale, v)))
            .collect::<Vec<_>>()
    };
    Ok(GramContribution {
        items: user.items().to_vec(),
        factors: records.iter().flat_map(coordinates).collect(),
        labels: records.iter().map(|r| integer_label(r.label)).collect(),
    })
}
