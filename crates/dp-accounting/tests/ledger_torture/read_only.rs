//! A ledger on a file system that cannot be written to.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use dp_accounting::{Error, Ledger};
use dp_core::Adjacency;

use super::{check_counted, patiently, plan, writer};
use crate::shared::memory_folder::memory_folder;

const MOUNT: &str = "DP_LEDGER_TORTURE_READ_ONLY";

/// In a folder that is mounted a second time, read-only: an existing ledger hands out nothing, and
/// no new one is created.
#[test]
fn on_a_read_only_mount() {
    let Some(mount) = std::env::var_os(MOUNT) else {
        return;
    };
    let path = Path::new(&mount).join("locked/ledger.jsonl");
    for path in [path.clone(), path.with_file_name("new.jsonl")] {
        let refused = patiently(&path);
        assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    }
    // a held release of a ledger that was opened through a writable path, under a path that is
    // read-only
    assert!(Ledger::audit(&path).is_ok_and(|summary| summary.held.len() == 3));
    println!("READ-ONLY");
}

#[test]
fn a_read_only_file_system_pays_for_nothing() {
    let folder = memory_folder();
    let path = folder.path().join("open/ledger.jsonl");
    for name in ["open", "locked"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let mut ledger = patiently(&path).unwrap();
    let _reservation = ledger.hold(&plan("h", 3)).unwrap();
    drop(ledger);
    let before = fs::read(&path).unwrap();
    let script = format!(
        "cd \"${MOUNT}\" && mount --bind open locked && mount -o remount,bind,ro locked && exec \"$@\""
    );
    let command = writer::command("read_only::on_a_read_only_mount", Some(&script));
    let inner: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let outcome = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh"])
        .args(inner)
        .env(MOUNT, folder.path())
        .output();
    match outcome {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("READ-ONLY"));
        }
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running") => {
            panic!("{}", String::from_utf8_lossy(&output.stdout));
        }
        Ok(_) | Err(_) => eprintln!("SKIPPED: no file system may be mounted here"),
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    check_counted(&path, &[]);
    assert!(Ledger::open(&path, "ratings", Adjacency::AddRemoveUser).is_ok());
}
