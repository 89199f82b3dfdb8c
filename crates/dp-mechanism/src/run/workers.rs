//! Workers that hold users, and the coordinator that holds spends and noise.

use dp_core::{Interactions, Private};
use sha2::{Digest, Sha256};

use crate::sum_backend::{ShardAnswer, ShardSum, SumBackend, SumRequest, Tally};
use crate::{Error, ReleaseEntry, Result, RoundKey};

/// Answers to one request that may be refused before the coordinator gives up.
const MOST_REFUSED: usize = 1000;

/// What decides in which shard a user is.
///
/// ```text
/// shard of user u = HChaCha20(SHA-256(name), id of u) mod n_shards
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dealing {
    /// The user's id, where `name` is the name of the run: for processes that read all users and keep their own.
    #[default]
    ByRun,
    /// The user's id, where `name` is the same for all runs: for engines that deal users before a run is named.
    ById,
    /// Who holds the user's records. Nothing checks that no user is in two silos.
    Silos,
}

/// Which part of the users a worker holds.
///
/// A user who was in two shards would be bounded twice. Every worker therefore checks that all of its users belong to its shard;
/// since the shard follows from the user's id, no user can belong to two. [Silos](Dealing::Silos) are the exception: there it is
/// an assumption, which whoever trains on silos has to state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    run: String,
    number: usize,
    n_shards: usize,
    dealing: Dealing,
}

/// The name under which [`Dealing::ById`] deals users.
const BY_ID: &str = "dp users by id";

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
            dealing: Dealing::ByRun,
        })
    }

    /// The same shard of users who are dealt otherwise.
    #[must_use]
    pub const fn dealt(mut self, dealing: Dealing) -> Self {
        self.dealing = dealing;
        self
    }

    /// The function that deals users [by their ids](Dealing::ById) to `n_shards` shards of any run.
    pub fn dealer_by_id(n_shards: usize) -> impl Fn(u128) -> usize + use<> {
        Self::dealer(BY_ID, n_shards)
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
        let owns = self.owner();
        if (0..users.n_users()).all(|user| owns(users.user_id(user))) {
            return Ok(());
        }
        Err(Error::UsersOfAnotherShard { shard: self.number })
    }

    /// The run's name.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Whether the user with this id belongs to the shard.
    pub fn owner(&self) -> impl Fn(u128) -> bool + use<> {
        let name = match self.dealing {
            Dealing::ByRun => Some(self.run.as_str()),
            Dealing::ById => Some(BY_ID),
            Dealing::Silos => None,
        };
        let dealt = name.map(|name| Self::dealer(name, self.n_shards));
        let number = self.number;
        move |id| dealt.as_ref().is_none_or(|dealt| dealt(id) == number)
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
    /// How many workers there are, each with a shard of its own; a coordinator that [holds the first
    /// shard](Coordinator::with_first_shard) counts as one, and is sent nothing.
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

/// The backend of a coordinator: sums come from workers. The coordinator's own table has no users, or those of the
/// [first shard](Self::with_first_shard).
///
/// Every shard counts exactly once in every sum: an answer that is late, repeated, of another run, step or list, or of another
/// length is dropped, and its shard is asked again unless it has answered.
#[derive(Debug)]
pub struct Coordinator<P> {
    pool: P,
    /// Shards that the coordinator sums itself.
    n_own: usize,
}

impl<P: WorkerPool> Coordinator<P> {
    /// Sums from the workers of this pool.
    pub const fn new(pool: P) -> Self {
        Self { pool, n_own: 0 }
    }

    /// Shard 0 is summed over the coordinator's own table while the workers sum theirs, and the pool is asked for the others. Whoever
    /// hands the run its table [checks](Shard::check) that its users are those of shard 0, as a worker does.
    pub const fn with_first_shard(pool: P) -> Self {
        Self { pool, n_own: 1 }
    }

    fn remote(&self) -> std::ops::Range<usize> {
        self.n_own..self.pool.n_workers()
    }
}

impl<P: WorkerPool> SumBackend for Coordinator<P> {
    fn is_remote(&self) -> bool {
        self.n_own == 0
    }

    fn holds_all(&self) -> bool {
        self.n_own > 0 && self.remote().is_empty()
    }

    fn sum(&self, request: &SumRequest, own_sum: &ShardSum<'_>) -> Result<Private<Vec<i64>>> {
        let n_shards = self.pool.n_workers();
        let mut tally = Tally::new(request, n_shards)?;
        let message = ToWorker::Sum(request.clone());
        for shard in self.remote() {
            self.pool.send(shard, &message)?;
        }
        for number in 0..self.n_own {
            let own = Shard::new(request.run.clone(), number, n_shards)?;
            tally.receive(own.answer(request, own_sum(number)?.into_exposed()))?;
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
        self.remote()
            .try_for_each(|shard| self.pool.send(shard, &message))
    }
}
