//! Sums over the clients of one sample.

use dp_core::{Interactions, Private, params};
use rayon::prelude::*;

use super::VectorSum;
use super::bounded::square;
use super::local::local_sum;
use crate::contribution::VectorContribution;
use crate::{ClientSample, ClientSampling, Grid, NoiseSource, Result};

impl VectorSum {
    /// Draws a sample of the users and sums the contributions of those in it.
    ///
    /// ```text
    /// S = sum_{u in A} Z_u,   A drawn by `sampling` from a fresh key      (K14)
    /// ```
    ///
    /// The sample is drawn here and dies here, so it cannot serve a second release:
    /// [`ClientSample`] says what that would cost.
    ///
    /// # Privacy
    /// Given `A`, one user more or less changes `S` by `Z_u`, of norm at most `D`, if the user is in
    /// `A` and by nothing otherwise: [`release`](Self::release) is the Gaussian mechanism on a
    /// sample, and takes a spend for [`ClientSampling::event`] around a Gaussian with the general
    /// replacement factor, nothing else. The amplification holds against whoever does not know the
    /// sample. Under samples of fixed size the number of users is public.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `n_coordinates` is 0; those of [`ClientSampling::sample`].
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
        let sample = sampling.into().sample(users.n_users(), noise)?;
        let drawn = sample.indices().par_iter().copied();
        let sums = local_sum(users, drawn, n_coordinates, &grid, contribution)?;
        Ok(Self::on_sample(&sample, grid, sums))
    }

    /// Sums the integer messages that the clients of one sample sent, as a server receives them.
    ///
    /// ```text
    /// Z_c = first message of client c with n_coordinates entries and sum_i Z_ci^2 <= D^2, else 0
    /// S   = sum_{c in A} Z_c                                                       (K15)
    /// ```
    ///
    /// A message is the client's number and its integers, such as [`vector_contribution`] makes them
    /// (dense). Everything that clients may get wrong counts for nothing and is not reported:
    /// no message, one of another length or above the bound, a second one, one from a client that was
    /// not drawn. `messages` is consumed as it comes, so it may receive from the network.
    ///
    /// # Privacy
    /// `Z_c` depends on what client `c` itself sent, and on nothing else, as long as messages of one
    /// client are told from another's (authenticated links). So one client more or less changes
    /// `S` by at most `D` if it was drawn and by nothing otherwise, whether clients follow the
    /// protocol or not, and [`release`](Self::release) takes the spend for
    /// [`ClientSample::sampling`]. The sample is used up. What a failing client can do is to send
    /// another vector of norm `D`.
    ///
    /// A client knows whether it was asked. Under Poisson sampling that tells nothing about the
    /// others; under fixed sizes, `k` clients that pool what they know turn `m / n` into at most
    /// `m / (n - k)` for everybody else.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `n_coordinates` is 0, and nothing that depends on messages.
    ///
    /// # Examples
    /// ```
    /// use dp_mechanism::{FixedSizeSampling, Grid, NoiseSource, VectorSum};
    /// let noise = &mut NoiseSource::operating_system();
    /// let sample = FixedSizeSampling::new(2, 2)?.sample(noise)?;
    /// let grid = Grid::new(1.0, 1.0)?;
    /// let messages = [(0, vec![5, 0]), (1, vec![i64::MIN, 1]), (0, vec![5, 0]), (9, vec![1, 1])];
    /// let sum = VectorSum::from_messages(sample, messages, 2, grid)?; // S = (5, 0)
    /// # let _ = sum;
    /// # Ok::<(), dp_mechanism::Error>(())
    /// ```
    ///
    /// [`vector_contribution`]: crate::vector_contribution
    #[allow(
        clippy::needless_pass_by_value,
        reason = "taking the sample is how it is used up"
    )]
    pub fn from_messages<M: AsRef<[i64]>>(
        sample: ClientSample,
        messages: impl IntoIterator<Item = (usize, M)>,
        n_coordinates: usize,
        grid: Grid,
    ) -> Result<Self> {
        params::at_least_one("n_coordinates", n_coordinates)?;
        let mut counted = vec![false; sample.indices().len()];
        let mut sums = vec![0_i64; n_coordinates];
        for (client, message) in messages {
            let message = message.as_ref();
            let place = sample.indices().binary_search(&client).ok();
            let Some(seen) = place.and_then(|at| counted.get_mut(at)) else {
                continue; // was not drawn
            };
            if !*seen && admitted(message, n_coordinates, &grid) {
                *seen = true;
                for (sum, &z) in sums.iter_mut().zip(message) {
                    *sum = sum.wrapping_add(z);
                }
            }
        }
        Ok(Self::on_sample(&sample, grid, sums))
    }

    fn on_sample(sample: &ClientSample, grid: Grid, sums: Vec<i64>) -> Self {
        Self {
            grid,
            sums,
            sampling: Some(sample.sampling()),
            insecure: sample.is_insecure(),
        }
    }
}

/// Whether a message has the right length and an exact norm within the bound.
fn admitted(message: &[i64], n_coordinates: usize, grid: &Grid) -> bool {
    let squares = message.iter().map(|&z| square(z));
    message.len() == n_coordinates && grid.admits(squares.fold(0, u128::saturating_add))
}
