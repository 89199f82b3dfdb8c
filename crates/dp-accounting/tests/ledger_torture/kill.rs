//! `kill -9` at moments between the start of the process and the middle of its work.

use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use super::{check_counted, writer};
use crate::shared::memory_folder::memory_folder;

/// Lets a writer run, kills it after `life`, counted from its start or from its first spend, and
/// returns the ids that it received.
fn run_and_kill(mut child: Child, life: Duration, after_first_spend: bool) -> Vec<String> {
    let pipe = child.stdout.take().unwrap();
    let (first, seen) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        // `seen` lives until this thread has been joined
        writer::ids(pipe, || first.send(()).unwrap())
    });
    if after_first_spend {
        seen.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn kill_loop(n_kills: u64, seed: u64, start: fn(&Path) -> Child) {
    let folder = memory_folder();
    let path = folder.path().join("ledger.jsonl");
    let mut handed_out = Vec::new();
    for kill in 0..n_kills {
        let life = Duration::from_micros((kill + seed) * 7_919 % 6_000);
        handed_out.extend(run_and_kill(start(&path), life, kill % 2 == 1));
        check_counted(&path, &handed_out);
    }
    assert!(handed_out.len() as u64 >= n_kills / 2);
}

#[test]
fn two_hundred_kills_lose_nothing() {
    for round in 0..10 {
        kill_loop(20, 20 * round, |path| writer::start(path, None, None));
    }
}

#[test]
fn forty_kills_while_the_ledger_is_rewritten_lose_nothing() {
    for round in 0..4 {
        kill_loop(10, 10 * round, writer::start_upgrading);
    }
}

#[test]
#[ignore = "long form: a minute"]
fn long_a_thousand_kills_while_the_ledger_is_rewritten_lose_nothing() {
    for round in 0..100 {
        kill_loop(10, 10 * round, writer::start_upgrading);
    }
}

#[test]
#[ignore = "long form: a minute"]
fn long_three_thousand_kills_lose_nothing() {
    for round in 0..150 {
        kill_loop(20, 20 * round, |path| writer::start(path, None, None));
    }
}
