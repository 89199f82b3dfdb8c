//! The interface of the server side: one integer sum modulo 2^64 over users who are each in one
//! shard.

mod in_process;
mod noisy_share;
mod request;
mod sharded;
mod two_servers;
mod users;

use dp_core::{Private, params};

use crate::{ReleaseEntry, Result};

pub use in_process::InProcess;
pub use noisy_share::NoisyShare;
pub use request::{ShardAnswer, SumRequest, Tally};
pub use sharded::Sharded;
pub(crate) use two_servers::join;
pub use two_servers::{Share, ShareServer, TwoServers};
pub(crate) use users::{fetch_next, sum_over_users};

/// Computes the exact sum of one shard's users, given the shard's number from 0.
pub type ShardSum<'a> = dyn Fn(usize) -> Result<Private<Vec<i64>>> + Sync + 'a;

/// How the sums of disjoint shards of users are combined into one.
///
/// ```text
/// S = sum_s S_s  (modulo 2^64),   S_s = sum over the users u of shard s of Z_u
/// ```
///
/// (K8) in `docs/kernel-proof.md`. This is all that a server does before noise is added, once, to
/// `S`. Addition modulo 2^64 is associative and commutative, so every way of computing it gives the
/// same bits: threads, an all-reduce over machines, or shares of a secure sum.
///
/// # Privacy
/// `S` is as private as the data. [`VectorSum`](crate::VectorSum) and [`GramSums`](crate::GramSums)
/// take it from the backend and expose nothing but its noisy release. Their guarantee is about one
/// user's `Z_u`, so each shard must be added exactly once: the kernel hands out the sum of a shard
/// a single time and rejects a backend that leaves one out. The backend must be trusted to add each
/// sum only once.
///
/// # Implementing
/// A backend whose process holds one of many parts of the users (a rank of an all-reduce) keeps
/// [`n_shards`](Self::n_shards) at 1 and returns the sum over all processes. An error must not
/// depend on private values.
pub trait SumBackend: Sync {
    /// Number of shards into which the users of this process are split, at least 1.
    fn n_shards(&self) -> usize {
        1
    }

    /// Whether the users are held by workers elsewhere ([`Coordinator`](crate::Coordinator)): then
    /// the table here is empty and [`sum`](Self::sum) does not call `shard`.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether all users are in this process. A sample of fixed size is drawn only in this case.
    fn holds_all(&self) -> bool {
        !self.is_remote()
    }

    /// The sum modulo 2^64 over all shards, of the length given in `request`. Calls `shard` for
    /// every number below [`n_shards`](Self::n_shards) once, in any order and from any thread.
    ///
    /// # Errors
    /// The errors of `shard`, and anything that prevents the backend from forming the sum.
    fn sum(&self, request: &SumRequest, shard: &ShardSum<'_>) -> Result<Private<Vec<i64>>>;

    /// Called with the release that was made from the last sum, after it is safe on disk: for
    /// workers, which need it for the next one.
    ///
    /// # Errors
    /// Anything that prevents the backend from passing it on.
    fn released(&self, entry: &ReleaseEntry) -> Result<()> {
        let _ = entry;
        Ok(())
    }
}

/// Adds `other` to `sums`, modulo 2^64: the only addition of partial sums in this crate.
///
/// # Errors
/// [`crate::Error::Shape`] if the lengths differ; `sums` is then unchanged.
pub(crate) fn add_sums(sums: &mut [i64], other: &[i64]) -> Result<()> {
    params::same_size("shard sum", other.len(), sums.len())?;
    for (sum, &part) in sums.iter_mut().zip(other) {
        *sum = sum.wrapping_add(part);
    }
    Ok(())
}

/// The sum of partial sums of this length; zeros if there are none.
pub(crate) fn total(n: usize, mut parts: impl Iterator<Item = Vec<i64>>) -> Result<Vec<i64>> {
    let mut sums = parts.next().unwrap_or_else(|| vec![0; n]);
    parts.try_for_each(|part| add_sums(&mut sums, &part))?;
    Ok(sums)
}

#[cfg(test)]
mod tests;
