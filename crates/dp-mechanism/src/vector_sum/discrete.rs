//! Releases with discrete Gaussian noise.

use dp_accounting::Spend;

use super::VectorSum;
use crate::payment::check_discrete_spend;
use crate::release::{NoiseLaw, ReleasedVector};
use crate::{NoiseSource, Result};

impl VectorSum {
    /// Adds discrete Gaussian noise once and makes the sum public.
    ///
    /// ```text
    /// Y = S + N_Z(0, 4^k)^d  (modulo 2^64),     value_i = Y_i g
    /// ```
    ///
    /// [`release`](Self::release) is the better choice if a single party adds the noise: its noise
    /// is that of the Gaussian mechanism, with all its tight bounds. Discrete noise is for sums to
    /// which several parties add noise, see [`NoisyShare`](crate::NoisyShare).
    ///
    /// # Privacy
    /// One user changes `S` by an integer vector of norm at most `D`, so the release is `rho`-zCDP
    /// under add/remove with `rho = D^2 / (2 4^k)` (K18), four times that under replacement. The
    /// spend must be for one of
    ///
    /// * `DpEvent::Zcdp` under add/remove with at least [`Grid::zcdp_rho`](crate::Grid::zcdp_rho), for any number of
    ///   coordinates;
    /// * `DpEvent::DiscreteGaussian` with `sigma = 2^k` and sensitivity `D` exactly, for **one** coordinate.
    ///   With more it would be wrong (K19).
    ///
    /// A sum over a sample has no such event and is rejected.
    ///
    /// # Errors
    /// [`crate::Error::WrongSpend`] or [`crate::Error::DrawCount`] if the spend does not cover this
    /// release; [`crate::Error::EntropyUnavailable`]. In each case nothing is released and the
    /// spend is lost.
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
    /// use dp_core::{Adjacency, DpEvent, Relation};
    /// use dp_mechanism::{Grid, NoiseSource, VectorSum};
    ///
    /// let (grid, adjacency) = (Grid::new(4.0, 1.0)?, Adjacency::AddRemoveUser);
    /// let event = DpEvent::Zcdp { rho: grid.zcdp_rho(), relation: Relation::AddRemove };
    /// let release = PlannedRelease::new("counts", event, 3);
    /// let plan = Plan::with_noise_multipliers(1e-6, adjacency, vec![release])?;
    /// let mut ledger = Ledger::in_memory("example", Budget::schedule(plan.target(), adjacency)?)?;
    /// let spend = ledger.reserve(&plan)?.remove(0);
    /// let sum = VectorSum::accumulate(&data, 3, grid, &Count)?;
    /// let counts = sum.release_discrete(spend, &mut NoiseSource::operating_system())?;
    /// assert!((counts.values()[2] - 1.0).abs() < 12.0 * counts.noise_stddev());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release_discrete(
        mut self,
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<ReleasedVector> {
        let n = self.sums.len();
        check_discrete_spend(&spend, self.sampling.as_ref(), &self.grid, n, n)?;
        let stream = noise.release_stream()?;
        let sigma = self.grid.sigma();
        #[cfg(privacy_mutants)]
        let sigma = crate::mutants::discrete_scale(sigma);
        stream.add_discrete_gaussian(sigma, &mut self.sums);
        Ok(ReleasedVector::new(
            self.grid,
            self.sums,
            NoiseLaw::Discrete { n_parties: 1 },
            self.insecure || noise.is_insecure(),
        ))
    }
}
