//! A ledger's writer that is killed at random moments: what it handed out must be counted.
//!
//! In a test binary of its own, because a process that is just being started holds copies of
//! every open file for a moment, locks included.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor};

const PATH: &str = "DP_LEDGER_KILL_PATH";
const MARK: &str = "HANDED-OUT ";

fn budget() -> Budget {
    let target = ApproxDp {
        epsilon: 20.0,
        delta: 1e-5,
    };
    Budget::new(target, Adjacency::AddRemoveUser).unwrap()
}

/// The writer, in a process of its own: reserves for ever and says what it was handed.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let mut ledger = Ledger::open(path, "ratings", budget()).unwrap();
    let releases = [4e4, 5e4, 6e4]
        .map(|z| PlannedRelease::gaussian("r", z, ReplaceFactor::Two, 1).unwrap())
        .to_vec();
    let plan = Plan::with_noise_multipliers(1e-5, Adjacency::AddRemoveUser, releases).unwrap();
    let mut out = std::io::stdout();
    loop {
        for spend in ledger.reserve(&plan).unwrap() {
            writeln!(out, "{MARK}{}", spend.release_id()).unwrap();
        }
        out.flush().unwrap();
    }
}

fn start_writer(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture"])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Runs the writer, kills it `life` after its start or after its first spend, and returns the ids
/// that it was handed.
fn run_and_kill(path: &Path, life: Duration, after_first_spend: bool) -> Vec<String> {
    let mut child = start_writer(path);
    let pipe = child.stdout.take().unwrap();
    let (first, seen) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut ids = Vec::new();
        for line in BufReader::new(pipe).lines() {
            if let Some((_, id)) = line.unwrap().split_once(MARK) {
                ids.push(id.to_owned());
                let _ = first.send(());
            }
        }
        ids
    });
    if after_first_spend {
        seen.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// Every id is a release in the file, by itself and after the file was opened and mended.
fn check_counted(path: &Path, handed_out: &[String]) {
    for mended in [false, true] {
        let summary = Ledger::audit(path).unwrap();
        let ids = summary.releases.iter().map(|r| r.release_id.as_str());
        let counted: HashSet<&str> = ids.collect();
        for id in handed_out {
            // the last line of a killed writer may lack its end
            let held = match id.len() {
                64 => counted.contains(id.as_str()),
                _ => counted.iter().any(|whole| whole.starts_with(id.as_str())),
            };
            assert!(
                held,
                "{id} was handed out and is not counted (mended: {mended})"
            );
        }
        if !mended {
            let ledger = Ledger::open(path, "ratings", budget()).unwrap();
            assert_eq!(ledger.n_releases(), counted.len() as u64);
            assert!(ledger.balance().spent >= summary.balance.spent);
        }
    }
}

/// Kills writers of one file at moments from before the first line of `main` to the thick of it.
fn kill_loop(n_kills: u64, seed: u64) {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    let folder = tempfile::tempdir_in(parent).unwrap();
    let path = folder.path().join("ledger.jsonl");
    let mut handed_out = Vec::new();
    for kill in 0..n_kills {
        let life = Duration::from_micros((kill + seed) * 7_919 % 6_000);
        handed_out.extend(run_and_kill(&path, life, kill % 2 == 1));
        if path.exists() && std::fs::metadata(&path).unwrap().len() > 0 {
            check_counted(&path, &handed_out);
        } else {
            assert!(handed_out.is_empty());
        }
    }
    assert!(handed_out.len() as u64 >= n_kills / 2);
}

#[test]
fn sixty_kills_lose_nothing() {
    for round in 0..3 {
        kill_loop(20, 20 * round);
    }
}

#[test]
#[ignore = "minutes"]
fn three_thousand_kills_lose_nothing() {
    for round in 0..150 {
        kill_loop(20, 20 * round);
    }
}
