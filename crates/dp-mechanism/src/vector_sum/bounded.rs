//! One user's contribution to a vector sum: merged, quantised, bounded.

use dp_core::UserRow;

use crate::Grid;
use crate::contribution::{AnyContribution, SparseBuffer, VectorContribution};
use crate::grid::quantise;

/// What one user contributes, in exact integers: coordinate and value, with coordinates increasing.
/// Empty if the user exceeds the bound. This is what a client would send to a secure sum.
#[must_use]
pub fn vector_contribution<C: VectorContribution>(
    grid: &Grid,
    n_coordinates: usize,
    contribution: &C,
    user: UserRow<'_>,
) -> Vec<(usize, i64)> {
    let mut buffer = SparseBuffer::default();
    contribution.contributor()(user, &mut buffer);
    collected(grid, n_coordinates, buffer)
}

/// The same as [`vector_contribution`], for an observer.
pub(crate) fn observed_contribution(
    grid: &Grid,
    n_coordinates: usize,
    contribution: &dyn AnyContribution<SparseBuffer>,
    user: UserRow<'_>,
) -> Vec<(usize, i64)> {
    let mut buffer = SparseBuffer::default();
    contribution.observed()(user, &mut buffer);
    collected(grid, n_coordinates, buffer)
}

/// What a user contributes on a night, for an observer; empty without a bound above 0.
pub(crate) fn observed_night(
    (grid, bound): (&Grid, Option<&u64>),
    n_coordinates: usize,
    contribution: &dyn AnyContribution<SparseBuffer>,
    user: UserRow<'_>,
) -> Vec<(usize, i64)> {
    let own = super::local::night_grid(grid, bound);
    own.map_or_else(Vec::new, |own| {
        observed_contribution(&own, n_coordinates, contribution, user)
    })
}

fn collected(grid: &Grid, n_coordinates: usize, mut buffer: SparseBuffer) -> Vec<(usize, i64)> {
    bounded_entries(grid, n_coordinates, &mut buffer)
        .filter(|&(index, _)| index < n_coordinates)
        .collect()
}

/// The integer entries of what a contribution wrote to `buffer`; none if they exceed the bound:
/// (K3) to (K5).
pub(super) fn bounded_entries<'b>(
    grid: &Grid,
    n_coordinates: usize,
    buffer: &'b mut SparseBuffer,
) -> impl Iterator<Item = (usize, i64)> + 'b {
    buffer.spread();
    #[cfg(privacy_mutants)]
    let unmerged = crate::mutants::unmerged_norm(grid, &buffer.entries);
    merge_repeats(&mut buffer.entries);
    let squared_norm = quantise_entries(grid, n_coordinates, buffer);
    #[cfg(privacy_mutants)]
    let squared_norm = crate::mutants::vector_norm(grid, &buffer.entries, unmerged, squared_norm);
    if !grid.admits(squared_norm) {
        buffer.integers.clear();
    }
    buffer.integers.iter().copied()
}

/// Quantises the entries, each once, and returns their exact squared norm. Entries outside the sum
/// become 0.
fn quantise_entries(grid: &Grid, n_coordinates: usize, buffer: &mut SparseBuffer) -> u128 {
    let step = grid.step();
    let SparseBuffer {
        entries, integers, ..
    } = buffer;
    integers.clear();
    integers.extend(entries.iter().map(|&(index, value)| {
        let index = index as usize;
        let inside = index < n_coordinates;
        (index, if inside { quantise(value, step) } else { 0 })
    }));
    let squares = integers.iter().map(|&(_, z)| square(z));
    squares.fold(0, u128::saturating_add)
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
