use std::path::PathBuf;

use dp_core::{Adjacency, ApproxDp, ReplaceFactor};

use super::*;
use crate::ReleaseRequest;

const TARGET: ApproxDp = ApproxDp {
    epsilon: 1.0,
    delta: 1e-5,
};

/// A path for a ledger, its budget and a plan that uses it completely; `None` on systems without an
/// always-full device.
#[allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
fn scratch() -> Option<(tempfile::TempDir, PathBuf, Budget, Plan)> {
    if !Path::new("/dev/full").exists() {
        eprintln!("SKIPPED: this system has no /dev/full");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let budget = Budget::new(TARGET, Adjacency::AddRemoveUser).unwrap();
    let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1)];
    let plan = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &requests).unwrap();
    Some((folder, path, budget, plan))
}

#[test]
fn full_disk_hands_out_nothing_and_poisons_the_ledger() {
    let Some((_folder, path, budget, plan)) = scratch() else {
        return;
    };
    let mut ledger = Ledger::open_or_create(&path, "d", budget).unwrap();
    ledger.store.as_mut().unwrap().fill_disk().unwrap();
    assert!(matches!(ledger.reserve(&plan), Err(Error::Io { .. })));
    assert!(matches!(
        ledger.reserve(&plan),
        Err(Error::LedgerPoisoned { .. })
    ));
    drop(ledger);
    // Nothing had reached the real file, so the budget is whole when it is opened again.
    let mut reopened = Ledger::open_or_create(&path, "d", budget).unwrap();
    assert_eq!(reopened.reserve(&plan).unwrap().len(), 1);
}

#[test]
fn full_disk_while_taking_hands_out_nothing() {
    let Some((_folder, path, budget, plan)) = scratch() else {
        return;
    };
    let mut ledger = Ledger::open_or_create(&path, "d", budget).unwrap();
    let reservation = ledger.hold(&plan).unwrap();
    ledger.store.as_mut().unwrap().fill_disk().unwrap();
    let first = ledger.take(&reservation, 0);
    assert!(matches!(first, Err(Error::Io { .. })));
    let second = ledger.take(&reservation, 0);
    assert!(matches!(second, Err(Error::LedgerPoisoned { .. })));
    drop(ledger);
    let mut reopened = Ledger::open_or_create(&path, "d", budget).unwrap();
    let found = reopened.held(reservation.release_ids()).unwrap();
    assert!(reopened.take(&found, 0).is_ok());
}
