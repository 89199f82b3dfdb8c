//! Disks that become full during a write.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use dp_accounting::Error;

use super::{check_counted, patiently, plan, writer};
use crate::shared::draw::Draw;
use crate::shared::memory_folder::memory_folder;

/// A writer that may create files of `blocks` times 512 bytes. Beyond that, a write is truncated
/// and then fails as on a full disk, or, every other time, the system kills the process.
fn run_in_blocks(path: &Path, blocks: usize, killed: bool) -> Vec<String> {
    let ignore = if killed { "" } else { "trap '' XFSZ;" };
    let script = format!("{ignore} ulimit -c 0; ulimit -f {blocks}; exec \"$@\"");
    let mut child = writer::start(path, None, Some(&script));
    let ids = writer::ids(child.stdout.take().unwrap(), || ());
    assert_eq!(
        child.wait().unwrap().success(),
        !killed,
        "the writer's own checks"
    );
    ids
}

/// Four successive writers on one file, each with slightly more room than the one before.
fn fill_up(n_runs: usize, seed: u64) {
    let mut draw = Draw(seed);
    let mut n_ids = 0;
    for _ in 0..n_runs.div_ceil(4) {
        let folder = memory_folder();
        let path = folder.path().join("ledger.jsonl");
        let (mut handed_out, mut blocks) = (Vec::new(), draw.below(8));
        for _ in 0..4 {
            handed_out.extend(run_in_blocks(&path, blocks, draw.below(2) == 0));
            blocks += draw.below(9);
            if draw.below(2) == 0 {
                check_counted(&path, &handed_out);
            }
        }
        check_counted(&path, &handed_out);
        n_ids += handed_out.len();
    }
    assert!(
        n_ids > n_runs,
        "hardly anything was written: {n_ids} spends"
    );
}

#[test]
fn two_hundred_files_at_their_limit_lose_nothing() {
    fill_up(200, 1);
}

#[test]
#[ignore = "long form: a minute"]
fn long_two_thousand_files_at_their_limit_lose_nothing() {
    fill_up(2000, 2);
}

const MOUNT: &str = "DP_LEDGER_TORTURE_MOUNT";

/// In a file system of 64 KiB: write until it is full, make room, and open the ledger again.
#[test]
fn in_a_small_file_system() {
    let Some(mount) = std::env::var_os(MOUNT) else {
        return;
    };
    let mut draw = Draw(7);
    for run in 0..50 {
        let path = Path::new(&mount).join(format!("{run}.jsonl"));
        let filler = Path::new(&mount).join("filler");
        fs::write(&filler, vec![0; 4096 * (3 + draw.below(9))]).unwrap();
        let mut handed_out = Vec::new();
        if let Ok(mut ledger) = patiently(&path) {
            // nearly a page at a time, in lines of different lengths
            let refusal = loop {
                match ledger.reserve(&plan(&"x".repeat(draw.below(900)), 2)) {
                    Ok(spends) => {
                        handed_out.extend(spends.iter().map(|s| s.release_id().to_owned()));
                    }
                    Err(refusal) => break refusal,
                }
            };
            assert!(matches!(refusal, Error::Io { .. }), "{refusal:?}");
        }
        // repairing may find no room either; then it returns an error and hands out nothing
        match patiently(&path) {
            Ok(ledger) => assert!(ledger.n_releases() >= handed_out.len() as u64),
            Err(refusal) => assert!(matches!(refusal, Error::Io { .. }), "{refusal:?}"),
        }
        fs::remove_file(&filler).unwrap();
        check_counted(&path, &handed_out);
        assert!(handed_out.len() > 3);
        fs::remove_file(&path).unwrap();
    }
    println!("FIFTY-RUNS");
}

#[test]
fn a_full_file_system_loses_nothing() {
    let folder = memory_folder();
    let script = format!("mount -t tmpfs -o size=64k none \"${MOUNT}\" && exec \"$@\"");
    let command = writer::command("full_disk::in_a_small_file_system", Some(&script));
    let inner: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let outcome = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh"])
        .args(inner)
        .env(MOUNT, folder.path())
        .output();
    match outcome {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("FIFTY-RUNS"));
        }
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running") => {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(_) | Err(_) => eprintln!("SKIPPED: no file system may be mounted here"),
    }
}
