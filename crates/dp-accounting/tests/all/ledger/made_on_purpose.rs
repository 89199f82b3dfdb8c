//! A ledger is created only on request, completely or not at all, and never replaces a file.

use std::fs;

use dp_accounting::{Budget, Error, Ledger};
use dp_core::ApproxDp;

use super::support::{ADD_REMOVE, TARGET, budget, history, open, plan, scratch};

#[test]
fn an_emptied_or_cut_off_ledger_is_refused_and_refunds_nothing() {
    let (_folder, path) = scratch();
    let (bytes, _) = history(&path);
    let header = bytes.iter().position(|&byte| byte == b'\n').unwrap();
    for cut in 0..=header {
        fs::write(&path, &bytes[..cut]).unwrap();
        let wanted = |outcome: Result<Ledger, Error>| {
            let refused = outcome.unwrap_err();
            let is_cut = matches!(refused, Error::LedgerCutOff { length, .. } if length == cut);
            assert!(is_cut, "cut at {cut}: {refused}");
        };
        wanted(Ledger::open(&path, "ratings", ADD_REMOVE));
        wanted(Ledger::open_or_create(&path, "ratings", budget()));
        let refused = Ledger::create(&path, "ratings", budget());
        assert!(matches!(refused, Err(Error::LedgerExists { .. })));
        assert_eq!(fs::read(&path).unwrap(), &bytes[..cut]);
    }
}

#[test]
fn opening_never_makes_a_ledger() {
    let (folder, path) = scratch();
    let missing = Ledger::open(&path, "ratings", ADD_REMOVE);
    assert!(matches!(missing, Err(Error::LedgerMissing { path: p }) if p == path));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn creating_never_touches_a_file() {
    let (folder, path) = scratch();
    let mut ledger = Ledger::create(&path, "ratings", budget()).unwrap();
    let _spends = ledger.reserve(&plan(0.5)).unwrap();
    let balance = ledger.balance();
    drop(ledger);
    let before = fs::read(&path).unwrap();
    assert!(matches!(
        Ledger::create(&path, "ratings", budget()),
        Err(Error::LedgerExists { .. })
    ));
    assert_eq!(fs::read(&path).unwrap(), before);
    let opened = Ledger::open(&path, "ratings", ADD_REMOVE).unwrap();
    assert_eq!((opened.balance(), opened.budget()), (balance, &budget()));
    // nothing else is left in the folder
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    for nowhere in [folder.path().join("none/ledger"), folder.path().join("..")] {
        assert!(Ledger::create(nowhere, "ratings", budget()).is_err());
    }
}

#[test]
fn another_budget_than_the_ledgers_is_an_error() {
    let (_folder, path) = scratch();
    drop(open(&path).unwrap());
    let target = |epsilon, delta| ApproxDp { epsilon, delta };
    for (field, other) in [
        ("epsilon", Budget::new(target(9.0, 1e-5), ADD_REMOVE)),
        ("delta", Budget::new(target(1.0, 1e-3), ADD_REMOVE)),
        ("filter", Budget::rdp(TARGET, ADD_REMOVE, 16.0)),
    ] {
        let refused = Ledger::open_or_create(&path, "ratings", other.unwrap());
        assert!(
            matches!(refused, Err(Error::LedgerMismatch { field: f, .. }) if f == field),
            "{field}"
        );
    }
}
