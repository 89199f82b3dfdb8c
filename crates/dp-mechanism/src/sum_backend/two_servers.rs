use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use dp_core::{Private, params};
use zeroize::Zeroizing;

use super::{ShardSum, SumBackend, SumRequest, add_sums};
use crate::{Error, Grid, Result};

/// Bytes of one coordinate.
const WIDTH: usize = size_of::<i64>();

/// A secure sum: every shard splits its vector between two servers, and only their sums are joined.
///
/// ```text
/// client c:   R_c uniform modulo 2^64, from a fresh key;  sends R_c to server 0, Z_c - R_c to server 1
/// server 0:   sum_c R_c          server 1:   sum_c (Z_c - R_c)
/// joined:     S = sum_c Z_c      then noise, once
/// ```
///
/// Here a client is a shard of users, and this process plays both servers, so the backend
/// demonstrates the protocol and its arithmetic. Between machines, the same steps are
/// [`Share::split`], [`ShareServer`] and [`VectorSum::from_shares`](crate::VectorSum::from_shares).
///
/// # Privacy
/// *Threat model*: two servers that follow the protocol, keep what they see and do not collude
/// (semi-honest, non-colluding), and links that hide each share from everybody except its server.
/// What one server sees of a client is uniform on the integers modulo 2^64, whatever the client's
/// vector: `R_c` by construction, `Z_c - R_c` because subtracting a uniform number from a fixed one
/// is a bijection. Different clients use independent keys, so one server's whole view is uniform
/// and independent of the data (up to ChaCha20 being a pseudo-random generator).
///
/// Whoever joins the two totals sees the exact sum `S` before the noise, and nothing more detailed;
/// with [`NoisyShare`](super::NoisyShare) nobody does. Against readers of the release the guarantee
/// is that of the release, unchanged: `S` is the same integer as without shares. Not covered: two
/// servers that collude, a server that adds something else (wrong results, not less privacy of
/// honest users, as long as noise is added to `S`), and who takes part. A client that exceeds its
/// bound harms only accuracy and the protection of its own users.
///
/// Source: Corrigan-Gibbs and Boneh 2017 (Prio, arXiv 1703.06255), the straw-man scheme for private
/// sums, with two servers, modulo 2^64 and without proofs that a client's input is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoServers {
    n_clients: usize,
}

impl TwoServers {
    /// Shares among `n_clients` shards of users.
    ///
    /// # Errors
    /// [`Error::Param`] if `n_clients` is 0.
    pub fn new(n_clients: usize) -> Result<Self> {
        params::at_least_one("n_clients", n_clients)?;
        Ok(Self { n_clients })
    }
}

impl SumBackend for TwoServers {
    fn n_shards(&self) -> usize {
        self.n_clients
    }

    fn sum(&self, request: &SumRequest, shard: &ShardSum<'_>) -> Result<Private<Vec<i64>>> {
        let nothing = || Share::from_coordinates(vec![0; request.n_coordinates]);
        let [mut left, mut right] = [nothing(), nothing()];
        for client in 0..self.n_clients {
            let [to_left, to_right] = Share::split(shard(client)?)?;
            left.add(&to_left)?;
            right.add(&to_right)?;
        }
        join([left, right])
    }
}

/// One of the two halves of an integer vector modulo 2^64. Alone, it is uniform.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    missing_debug_implementations,
    reason = "two of them make a private vector; printing one is never wanted"
)]
pub struct Share {
    coordinates: Vec<i64>,
}

impl Share {
    /// Splits a vector with a fresh key from the operating system, one key per call.
    ///
    /// # Errors
    /// [`Error::EntropyUnavailable`].
    ///
    /// # Examples
    /// ```
    /// use dp_core::Private;
    /// use dp_mechanism::Share;
    /// let [a, b] = Share::split(Private::new(vec![7, -7]))?;
    /// assert_eq!(a.coordinates()[0].wrapping_add(b.coordinates()[0]), 7);
    /// # Ok::<(), dp_mechanism::Error>(())
    /// ```
    pub fn split(vector: Private<Vec<i64>>) -> Result<[Self; 2]> {
        let mut rest = vector.into_exposed();
        let mask = uniform(rest.len())?;
        for (z, &r) in rest.iter_mut().zip(&mask) {
            *z = z.wrapping_sub(r);
        }
        Ok([mask, rest].map(Self::from_coordinates))
    }

    /// A share received over the network.
    #[must_use]
    pub const fn from_coordinates(coordinates: Vec<i64>) -> Self {
        Self { coordinates }
    }

    pub(super) fn into_coordinates(self) -> Vec<i64> {
        self.coordinates
    }

    /// The coordinates to send over the network, to one server only.
    #[must_use]
    pub fn coordinates(&self) -> &[i64] {
        &self.coordinates
    }

    /// Adds the same server's share of another vector.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths differ; nothing is then added.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        add_sums(&mut self.coordinates, &other.coordinates)
    }
}

/// Independent uniform integers modulo 2^64.
fn uniform(n_coordinates: usize) -> Result<Vec<i64>> {
    let mut key = Zeroizing::new([0_u8; 32]);
    getrandom::fill(key.as_mut_slice()).map_err(|_| Error::EntropyUnavailable)?;
    #[cfg(privacy_mutants)]
    crate::mutants::share_key(&mut key);
    let mut rng = ChaCha20Rng::from_seed(*key);
    let mut word = Zeroizing::new([0_u8; WIDTH]);
    let draw = || {
        rng.fill_bytes(word.as_mut_slice());
        i64::from_le_bytes(*word)
    };
    let mask = std::iter::repeat_with(draw).take(n_coordinates).collect();
    #[cfg(privacy_mutants)]
    let mask = crate::mutants::mask(mask);
    Ok(mask)
}

/// One of the two servers, which adds the shares that it receives.
#[allow(
    missing_debug_implementations,
    reason = "holds half of a private sum; printing it is never wanted"
)]
pub struct ShareServer {
    pub(super) grid: Grid,
    sum: Vec<i64>,
}

impl ShareServer {
    /// A server that has received nothing yet, for vectors that the clients bound on `grid`.
    #[must_use]
    pub fn new(n_coordinates: usize, grid: Grid) -> Self {
        Self {
            grid,
            sum: vec![0; n_coordinates],
        }
    }

    /// Adds one client's share.
    ///
    /// A share is uniform, so nothing about its vector can be checked here: each client must have
    /// bounded its vector on the grid of this server, with
    /// [`vector_contribution`](crate::vector_contribution), and send one share, once. A client that
    /// does not weakens only the protection of its own users. A link that delivers a share twice
    /// must be distinguished from a client that sends two.
    ///
    /// # Errors
    /// [`Error::Shape`] if its length is wrong; it is then left out.
    pub fn receive(&mut self, share: &Share) -> Result<()> {
        add_sums(&mut self.sum, share.coordinates())
    }

    /// The server's half of the **exact** sum, for the party that adds the noise and makes the
    /// release: together with the other half it is the sum. A server that trusts nobody gives away
    /// [`noisy_total`](Self::noisy_total) instead.
    #[must_use]
    pub fn total(self) -> Share {
        Share::from_coordinates(self.sum)
    }
}

/// The vector that was split into two shares.
pub(crate) fn join([left, right]: [Share; 2]) -> Result<Private<Vec<i64>>> {
    let mut sum = left.coordinates;
    add_sums(&mut sum, &right.coordinates)?;
    Ok(Private::new(sum))
}
