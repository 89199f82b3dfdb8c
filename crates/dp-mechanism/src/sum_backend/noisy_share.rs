use dp_accounting::Spend;

use super::{Share, ShareServer, join};
use crate::payment::{check_discrete_spend, same_grid};
use crate::release::{NoiseLaw, ReleasedVector};
use crate::{Grid, NoiseSource, Result};

/// One server's half of a sum with that server's own noise in it: distributed noise, so that the exact
/// sum exists nowhere and neither server knows the noise.
///
/// ```text
/// server 0:  T_0 = sum_c R_c         + N_0        N_0, N_1 independent N_Z(0, 4^k)^d
/// server 1:  T_1 = sum_c (Z_c - R_c) + N_1
/// released:  Y   = T_0 + T_1 = S + N_0 + N_1      (modulo 2^64)
/// ```
///
/// # Privacy
/// *Threat model*: at most **one** server is corrupt. It may keep, show to the world and base on
/// each other everything that it sees and draws, and it may put anything in place of its half.
/// Links hide each share from everybody but its server; clients bound what they send
/// ([`vector_contribution`](crate::vector_contribution)), and one that does not weakens the protection of its own
/// users only.
///
/// *Guarantee*: a corrupt server knows its own noise and can subtract it, so only the honest server's
/// noise is counted. The corrupt server sees uniform shares and `S + N_honest`, and every `Y` is a
/// function of those and of what it chose itself: post-processing. That is the discrete mechanism of
/// scale `2^k` by itself, `rho = D^2 / (2 4^k)` under add/remove (K20), with no term for the sum of two
/// discrete Gaussians: the event that is paid for is that of
/// [`VectorSum::release_discrete`](crate::VectorSum::release_discrete), and two draws a coordinate.
///
/// Who is neither server sees noise of scale `sqrt 2 2^k`, nearly the discrete Gaussian of that scale
/// and half the `rho`; (K21) bounds how nearly. It is not claimed. The price of not having to trust
/// either server is a factor sqrt 2 of noise.
///
/// If both servers are corrupt nothing is left. The honest server has to make its total once: this
/// type's only source uses the server up.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
/// use dp_core::{Adjacency, DpEvent, Private, Relation};
/// use dp_mechanism::{Grid, NoiseSource, NoisyShare, Share, ShareServer};
///
/// let (grid, adjacency) = (Grid::new(4.0, 1.0)?, Adjacency::AddRemoveUser);
/// let mut servers = [ShareServer::new(2), ShareServer::new(2)];
/// for client in 0..100 {
///     let vector = Private::new(vec![grid.quantise(1.0), 0]); // within the bound
///     for (server, share) in servers.iter_mut().zip(Share::split(vector)?) {
///         server.receive(&share)?;
///     }
/// }
/// let event = DpEvent::Zcdp { rho: grid.zcdp_rho(), relation: Relation::AddRemove };
/// let release = PlannedRelease::new("sum", event, 4); // two servers, two coordinates
/// let plan = Plan::with_noise_multipliers(1e-6, adjacency, vec![release])?;
/// let mut ledger = Ledger::in_memory("example", Budget::schedule(plan.target(), adjacency)?)?;
/// let spend = ledger.reserve(&plan)?.remove(0);
///
/// let [left, right] = servers;
/// let left = left.noisy_total(&grid, &mut NoiseSource::operating_system())?;
/// let right = right.noisy_total(&grid, &mut NoiseSource::operating_system())?;
/// let sum = NoisyShare::release([left, right], spend)?;
/// assert!((sum.values()[0] - 100.0).abs() < 12.0 * sum.noise_stddev());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "half of a sum that nobody has paid for yet; printing it is never wanted"
)]
pub struct NoisyShare {
    grid: Grid,
    share: Share,
    insecure: bool,
}

impl ShareServer {
    /// The server's half of the sum with noise of its own, from a fresh key.
    ///
    /// `grid` must be the one on which the clients bounded what they sent.
    ///
    /// # Errors
    /// [`crate::Error::EntropyUnavailable`].
    pub fn noisy_total(self, grid: &Grid, noise: &mut NoiseSource) -> Result<NoisyShare> {
        let mut sums = self.total().into_coordinates();
        let stream = noise.release_stream()?;
        stream.add_discrete_gaussian(grid.sigma(), &mut sums);
        Ok(NoisyShare {
            grid: *grid,
            share: Share::from_coordinates(sums),
            insecure: noise.is_insecure(),
        })
    }
}

impl NoisyShare {
    #[cfg(test)]
    pub(crate) fn into_share(self) -> Share {
        self.share
    }

    /// Joins the halves of the two servers and makes the noisy sum public.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the lengths differ, [`crate::Error::Param`] when the grids do;
    /// [`crate::Error::WrongSpend`] or [`crate::Error::DrawCount`] when the spend does not pay for
    /// this release, two draws a coordinate. In each case nothing is released and the spend is gone.
    pub fn release(totals: [Self; 2], spend: Spend) -> Result<ReleasedVector> {
        let [left, right] = totals;
        same_grid(&left.grid, &right.grid)?;
        let sums = join([left.share, right.share])?.into_exposed();
        let n_draws = sums.len().saturating_mul(2);
        check_discrete_spend(&spend, None, &left.grid, sums.len(), n_draws)?;
        Ok(ReleasedVector::new(
            left.grid,
            sums,
            NoiseLaw::Discrete { n_parties: 2 },
            left.insecure || right.insecure,
        ))
    }
}
