//! The exact sum over users: in f64 while that is exact, then in i64.

use dp_core::{Interactions, UserRow};
use dp_linalg::{KroneckerAccumulator, packed_index, packed_len};
use rayon::prelude::*;

use super::grid::KroneckerGrid;
use super::user::{KroneckerContribution, RowsBuffer, Shape, load_user};
use crate::Result;
use crate::sum_backend::{add_sums, fetch_next};

/// Number of users summed by one task; large enough to make separate partial sums worthwhile.
const USERS_PER_TASK: usize = 2048;
/// Integers up to this limit are represented exactly in f64 sums.
const EXACT_LIMIT: u64 = 1 << 51;

/// The state of one task.
struct Partial<S> {
    sums: Vec<i64>,
    gram: KroneckerAccumulator,
    /// Number of users in `gram` since it was last emptied, and the maximum allowed.
    n_held: u64,
    most_held: u64,
    packed: Vec<f64>,
    scratch: S,
    buffer: RowsBuffer,
}

/// `sum_u Z_u` over the upper triangle of side `d k`.
pub(super) fn all_users<C: KroneckerContribution>(
    data: &Interactions,
    shape: Shape,
    grid: &KroneckerGrid,
    contribution: &C,
) -> Result<Vec<i64>> {
    let n = packed_len(shape.side());
    (0..data.n_users())
        .into_par_iter()
        .with_min_len(USERS_PER_TASK)
        .try_fold(
            || None,
            |partial, user| {
                let mut partial = match partial {
                    Some(partial) => partial,
                    // boxed, because it is moved with every user
                    None => Box::new(Partial::new(shape, grid, contribution)?),
                };
                fetch_next(data, user);
                partial.add(shape, grid, contribution, data.user(user))?;
                Ok(Some(partial))
            },
        )
        .map(
            |partial: Result<Option<Box<Partial<C::Scratch>>>>| match partial? {
                Some(partial) => partial.finish(shape),
                None => Ok(vec![0; n]),
            },
        )
        .try_reduce(|| vec![0; n], |mut a, b| add_sums(&mut a, &b).map(|()| a))
}

/// `Z_u` of one user.
pub(super) fn one_user<C: KroneckerContribution>(
    shape: Shape,
    grid: &KroneckerGrid,
    contribution: &C,
    user: UserRow<'_>,
) -> Result<Vec<i64>> {
    let mut partial = Partial::new(shape, grid, contribution)?;
    partial.add(shape, grid, contribution, user)?;
    partial.finish(shape)
}

impl<S> Partial<S> {
    fn new<C: KroneckerContribution<Scratch = S>>(
        shape: Shape,
        grid: &KroneckerGrid,
        contribution: &C,
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
            scratch: contribution.scratch(),
            buffer: RowsBuffer::default(),
        })
    }

    fn add<C: KroneckerContribution<Scratch = S>>(
        &mut self,
        shape: Shape,
        grid: &KroneckerGrid,
        contribution: &C,
        user: UserRow<'_>,
    ) -> Result<()> {
        if cfg!(debug_assertions) {
            self.scratch = contribution.scratch(); // makes tests detect what a user leaves in the scratch memory
        }
        let (scratch, buffer, gram) = (&mut self.scratch, &mut self.buffer, &mut self.gram);
        if load_user(shape, grid, contribution, user, scratch, buffer, gram)? {
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
