use dp_accounting::Spend;
use dp_core::{Interactions, Private, UserRow, params};
use rayon::prelude::*;

use crate::contribution::{SparseBuffer, VectorContribution};
use crate::release::{ReleasedVector, check_spend};
use crate::{Grid, NoiseSource, Result};

/// Users summed by one task; large enough that a private partial sum pays off.
const USERS_PER_TASK: usize = 1024;

/// An exact integer sum of bounded per-user vectors, not yet released.
///
/// ```text
/// S = sum_u Z_u  (modulo 2^64),   Z_u integer,  ||Z_u||_2 <= D
/// ```
///
/// # Privacy
/// Adding or removing one user changes `S` by exactly `Z_u`, whose norm the kernel has checked
/// in integers: a user above the bound adds nothing. The sum itself is private and has no
/// getter; [`release`](Self::release) is the only way out.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Plan, ReleaseRequest};
/// use dp_core::{Adjacency, ApproxDp, InteractionsBuilder, Private, ReplaceFactor, UserRow};
/// use dp_mechanism::{Grid, NoiseSource, SparseBuffer, VectorContribution, VectorSum};
///
/// struct OneItem; // each user votes for the first item of their own
/// impl VectorContribution for OneItem {
///     type Scratch = ();
///     fn scratch(&self) {}
///     fn contribute(&self, user: UserRow<'_>, _: &mut (), out: &mut SparseBuffer) {
///         if let Some(&item) = user.items().first() {
///             out.push(item, 1.0);
///         }
///     }
/// }
///
/// let mut builder = InteractionsBuilder::new(3);
/// builder.push(0, 2, 1.0)?;
/// let data = Private::new(builder.build().0);
///
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let plan = Plan::calibrate(
///     target,
///     Adjacency::AddRemoveUser,
///     &[ReleaseRequest::new("votes", 1.0, ReplaceFactor::Two, 3)],
/// )?;
/// let mut ledger = Ledger::in_memory("example", Budget::new(target, Adjacency::AddRemoveUser)?)?;
/// let spend = ledger.reserve(&plan)?.remove(0);
///
/// let grid = Grid::new(spend.noise_multiplier()?, 1.0)?;
/// let sum = VectorSum::accumulate(&data, 3, grid, &OneItem)?;
/// let votes = sum.release(spend, &mut NoiseSource::operating_system())?;
/// assert_eq!(votes.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds a private sum; printing it is never wanted"
)]
pub struct VectorSum {
    grid: Grid,
    sums: Vec<i64>,
}

impl VectorSum {
    /// The empty sum over `n_coordinates`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `n_coordinates` is 0.
    pub fn empty(n_coordinates: usize, grid: Grid) -> Result<Self> {
        params::at_least_one("n_coordinates", n_coordinates)?;
        Ok(Self {
            grid,
            sums: vec![0; n_coordinates],
        })
    }

    /// Sums the contributions of all users. Integer sums wrap, so the result depends neither
    /// on the order of the users nor on the number of threads.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `n_coordinates` is 0.
    pub fn accumulate<C: VectorContribution>(
        data: &Private<Interactions>,
        n_coordinates: usize,
        grid: Grid,
        contribution: &C,
    ) -> Result<Self> {
        let mut total = Self::empty(n_coordinates, grid)?;
        let data = data.expose();
        let n_tasks = data.n_users().div_ceil(USERS_PER_TASK);
        let partials = (0..n_tasks).into_par_iter().fold(
            || {
                (
                    vec![0_i64; n_coordinates],
                    contribution.scratch(),
                    SparseBuffer::default(),
                )
            },
            |(mut sums, mut scratch, mut buffer), task| {
                let first = task * USERS_PER_TASK;
                for user in first..(first + USERS_PER_TASK).min(data.n_users()) {
                    let row = data.user(user);
                    let bounded = bounded_entries(
                        &grid,
                        n_coordinates,
                        contribution,
                        row,
                        &mut scratch,
                        &mut buffer,
                    );
                    for (index, z) in bounded {
                        #[cfg(privacy_mutants)]
                        let z = dp_core::mutants::pick("users-count-twice", z, z.wrapping_mul(2));
                        sums[index] = sums[index].wrapping_add(z);
                    }
                }
                (sums, scratch, buffer)
            },
        );
        total.sums = partials
            .map(|(sums, ..)| sums)
            .reduce(|| vec![0; n_coordinates], wrapping_sum);
        Ok(total)
    }

    /// Adds the sum over another shard of users, made on the same grid. The shards must hold
    /// different users, as those of `Interactions::shards` do: each sum bounds its users anew.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the lengths differ, [`crate::Error::Param`] when the grids do.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        crate::release::same_grid(&self.grid, &other.grid)?;
        params::same_size("shard sum", other.sums.len(), self.sums.len())?;
        self.sums = wrapping_sum(std::mem::take(&mut self.sums), other.sums);
        Ok(())
    }

    /// Adds exact noise once and makes the sum public.
    ///
    /// # Privacy
    /// `Y = S + floor(2^k N(0, 1)) = floor(S + 2^k N(0, 1))` per coordinate: post-processing of
    /// the continuous Gaussian mechanism with integer sensitivity `D`, hence `mu = D / 2^k` under
    /// add/remove and twice that under replacement. Event: Gaussian with the spend's multiplier.
    ///
    /// # Errors
    /// [`crate::Error::SpendTooSmall`], [`crate::Error::WrongSpend`] or
    /// [`crate::Error::DrawCount`] when the spend does not pay for this release;
    /// [`crate::Error::EntropyUnavailable`]. In each case nothing is released and the spend is
    /// gone.
    pub fn release(mut self, spend: Spend, noise: &mut NoiseSource) -> Result<ReleasedVector> {
        check_spend(&spend, &self.grid, self.sums.len(), false)?;
        let stream = noise.release_stream()?;
        stream.add_floored_gaussian(self.grid.sigma(), &mut self.sums);
        Ok(ReleasedVector::new(
            self.grid,
            self.sums,
            noise.is_insecure(),
        ))
    }
}

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

/// Runs the contribution and returns its integer entries, none if they exceed the bound.
fn bounded_entries<'b, C: VectorContribution>(
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
pub(crate) const fn square(z: i64) -> u128 {
    let magnitude = z.unsigned_abs() as u128;
    magnitude * magnitude
}

fn wrapping_sum(mut a: Vec<i64>, b: Vec<i64>) -> Vec<i64> {
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.wrapping_add(b);
    }
    a
}

#[cfg(test)]
mod tests;
