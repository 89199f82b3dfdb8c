use dp_accounting::Spend;

use super::{Share, ShareServer, join};
use crate::payment::{check_discrete_spend, same_grid};
use crate::release::{NoiseLaw, ReleasedVector};
use crate::{Grid, NoiseSource, Result};

/// One server's half of a sum with that server's own noise in it: distributed noise, so that the
/// exact sum exists nowhere and neither server knows all of the noise.
///
/// ```text
/// server 0:  T_0 = sum_c R_c         + N_0        N_0, N_1 independent N_Z(0, 4^k)^d
/// server 1:  T_1 = sum_c (Z_c - R_c) + N_1
/// released:  Y   = T_0 + T_1 = S + N_0 + N_1      (modulo 2^64)
/// ```
///
/// # Privacy
/// *Threat model*: at most **one** server is corrupt. It may keep, publish and make its actions
/// depend on everything that it sees and draws, and it may replace its half by anything. Links hide
/// each share from everybody except its server; clients bound what they send
/// ([`vector_contribution`](crate::vector_contribution)), and one that does not weakens only the
/// protection of its own users.
///
/// *Guarantee*: a corrupt server knows its own noise and can subtract it, so only the honest
/// server's noise is counted. The corrupt server sees uniform shares and `S + N_honest`, and every
/// `Y` is a function of those and of its own choices: post-processing. This is the discrete
/// mechanism of scale `2^k` alone, `rho = D^2 / (2 4^k)` under add/remove (K20), with no term for
/// the sum of two discrete Gaussians. So **each server charges its own half before it leaves**, to
/// a ledger of its own, as if it made the release alone: the event of
/// [`VectorSum::release_discrete`](crate::VectorSum::release_discrete), one draw per coordinate.
/// The two charges are for the same loss, and an honest server does not need to trust that the
/// other was charged.
///
/// Everybody except the two servers sees noise of scale `sqrt 2 2^k`, nearly the discrete Gaussian
/// of that scale, and half the `rho`; (K21) bounds how nearly. This is not claimed. The price of
/// not having to trust either server is a factor sqrt 2 of noise.
///
/// If both servers are corrupt, there is no guarantee. The honest server must compute its total
/// only once: the only way to obtain this type consumes the server.
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
    /// The server's half of the sum with its own noise, from a fresh key.
    ///
    /// # Privacy
    /// Whoever knows the other half, such as a corrupt other server, learns `S + N` with this
    /// server's `N` and nothing else: see [`NoisyShare`]. `spend` covers this, one draw per
    /// coordinate, before anything leaves.
    ///
    /// # Errors
    /// [`crate::Error::WrongSpend`] or [`crate::Error::DrawCount`] if the spend does not cover
    /// discrete noise on this server's grid; [`crate::Error::EntropyUnavailable`]. In each case the
    /// half does not leave and the spend is lost.
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

    /// Joins the halves of the two servers and makes the noisy sum public. Each server has charged
    /// its own half.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if the lengths differ, [`crate::Error::Param`] if the grids differ.
    /// Nothing is then released; the spends were consumed when the halves were made.
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
