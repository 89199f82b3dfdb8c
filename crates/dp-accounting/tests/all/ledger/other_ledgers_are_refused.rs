//! Files of another writer, for another purpose or of another program are rejected and left
//! unchanged; version 1 is accepted.

use std::fs;

use dp_accounting::{Budget, Certificate, Error, Ledger};
use dp_core::{Adjacency, ApproxDp};

use super::support::{ADD_REMOVE, TARGET, budget, mu_squared, open, plan, scratch};

#[test]
fn second_writer_is_kept_out_until_the_first_leaves() {
    let (_folder, path) = scratch();
    let first = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::LedgerLocked { path: p }) if p == path));
    drop(first);
    assert!(open(&path).is_ok());
}

#[test]
fn ledger_of_something_else_is_refused_and_untouched() {
    let (_folder, path) = scratch();
    drop(open(&path).unwrap());
    let before = fs::read(&path).unwrap();
    let with = |target, adjacency| Budget::new(target, adjacency).unwrap();
    let tries = [
        (
            "filter",
            "ratings",
            Budget::schedule(TARGET, ADD_REMOVE).unwrap(),
        ),
        (
            "filter",
            "ratings",
            Budget::rdp(TARGET, ADD_REMOVE, 16.0).unwrap(),
        ),
        ("data_set", "other", budget()),
        ("adjacency", "ratings", with(TARGET, Adjacency::ReplaceUser)),
        (
            "epsilon",
            "ratings",
            with(
                ApproxDp {
                    epsilon: 1.0_f64.next_up(),
                    ..TARGET
                },
                ADD_REMOVE,
            ),
        ),
        (
            "delta",
            "ratings",
            with(
                ApproxDp {
                    delta: 2e-5,
                    ..TARGET
                },
                ADD_REMOVE,
            ),
        ),
    ];
    for (expected, data_set, budget) in tries {
        let error = Ledger::open_or_create(&path, data_set, budget).unwrap_err();
        assert!(matches!(error, Error::LedgerMismatch { field, .. } if field == expected));
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn files_that_are_no_ledger_are_left_alone() {
    let (folder, path) = scratch();
    for text in [
        "shopping list",
        "shopping\nlist\n",
        "\n",
        "{\"ledger\":\"else\"}",
    ] {
        fs::write(&path, text).unwrap();
        assert!(
            matches!(open(&path), Err(Error::LedgerCorrupt { line: 1, .. })),
            "{text}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    assert!(matches!(open(folder.path()), Err(Error::Io { .. })));
    assert!(matches!(
        open(&folder.path().join("none/ledger")),
        Err(Error::Io { .. })
    ));
}

#[test]
fn a_ledger_of_version_1_is_opened_and_goes_on_as_version_1() {
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/ledger-v1.jsonl"
    );
    let (_folder, path) = scratch();
    fs::copy(fixture, &path).unwrap();
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!((summary.schema_version, summary.releases.len()), (1, 2));
    assert_eq!(summary.budget, budget());
    // the certificate of the run that wrote it names these lines
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let text = fs::read_to_string(format!("{folder}/certificate-v1.json")).unwrap();
    summary
        .covers(&Certificate::from_json(&text).unwrap())
        .unwrap();

    let mut ledger = Ledger::open_or_create(&path, "ratings-2024", budget()).unwrap();
    let spent = mu_squared(&ledger);
    assert!((spent - 0.020_223_840_306).abs() < 1e-9, "{spent}");
    let _spends = ledger.reserve(&plan(0.1)).unwrap();
    assert!(matches!(
        ledger.reserve(&plan(0.9)),
        Err(Error::BudgetSpent { .. })
    ));
    drop(ledger);
    let reopened = Ledger::open_or_create(&path, "ratings-2024", budget()).unwrap();
    assert_eq!(reopened.n_releases(), 4);
    let before = fs::read(fixture).unwrap();
    let after = fs::read(&path).unwrap();
    assert_eq!(&after[..before.len()], before);
    assert!(!String::from_utf8(after).unwrap().contains("filter"));
}
