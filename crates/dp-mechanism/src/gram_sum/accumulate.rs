//! Second pass: gathered Gram sums item by item, exact in f64, accumulated in i64.

use std::ops::Range;

use dp_core::{ItemEntry, ItemMajor, parallel};
use dp_linalg::{GramAccumulator, packed_len};

use super::factors::BoundedFactors;
use super::grids::GramGrids;
use super::quantise::{EXACT_LIMIT, whole};
use crate::Result;

/// Adds `x x^T` and `l x` of every record of the block to the sums of its item.
pub(super) fn gather_items(
    item_major: &ItemMajor,
    bounded: &BoundedFactors,
    grids: &GramGrids,
    matrices: &mut [i64],
    rhs: &mut [i64],
) -> Result<()> {
    let dim = bounded.dim;
    // |x_a x_b| <= ||x||^2 <= D_A and |l x_a| <= D_b for every admitted record
    let largest = grids.matrix().l2_bound().max(grids.rhs().l2_bound());
    let rows = EXACT_LIMIT.checked_div(largest).unwrap_or(1).max(1);
    let rows_between_spills = usize::try_from(rows).unwrap_or(usize::MAX);
    let items = matrices
        .chunks_mut(packed_len(dim))
        .zip(rhs.chunks_mut(dim));
    parallel::try_for_each(
        items.enumerate(),
        || Ok(ItemScratch::new(dim)?),
        |scratch, (item, (matrix, rhs))| {
            for run in own(item_major.item(item), &bounded.users).chunks(rows_between_spills) {
                scratch.add_run(run, bounded)?;
                scratch.spill(matrix, rhs)?;
            }
            Ok(())
        },
    )
}

/// One thread's records of the current item, and float accumulators.
struct ItemScratch {
    gram: GramAccumulator<f64>,
    users: Vec<u32>,
    scales: Vec<f32>,
    labels: Vec<f64>,
    packed: Vec<f64>,
}

impl ItemScratch {
    fn new(dim: usize) -> Result<Self, dp_linalg::Error> {
        Ok(Self {
            gram: GramAccumulator::new(dim)?,
            users: Vec::new(),
            scales: Vec::new(),
            labels: Vec::new(),
            packed: vec![0.0; packed_len(dim)],
        })
    }

    fn add_run(&mut self, run: &[ItemEntry], bounded: &BoundedFactors) -> Result<()> {
        self.users.clear();
        self.scales.clear();
        self.labels.clear();
        let first_user = u32::try_from(bounded.users.start).unwrap_or(u32::MAX); // users are u32
        for entry in run {
            let position = (entry.position as usize).saturating_sub(bounded.first_record);
            self.users.push(entry.user.saturating_sub(first_user));
            self.scales.push(at(&bounded.scales, position));
            self.labels.push(at(&bounded.labels, position).into());
        }
        self.gram.add_gathered_integers_with_rhs(
            &bounded.factors,
            &self.users,
            &self.scales,
            &self.labels,
        )?;
        Ok(())
    }

    /// Adds the exact float sums to the integer sums and resets them.
    fn spill(&mut self, matrix: &mut [i64], rhs: &mut [i64]) -> Result<()> {
        self.gram.write_packed(&mut self.packed)?;
        add_exact(matrix, &self.packed);
        add_exact(rhs, self.gram.rhs());
        self.gram.reset();
        Ok(())
    }
}

/// The records of these users among those of an item, with users increasing.
pub(super) fn own<'a>(entries: &'a [ItemEntry], users: &Range<usize>) -> &'a [ItemEntry] {
    let first = entries.partition_point(|entry| (entry.user as usize) < users.start);
    let last = entries.partition_point(|entry| (entry.user as usize) < users.end);
    entries.get(first..last).unwrap_or_default()
}

/// The value at a position; a missing record contributes nothing.
pub(super) fn at(values: &[f32], position: usize) -> f32 {
    values.get(position).copied().unwrap_or_default()
}

pub(super) fn add_exact(sums: &mut [i64], exact: &[f64]) {
    for (sum, &value) in sums.iter_mut().zip(exact) {
        debug_assert!(value.abs() <= EXACT_LIMIT as f64 && value.fract() == 0.0);
        *sum = sum.wrapping_add(whole(value));
    }
}
