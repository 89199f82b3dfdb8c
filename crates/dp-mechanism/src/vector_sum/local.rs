//! The exact sum over the users of one shard.

use dp_core::{Interactions, PerUser, parallel};

use super::bounded::bounded_entries;
use super::dense::DenseSum;
use crate::contribution::{AnyContribution, Contributor, SparseBuffer};
use crate::sum_backend::{fetch_next, total};
use crate::{Grid, Result};

/// Number of users from which a separate partial sum is worthwhile.
const USERS_PER_TASK: usize = 1024;

/// The state of one thread.
struct Partial<'a> {
    sums: Vec<i64>,
    dense: DenseSum,
    contribute: Contributor<'a, SparseBuffer>,
    buffer: SparseBuffer,
}

/// `sum_u Z_u` modulo 2^64 over all users of `shard` or those of a sample, on the threads of rayon.
/// If users have individual `bounds` on a night, each contribution is scaled down and checked
/// against its bound.
pub(super) fn local_sum(
    shard: &Interactions,
    sample: Option<&[usize]>,
    n_coordinates: usize,
    (grid, bounds): (&Grid, Option<&PerUser<u64>>),
    contribution: &dyn AnyContribution<SparseBuffer>,
) -> Result<Vec<i64>> {
    let start = || {
        Ok(Partial {
            sums: vec![0; n_coordinates],
            dense: DenseSum::new(n_coordinates, grid),
            contribute: contribution.contributor(),
            buffer: SparseBuffer::default(),
        })
    };
    let fetch = contribution.reads_features();
    let add = |partial: &mut Partial<'_>, user: usize| {
        let own = match bounds {
            None => Some(*grid),
            Some(bounds) => night_grid(grid, bounds.get(shard.user(user).key())),
        };
        own.map_or(Ok(()), |own| {
            if fetch {
                fetch_next(shard, user);
            }
            partial.add(shard, user, &own)
        })
    };
    let n_users = sample.map_or(shard.n_users(), <[usize]>::len);
    let partials =
        parallel::try_fold(
            n_users,
            USERS_PER_TASK,
            start,
            |partial, mut places| match sample {
                None => places.try_for_each(|user| add(partial, user)),
                Some(sample) => {
                    let mut users = sample.get(places).unwrap_or_default().iter();
                    users.try_for_each(|&user| add(partial, user))
                }
            },
        )?;
    total(n_coordinates, partials.into_iter().map(Partial::finish))
}

/// The grid of a user with this bound; `None` for a user who contributes nothing tonight.
pub(super) fn night_grid(grid: &Grid, bound: Option<&u64>) -> Option<Grid> {
    let bound = bound.copied().filter(|&bound| bound > 0)?;
    Some(grid.scaled_to(bound))
}

impl Partial<'_> {
    fn add(&mut self, shard: &Interactions, user: usize, grid: &Grid) -> Result<()> {
        self.buffer.reset();
        (self.contribute)(shard.user(user), &mut self.buffer);
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
