//! Sums over the clients of one sample.

use dp_core::{Interactions, Private, params};

use super::bounded::square;
use super::{PaidSum, VectorSum};
use crate::contribution::VectorContribution;
use crate::summed_users::SummedUsers;
use crate::{ClientSample, ClientSampling, Grid, NoiseSource, PaidSample, Result, RoundKey};

impl VectorSum {
    /// Draws a sample of the users and sums the contributions of those in it.
    ///
    /// ```text
    /// S = sum_{u in A} Z_u,   A drawn by `sampling` from a fresh key      (K14)
    /// ```
    ///
    /// The sample is drawn and discarded here, so it cannot serve a second release:
    /// [`ClientSample`] explains what that would cost. Nor can it be inspected and redrawn: the sum
    /// shows nothing before its release. Callers must not time this call and decide by the duration
    /// whether to continue, see [`PaidSample`].
    ///
    /// # Privacy
    /// Given `A`, adding or removing one user changes `S` by `Z_u`, of norm at most `D`, if the
    /// user is in `A` and by nothing otherwise: [`release`](Self::release) is the Gaussian
    /// mechanism on a sample, and accepts only a spend for [`ClientSampling::event`] around a
    /// Gaussian with the general replacement factor. The amplification holds against anyone who
    /// does not know the sample. Under samples of fixed size the number of users is public.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `n_coordinates` is 0; the errors of [`ClientSampling::sample`],
    /// none of which contains the number of users.
    ///
    /// # Examples
    /// ```
    /// # use dp_core::{InteractionsBuilder, Private, UserRow};
    /// # use dp_mechanism::{SparseBuffer, VectorContribution};
    /// # struct Count;
    /// # impl VectorContribution for Count {
    /// #     type Scratch = ();
    /// #     fn scratch(&self) {}
    /// #     fn contribute(&self, user: UserRow<'_>, _: &mut (), out: &mut SparseBuffer) {
    /// #         for &item in user.items().iter().take(1) { out.push(item, 1.0); }
    /// #     }
    /// # }
    /// # let mut builder = InteractionsBuilder::new(3);
    /// # builder.push(0, 2, 1.0)?;
    /// # let data = Private::new(builder.build().0);
    /// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
    /// use dp_core::{Adjacency, ApproxDp, DpEvent};
    /// use dp_mechanism::{ClientSampling, Grid, NoiseSource, PoissonSampling, VectorSum};
    ///
    /// let sampling = ClientSampling::from(PoissonSampling::new(0.1)?);
    /// let target = ApproxDp::target(2.0, 1e-6)?;
    /// let adjacency = Adjacency::AddRemoveUser;
    /// let (plan, noise_multiplier) = Plan::calibrate_noise(target, adjacency, |z| {
    ///     let step = sampling.event(DpEvent::gaussian(z));
    ///     (0..5).map(|t| PlannedRelease::new(format!("step-{t}"), step.clone(), 3)).collect()
    /// })?;
    /// let mut ledger = Ledger::in_memory("example", Budget::schedule(target, adjacency)?)?;
    /// let noise = &mut NoiseSource::operating_system();
    /// for spend in ledger.reserve(&plan)? {
    ///     let grid = Grid::new(noise_multiplier, 1.0)?;
    ///     let sum = VectorSum::accumulate_sampled(sampling, &data, 3, grid, &Count, noise)?;
    ///     let step = sum.release(spend, noise)?;
    ///     assert_eq!(step.len(), 3);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accumulate_sampled<C: VectorContribution>(
        sampling: impl Into<ClientSampling>,
        data: &Private<Interactions>,
        n_coordinates: usize,
        grid: Grid,
        contribution: &C,
        noise: &mut NoiseSource,
    ) -> Result<Self> {
        params::at_least_one("n_coordinates", n_coordinates)?;
        let users = data.expose();
        let (sampling, key) = (sampling.into(), RoundKey::draw(noise)?);
        let drawn = Some((sampling, &key));
        let sums = Self::shard_sum(users, drawn, n_coordinates, &grid, contribution)?;
        Ok(Self {
            grid,
            sums,
            sampling: Some(sampling),
            insecure: noise.is_insecure(),
            users: SummedUsers::of(users),
        })
    }

    /// Sums the integer messages that the clients of one sample sent, as a server receives them.
    ///
    /// ```text
    /// Z_c = first message of client c with n_coordinates entries and sum_i Z_ci^2 <= D^2, else 0
    /// S   = sum_{c in A} Z_c                                                       (K15)
    /// ```
    ///
    /// A message is the client's number and its integers, as computed by [`vector_contribution`]
    /// (dense). Everything that clients may get wrong is ignored and not reported: no message, a
    /// message of another length or above the bound, a second one, or one from a client that was
    /// not drawn. `messages` is consumed as it comes, so it may receive from the network. Every
    /// message is checked and added with weight 1 or 0, so the speed of consumption does not reveal
    /// whose messages count.
    ///
    /// # Privacy
    /// `Z_c` depends only on what client `c` itself sent, as long as messages of one client can be
    /// distinguished from another's (authenticated links). So adding or removing one client changes
    /// `S` by at most `D` if it was drawn and by nothing otherwise, whether clients follow the
    /// protocol or not. The sample is consumed, and its spend is passed on to the release.
    /// [`PaidSample`] explains what a server must not do with the sample. All that a misbehaving
    /// client can do is to send another vector of norm `D`.
    ///
    /// A client knows whether it was asked. Under Poisson sampling this reveals nothing about the
    /// others; under fixed sizes, `k` clients that combine their knowledge turn `m / n` into at
    /// most `m / (n - k)` for everybody else.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `n_coordinates` is 0, and nothing that depends on messages.
    ///
    /// # Examples
    /// ```
    /// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
    /// use dp_core::{Adjacency, DpEvent};
    /// use dp_mechanism::{ClientSampling, Grid, NoiseSource, PoissonSampling, VectorSum};
    ///
    /// let sampling = ClientSampling::from(PoissonSampling::new(0.5)?);
    /// let (grid, adjacency) = (Grid::new(1.0, 1.0)?, Adjacency::AddRemoveUser);
    /// let step = PlannedRelease::new("step", sampling.event(DpEvent::gaussian(1.0)), 2);
    /// let plan = Plan::with_noise_multipliers(1e-6, adjacency, vec![step])?;
    /// let mut ledger = Ledger::in_memory("example", Budget::schedule(plan.target(), adjacency)?)?;
    /// let spend = ledger.reserve(&plan)?.remove(0);
    ///
    /// let noise = &mut NoiseSource::operating_system();
    /// let sample = sampling.pay_and_sample(4, spend, noise)?; // paid from here on
    /// // of client 0 the first message counts if the client was drawn, of clients 1 and 9 none
    /// let messages = [(0, vec![5, 0]), (1, vec![i64::MIN, 1]), (0, vec![5, 0]), (9, vec![1, 1])];
    /// let sum = VectorSum::from_messages(sample, messages, 2, grid)?;
    /// assert_eq!(sum.release(noise)?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`vector_contribution`]: crate::vector_contribution
    pub fn from_messages<M: AsRef<[i64]>>(
        sample: PaidSample,
        messages: impl IntoIterator<Item = (usize, M)>,
        n_coordinates: usize,
        grid: Grid,
    ) -> Result<PaidSum> {
        Self::from_messages_within(sample, messages, n_coordinates, grid, &[])
    }

    /// Like [`from_messages`](Self::from_messages), for messages whose last coordinates have ranges
    /// of their own: a message is ignored unless each of these integers lies in its range, both
    /// ends included. One client can then change a coordinate that counts clients only as much as
    /// any other client, which the bound on the whole message does not ensure.
    ///
    /// # Privacy
    /// As there: the ranges are public, and only exclude messages.
    ///
    /// # Errors
    /// As there; [`crate::Error::Param`] for more ranges than coordinates.
    pub fn from_messages_within<M: AsRef<[i64]>>(
        sample: PaidSample,
        messages: impl IntoIterator<Item = (usize, M)>,
        n_coordinates: usize,
        grid: Grid,
        ranges: &[(i64, i64)],
    ) -> Result<PaidSum> {
        params::at_least_one("n_coordinates", n_coordinates)?;
        params::in_range(
            "ranges",
            ranges.len(),
            0,
            n_coordinates,
            "a range for a coordinate at most",
        )?;
        let (sample, spend) = sample.into_parts();
        let mut counted = vec![false; sample.indices().len()];
        let mut sums = vec![0_i64; n_coordinates];
        for (client, message) in messages {
            let message = message.as_ref();
            // computed before anything is known about the client, and for every message
            let good = admitted(message, n_coordinates, &grid) & within(message, ranges);
            let place = sample.indices().binary_search(&client).ok();
            let seen = place.and_then(|at| counted.get_mut(at));
            let counts = good && seen.is_some_and(first_time);
            add_weighted(&mut sums, message, counts);
        }
        let sum = Self::on_sample(&sample, grid, sums, SummedUsers::Unknown);
        Ok(PaidSum { sum, spend })
    }

    fn on_sample(sample: &ClientSample, grid: Grid, sums: Vec<i64>, users: SummedUsers) -> Self {
        Self {
            grid,
            sums,
            sampling: Some(sample.sampling()),
            insecure: sample.is_insecure(),
            users,
        }
    }
}

/// Returns whether this is the first time, and marks it as seen.
fn first_time(seen: &mut bool) -> bool {
    let first = !std::mem::replace(seen, true);
    #[cfg(privacy_mutants)]
    let first = dp_core::mutants::pick("message-counted-twice", first, true);
    first
}

/// Adds the message, or zeros instead of it, with the same work.
fn add_weighted(sums: &mut [i64], message: &[i64], counts: bool) {
    let mask = i64::from(counts).wrapping_neg();
    for (sum, &z) in sums.iter_mut().zip(message) {
        *sum = sum.wrapping_add(z & mask);
    }
}

/// Whether the last coordinates lie in their ranges.
fn within(message: &[i64], ranges: &[(i64, i64)]) -> bool {
    let last = message.iter().rev().zip(ranges.iter().rev());
    last.fold(true, |all, (z, (low, high))| all & (low <= z) & (z <= high))
}

/// Whether a message has the right length and an exact norm within the bound.
fn admitted(message: &[i64], n_coordinates: usize, grid: &Grid) -> bool {
    let squares = message.iter().map(|&z| square(z));
    let norm = squares.fold(0, u128::saturating_add);
    #[cfg(privacy_mutants)]
    let norm = dp_core::mutants::pick("message-above-the-bound", norm, 0);
    message.len() == n_coordinates && grid.admits(norm)
}
