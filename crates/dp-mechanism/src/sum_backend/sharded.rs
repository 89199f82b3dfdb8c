use std::thread::{self, ScopedJoinHandle};

use dp_core::{Private, params};

use super::{ShardSum, SumBackend, SumRequest, add_sums};
use crate::Result;

/// `k` shards of users in `k` threads, whose sums are added as they arrive.
///
/// The threads share only the addition, as separate machines would: this demonstrates the interface
/// within one process. [`InProcess`](super::InProcess) gives the same bits and is faster.
///
/// # Examples
/// ```
/// use dp_mechanism::{Sharded, SumBackend};
/// assert_eq!(Sharded::new(8)?.n_shards(), 8);
/// assert!(Sharded::new(0).is_err());
/// # Ok::<(), dp_mechanism::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharded {
    n_shards: usize,
}

impl Sharded {
    /// Sums over `n_shards` shards, one thread each. Every thread has its own sum, so memory grows
    /// with their number.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `n_shards` is 0.
    pub fn new(n_shards: usize) -> Result<Self> {
        params::at_least_one("n_shards", n_shards)?;
        Ok(Self { n_shards })
    }
}

impl SumBackend for Sharded {
    fn n_shards(&self) -> usize {
        self.n_shards
    }

    fn sum(&self, request: &SumRequest, shard: &ShardSum<'_>) -> Result<Private<Vec<i64>>> {
        let mut total = vec![0; request.n_coordinates];
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.n_shards)
                .map(|at| scope.spawn(move || shard(at)))
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| add_sums(&mut total, finished(worker)?.expose()))
        })?;
        Ok(Private::new(total))
    }
}

/// The result of a thread; a panic in the thread is propagated.
fn finished<T>(worker: ScopedJoinHandle<'_, T>) -> T {
    worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
