//! `mpirun -n 4 dp-mpi train ...`: the command line of `dp`, with users assigned to the ranks of an
//! MPI job.
//!
//! Rank 0 coordinates: only rank 0 opens the ledger and the output folder, draws noise and writes.
//! It holds the users of the first shard. Every other rank is a worker, which sums over the users
//! of its own shard and receives only the release list.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use dp_personal::workers::{ByteLink, BytePool, Dealing, LinkError, Place, Worker};
use mpi::Threading;
use mpi::topology::{Process, SimpleCommunicator};
use mpi::traits::{Communicator, Destination, Source};

type Result<T> = std::result::Result<T, LinkError>;

/// Tag of messages with the length of the next message.
const LENGTH: i32 = 1;
/// Tag of message parts.
const PART: i32 = 2;
/// Size of a part in bytes: MPI counts in 32 bits.
const PART_BYTES: usize = 1 << 26;
/// The longest sleep between two checks for a message: a waiting rank leaves its core to others.
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// The exit code of a rank that panicked, the same as that of Rust.
const PANICKED: i32 = 101;

fn main() -> ExitCode {
    // sums are computed by many threads, and sent by this one
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        return ExitCode::FAILURE;
    };
    let abort = AbortOnPanic;
    let world = universe.world();
    let (shard, n_shards) = (index(world.rank()), index(world.size()));
    let code = match shard {
        0 => dp_cli::run(Place::Coordinator(&Ranks)),
        _ => dp_cli::run(Place::Worker(Worker {
            shard,
            n_shards,
            dealing: Dealing::ByRun,
            link: Box::new(ToRoot),
        })),
    };
    if code != 0 {
        world.abort(code.into()); // otherwise the others would wait for this rank
    }
    if until_the_end(shard, n_shards).is_err() {
        world.abort(1);
    }
    std::mem::forget(abort);
    ExitCode::SUCCESS
}

/// A rank that panics ends the job.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        SimpleCommunicator::world().abort(PANICKED);
    }
}

/// Workers sleep until rank 0 has measured and written: MPI's own way of waiting occupies a core.
fn until_the_end(shard: usize, n_shards: usize) -> Result<()> {
    match shard {
        0 => (1..n_shards).try_for_each(|shard| Ranks.post(shard, &[])),
        _ => ToRoot.fetch().map(drop),
    }
}

/// The coordinator's links to the other ranks: rank and shard have the same number.
struct Ranks;

impl BytePool for Ranks {
    fn n_shards(&self) -> usize {
        index(SimpleCommunicator::world().size())
    }

    fn post(&self, shard: usize, message: &[u8]) -> Result<()> {
        let world = SimpleCommunicator::world();
        let rank = i32::try_from(shard).map_err(|_| NO_RANK)?;
        post(&world.process_at_rank(rank), message);
        Ok(())
    }

    fn fetch(&self) -> Result<(usize, Vec<u8>)> {
        let world = SimpleCommunicator::world();
        let from = rested(|| world.any_process().immediate_probe_with_tag(LENGTH)).source_rank();
        Ok((index(from), received(&world.process_at_rank(from))?))
    }
}

/// A worker's link to rank 0.
struct ToRoot;

impl ByteLink for ToRoot {
    fn post(&mut self, message: &[u8]) -> Result<()> {
        post(&SimpleCommunicator::world().process_at_rank(0), message);
        Ok(())
    }

    fn fetch(&mut self) -> Result<Vec<u8>> {
        let world = SimpleCommunicator::world();
        let root = world.process_at_rank(0);
        rested(|| root.immediate_probe_with_tag(LENGTH));
        received(&root)
    }
}

const NO_RANK: LinkError = LinkError::Link {
    what: "there is no such rank",
};

/// Sends the length of a message, then the message in parts.
fn post(to: &Process<'_>, message: &[u8]) {
    to.send_with_tag(&(message.len() as u64), LENGTH);
    for part in message.chunks(PART_BYTES) {
        to.send_with_tag(part, PART);
    }
}

fn received(from: &Process<'_>) -> Result<Vec<u8>> {
    let mut length = 0_u64;
    from.receive_into_with_tag(&mut length, LENGTH);
    let length = usize::try_from(length).map_err(|_| LinkError::Link {
        what: "a message that does not fit this machine",
    })?;
    let mut message = vec![0; length];
    for part in message.chunks_mut(PART_BYTES) {
        from.receive_into_with_tag(part, PART);
    }
    Ok(message)
}

/// Polls for a message, with sleeps of increasing length in between.
fn rested<T>(look: impl Fn() -> Option<T>) -> T {
    let mut nap = Duration::from_micros(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(nap);
        nap = (nap * 2).min(LONGEST_NAP);
    }
}

/// Ranks and their number are never negative.
fn index(rank: i32) -> usize {
    usize::try_from(rank).unwrap_or(0)
}
