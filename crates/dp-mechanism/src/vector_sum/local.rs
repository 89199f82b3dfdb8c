//! The exact sum over the users of one shard.

use dp_core::{Interactions, PerUser};
use rayon::prelude::*;

use super::bounded::bounded_entries;
use super::dense::DenseSum;
use crate::contribution::{SparseBuffer, VectorContribution};
use crate::sum_backend::{add_sums, fetch_next};
use crate::{Grid, Result};

/// Number of users summed by one task; large enough to make a separate partial sum worthwhile.
const USERS_PER_TASK: usize = 1024;

/// The state of one task.
struct Partial<S> {
    sums: Vec<i64>,
    dense: DenseSum,
    scratch: S,
    buffer: SparseBuffer,
}

/// `sum_u Z_u` modulo 2^64 over the given users of `shard`, on the threads of rayon. If users have
/// individual `bounds` on a night, each contribution is scaled down and checked against its bound.
pub(super) fn local_sum<C: VectorContribution>(
    shard: &Interactions,
    users: impl IndexedParallelIterator<Item = usize>,
    n_coordinates: usize,
    (grid, bounds): (&Grid, Option<&PerUser<u64>>),
    contribution: &C,
) -> Result<Vec<i64>> {
    let empty = || vec![0_i64; n_coordinates];
    // boxed, because it is moved with every user
    let start = || {
        Box::new(Partial {
            sums: empty(),
            dense: DenseSum::new(n_coordinates, grid),
            scratch: contribution.scratch(),
            buffer: SparseBuffer::default(),
        })
    };
    users
        .with_min_len(USERS_PER_TASK)
        .try_fold(start, |mut partial, user| {
            let own = match bounds {
                None => Some(*grid),
                Some(bounds) => night_grid(grid, bounds.get(shard.user(user).key())),
            };
            if let Some(own) = own {
                partial.add(shard, user, &own, contribution)?;
            }
            Ok(partial)
        })
        .map(|partial: Result<Box<Partial<_>>>| partial.map(|partial| partial.finish()))
        .try_reduce(empty, |mut a, b| add_sums(&mut a, &b).map(|()| a))
}

/// The grid of a user with this bound; `None` for a user who contributes nothing tonight.
pub(super) fn night_grid(grid: &Grid, bound: Option<&u64>) -> Option<Grid> {
    let bound = bound.copied().filter(|&bound| bound > 0)?;
    Some(grid.scaled_to(bound))
}

impl<S> Partial<S> {
    fn add<C: VectorContribution<Scratch = S>>(
        &mut self,
        shard: &Interactions,
        user: usize,
        grid: &Grid,
        contribution: &C,
    ) -> Result<()> {
        if cfg!(debug_assertions) {
            self.scratch = contribution.scratch(); // makes tests detect what a user leaves in the scratch memory
        }
        if contribution.reads_features() {
            fetch_next(shard, user);
        }
        self.buffer.reset();
        contribution.contribute(shard.user(user), &mut self.scratch, &mut self.buffer);
        let n = self.sums.len();
        if self.buffer.is_dense(n) {
            let values = &self.buffer.dense;
            return self.dense.add(values, grid, &mut self.sums);
        }
        for (index, z) in bounded_entries(grid, n, &mut self.buffer) {
            #[cfg(privacy_mutants)]
            let z = dp_core::mutants::pick("users-count-twice", z, z.wrapping_mul(2));
            if let Some(sum) = self.sums.get_mut(index) {
                *sum = sum.wrapping_add(z);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<i64> {
        self.dense.spill(&mut self.sums);
        self.sums
    }
}
