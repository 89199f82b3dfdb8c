//! Workers that hold users, and the coordinator that holds spends and noise.

use dp_core::{Interactions, Private};
use sha2::{Digest, Sha256};

use crate::sum_backend::{ShardAnswer, ShardSum, SumBackend, SumRequest, Tally};
use crate::{Error, ReleaseEntry, Result, RoundKey};

/// Maximum number of rejected answers to one request before the coordinator gives up.
const MOST_REFUSED: usize = 1000;

/// What determines the shard of a user.
///
/// ```text
/// shard of user u = HChaCha20(SHA-256(name), id of u) mod n_shards
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dealing {
    /// The user's id and the name of the run: for processes that read all users and keep their own.
    #[default]
    ByRun,
    /// The user's id, with the same name for all runs: for engines that assign users before a run
    /// is named.
    ById,
    /// Whoever has the user's records. Nothing checks that no user is in two silos.
    Silos,
    /// Each user's own device, which sends a message instead of a sum. There are no shards.
    Devices,
}

/// The part of the users that a worker holds.
///
/// A user who is in two shards would be bounded twice. Every worker therefore checks that all of
/// its users belong to its shard. Because the shard follows from the user's id, no user can belong
/// to two. [Silos](Dealing::Silos) are the exception: there this is an assumption, which must be
/// stated when training on silos.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    run: String,
    number: usize,
    n_shards: usize,
    dealing: Dealing,
}

/// The name with which [`Dealing::ById`] assigns users.
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

    /// The same shard with users who are assigned in another way.
    #[must_use]
    pub const fn dealt(mut self, dealing: Dealing) -> Self {
        self.dealing = dealing;
        self
    }

    /// The function that assigns users [by their ids](Dealing::ById) to `n_shards` shards of any
    /// run.
    pub fn dealer_by_id(n_shards: usize) -> impl Fn(u128) -> usize + use<> {
        Self::dealer(BY_ID, n_shards)
    }

    /// The function that assigns users to `n_shards` shards of the run named `run`, for
    /// [`Interactions::deal`].
    pub fn dealer(run: &str, n_shards: usize) -> impl Fn(u128) -> usize + use<> {
        let key = RoundKey::from_bytes(Sha256::digest(run.as_bytes()).into());
        let n = n_shards.max(1) as u64;
        move |id| usize::try_from(key.coin(id).checked_rem(n).unwrap_or(0)).unwrap_or(0)
    }

    /// Rejects a table with users of another shard.
    ///
    /// # Errors
    /// [`Error::UsersOfAnotherShard`], which reports that the input was assigned incorrectly but no
    /// user of it.
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
            Dealing::Silos | Dealing::Devices => None,
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

/// A message from a coordinator to a worker.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "may hold the key of a sample; printing it is never wanted"
)]
pub enum ToWorker {
    /// Requests a sum, possibly again if an answer was lost.
    Sum(SumRequest),
    /// The release that was made from the last sum.
    Released(ReleaseEntry),
    /// The worker is no longer needed.
    End,
}

/// A worker's link to its coordinator.
pub trait CoordinatorLink {
    /// Sends an answer, if there is one, and waits for the coordinator's next message.
    ///
    /// # Errors
    /// Any failure of the link.
    fn exchange(&mut self, answer: Option<ShardAnswer>) -> Result<ToWorker>;
}

/// A coordinator's links to its workers.
pub trait WorkerPool: Sync {
    /// Number of workers, each with its own shard. A coordinator that [has the first
    /// shard](Coordinator::with_first_shard) counts as one, and is sent nothing.
    fn n_workers(&self) -> usize;

    /// Sends a message to the worker of one shard.
    ///
    /// # Errors
    /// Any permanent failure of the link. A message to a worker that has died is dropped; the
    /// request is repeated after it is reported by [`receive`](Self::receive).
    fn send(&self, shard: usize, message: &ToWorker) -> Result<()>;

    /// Waits for an answer, or for the report that a worker was restarted and its request must be
    /// repeated. Such a worker replays the list of releases before it answers.
    ///
    /// # Errors
    /// If no more answers can be expected. The run then ends, and for sums over all users nothing
    /// was charged for the one that is missing.
    fn receive(&self) -> Result<FromWorker>;
}

/// A message from a pool of workers.
#[allow(
    missing_debug_implementations,
    reason = "holds a private sum; printing it is never wanted"
)]
pub enum FromWorker {
    /// A sum, of any shard and request.
    Answer(ShardAnswer),
    /// The worker of this shard was restarted.
    Restarted(usize),
}

/// The backend of a coordinator: sums come from workers. The coordinator's own table has no users,
/// or those of the [first shard](Self::with_first_shard).
///
/// Every shard counts exactly once in every sum: an answer that is late, repeated, of another run,
/// step or list, or of another length is dropped, and its shard is asked again unless it has
/// answered.
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

    /// Shard 0 is summed over the coordinator's own table while the workers sum theirs, and the
    /// pool provides the others. The caller that passes the table to the run must
    /// [check](Shard::check) that its users are those of shard 0, as a worker does.
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
