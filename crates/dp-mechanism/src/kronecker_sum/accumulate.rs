//! The exact sum over users: in f64 while that is exact, then in i64.

use dp_core::{Interactions, UserRow, parallel};
use dp_linalg::{KroneckerAccumulator, packed_index, packed_len};

use super::grid::KroneckerGrid;
use super::user::{RowsBuffer, Shape, load_user};
use crate::Result;
use crate::contribution::{AnyContribution, Contributor};
use crate::sum_backend::{fetch_next, total};

/// Number of users from which a separate partial sum is worthwhile.
const USERS_PER_TASK: usize = 2048;
/// Integers up to this limit are represented exactly in f64 sums.
const EXACT_LIMIT: u64 = 1 << 51;

/// The state of one thread.
struct Partial<'a> {
    sums: Vec<i64>,
    gram: KroneckerAccumulator,
    /// Number of users in `gram` since it was last emptied, and the maximum allowed.
    n_held: u64,
    most_held: u64,
    packed: Vec<f64>,
    contribute: Contributor<'a, RowsBuffer>,
    buffer: RowsBuffer,
}

/// `sum_u Z_u` over the upper triangle of side `d k`.
pub(super) fn all_users(
    data: &Interactions,
    shape: Shape,
    grid: &KroneckerGrid,
    contribution: &dyn AnyContribution<RowsBuffer>,
) -> Result<Vec<i64>> {
    let partials = parallel::try_fold(
        data.n_users(),
        USERS_PER_TASK,
        || Partial::new(shape, grid, contribution),
        |partial, mut users| {
            users.try_for_each(|user| {
                fetch_next(data, user);
                partial.add(shape, grid, data.user(user))
            })
        },
    )?;
    let sums = partials.into_iter().map(|partial| partial.finish(shape));
    let sums = sums.collect::<Result<Vec<_>>>()?;
    total(packed_len(shape.side()), sums.into_iter())
}

/// `Z_u` of one user.
pub(super) fn one_user(
    shape: Shape,
    grid: &KroneckerGrid,
    contribution: &dyn AnyContribution<RowsBuffer>,
    user: UserRow<'_>,
) -> Result<Vec<i64>> {
    let mut partial = Partial::new(shape, grid, contribution)?;
    partial.add(shape, grid, user)?;
    partial.finish(shape)
}

impl<'a> Partial<'a> {
    fn new(
        shape: Shape,
        grid: &KroneckerGrid,
        contribution: &'a dyn AnyContribution<RowsBuffer>,
    ) -> Result<Self> {
        let planes = packed_len(shape.rank);
        // entries of an accepted user are at most D each
        let most_held = EXACT_LIMIT
            .checked_div(grid.grid().l2_bound())
            .unwrap_or(1)
            .max(1);
        Ok(Self {
            sums: vec![0; packed_len(shape.side())],
            gram: KroneckerAccumulator::new(shape.dim, planes)?,
            n_held: 0,
            most_held,
            packed: vec![0.0; planes.saturating_mul(packed_len(shape.dim))],
            contribute: contribution.contributor(),
            buffer: RowsBuffer::default(),
        })
    }

    fn add(&mut self, shape: Shape, grid: &KroneckerGrid, user: UserRow<'_>) -> Result<()> {
        let (contribute, buffer) = (&mut self.contribute, &mut self.buffer);
        if load_user(shape, grid, contribute, user, buffer, &mut self.gram)? {
            self.buffer.fill_weights(grid);
            self.gram.add(&self.buffer.weights)?;
            self.n_held = self.n_held.saturating_add(1);
            if self.n_held >= self.most_held {
                self.spill(shape)?;
            }
        }
        Ok(())
    }

    /// Adds the exact float sums to the integer sums and resets them.
    fn spill(&mut self, shape: Shape) -> Result<()> {
        self.gram.write_packed(&mut self.packed)?;
        self.gram.reset();
        self.n_held = 0;
        let (side, rank) = (shape.side(), shape.rank);
        let planes = self.packed.chunks_exact(packed_len(shape.dim));
        let pairs = (0..rank).flat_map(|p| (p..rank).map(move |q| (p, q)));
        for ((p, q), plane) in pairs.zip(planes) {
            let entries = (0..shape.dim).flat_map(|a| (a..shape.dim).map(move |b| (a, b)));
            for ((a, b), &value) in entries.zip(plane) {
                let z = integer(value);
                let at = |x: usize, r: usize| x.saturating_mul(rank).saturating_add(r);
                let mut put = |row, column| {
                    if let Some(sum) = self.sums.get_mut(packed_index(side, row, column)) {
                        *sum = sum.wrapping_add(z);
                    }
                };
                put(at(a, p), at(b, q));
                // the transposed entry of the block of a and b; on the diagonal it is the same
                // entry
                if p != q && a != b {
                    put(at(a, q), at(b, p));
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, shape: Shape) -> Result<Vec<i64>> {
        self.spill(shape)?;
        Ok(self.sums)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "an integer of at most 2^51 in size"
)]
const fn integer(value: f64) -> i64 {
    value as i64
}
