//! Exact sums of bounded per-user vectors.

mod bounded;
mod dense;
mod discrete;
mod local;
mod paid_sum;
mod sampled;

use dp_accounting::Spend;
use dp_core::{Interactions, PerUser, Private, params};

use crate::contribution::{AnyContribution, SparseBuffer, VectorContribution};
use crate::payment::{check_spend, same_grid};
use crate::release::{NoiseLaw, ReleasedVector};
use crate::sum_backend::{
    InProcess, Share, SumBackend, SumRequest, add_sums, join, sum_over_users,
};
use crate::summed_users::SummedUsers;
use crate::{ClientSampling, Error, Grid, NoiseSource, Result, RoundKey};

pub use bounded::vector_contribution;
pub(crate) use bounded::{observed_contribution, observed_night};
use local::local_sum;
pub use paid_sum::PaidSum;

/// An exact integer sum of bounded per-user vectors, not yet released.
///
/// ```text
/// S = sum_u Z_u  (modulo 2^64),   Z_u integer,  ||Z_u||_2 <= D
/// ```
///
/// # Privacy
/// Adding or removing one user changes `S` by exactly `Z_u`, whose norm the kernel has checked in
/// integers: a user above the bound contributes nothing. The sum itself is private and has no
/// getter; [`release`](Self::release) is the only way to publish it.
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
    /// How the users were sampled; `None` for all users.
    sampling: Option<ClientSampling>,
    /// Whether the sample was repeatable.
    insecure: bool,
    /// The users in the sum or, for a sample, those it was drawn from.
    users: SummedUsers,
}

impl VectorSum {
    /// The empty sum over `n_coordinates`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `n_coordinates` is 0.
    pub fn empty(n_coordinates: usize, grid: Grid) -> Result<Self> {
        params::at_least_one("n_coordinates", n_coordinates)?;
        Ok(Self::of_all(
            grid,
            vec![0; n_coordinates],
            SummedUsers::nobody(),
        ))
    }

    /// Sums the contributions of all users in this process. Integer sums wrap, so the result
    /// depends neither on the order of the users nor on the number of threads.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `n_coordinates` is 0.
    pub fn accumulate<C: VectorContribution>(
        data: &Private<Interactions>,
        n_coordinates: usize,
        grid: Grid,
        contribution: &C,
    ) -> Result<Self> {
        Self::accumulate_with(&InProcess, data, n_coordinates, grid, contribution)
    }

    /// Sums the contributions of all users with `backend`. The result is bit-identical to that of
    /// [`accumulate`](Self::accumulate).
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `n_coordinates` is 0; the errors of the backend.
    ///
    /// # Examples
    /// ```
    /// # use dp_core::{InteractionsBuilder, Private, UserRow};
    /// # use dp_mechanism::{Grid, SparseBuffer, VectorContribution};
    /// use dp_mechanism::{TwoServers, VectorSum};
    /// # struct Count;
    /// # impl VectorContribution for Count {
    /// #     type Scratch = ();
    /// #     fn scratch(&self) {}
    /// #     fn contribute(&self, user: UserRow<'_>, _: &mut (), out: &mut SparseBuffer) {
    /// #         for &item in user.items() { out.push(item, 1.0); }
    /// #     }
    /// # }
    /// # let mut builder = InteractionsBuilder::new(3);
    /// # builder.push(0, 2, 1.0)?;
    /// # let data = Private::new(builder.build().0);
    /// # let grid = Grid::new(2.0, 1.0)?;
    /// let sum = VectorSum::accumulate_with(&TwoServers::new(5)?, &data, 3, grid, &Count)?;
    /// # let _ = sum;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accumulate_with<C: VectorContribution>(
        backend: &dyn SumBackend,
        data: &Private<Interactions>,
        n_coordinates: usize,
        grid: Grid,
        contribution: &C,
    ) -> Result<Self> {
        Self::accumulate_any(backend, data, n_coordinates, grid, contribution)
    }

    fn accumulate_any(
        backend: &dyn SumBackend,
        data: &Private<Interactions>,
        n_coordinates: usize,
        grid: Grid,
        contribution: &dyn AnyContribution<SparseBuffer>,
    ) -> Result<Self> {
        params::at_least_one("n_coordinates", n_coordinates)?;
        let local =
            |shard: &Interactions| Self::shard_sum(shard, None, n_coordinates, &grid, contribution);
        let data = data.expose();
        let sums = sum_over_users(backend, data, &SumRequest::alone(n_coordinates), &local)?;
        Ok(Self::of_all(grid, sums, SummedUsers::of(data)))
    }

    /// Joins the totals of two servers that each summed one share of every client.
    ///
    /// # Privacy
    /// `grid` must be the one on which every client bounded what it sent, with
    /// [`vector_contribution`], once: shares hide a contribution that is too large or repeated, and
    /// nothing here can check it again. See [`TwoServers`](crate::TwoServers) for what each party
    /// learns. Such a sum cannot be [merged](Self::merge), because its users are not known.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if the lengths differ, [`crate::Error::Param`] if they are 0.
    pub fn from_shares(grid: Grid, totals: [Share; 2]) -> Result<Self> {
        let sums = join(totals)?.into_exposed();
        params::at_least_one("n_coordinates", sums.len())?;
        Ok(Self::of_all(grid, sums, SummedUsers::Unknown))
    }

    /// The sum over the users of one shard: all of them, or those selected by a round's key.
    pub(crate) fn shard_sum(
        shard: &Interactions,
        sample: Option<(ClientSampling, &RoundKey)>,
        n_coordinates: usize,
        grid: &Grid,
        contribution: &dyn AnyContribution<SparseBuffer>,
    ) -> Result<Vec<i64>> {
        let drawn = sample.map(|(sampling, key)| sampling.drawn(shard, key));
        let drawn = drawn.transpose()?;
        let law = (grid, None);
        local_sum(shard, drawn.as_deref(), n_coordinates, law, contribution)
    }

    /// The sum over the users of one shard on a night, each within the bound for that night.
    pub(crate) fn night_sum(
        shard: &Interactions,
        bounds: &PerUser<u64>,
        n_coordinates: usize,
        grid: &Grid,
        contribution: &dyn AnyContribution<SparseBuffer>,
    ) -> Result<Vec<i64>> {
        let law = (grid, Some(bounds));
        local_sum(shard, None, n_coordinates, law, contribution)
    }

    /// The sum in a total.
    pub(crate) const fn of_total(
        grid: Grid,
        sums: Vec<i64>,
        sampling: Option<ClientSampling>,
        insecure: bool,
    ) -> Self {
        Self {
            grid,
            sums,
            sampling,
            insecure,
            users: SummedUsers::Unknown,
        }
    }

    /// A sum over users without sampling.
    const fn of_all(grid: Grid, sums: Vec<i64>, users: SummedUsers) -> Self {
        Self {
            grid,
            sums,
            sampling: None,
            insecure: false,
            users,
        }
    }

    /// Adds the sum over another shard of users, computed on the same grid. The shards must contain
    /// different users, as those of `Interactions::shards` do: each sum bounds its users
    /// separately, so a user in both could change the total by `2 D`. Sums over one table, its
    /// copies, its parts or shards that may overlap are rejected ([`dp_core::Origin`]), and so are
    /// sums of shares. For tables that were built separately, the caller must make sure that they
    /// contain different users.
    ///
    /// Independent Poisson samples of two shards with the same probability are a Poisson sample of
    /// both, so such sums can be merged. Fixed-size samples of two shards are not a fixed-size
    /// sample of both, and sums of different schemes are not samples of any scheme that could be
    /// accounted for, so these are rejected.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if the lengths differ, [`crate::Error::Param`] if the grids differ,
    /// [`crate::Error::Sampling`] if the samples do not form one sample,
    /// [`crate::Error::SameUsers`] if the users are not known to be different. Nothing is then
    /// added.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        same_grid(&self.grid, &other.grid)?;
        params::same_size("shard sum", other.sums.len(), self.sums.len())?;
        self.same_scheme(&other)?;
        self.users.join(other.users)?;
        add_sums(&mut self.sums, &other.sums)?;
        self.insecure |= other.insecure;
        Ok(())
    }

    /// Whether samples of both together are one sample of all users.
    fn same_scheme(&self, other: &Self) -> Result<()> {
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("merge-of-any-samples") {
            return Ok(());
        }
        match (self.sampling, other.sampling) {
            (None, None) => Ok(()),
            (Some(ClientSampling::Poisson(a)), Some(ClientSampling::Poisson(b))) if a == b => {
                Ok(())
            }
            _ => Err(Error::Sampling),
        }
    }

    #[cfg(test)]
    pub(crate) fn sums(&self) -> &[i64] {
        &self.sums
    }

    /// Adds exact noise once and makes the sum public.
    ///
    /// # Privacy
    /// `Y = S + floor(2^k N(0, 1)) = floor(S + 2^k N(0, 1))` per coordinate: post-processing of the
    /// continuous Gaussian mechanism with integer sensitivity `D` (K10), hence `mu = D / 2^k` under
    /// add/remove and twice that under replacement. Event: Gaussian with the spend's multiplier, on
    /// a sample if the sum is over one: unless the scheme and its probability or sizes are the
    /// same, nothing is released.
    ///
    /// # Errors
    /// [`crate::Error::SpendTooSmall`], [`crate::Error::WrongSpend`] or [`crate::Error::DrawCount`]
    /// if the spend does not cover this release; [`crate::Error::EntropyUnavailable`]. In each case
    /// nothing is released and the spend is lost.
    pub fn release(mut self, spend: Spend, noise: &mut NoiseSource) -> Result<ReleasedVector> {
        let n_draws = self.sums.len();
        check_spend(&spend, self.sampling.as_ref(), &self.grid, n_draws, false)?;
        let stream = noise.release_stream()?;
        stream.add_floored_gaussian(self.grid.sigma(), &mut self.sums);
        Ok(ReleasedVector::new(
            self.grid,
            self.sums,
            NoiseLaw::Floored,
            self.insecure || noise.is_insecure(),
        ))
    }
}

#[cfg(test)]
mod dense_tests;
#[cfg(test)]
mod discrete_tests;
#[cfg(test)]
mod sampled_tests;
#[cfg(test)]
mod tests;
