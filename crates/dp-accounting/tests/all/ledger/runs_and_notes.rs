//! Contents of version 4 lines: ids that reveal nothing, times, runs and notes.

use std::fs;

use dp_accounting::{Error, Ledger, Standing};

use super::support::{ADD_REMOVE, budget, open, plan, scratch};

#[test]
fn names_of_releases_say_nothing_about_the_lines() {
    // two ledgers created with identical inputs
    let names = || {
        let mut ledger = Ledger::in_memory("ratings", budget()).unwrap();
        let spends = ledger.reserve(&plan(0.5)).unwrap();
        spends
            .iter()
            .map(|spend| spend.release_id().to_owned())
            .collect::<Vec<_>>()
    };
    let (first, second) = (names(), names());
    let all: std::collections::HashSet<&String> = first.iter().chain(&second).collect();
    assert_eq!(all.len(), 4);
    for name in all {
        assert!(name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()));
    }
    // nor is an id the hash of any line, which somebody who guesses the line could test
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let spends = [plan(0.3), plan(0.4)].map(|plan| ledger.reserve(&plan).unwrap());
    let text = fs::read_to_string(&path).unwrap();
    for spend in spends.iter().flatten() {
        let name = spend.release_id();
        assert!(text.contains(&format!("\"id\":\"{name}\"")));
        assert_eq!(text.matches(name).count(), 1, "{text}");
    }
}

#[test]
fn a_summary_tells_when_and_for_which_run_each_line_paid_and_what_another_would_leave() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    assert_eq!(Ledger::audit(&path).unwrap().last_run(), 0..0);
    assert_eq!(Ledger::audit(&path).unwrap().left_after_another(), None);
    let _first = ledger.reserve(&plan(0.2)).unwrap();
    // without a name, a run consists of the releases charged at one time
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!(summary.last_run(), 0..2);
    ledger.set_run(Some("monday".to_owned()));
    let reservation = ledger.hold(&plan(0.1)).unwrap();
    let _second = ledger.reserve(&plan(0.15)).unwrap();
    let _third = ledger.take(&reservation, 1).unwrap();
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!((summary.schema_version, summary.last_run()), (5, 2..6));
    let standing = |at: usize| summary.entries[at].standing;
    assert_eq!(
        [0, 2, 3, 4].map(standing),
        [
            Standing::HandedOut,
            Standing::Held,
            Standing::Taken,
            Standing::HandedOut
        ]
    );
    let costs: Vec<f64> = summary.entries.iter().map(|entry| entry.cost).collect();
    let spent: f64 = costs.iter().sum();
    assert!((spent / summary.balance.spent - 1.0).abs() < 1e-14);
    let another: f64 = costs[2..].iter().sum();
    let left = summary.left_after_another().unwrap();
    assert!((left - (summary.balance.left() - another)).abs() < 1e-15);
    assert!(
        summary
            .entries
            .iter()
            .all(|entry| entry.time > Some(summary.created))
    );
    let runs: Vec<Option<&str>> = summary.entries.iter().map(|e| e.run.as_deref()).collect();
    assert_eq!(runs[1..3], [None, Some("monday")]);
    // a run for which the budget does not suffice a second time
    ledger.set_run(Some("tuesday".to_owned()));
    let _fourth = ledger.reserve(&plan(0.8)).unwrap();
    assert_eq!(Ledger::audit(&path).unwrap().left_after_another(), None);
}

#[test]
fn notes_are_kept_in_order_and_cost_nothing() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let before = ledger.balance();
    ledger.note("explored", "epsilon 0.5, 1").unwrap();
    let _spends = ledger.reserve(&plan(0.2)).unwrap();
    ledger.note("weird \"}\n", "").unwrap();
    let written = ledger.notes().to_vec();
    drop(ledger);
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!(summary.notes, written);
    assert_eq!(
        (written.len(), written[1].name.as_str()),
        (2, "weird \"}\n")
    );
    let ledger = open(&path).unwrap();
    assert_eq!((ledger.notes(), ledger.n_releases()), (&written[..], 2));
    assert!(before.spent.to_bits() == 0 && ledger.balance() == summary.balance);
    drop(ledger);
    // a note truncated by a crash is sealed and ignored; a changed one is damage
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    assert_eq!(open(&path).unwrap().notes(), &written[..1]);
    let text = String::from_utf8(bytes).unwrap();
    fs::write(&path, text.replace("epsilon 0.5", "epsilon 0.1")).unwrap();
    assert!(matches!(
        open(&path),
        Err(Error::LedgerCorrupt { line: 2, .. })
    ));
}

#[test]
fn files_of_older_versions_go_on_without_names_times_and_notes() {
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/ledger-v1.jsonl"
    );
    let (_folder, path) = scratch();
    fs::copy(fixture, &path).unwrap();
    let mut ledger = Ledger::open(&path, "ratings-2024", ADD_REMOVE).unwrap();
    assert!(matches!(
        ledger.note("n", "t"),
        Err(Error::LedgerVersion {
            found: 1,
            needed: 4,
            ..
        })
    ));
    ledger.set_run(Some("monday".to_owned()));
    let spends = ledger.reserve(&plan(0.1)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.ends_with(&format!("\"hash\":\"{}\"}}", spends[1].release_id())));
    assert!(!text.contains("monday") && !last.contains("time"));
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!(summary.last_run(), 3..4);
}
