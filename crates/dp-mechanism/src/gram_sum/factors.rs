//! First pass: each user's contribution, quantised and bounded.

use std::ops::Range;

use dp_core::{Interactions, UserRow, parallel};

use super::grids::{GramGrids, GramLayout};
use super::quantise::{integer, integer_label, integer_norm, narrow, quantise_record};
use crate::Result;
use crate::contribution::{AnyContribution, Contributor, FactorBuffer, FactorContribution};
use crate::sum_backend::fetch_next;

/// Number of users processed by one task.
const USERS_PER_TASK: usize = 256;

/// Approximate number of records whose integers are held at a time: 32 MiB of them. The table's own
/// 16 bytes per record are nearly all the memory that a sum takes. The tests of this crate process
/// many blocks.
const RECORDS_AT_A_TIME: usize = if cfg!(test) { 1 << 10 } else { 1 << 22 };

/// Ranges of consecutive users with about this many records each, or a single user with more.
pub(super) fn blocks(data: &Interactions) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = 0_usize;
    std::iter::from_fn(move || {
        let first = next;
        if first >= data.n_users() {
            return None;
        }
        let end = data
            .user_range(first)
            .start
            .saturating_add(RECORDS_AT_A_TIME);
        next = first.saturating_add(1);
        while next < data.n_users() && data.user_range(next).end <= end {
            next = next.saturating_add(1);
        }
        Some(first..next)
    })
}

/// For a block of users: the factors, and per record, in user order, the integers per data unit of
/// the factor and the integer label. Both are zero for the records of a rejected user.
///
/// On pooled grids, factors are integers, all zero if the user is rejected or has no records, and
/// `scales` stay zero.
pub(super) struct BoundedFactors {
    pub(super) dim: usize,
    pub(super) users: Range<usize>,
    /// Position of the first record in the whole table.
    pub(super) first_record: usize,
    /// Factors `v` in data units or as integers, `(n_users, dim)` row-major.
    pub(super) factors: Vec<f32>,
    /// `sqrt(w / g_A)`: a record's integer factor is [`dp_linalg::integer_row`] of `v` and this.
    pub(super) scales: Vec<f32>,
    /// Integer labels, exact in an f32.
    pub(super) labels: Vec<f32>,
}

/// Runs the contribution of each of `users` and keeps what stays within the bounds.
pub(super) fn bounded_factors(
    data: &Interactions,
    users: Range<usize>,
    grids: &GramGrids,
    dim: usize,
    contribution: &dyn AnyContribution<FactorBuffer>,
) -> Result<BoundedFactors> {
    let first_record = data.user_range(users.start).start;
    let last_record = data.user_range(users.end.saturating_sub(1)).end;
    let n_records = last_record.saturating_sub(first_record);
    let mut factors = vec![0.0_f32; users.len().saturating_mul(dim)];
    let mut scales = vec![0.0_f32; n_records];
    let mut labels = vec![0.0_f32; n_records];
    let tasks = user_tasks(
        data,
        (users.start, dim),
        &mut factors,
        &mut scales,
        &mut labels,
    );
    let fetch = contribution.reads_features();
    parallel::try_for_each(
        tasks,
        || Ok(UserScratch::new(contribution)),
        |scratch, task| task.run(data, grids, (dim, fetch), scratch),
    )?;
    Ok(BoundedFactors {
        dim,
        users,
        first_record,
        factors,
        scales,
        labels,
    })
}

/// Working memory of one thread.
struct UserScratch<'a> {
    contribute: Contributor<'a, FactorBuffer>,
    buffer: FactorBuffer,
    norms: Vec<f64>,
}

impl<'a> UserScratch<'a> {
    fn new(contribution: &'a dyn AnyContribution<FactorBuffer>) -> Self {
        Self {
            contribute: contribution.contributor(),
            buffer: FactorBuffer::default(),
            norms: Vec::new(),
        }
    }
}

/// A range of users with their slices of the output.
struct UserTask<'a> {
    first_user: usize,
    factors: &'a mut [f32],
    scales: &'a mut [f32],
    labels: &'a mut [f32],
}

impl UserTask<'_> {
    fn run(
        self,
        data: &Interactions,
        grids: &GramGrids,
        (dim, fetch): (usize, bool),
        scratch: &mut UserScratch<'_>,
    ) -> Result<()> {
        let (mut scales, mut labels) = (self.scales, self.labels);
        let factors = self.factors.chunks_exact_mut(dim);
        for (user, factor) in (self.first_user..).zip(factors) {
            let row = data.user(user);
            if fetch {
                fetch_next(data, user);
            }
            let (own_scales, own_labels);
            (own_scales, scales) = scales.split_at_mut(row.len());
            (own_labels, labels) = labels.split_at_mut(row.len());
            let out = BoundedUser {
                factor,
                scales: own_scales,
                labels: own_labels,
            };
            out.fill(grids, row, scratch)?;
        }
        Ok(())
    }
}

fn user_tasks<'a>(
    data: &Interactions,
    (mut first_user, dim): (usize, usize),
    factors: &'a mut [f32],
    mut scales: &'a mut [f32],
    mut labels: &'a mut [f32],
) -> Vec<UserTask<'a>> {
    let mut tasks = Vec::new();
    for factors in factors.chunks_mut(USERS_PER_TASK.saturating_mul(dim)) {
        let next_user = first_user.saturating_add(factors.len().checked_div(dim).unwrap_or(0));
        let start = data.user_range(first_user).start;
        let end = data.user_range(next_user.saturating_sub(1)).end;
        let n_records = end.saturating_sub(start);
        let (own_scales, own_labels);
        (own_scales, scales) = scales.split_at_mut(n_records);
        (own_labels, labels) = labels.split_at_mut(n_records);
        tasks.push(UserTask {
            first_user,
            factors,
            scales: own_scales,
            labels: own_labels,
        });
        first_user = next_user;
    }
    tasks
}

/// One user's slices of the output.
struct BoundedUser<'a> {
    factor: &'a mut [f32],
    scales: &'a mut [f32],
    labels: &'a mut [f32],
}

impl BoundedUser<'_> {
    /// Contribution, quantisation (K6), exact check (K7). A user above a bound is zeroed.
    fn fill(
        self,
        grids: &GramGrids,
        row: UserRow<'_>,
        scratch: &mut UserScratch<'_>,
    ) -> Result<()> {
        let buffer = &mut scratch.buffer;
        buffer.reset(self.factor.len(), row.len());
        (scratch.contribute)(row, buffer);
        // a contribution that resized its buffers still cannot contribute more than the user's
        // records
        buffer.factor.resize(self.factor.len(), 0.0);
        buffer.weights.resize(row.len(), 0.0);
        buffer.labels.resize(row.len(), 0.0);
        narrow(&buffer.factor, self.factor);
        if grids.layout() == GramLayout::Pooled {
            let norms = &mut scratch.norms;
            return super::pooled::bound(grids, self.factor, self.labels, buffer, norms);
        }
        let records = self.scales.iter_mut().zip(&mut *self.labels);
        for ((scale, label), (&w, &y)) in records.zip(buffer.weights.iter().zip(&buffer.labels)) {
            (*scale, *label) = quantise_record(grids, w, y);
        }
        scratch.norms.resize(row.len(), 0.0);
        dp_linalg::integer_squared_norms(self.factor, self.scales, &mut scratch.norms)?;
        if !within_bounds(grids, &scratch.norms, &scratch.norms, self.labels) {
            self.scales.fill(0.0);
            self.labels.fill(0.0);
        }
        Ok(())
    }
}

/// The kernel's check, in exact integers: `sum ||x||^4 <= D_A^2` over `in_matrices` and `sum l^2 ||x||^2 <= D_b^2`
/// over `norms` and `labels`, from the squared norms `||x||^2` of integer factors: (K7).
pub(super) fn within_bounds(
    grids: &GramGrids,
    in_matrices: &[f64],
    norms: &[f64],
    labels: &[f32],
) -> bool {
    #[cfg(privacy_mutants)]
    if let Some(within) = crate::mutants::gram_bounds(grids, in_matrices, norms, labels) {
        return within;
    }
    let mut matrix = 0_u128;
    for &norm in in_matrices {
        let norm = integer_norm(norm);
        matrix = matrix.saturating_add(product(norm, norm));
    }
    let mut rhs = 0_u128;
    for (&norm, &label) in norms.iter().zip(labels) {
        // labels have 25 bits; a square of 32 bits still fits
        let Ok(label) = u32::try_from(integer_label(label).unsigned_abs()) else {
            return false;
        };
        let squared_label = u64::from(label).saturating_mul(label.into());
        rhs = rhs.saturating_add(product(squared_label, integer_norm(norm)));
    }
    grids.matrix().admits(matrix) && grids.rhs().admits(rhs)
}

/// `a b`, which always fits: a single instruction, whereas checking for overflow takes several.
const fn product(a: u64, b: u64) -> u128 {
    (a as u128).wrapping_mul(b as u128)
}

/// What one user contributes, in exact integers: what a client would send to a secure sum. As
/// private as the records it is computed from.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private contribution; printing it is never wanted"
)]
pub struct GramContribution {
    /// Whether each record contributes to its item's matrix, or the user once to the common matrix
    /// of all items.
    pub layout: GramLayout,
    /// Item of each record.
    pub items: Vec<u32>,
    /// Integer factors `x`, `(n_records, dim)` row-major; all zero if the user is rejected. On
    /// pooled grids they are the same for all records.
    pub factors: Vec<i64>,
    /// Integer labels `l`.
    pub labels: Vec<i64>,
}

/// Computes the integers that [`super::GramSums`] adds for one user.
///
/// # Errors
/// [`crate::Error::Param`] if the contribution's `dim` is out of range.
pub fn gram_contribution<C: FactorContribution>(
    grids: &GramGrids,
    contribution: &C,
    user: UserRow<'_>,
) -> Result<GramContribution> {
    integers_of_one(grids, contribution.dim(), contribution, user)
}

/// The same for a contribution of any type, with factors of length `dim`.
pub(crate) fn integers_of_one(
    grids: &GramGrids,
    dim: usize,
    contribution: &dyn AnyContribution<FactorBuffer>,
    user: UserRow<'_>,
) -> Result<GramContribution> {
    let dim = super::grids::check_dim(dim)?;
    let mut factor = vec![0.0; dim];
    let (mut scales, mut labels) = (vec![0.0; user.len()], vec![0.0; user.len()]);
    let out = BoundedUser {
        factor: &mut factor,
        scales: &mut scales,
        labels: &mut labels,
    };
    out.fill(grids, user, &mut UserScratch::new(contribution))?;
    let mut integers = vec![0.0; user.len().saturating_mul(dim)];
    if grids.layout() == GramLayout::Pooled {
        scales.fill(1.0); // they are integers already
    }
    for (row, &scale) in integers.chunks_exact_mut(dim).zip(&scales) {
        dp_linalg::integer_row(&factor, scale, row)?;
    }
    Ok(GramContribution {
        layout: grids.layout(),
        items: user.items().to_vec(),
        factors: integers.into_iter().map(integer).collect(),
        labels: labels.into_iter().map(integer_label).collect(),
    })
}
