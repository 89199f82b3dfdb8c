//! A workflow whose users are distributed over several processes.
//!
//! One process coordinates: it opens ledger and output folder, draws noise and writes the released
//! files. The others are workers: they sum over their users and see nothing except the release
//! list. An engine transports bytes between them: [`BytePool`] at the coordinator, [`ByteLink`] at
//! each worker, [`worker_channels`] in one process.
//!
//! Every process receives the same settings. Users reach workers in one of three ways
//! ([`Dealing`]): all processes read the same file, and each keeps its own shard; an engine gives
//! each worker a table of its own users, assigned by [`shard_of`]; or each worker is a silo with
//! its own users. If workers receive their users, the coordinator has none. Before anything is
//! paid, the coordinator asks every worker for the hash of settings and public inputs, and of the
//! file of private data if all read the same one, and ends the run if they differ.
//!
//! A worker may live as long as the run, with a link that waits, or be a task that is started for
//! each sum: [`answer`] receives all messages of the coordinator so far and keeps no state.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use dp_accounting::{Plan, hex, sha256_hex};
use dp_core::{Interactions, Private};
use dp_data::TableSource;
use dp_mechanism::{Error as KernelError, Run, ToWorker, Trainer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

pub use dp_mechanism::{
    ByteLink, BytePool, ChannelLink, ChannelPool, Dealing, Error as LinkError, Shard,
    worker_channels,
};

use crate::devices::Devices;
use crate::error::{Error, Result};
use crate::workflows::private_run::HasTable;

/// Location of the users of a workflow.
#[allow(
    missing_debug_implementations,
    reason = "private sums go through the links; printing them is never wanted"
)]
pub enum Place<'a> {
    /// All in this process.
    Alone,
    /// The users of shard 0 are in this process, which also holds ledger, noise and output; those
    /// of the other shards are at the workers of the pool.
    Coordinator(&'a dyn BytePool),
    /// All users are at the workers of the pool, distributed as given; this process holds ledger,
    /// noise and output, and its table of private data is empty. The catalogue must be given.
    Driver(&'a dyn BytePool, Dealing),
    /// The users of one shard are in this process, which holds nothing else. The workflow ends with
    /// [`Error::WorkerDone`].
    Worker(Worker<'a>),
    /// Each user is on a device, for `dp federate` and [item vectors](crate::workflows::items)
    /// alone; this process holds ledger, noise and output, and its table of private data is empty.
    Devices(Box<dyn Devices>),
}

impl Place<'_> {
    /// The same for a workflow that sends messages to devices itself, and the devices.
    pub(crate) fn without_devices(self) -> (Self, Option<Box<dyn Devices>>) {
        match self {
            Self::Devices(devices) => (Self::Driver(&NoWorkers, Dealing::Devices), Some(devices)),
            other => (other, None),
        }
    }

    /// How users are distributed over processes, if they are.
    pub(crate) fn dealing(&self) -> Dealing {
        match self {
            Self::Alone | Self::Coordinator(_) => Dealing::ByRun,
            Self::Driver(_, dealing) => *dealing,
            Self::Worker(worker) => worker.dealing,
            Self::Devices(_) => Dealing::Devices,
        }
    }
}

/// A process that sums over the users of one shard.
#[allow(
    missing_debug_implementations,
    reason = "private sums go through the link; printing it is never wanted"
)]
pub struct Worker<'a> {
    /// Number of the shard: at least 1 if the coordinator has shard 0.
    pub shard: usize,
    /// Total number of shards, including that of the coordinator.
    pub n_shards: usize,
    /// How users are distributed. If [by run](Dealing::ByRun), the worker reads all users and keeps
    /// those of its shard; otherwise it receives only its own.
    pub dealing: Dealing,
    /// The link to the coordinator.
    pub link: Box<dyn ByteLink + 'a>,
}

impl Worker<'_> {
    pub(crate) fn borrowed(&mut self) -> Worker<'_> {
        Worker {
            shard: self.shard,
            n_shards: self.n_shards,
            dealing: self.dealing,
            link: Box::new(&mut *self.link),
        }
    }

    /// Waits for the start of the run and answers with the hash of what this worker would run. The
    /// coordinator ends the run if they differ.
    pub(crate) fn ready(&mut self, agreement: &str) -> Result<()> {
        let begun = self.link.fetch()?;
        self.link.post(agreement.as_bytes())?;
        if begun == agreement.as_bytes() {
            return Ok(());
        }
        Err(another_run(self.shard))
    }

    /// Answers with sums over the users of `data` until the run is over.
    ///
    /// # Errors
    /// [`Error::WorkerDone`] at the end; [`KernelError::UsersOfAnotherShard`]; errors of the link.
    pub(crate) fn train<T: Trainer, M>(
        &mut self,
        trainer: &T,
        data: &T::Data,
        plan: &Plan,
        run: &str,
    ) -> Result<M>
    where
        T::Data: HasTable,
        Error: From<T::Error>,
    {
        let shard = Shard::new(run, self.shard, self.n_shards)?.dealt(self.dealing);
        let mut link = &mut *self.link;
        let run = Run::worker(plan, shard, table_of(data)?, &mut link)?;
        // the model follows from the releases, and the coordinator writes it
        match trainer.run(data, run).map_err(Error::from) {
            Ok(_) | Err(Error::Releases(KernelError::EndOfList)) => Err(Error::WorkerDone),
            Err(error) => Err(error),
        }
    }
}

/// The shard of the user with this id, as tables have it, among `n_shards` shards to which users
/// are assigned [by id](Dealing::ById). It is the same in every run.
pub fn shard_of(n_shards: usize) -> impl Fn(&str) -> usize {
    let dealer = Shard::dealer_by_id(n_shards);
    move |id| dealer(dp_data::user_key(id))
}

/// The answer of a stateless worker to the last of all messages that its coordinator has sent to it
/// so far, oldest first. `work` runs the workflow at the given place, whose link replays the
/// messages, so that the worker takes over earlier releases and then sums. The answer is a function
/// of messages, settings and users.
///
/// # Errors
/// Errors of `work`; [`LinkError::Link`] if the last message requests nothing.
///
/// # Privacy
/// The answer to a request for a sum is exact and goes to the coordinator alone.
pub fn answer<T>(
    (shard, n_shards, dealing): (usize, usize, Dealing),
    messages: &[impl AsRef<[u8]>],
    work: impl FnOnce(Place<'_>) -> Result<T>,
) -> Result<Vec<u8>> {
    let mut link = Replayed {
        to_come: messages.iter().map(AsRef::as_ref).collect(),
        answer: None,
        is_over: false,
    };
    let ended = work(Place::Worker(Worker {
        shard,
        n_shards,
        dealing,
        link: Box::new(&mut link),
    }));
    match (ended.err(), link.answer) {
        (_, Some(answer)) if link.is_over => Ok(answer),
        (Some(error), _) if !link.is_over => Err(error),
        _ => Err(Error::Releases(NOTHING_ASKED)),
    }
}

/// A link that replays all messages of a coordinator to this worker.
struct Replayed<'a> {
    to_come: VecDeque<&'a [u8]>,
    /// The answer to the previous message.
    answer: Option<Vec<u8>>,
    is_over: bool,
}

const NOTHING_ASKED: KernelError = KernelError::Link {
    what: "the last message asks the worker for nothing",
};

impl ByteLink for Replayed<'_> {
    fn post(&mut self, message: &[u8]) -> std::result::Result<(), KernelError> {
        self.answer = Some(message.to_owned());
        Ok(())
    }

    fn fetch(&mut self) -> std::result::Result<Vec<u8>, KernelError> {
        let Some(next) = self.to_come.pop_front() else {
            self.is_over = true;
            return Err(NOTHING_ASKED);
        };
        self.answer = None;
        Ok(next.to_owned())
    }
}

/// A coordinator's links to workers that are tasks: each is started for one message, with all
/// earlier messages, and [answers](answer).
///
/// It stores the releases and the last message; a request that was answered, which may contain the
/// key of a sample, is not stored.
#[allow(
    missing_debug_implementations,
    reason = "private sums go through it; printing it is never wanted"
)]
pub struct Tasks<F> {
    n_shards: usize,
    run: F,
    state: Mutex<TaskState>,
}

#[derive(Default)]
struct TaskState {
    said: Vec<Zeroizing<Vec<u8>>>,
    /// Shards that received the last message since tasks last ran.
    waiting: BTreeSet<usize>,
    answers: VecDeque<(usize, Vec<u8>)>,
}

impl<F> Tasks<F>
where
    F: Fn(&[Zeroizing<Vec<u8>>], &BTreeSet<usize>) -> std::result::Result<TaskAnswers, KernelError>
        + Sync,
{
    /// `run` receives all messages so far and the shards that answer the last one. It runs a task
    /// for each, again if one is lost, and returns when all have answered.
    pub fn new(n_shards: usize, run: F) -> Self {
        Self {
            n_shards,
            run,
            state: Mutex::default(),
        }
    }
}

/// Answers with the shards that they came from.
pub type TaskAnswers = Vec<(usize, Vec<u8>)>;

impl<F> BytePool for Tasks<F>
where
    F: Fn(&[Zeroizing<Vec<u8>>], &BTreeSet<usize>) -> std::result::Result<TaskAnswers, KernelError>
        + Sync,
{
    fn n_shards(&self) -> usize {
        self.n_shards
    }

    fn post(&self, shard: usize, message: &[u8]) -> std::result::Result<(), KernelError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let last = state.said.last();
        if last.is_none_or(|last| **last != *message) {
            if last.is_some_and(|last| ToWorker::is_request(last)) {
                state.said.pop();
            }
            state.said.push(Zeroizing::new(message.to_owned()));
            state.waiting.clear();
        }
        state.waiting.insert(shard);
        Ok(())
    }

    fn fetch(&self) -> std::result::Result<(usize, Vec<u8>), KernelError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.answers.is_empty() {
            let waiting = std::mem::take(&mut state.waiting);
            if !waiting.is_empty() {
                state.answers = (self.run)(&state.said, &waiting)?.into();
            }
        }
        state.answers.pop_front().ok_or(KernelError::Link {
            what: "a task ended without an answer",
        })
    }
}

/// The workers of a run whose users are on devices: there are none.
pub(crate) struct NoWorkers;

impl BytePool for NoWorkers {
    fn n_shards(&self) -> usize {
        0
    }

    fn post(&self, _: usize, _: &[u8]) -> std::result::Result<(), KernelError> {
        Err(NOTHING_ASKED)
    }

    fn fetch(&self) -> std::result::Result<(usize, Vec<u8>), KernelError> {
        Err(NOTHING_ASKED)
    }
}

/// Location of the users of a coordinator.
#[derive(Clone, Copy)]
pub(crate) struct Pool<'a> {
    pub(crate) workers: &'a dyn BytePool,
    pub(crate) dealing: Dealing,
}

impl Pool<'_> {
    /// Whether the coordinator has the users of the first shard.
    pub(crate) fn has_first_shard(&self) -> bool {
        self.dealing == Dealing::ByRun
    }

    fn remote(&self) -> Range<usize> {
        usize::from(self.has_first_shard())..self.workers.n_shards()
    }
}

/// Hash of what all processes of a run must agree on: everything that determines it, and the file
/// of private data if all read the same one. It stays between them.
pub(crate) fn agreement(shaping: &Value, data: &TableSource, dealing: Dealing) -> Result<String> {
    let data = match (dealing, data.file()) {
        (Dealing::ByRun, Some(path)) => {
            file_sha256(path).map_err(|source| Error::read(path, source))?
        }
        (Dealing::ByRun, None) => "in memory".to_owned(),
        (Dealing::ById, _) => "dealt by id".to_owned(),
        (Dealing::Silos, _) => "in silos".to_owned(),
        (Dealing::Devices, _) => "on devices".to_owned(),
    };
    let all = json!({ "shaping": shaping, "data": data });
    Ok(sha256_hex(&serde_json::to_vec(&all)?))
}

fn file_sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (
        BufReader::with_capacity(1 << 16, File::open(path)?),
        Sha256::new(),
    );
    loop {
        let bytes = file.fill_buf()?;
        let n_bytes = bytes.len();
        if n_bytes == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(bytes);
        file.consume(n_bytes);
    }
}

/// Tells the workers that the run begins, and returns when all of them have confirmed that they are
/// ready for the same run.
pub(crate) fn begin(pool: Pool<'_>, agreement: &str) -> Result<()> {
    for shard in pool.remote() {
        pool.workers.post(shard, agreement.as_bytes())?;
    }
    let mut missing: BTreeSet<usize> = pool.remote().collect();
    while !missing.is_empty() {
        let (shard, said) = pool.workers.fetch()?;
        if said != agreement.as_bytes() || !missing.remove(&shard) {
            return Err(another_run(shard));
        }
    }
    Ok(())
}

/// Tells the workers that no further sum will be requested.
pub(crate) fn end(pool: Pool<'_>) -> Result<()> {
    let end = ToWorker::End.to_bytes()?;
    let mut remote = pool.remote();
    Ok(remote.try_for_each(|shard| pool.workers.post(shard, &end))?)
}

/// The table against which the shard of a process is checked.
pub(crate) fn table_of<D: HasTable + ?Sized>(data: &D) -> Result<&Private<Interactions>> {
    data.table()
        .ok_or_else(|| Error::Usage("this command trains on users of one process alone".to_owned()))
}

fn another_run(shard: usize) -> Error {
    Error::Releases(KernelError::Answer {
        shard,
        what: "its settings, public inputs or data file are not those of the coordinator; give every process the same",
    })
}
