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
/// discrete Gaussians. So **each server pays for its own half before it leaves**, out of a ledger of its
/// own, as if it made the release alone: the event of
/// [`VectorSum::release_discrete`](crate::VectorSum::release_discrete), one draw a coordinate. The two
/// payments are for one and the same loss, and an honest server need not believe that the other paid.
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
/// let mut servers = [ShareServer::new(2, grid), ShareServer::new(2, grid)];
/// for client in 0..100 {
///     let vector = Private::new(vec![grid.quantise(1.0), 0]); // within the bound
///     for (server, share) in servers.iter_mut().zip(Share::split(vector)?) {
///         server.receive(&share)?;
///     }
/// }
/// let event = DpEvent::Zcdp { rho: grid.zcdp_rho(), relation: Relation::AddRemove };
/// let release = PlannedRelease::new("sum", event, 2); // two coordinates
/// let plan = Plan::with_noise_multipliers(1e-6, adjacency, vec![release])?;
///
/// let [left, right] = servers.map(|server| -> Result<NoisyShare, Box<dyn std::error::Error>> {
///     // on a machine of its own, with a ledger of its own
///     let mut ledger = Ledger::in_memory("example", Budget::schedule(plan.target(), adjacency)?)?;
///     let spend = ledger.reserve(&plan)?.remove(0);
///     Ok(server.noisy_total(spend, &mut NoiseSource::operating_system())?)
/// });
/// let sum = NoisyShare::release([left?, right?])?;
/// assert!((sum.values()[0] - 100.0).abs() < 12.0 * sum.noise_stddev());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "the exact sum to whoever knows the other half and the noise; printing it is never wanted"
)]
pub struct NoisyShare {
    grid: Grid,
    share: Share,
    insecure: bool,
}

impl ShareServer {
    /// The server's half of the sum with noise of its own, from a fresh key.
    ///
    /// # Privacy
    /// Whoever knows the other half, such as a corrupt other server, learns `S + N` of this server's
    /// `N` and nothing else: see [`NoisyShare`]. `spend` pays for that, one draw a coordinate, before
    /// anything leaves.
    ///
    /// # Errors
    /// [`crate::Error::WrongSpend`] or [`crate::Error::DrawCount`] when the spend does not pay for
    /// discrete noise on this server's grid; [`crate::Error::EntropyUnavailable`]. In each case the
    /// half does not leave and the spend is gone.
    pub fn noisy_total(self, spend: Spend, noise: &mut NoiseSource) -> Result<NoisyShare> {
        let grid = self.grid;
        let mut sums = self.total().into_coordinates();
        let n = sums.len();
        check_discrete_spend(&spend, None, &grid, n, n)?;
        let stream = noise.release_stream()?;
        let sigma = grid.sigma();
        #[cfg(privacy_mutants)]
        let sigma = crate::mutants::server_scale(crate::mutants::discrete_scale(sigma));
        stream.add_discrete_gaussian(sigma, &mut sums);
        Ok(NoisyShare {
            grid,
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

    /// Joins the halves of the two servers and makes the noisy sum public. Each server has paid for
    /// its own.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the lengths differ, [`crate::Error::Param`] when the grids do.
    /// Nothing is then released; the spends are gone since the halves were made.
    pub fn release(totals: [Self; 2]) -> Result<ReleasedVector> {
        let [left, right] = totals;
        same_grid(&left.grid, &right.grid)?;
        let sums = join([left.share, right.share])?.into_exposed();
        Ok(ReleasedVector::new(
            left.grid,
            sums,
            NoiseLaw::Discrete { n_parties: 2 },
            left.insecure || right.insecure,
        ))
    }
}
