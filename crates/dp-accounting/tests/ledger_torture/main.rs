//! A ledger under `kill -9`, full disks, two writers, and with damaged, replaced, rolled back and
//! read-only files: whatever was handed out must be counted. At least 1,000 runs by default, ten
//! times as many with `--ignored`.
//!
//! In a separate test binary, because a process that is being started briefly holds copies of every
//! open file, including locks; `patiently` waits until they are released.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[path = "../shared/mod.rs"]
mod shared;

mod damage;
mod full_disk;
mod kill;
mod read_only;
mod replaced;
mod two_writers;
mod writer;

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use dp_accounting::{Budget, Error, Ledger, Plan, PlannedRelease};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor};

fn budget() -> Budget {
    let target = ApproxDp {
        epsilon: 20.0,
        delta: 1e-5,
    };
    Budget::new(target, Adjacency::AddRemoveUser).unwrap()
}

/// Three small releases, or a given number, under a label of any length.
fn plan(label: &str, n_releases: usize) -> Plan {
    let releases = [4e4, 5e4, 6e4]
        .iter()
        .cycle()
        .take(n_releases)
        .map(|&z| PlannedRelease::gaussian(label, z, ReplaceFactor::Two, 1).unwrap())
        .collect();
    Plan::with_noise_multipliers(1e-5, Adjacency::AddRemoveUser, releases).unwrap()
}

/// Opens the ledger, waiting while another process has it open.
fn patiently(path: &Path) -> dp_accounting::Result<Ledger> {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        match Ledger::open_or_create(path, "ratings", budget()) {
            Err(Error::LedgerLocked { .. }) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_micros(200));
            }
            other => return other,
        }
    }
}

/// Checks that every id was handed out once and is a release in the file that is no longer held,
/// before and after the file was opened and repaired.
fn check_counted(path: &Path, handed_out: &[String]) {
    if handed_out.is_empty() && !path.exists() {
        return; // a ledger is created completely or not at all
    }
    let whole: Vec<&String> = handed_out.iter().filter(|id| id.len() == 64).collect();
    let once: HashSet<&String> = whole.iter().copied().collect();
    assert_eq!(once.len(), whole.len(), "an id was handed out twice");
    for mended in [false, true] {
        let summary = Ledger::audit(path).unwrap();
        let ids = summary.releases.iter().map(|r| r.release_id.as_str());
        let counted: HashSet<&str> = ids.collect();
        assert_eq!(counted.len(), summary.releases.len(), "a release id twice");
        for id in handed_out {
            // the last line of a killed writer may be incomplete
            let paid = match id.len() {
                64 => counted.contains(id.as_str()) && !summary.held.contains(id),
                _ => counted.iter().any(|whole| whole.starts_with(id.as_str())),
            };
            assert!(
                paid,
                "{id} was handed out and is not counted (mended: {mended})"
            );
        }
        if !mended {
            let ledger = patiently(path).unwrap();
            assert_eq!(ledger.n_releases(), counted.len() as u64);
            assert!(ledger.balance().spent >= summary.balance.spent);
        }
    }
}
