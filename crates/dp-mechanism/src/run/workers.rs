//! Workers that hold users, and the coordinator that holds spends and noise.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use dp_core::{Interactions, Private};
use sha2::{Digest, Sha256};

use crate::sum_backend::{ShardAnswer, ShardSum, SumBackend, SumRequest, Tally};
use crate::{Error, ReleaseEntry, Result, RoundKey};

/// Answers to one request that may be refused before the coordinator gives up.
const MOST_REFUSED: usize = 1000;

/// Which part of the users a worker holds.
///
/// ```text
/// shard of user u = HChaCha20(SHA-256(run), id of u) mod n_shards
/// ```
///
/// A user who was in two shards would be bounded twice. Every worker therefore checks that all of its users belong to its shard;
/// since the shard follows from the user's id, no user can belong to two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    run: String,
    number: usize,
    n_shards: usize,
}

impl Shard {
    /// Shard `number`, from 0, of `n_shards` of the run named `run`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `number` is below `n_shards`.
    pub fn new(run: impl Into<String>, number: usize, n_shards: usize) -> Result<Self> {
        if number >= n_shards {
            return Err(dp_core::ShapeError {
                name: "number of a shard plus one",
                found: number.saturating_add(1),
                expected: n_shards,
            }
            .into());
        }
        let run = run.into();
        Ok(Self {
            run,
            number,
            n_shards,
        })
    }

    /// The function that deals users to `n_shards` shards of the run named `run`, for [`Interactions::deal`].
    pub fn dealer(run: &str, n_shards: usize) -> impl Fn(u128) -> usize + use<> {
        let key = RoundKey::from_bytes(Sha256::digest(run.as_bytes()).into());
        let n = n_shards.max(1) as u64;
        move |id| usize::try_from(key.coin(id).checked_rem(n).unwrap_or(0)).unwrap_or(0)
    }

    /// Refuses a table with users of another shard.
    ///
    /// # Errors
    /// [`Error::UsersOfAnotherShard`]: it tells that the input was dealt wrongly, and no user of it.
    pub fn check(&self, users: &Interactions) -> Result<()> {
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("shard-of-a-user-unchecked") {
            return Ok(());
        }
        let dealt = Self::dealer(&self.run, self.n_shards);
        let own = (0..users.n_users()).all(|user| dealt(users.user_id(user)) == self.number);
        if own {
            return Ok(());
        }
        Err(Error::UsersOfAnotherShard { shard: self.number })
    }

    /// The run's name.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    pub(super) fn answer(&self, request: &SumRequest, sum: Vec<i64>) -> ShardAnswer {
        ShardAnswer {
            shard: self.number,
            n_shards: self.n_shards,
            run: self.run.clone(),
            step: request.step,
            list_head: request.list_head.clone(),
            nonce: request.nonce,
            sum: Private::new(sum),
        }
    }
}

/// What a coordinator tells a worker.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "may hold the key of a sample; printing it is never wanted"
)]
pub enum ToWorker {
    /// Asks for a sum; also again, where an answer was lost.
    Sum(SumRequest),
    /// The release that was made of the last sum.
    Released(ReleaseEntry),
    /// The worker is not needed any more.
    End,
}

/// A worker's link to its coordinator.
pub trait CoordinatorLink {
    /// Sends an answer, if there is one, and waits for what the coordinator says next.
    ///
    /// # Errors
    /// Whatever breaks the link.
    fn exchange(&mut self, answer: Option<ShardAnswer>) -> Result<ToWorker>;
}

/// A coordinator's links to its workers.
pub trait WorkerPool: Sync {
    /// How many workers there are, each with a shard of its own.
    fn n_workers(&self) -> usize;

    /// Sends a message to the worker of one shard.
    ///
    /// # Errors
    /// Whatever breaks the link for good. A message to a worker that has died is dropped: it is asked again after it is reported by
    /// [`receive`](Self::receive).
    fn send(&self, shard: usize, message: &ToWorker) -> Result<()>;

    /// Waits for an answer, or for the news that a worker has to be asked again because it was started anew. Such a worker replays
    /// the list of releases before it answers.
    ///
    /// # Errors
    /// When no answer is to be expected any more; the run ends, and where sums are over all users nothing was paid for the one
    /// that is missing.
    fn receive(&self) -> Result<FromWorker>;
}

/// What comes back from a pool of workers.
#[allow(
    missing_debug_implementations,
    reason = "holds a private sum; printing it is never wanted"
)]
pub enum FromWorker {
    /// A sum, of whichever shard and request.
    Answer(ShardAnswer),
    /// The worker of this shard was started again.
    Restarted(usize),
}

/// The backend of a coordinator: sums come from workers, and the coordinator's own table has no users.
///
/// Every shard counts exactly once in every sum: an answer that is late, repeated, of another run, step or list, or of another
/// length is dropped, and its shard is asked again unless it has answered.
#[derive(Debug)]
pub struct Coordinator<P> {
    pool: P,
}

impl<P: WorkerPool> Coordinator<P> {
    /// Sums from the workers of this pool.
    pub const fn new(pool: P) -> Self {
        Self { pool }
    }
}

impl<P: WorkerPool> SumBackend for Coordinator<P> {
    fn is_remote(&self) -> bool {
        true
    }

    fn sum(&self, request: &SumRequest, _: &ShardSum<'_>) -> Result<Private<Vec<i64>>> {
        let n_workers = self.pool.n_workers();
        let mut tally = Tally::new(request, n_workers)?;
        let message = ToWorker::Sum(request.clone());
        for shard in 0..n_workers {
            self.pool.send(shard, &message)?;
        }
        let mut n_refused = 0_usize;
        while !tally.missing().is_empty() {
            if n_refused > MOST_REFUSED {
                return Err(Error::Answer {
                    shard: tally.missing().first().copied().unwrap_or(0),
                    what: "workers keep sending what does not count",
                });
            }
            let ask_again = match self.pool.receive()? {
                FromWorker::Restarted(shard) => Some(shard),
                FromWorker::Answer(answer) => {
                    let shard = answer.shard;
                    let refused = tally.receive(answer).err();
                    n_refused = n_refused.saturating_add(refused.is_some().into());
                    refused.map(|_| shard)
                }
            };
            if let Some(shard) = ask_again.filter(|shard| tally.missing().contains(shard)) {
                self.pool.send(shard, &message)?;
            }
        }
        tally.total()
    }

    fn released(&self, entry: &ReleaseEntry) -> Result<()> {
        let message = ToWorker::Released(entry.clone());
        (0..self.pool.n_workers()).try_for_each(|shard| self.pool.send(shard, &message))
    }
}

/// Links between a coordinator and workers in threads of one process, a link for each shard: for tests, and as the pattern for links
/// between machines.
#[must_use]
pub fn worker_channels(n_workers: usize) -> (ChannelPool, Vec<ChannelLink>) {
    let (answers, received) = channel();
    let (mut to_workers, mut links) = (Vec::new(), Vec::new());
    for shard in 0..n_workers {
        let (to_worker, from_coordinator) = channel();
        to_workers.push(to_worker);
        links.push(ChannelLink {
            shard,
            answers: answers.clone(),
            from_coordinator,
        });
    }
    let received = Mutex::new(received);
    let pool = ChannelPool {
        to_workers,
        received,
    };
    (pool, links)
}

/// What workers say over a channel.
enum Said {
    Answer(ShardAnswer),
    Left { shard: usize },
}

/// A worker that leaves before the run is over would be waited for in vain.
impl Drop for ChannelLink {
    fn drop(&mut self) {
        let shard = self.shard;
        let _ = self.answers.send(Said::Left { shard });
    }
}

/// The coordinator's end of [`worker_channels`].
#[allow(
    missing_debug_implementations,
    reason = "private sums go through it; printing it is never wanted"
)]
pub struct ChannelPool {
    to_workers: Vec<Sender<ToWorker>>,
    received: Mutex<Receiver<Said>>,
}

/// A worker's end of [`worker_channels`].
#[allow(
    missing_debug_implementations,
    reason = "private sums go through it; printing it is never wanted"
)]
pub struct ChannelLink {
    shard: usize,
    answers: Sender<Said>,
    from_coordinator: Receiver<ToWorker>,
}

const BROKEN: Error = Error::Link {
    what: "the other end of the channel is gone",
};

impl WorkerPool for ChannelPool {
    fn n_workers(&self) -> usize {
        self.to_workers.len()
    }

    fn send(&self, shard: usize, message: &ToWorker) -> Result<()> {
        let to = self.to_workers.get(shard).ok_or(BROKEN)?;
        // a worker that is done, or has died, needs no message; `receive` tells when all of them are gone
        let _ = to.send(message.clone());
        Ok(())
    }

    fn receive(&self) -> Result<FromWorker> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        match received.recv().map_err(|_| BROKEN)? {
            Said::Answer(answer) => Ok(FromWorker::Answer(answer)),
            Said::Left { shard } => Err(Error::Answer {
                shard,
                what: "its worker has left",
            }),
        }
    }
}

impl CoordinatorLink for ChannelLink {
    fn exchange(&mut self, answer: Option<ShardAnswer>) -> Result<ToWorker> {
        if let Some(answer) = answer {
            let answer = Said::Answer(answer);
            self.answers.send(answer).map_err(|_| BROKEN)?;
        }
        self.from_coordinator.recv().map_err(|_| BROKEN)
    }
}
