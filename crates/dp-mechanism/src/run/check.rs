//! Checks of the properties that every trainer must have, to be called by the tests of trainers.

use std::fmt;
use std::ops::Range;
use std::thread;

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Interactions, Private};

use super::{
    ChannelLink, ChannelPool, Coordinator, Fitted, Observer, PaidLine, Payer, ReleaseEntry,
    ReleaseList, Run, Shard, Trainer, worker_channels,
};
use crate::{NoiseSource, Sharded, SumBackend};

const RUN: &str = "check of a trainer";
const SEED: u64 = 12;
/// Maximum number of positions at which a run is interrupted.
const MOST_PLACES: usize = 12;
/// Numbers of workers that share the users.
const WORKERS: [usize; 4] = [1, 2, 3, 8];
/// Numbers of processes that share the users, including the coordinator.
const PROCESSES: [usize; 3] = [1, 2, 4];

/// Checks that a trainer's model is a function of its list of releases, wherever the users are.
///
/// | law | what is compared, bit by bit, under seeded noise |
/// |---|---|
/// | [`resume`](Self::resume) | a run that ended after j releases and continues from their list, for every j; it is charged for the rest only |
/// | [`replay`](Self::replay) | the model that follows from the list without any users |
/// | [`shards`](Self::shards) | the users split into shards in one process |
/// | [`workers`](Self::workers) | 1, 2, 3 and 8 workers with the users of their shards, and a coordinator without users; 1, 2 and 4 processes with users, of which the first coordinates |
///
/// It draws seeded noise and is meant for tests on generated data.
///
/// # Examples
/// See `tests/trainer.rs` of this crate, where a whole trainer is written and checked.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct TrainerCheck<'a, T: Trainer> {
    /// The trainer.
    pub trainer: &'a T,
    /// Its plan for `data`.
    pub plan: &'a Plan,
    /// The users.
    pub data: &'a T::Data,
    /// A data set without users, with the same public shape.
    pub nobody: &'a T::Data,
    /// The table by which shards are checked.
    pub table: &'a (dyn Fn(&T::Data) -> &Private<Interactions> + Sync),
    /// Assigns the users to a number of shards by a function of their ids.
    pub deal: &'a DealUsers<'a, T::Data>,
    /// The bits by which two models are compared.
    pub bits: &'a (dyn Fn(&T::Model) -> Vec<u64> + Sync),
}

/// Assigns users to a number of shards by a function of their ids.
pub type DealUsers<'a, D> = dyn Fn(usize, &dyn Fn(u128) -> usize) -> Vec<Box<D>> + Sync + 'a;

/// A law that a trainer violated, or an error during the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainerLaw {
    /// Which law, and where it was violated.
    pub what: String,
}

impl fmt::Display for TrainerLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for TrainerLaw {}

type Law<T> = Result<T, TrainerLaw>;

/// Keeps the list in memory.
#[derive(Default)]
struct Keep {
    entries: Vec<ReleaseEntry>,
}

impl Observer for Keep {
    fn listed(&mut self, entry: &ReleaseEntry) {
        self.entries.push(entry.clone());
    }

    fn reads_users(&self) -> bool {
        false
    }
}

/// Pays for every release from a ledger of its own, and counts the payments.
#[derive(Default)]
struct Counting {
    n_paid: usize,
}

impl Payer for Counting {
    fn pay(
        &mut self,
        plan: &Plan,
        releases: Range<usize>,
        account: usize,
    ) -> dp_accounting::Result<Vec<Spend>> {
        self.n_paid = self.n_paid.saturating_add(releases.len());
        let part = plan.part(releases)?;
        let budget = Budget::schedule(part.target(), part.adjacency())?;
        Ledger::in_memory(&format!("account {account}"), budget)?.reserve(&part)
    }

    fn has_paid(&self, _: &PaidLine) -> bool {
        true // from ledgers that no longer exist
    }
}

impl<T> TrainerCheck<'_, T>
where
    T: Trainer + Sync,
    T::Data: Sync,
    T::Error: fmt::Debug,
{
    /// Checks all laws.
    ///
    /// # Errors
    /// The first one that is violated.
    pub fn all(&self) -> Law<()> {
        self.resume()?;
        self.replay()?;
        self.shards()?;
        self.workers()
    }

    /// A complete run, with its list.
    fn whole(&self) -> Law<(Vec<u64>, Vec<ReleaseEntry>)> {
        let mut keep = Keep::default();
        let list = self.list(Vec::new())?;
        let mut payer = Counting::default();
        let noise = &mut NoiseSource::insecure_seeded(SEED);
        let run = said("a run", Run::paying(self.plan, &mut payer, noise))?;
        let run = run.listed_in(list).observed_by(&mut keep);
        let fitted = said("a run", self.trainer.run(self.data, run))?;
        Ok(((self.bits)(&fitted.model), keep.entries))
    }

    fn list(&self, entries: Vec<ReleaseEntry>) -> Law<ReleaseList> {
        said("a list", ReleaseList::of_entries(RUN, self.plan, entries))
    }

    fn same(&self, fitted: &Fitted<T::Model>, expected: &[u64], what: &str) -> Law<()> {
        if (self.bits)(&fitted.model) == expected {
            return Ok(());
        }
        Err(broken(format!("{what} made another model")))
    }

    /// A run that was interrupted after any release continues to the same model and is charged only
    /// for the missing releases.
    ///
    /// # Errors
    /// If this is violated.
    pub fn resume(&self) -> Law<()> {
        let (expected, entries) = self.whole()?;
        let n = entries.len();
        let stride = n.div_ceil(MOST_PLACES).max(1);
        for made in (0..n).step_by(stride).chain([n.saturating_sub(1), n]) {
            let what = format!("a run resumed after {made} of {n} releases");
            let before = entries.get(..made).unwrap_or_default().to_vec();
            let paid: usize = before.iter().map(|entry| entry.paid().len()).sum();
            let all: usize = entries.iter().map(|entry| entry.paid().len()).sum();
            let mut payer = Counting::default();
            let noise = &mut NoiseSource::insecure_seeded(SEED);
            let run = said(&what, Run::paying(self.plan, &mut payer, noise))?;
            let run = run.listed_in(self.list(before)?);
            let fitted = said(&what, self.trainer.run(self.data, run))?;
            self.same(&fitted, &expected, &what)?;
            if payer.n_paid != all.saturating_sub(paid) {
                return Err(broken(format!("{what} paid for {}", payer.n_paid)));
            }
        }
        Ok(())
    }

    /// The model follows from the list, without users.
    ///
    /// # Errors
    /// If this is violated.
    pub fn replay(&self) -> Law<()> {
        let (expected, entries) = self.whole()?;
        let run = said("a replay", Run::replay(self.plan, self.list(entries)?))?;
        let fitted = said("a replay", self.trainer.run(self.nobody, run))?;
        self.same(&fitted, &expected, "a replay without users")
    }

    /// Shards of users in one process give the same sums.
    ///
    /// # Errors
    /// If this is violated.
    pub fn shards(&self) -> Law<()> {
        let (expected, _) = self.whole()?;
        let what = "a run over three shards in one process";
        let backend = said(what, Sharded::new(3))?;
        let mut payer = Counting::default();
        let noise = &mut NoiseSource::insecure_seeded(SEED);
        let run = said(what, Run::paying(self.plan, &mut payer, noise))?;
        let fitted = said(what, self.trainer.run(self.data, run.summed_by(&backend)))?;
        self.same(&fitted, &expected, what)
    }

    /// Workers with the users, and a coordinator without users, arrive at the same model.
    ///
    /// # Errors
    /// If this is violated.
    pub fn workers(&self) -> Law<()> {
        let (expected, _) = self.whole()?;
        for k in WORKERS {
            let shards = (self.deal)(k, &Shard::dealer(RUN, k));
            let (pool, links) = worker_channels(k);
            let coordinator = (Coordinator::new(pool), self.nobody);
            self.with_workers(&shards, links, coordinator, &expected)?;
        }
        for k in PROCESSES {
            let shards = (self.deal)(k, &Shard::dealer(RUN, k));
            let (pool, links) = worker_channels(k);
            let own = shards
                .first()
                .ok_or_else(|| broken("no shard".to_owned()))?;
            let coordinator = (Coordinator::with_first_shard(pool), &**own);
            self.with_workers(&shards, links, coordinator, &expected)?;
        }
        Ok(())
    }

    /// Runs workers with the shards for which the coordinator has no users.
    fn with_workers(
        &self,
        shards: &[Box<T::Data>],
        links: Vec<ChannelLink>,
        (backend, own): (Coordinator<ChannelPool>, &T::Data),
        expected: &[u64],
    ) -> Law<()> {
        let (k, n_own) = (shards.len(), usize::from(!backend.is_remote()));
        thread::scope(|scope| {
            let mut links: Vec<_> = shards.iter().zip(links).enumerate().collect();
            let others = links.split_off(n_own); // dropping a link signals that its worker has left
            let parts = others.into_iter();
            let workers: Vec<_> = parts
                .map(|(shard, (data, mut link))| {
                    scope.spawn(move || {
                        let what = format!("worker {shard} of {k}");
                        let own = said(&what, Shard::new(RUN, shard, k))?;
                        let run = Run::worker(self.plan, own, (self.table)(data), &mut link);
                        let fitted = said(&what, self.trainer.run(data, said(&what, run)?))?;
                        self.same(&fitted, expected, &what)
                    })
                })
                .collect();
            let made = self.coordinate(k, &backend, own);
            drop(backend); // stops workers that are still waiting
            let done: Vec<Law<()>> = workers
                .into_iter()
                .map(|worker| worker.join())
                .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            match (made, done.into_iter().collect::<Law<()>>()) {
                (Err(a), Err(b)) => Err(broken(format!("{a}; {b}"))),
                (made, done) => {
                    done.and(self.same(&made?, expected, &format!("a coordinator of {k} workers")))
                }
            }
        })
    }

    fn coordinate(
        &self,
        k: usize,
        backend: &dyn SumBackend,
        own: &T::Data,
    ) -> Law<Fitted<T::Model>> {
        let what = format!("a coordinator of {k} workers");
        let mut payer = Counting::default();
        let noise = &mut NoiseSource::insecure_seeded(SEED);
        let run = said(&what, Run::paying(self.plan, &mut payer, noise))?;
        let run = run.listed_in(self.list(Vec::new())?).summed_by(backend);
        said(&what, self.trainer.run(own, run))
    }
}

fn said<V, E: fmt::Debug>(what: &str, result: Result<V, E>) -> Law<V> {
    result.map_err(|error| broken(format!("{what} ended with {error:?}")))
}

const fn broken(what: String) -> TrainerLaw {
    TrainerLaw { what }
}
