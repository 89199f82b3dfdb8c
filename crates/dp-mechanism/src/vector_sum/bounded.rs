//! One user's share of a vector sum: merged, quantised, bounded.

use dp_core::UserRow;

use crate::Grid;
use crate::contribution::{SparseBuffer, VectorContribution};

/// What one user adds, in exact integers: coordinate and value, coordinates increasing. Empty
/// when the user exceeds the bound. This is what a client would send to a secure sum.
#[must_use]
pub fn vector_contribution<C: VectorContribution>(
    grid: &Grid,
    n_coordinates: usize,
    contribution: &C,
    user: UserRow<'_>,
) -> Vec<(usize, i64)> {
    let mut buffer = SparseBuffer::default();
    let mut scratch = contribution.scratch();
    bounded_entries(
        grid,
        n_coordinates,
        contribution,
        user,
        &mut scratch,
        &mut buffer,
    )
    .collect()
}

/// Runs the contribution and returns its integer entries, none if they exceed the bound: (K3) to
/// (K5).
pub(super) fn bounded_entries<'b, C: VectorContribution>(
    grid: &Grid,
    n_coordinates: usize,
    contribution: &C,
    user: UserRow<'_>,
    scratch: &mut C::Scratch,
    buffer: &'b mut SparseBuffer,
) -> impl Iterator<Item = (usize, i64)> + 'b {
    buffer.entries.clear();
    contribution.contribute(user, scratch, buffer);
    #[cfg(privacy_mutants)]
    let unmerged = crate::mutants::unmerged_norm(grid, &buffer.entries);
    merge_repeats(&mut buffer.entries);
    buffer
        .entries
        .retain(|&(index, _)| (index as usize) < n_coordinates);
    let squared_norm = buffer
        .entries
        .iter()
        .map(|&(_, value)| square(grid.quantise(value)))
        .fold(0_u128, u128::saturating_add);
    #[cfg(privacy_mutants)]
    let squared_norm = crate::mutants::vector_norm(grid, &buffer.entries, unmerged, squared_norm);
    if !grid.admits(squared_norm) {
        buffer.entries.clear();
    }
    let grid = *grid;
    buffer
        .entries
        .iter()
        .map(move |&(index, value)| (index as usize, grid.quantise(value)))
}

/// Adds up entries of the same coordinate, so that the norm is that of the whole contribution.
#[allow(
    clippy::float_arithmetic,
    reason = "before the quantiser; whatever comes out is bounded in integers"
)]
fn merge_repeats(entries: &mut Vec<(u32, f64)>) {
    if entries.is_sorted_by(|a, b| a.0 < b.0) {
        return;
    }
    entries.sort_by_key(|&(index, _)| index);
    entries.dedup_by(|later, first| {
        let same = later.0 == first.0;
        if same {
            first.1 += later.1;
        }
        same
    });
}

/// The square of an integer without overflow.
pub(super) const fn square(z: i64) -> u128 {
    let magnitude = z.unsigned_abs() as u128;
    magnitude.saturating_mul(magnitude) // at most 2^126: exact
}
