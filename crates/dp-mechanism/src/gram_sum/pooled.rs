//! A single matrix for all items: each user's integer factor once, and label times factor per item.

use dp_core::{ItemMajor, parallel};
use dp_linalg::{GramAccumulator, add_gathered_rows, packed_len};

use super::accumulate::{add_exact, at, own};
use super::factors::{BoundedFactors, within_bounds};
use super::grids::GramGrids;
use super::quantise::{EXACT_LIMIT, quantise_factor, quantise_label};
use crate::Result;
use crate::contribution::FactorBuffer;

/// Number of users whose outer products are summed by one task.
const USERS_AT_A_TIME: usize = 1 << 13;

/// Quantisation (K26) and exact check (K27) of one user: `factor` becomes an integer row, `labels` integers. A
/// user above a bound or without records is zeroed.
pub(super) fn bound(
    grids: &GramGrids,
    factor: &mut [f32],
    labels: &mut [f32],
    buffer: &FactorBuffer,
    scratch: &mut Vec<f64>,
) -> Result<()> {
    let norm = quantise_factor(grids, factor, scratch)?;
    let records = buffer.weights.iter().zip(&buffer.labels);
    for (label, (&w, &y)) in labels.iter_mut().zip(records) {
        *label = quantise_label(grids, w, y);
    }
    scratch.clear();
    scratch.resize(labels.len(), norm);
    if labels.is_empty() || !within_bounds(grids, &[norm], scratch, labels) {
        factor.fill(0.0);
        labels.fill(0.0);
    }
    Ok(())
}

/// Adds `x x^T` of every user of the block, once.
pub(super) fn gather_users(
    bounded: &BoundedFactors,
    grids: &GramGrids,
    matrix: &mut [i64],
) -> Result<()> {
    let dim = bounded.dim;
    let rows = exact_rows(grids.matrix().l2_bound()).min(USERS_AT_A_TIME);
    let parts: Vec<&[f32]> = bounded.factors.chunks(rows.saturating_mul(dim)).collect();
    let sum = |at: usize| outer_products(parts.get(at).copied().unwrap_or_default(), dim);
    for part in parallel::map(parts.len(), sum) {
        add_exact(matrix, &part?);
    }
    Ok(())
}

/// `sum x x^T` over rows of integers, exact.
fn outer_products(factors: &[f32], dim: usize) -> Result<Vec<f64>> {
    let n_rows = factors.len().checked_div(dim).unwrap_or(0);
    let mut gram = GramAccumulator::<f64>::new(dim)?;
    let indices: Vec<u32> = (0_u32..).take(n_rows).collect();
    let (scales, labels) = (vec![1.0; n_rows], vec![0.0; n_rows]);
    gram.add_gathered_integers_with_rhs(factors, &indices, &scales, &labels)?;
    let mut packed = vec![0.0; packed_len(dim)];
    gram.write_packed(&mut packed)?;
    Ok(packed)
}

/// Adds `l x` of every record of the block to the right-hand side of its item.
pub(super) fn gather_labels(
    item_major: &ItemMajor,
    bounded: &BoundedFactors,
    grids: &GramGrids,
    rhs: &mut [i64],
) -> Result<()> {
    let dim = bounded.dim;
    let rows_between_spills = exact_rows(grids.rhs().l2_bound());
    let first_user = u32::try_from(bounded.users.start).unwrap_or(u32::MAX); // users are u32
    parallel::try_for_each(
        rhs.chunks_mut(dim).enumerate(),
        || Ok((Vec::new(), Vec::new(), vec![0.0; dim])),
        |(users, labels, sum), (item, rhs)| {
            let records = own(item_major.item(item), &bounded.users);
            for run in records.chunks(rows_between_spills) {
                users.clear();
                labels.clear();
                for entry in run {
                    let position = (entry.position as usize).saturating_sub(bounded.first_record);
                    users.push(entry.user.saturating_sub(first_user));
                    labels.push(f64::from(at(&bounded.labels, position)));
                }
                sum.fill(0.0);
                add_gathered_rows(&bounded.factors, users, labels, sum)?;
                add_exact(rhs, sum);
            }
            Ok(())
        },
    )
}

/// Number of rows, each of which adds at most `bound` to any coordinate, up to which the float sum
/// is certainly exact.
fn exact_rows(bound: u64) -> usize {
    let rows = EXACT_LIMIT.checked_div(bound).unwrap_or(1).max(1);
    usize::try_from(rows).unwrap_or(usize::MAX)
}
