//! A ledger, plans to reserve from it, and a file with a history.

use std::fs;
use std::path::{Path, PathBuf};

use dp_accounting::{Budget, Error, Ledger, Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
use tempfile::TempDir;

use crate::shared::memory_folder::memory_folder;

pub(super) const TARGET: ApproxDp = ApproxDp {
    epsilon: 1.0,
    delta: 1e-5,
};

pub(super) const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;

pub(super) fn budget() -> Budget {
    Budget::new(TARGET, ADD_REMOVE).unwrap()
}

/// A plan of two releases that uses approximately the given share of the budget's mu^2.
pub(super) fn plan(epsilon: f64) -> Plan {
    let requests = [
        ReleaseRequest::new("counts é \"1\"}", 1.0, ReplaceFactor::Two, 3),
        ReleaseRequest::new("gramians\n2", 4.0, ReplaceFactor::SqrtTwo, 30),
    ];
    Plan::calibrate(ApproxDp { epsilon, ..TARGET }, ADD_REMOVE, &requests).unwrap()
}

/// A folder in memory, and the path of a ledger in it.
pub(super) fn scratch() -> (TempDir, PathBuf) {
    let folder = memory_folder();
    let path = folder.path().join("ledger.jsonl");
    (folder, path)
}

pub(super) fn open(path: &Path) -> Result<Ledger, Error> {
    Ledger::open_or_create(path, "ratings", budget())
}

pub(super) fn mu_squared(ledger: &Ledger) -> f64 {
    ledger.spent().unwrap().mu.powi(2)
}

/// A ledger file after two plans: its bytes, and for each length that the file had while spends had
/// been handed out, their total cost.
pub(super) fn history(path: &Path) -> (Vec<u8>, Vec<(usize, f64)>) {
    let mut ledger = open(path).unwrap();
    let mut handed_out = vec![(0, 0.0)];
    for epsilon in [0.2, 0.3] {
        let spends: Vec<Spend> = ledger.reserve(&plan(epsilon)).unwrap();
        assert_eq!(spends.len(), 2);
        let length = usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
        handed_out.push((length, mu_squared(&ledger)));
    }
    (fs::read(path).unwrap(), handed_out)
}
