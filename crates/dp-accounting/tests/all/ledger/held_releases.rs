//! Releases that are reserved together and handed out one by one, each only once.

use std::fs;
use std::path::Path;

use dp_accounting::{Budget, Certificate, Error, Ledger, Reservation, Spend};

use super::support::{ADD_REMOVE, TARGET, budget, mu_squared, open, plan, scratch};

fn is_already_taken(outcome: &Result<Spend, Error>) -> bool {
    matches!(outcome, Err(Error::AlreadyTaken { .. }))
}

/// The reservation of every release that the file holds or held, after opening it again.
fn reopened(path: &Path) -> (Ledger, Reservation) {
    let ledger = open(path).unwrap();
    let summary = Ledger::audit(path).unwrap();
    let ids: Vec<String> = summary
        .releases
        .iter()
        .map(|release| release.release_id.clone())
        .filter(|id| ledger.is_taken(id).is_some())
        .collect();
    let reservation = ledger.held(&ids).unwrap();
    (ledger, reservation)
}

#[test]
fn a_held_plan_costs_what_a_reserved_one_costs() {
    for kind in [Budget::new, Budget::schedule] {
        let budget = kind(TARGET, ADD_REMOVE).unwrap();
        let mut at_once = Ledger::in_memory("ratings", budget).unwrap();
        let mut held = Ledger::in_memory("ratings", budget).unwrap();
        let spends = at_once.reserve(&plan(0.7)).unwrap();
        let reservation = held.hold(&plan(0.7)).unwrap();
        assert_eq!(held.balance(), at_once.balance());
        assert_eq!(held.n_releases(), 2);
        assert_eq!((reservation.len(), reservation.is_empty()), (2, false));
        assert_eq!(reservation.releases(), plan(0.7).releases());
        assert_eq!(reservation.data_set_id(), "ratings");
        assert_eq!(reservation.adjacency(), ADD_REMOVE);
        // the same errors, whichever call asks for the second plan
        for refusal in [
            held.hold(&plan(0.7)).unwrap_err(),
            held.reserve(&plan(0.7)).unwrap_err(),
        ] {
            assert_eq!(
                refusal.to_string(),
                at_once.reserve(&plan(0.7)).unwrap_err().to_string()
            );
        }
        for (index, spend) in spends.iter().enumerate() {
            let taken = held.take(&reservation, index).unwrap();
            assert_eq!(taken.release_id(), reservation.release_ids()[index]);
            assert_eq!(taken.label(), spend.label());
            assert_eq!(taken.event(), spend.event());
            assert_eq!(taken.n_draws(), spend.n_draws());
            assert_eq!(taken.data_set_id(), spend.data_set_id());
            assert_eq!(taken.adjacency(), spend.adjacency());
        }
        assert_eq!(held.balance(), at_once.balance());
    }
}

#[test]
fn a_held_release_is_taken_once_by_whichever_process() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let reservation = ledger.hold(&plan(0.5)).unwrap();
    let cost = ledger.balance();
    let ids = reservation.release_ids();
    let standing = |ledger: &Ledger| [0, 1].map(|at: usize| ledger.is_taken(&ids[at]));
    assert_eq!(standing(&ledger), [Some(false), Some(false)]);

    let spend = ledger.take(&reservation, 1).unwrap();
    // the line that names it is on disk before the spend exists
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with("\"}\n") && text.contains(&format!("{{\"taken\":\"{}\",", ids[1])));
    assert_eq!(spend.release_id(), ids[1]);
    assert_eq!(standing(&ledger), [Some(false), Some(true)]);
    assert!(is_already_taken(&ledger.take(&reservation, 1)));
    assert!(is_already_taken(&ledger.take(&reservation.clone(), 1)));
    drop(ledger);

    let (mut ledger, found) = reopened(&path);
    assert_eq!(found, reservation);
    assert_eq!(standing(&ledger), [Some(false), Some(true)]);
    assert!(is_already_taken(&ledger.take(&found, 1)));
    assert_eq!(ledger.take(&found, 0).unwrap().label(), "counts é \"1\"}");
    assert_eq!(ledger.balance(), cost);
    drop(ledger);

    let (mut ledger, found) = reopened(&path);
    assert!(
        [0, 1]
            .map(|at| ledger.take(&found, at))
            .iter()
            .all(is_already_taken)
    );
    assert_eq!(ledger.balance(), cost);
    assert_eq!(ledger.n_releases(), 2);
    // rejected calls write nothing
    let before = fs::read(&path).unwrap();
    assert!(is_already_taken(&ledger.take(&found, 0)));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn only_what_this_ledger_holds_can_be_found_and_taken() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let at_once = ledger.reserve(&plan(0.2)).unwrap();
    let reservation = ledger.hold(&plan(0.2)).unwrap();
    let mut other = Ledger::in_memory("ratings", budget()).unwrap();
    let elsewhere = other.hold(&plan(0.2)).unwrap();

    let handed_out = at_once[0].release_id().to_owned();
    let unknown = elsewhere.release_ids()[0].clone();
    let held = reservation.release_ids()[0].clone();
    assert!(ledger.contains(&handed_out) && ledger.contains(&held) && !ledger.contains(&unknown));
    assert_eq!(ledger.is_taken(&handed_out), None);
    assert_eq!(ledger.is_taken(&unknown), None);
    for wrong in [handed_out.as_str(), &unknown, "", &held[..63]] {
        let asked = [held.clone(), wrong.to_owned()];
        assert!(
            matches!(ledger.held(&asked), Err(Error::NotHeld { release, .. }) if release == wrong)
        );
    }
    let before = fs::read(&path).unwrap();
    for (reservation, index) in [
        (&elsewhere, 0),
        (&reservation, 2),
        (&reservation, usize::MAX),
    ] {
        let outcome = ledger.take(reservation, index);
        assert!(matches!(outcome, Err(Error::NotHeld { .. })), "{outcome:?}");
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(ledger.held(&[]).unwrap().is_empty());
}

/// A file that held two plans of two releases and handed out three of the four, and its length
/// after each `take`, with the id that was taken.
fn history(path: &Path) -> (Vec<u8>, Vec<(usize, String)>, f64, usize) {
    let length = || usize::try_from(fs::metadata(path).unwrap().len()).unwrap();
    let mut ledger = open(path).unwrap();
    let first = ledger.hold(&plan(0.2)).unwrap();
    let second = ledger.hold(&plan(0.3)).unwrap();
    let paid = length();
    let taken = [(&first, 1), (&second, 0), (&first, 0)].map(|(reservation, index)| {
        let id = ledger
            .take(reservation, index)
            .unwrap()
            .release_id()
            .to_owned();
        (length(), id)
    });
    (
        fs::read(path).unwrap(),
        taken.to_vec(),
        mu_squared(&ledger),
        paid,
    )
}

#[test]
fn a_crash_at_any_byte_never_allows_a_second_taking() {
    let (_folder, path) = scratch();
    let (bytes, taken, cost, paid) = history(&path);
    for cut in paid..=bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let audited = Ledger::audit(&path).unwrap();
        let (mut ledger, reservation) = reopened(&path);
        assert!((mu_squared(&ledger) - cost).abs() < 1e-15, "cut at {cut}");
        assert_eq!(reservation.len(), 4, "cut at {cut}");
        let returned = taken.iter().filter(|(length, _)| *length <= cut).count();
        for (_, id) in &taken[..returned] {
            assert_eq!(ledger.is_taken(id), Some(true), "cut at {cut}");
            assert!(audited.taken.contains(id), "cut at {cut}");
        }
        // at most the release that was being taken is lost; all others are handed out once
        let mut n_taken = 0;
        for at in 0..4 {
            let id = &reservation.release_ids()[at];
            let was_taken = ledger.is_taken(id).unwrap();
            let outcome = ledger.take(&reservation, at);
            assert_eq!(is_already_taken(&outcome), was_taken, "cut at {cut}");
            assert_eq!(outcome.is_ok(), !was_taken, "cut at {cut}");
            n_taken += usize::from(was_taken);
        }
        assert!((returned..=returned + 1).contains(&n_taken), "cut at {cut}");
        drop(ledger);
        let (mut ledger, reservation) = reopened(&path);
        assert!(
            (0..4).all(|at| is_already_taken(&ledger.take(&reservation, at))),
            "cut at {cut}"
        );
        assert!((mu_squared(&ledger) - cost).abs() < 1e-15, "cut at {cut}");
    }
}

#[test]
fn a_torn_line_that_names_its_release_has_taken_it() {
    let (_folder, path) = scratch();
    let (bytes, taken, _, _) = history(&path);
    let last = &taken[2].1;
    let line_start = taken[1].0;
    let id_end = line_start + "{\"taken\":\"\",".len() + last.len();
    for cut in line_start..=bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        // before, during and after sealing of the remains
        let audited = Ledger::audit(&path).unwrap().taken.contains(last);
        let opened = open(&path).unwrap().is_taken(last);
        let again = open(&path).unwrap().is_taken(last);
        let expected = cut >= id_end;
        assert_eq!(
            (audited, opened, again),
            (expected, Some(expected), Some(expected)),
            "{cut}"
        );
    }
}

#[test]
fn lines_that_hand_out_are_part_of_the_chain() {
    let (_folder, path) = scratch();
    let (bytes, taken, _, _) = history(&path);
    let text = String::from_utf8(bytes).unwrap();
    let untaken = Ledger::audit(&path).unwrap().held[0].clone();
    // line 6 takes a release: with another id, with another preceding hash, without the line, with
    // the line twice
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let without: String = [&lines[..5], &lines[6..]].concat().concat();
    let twice: String = [&lines[..6], &lines[5..]].concat().concat();
    for damaged in [
        text.replacen(
            &format!("\"taken\":\"{}", taken[0].1),
            &format!("\"taken\":\"{untaken}"),
            1,
        ),
        text.replacen("{\"taken\"", "{\"Taken\"", 1),
        text.replacen(",\"held\":true", "", 1),
        without,
        twice,
    ] {
        assert_ne!(damaged, text);
        fs::write(&path, &damaged).unwrap();
        assert!(matches!(open(&path), Err(Error::LedgerCorrupt { .. })));
        assert!(Ledger::audit(&path).is_err());
    }
}

#[test]
fn a_crash_while_a_schedule_is_held_leaves_what_can_be_taken() {
    let (_folder, path) = scratch();
    let budget = Budget::schedule(TARGET, ADD_REMOVE).unwrap();
    let mut ledger = Ledger::open_or_create(&path, "ratings", budget).unwrap();
    let ids = ledger.hold(&plan(0.3)).unwrap().release_ids().to_vec();
    drop(ledger);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 30]).unwrap();
    let mut ledger = Ledger::open_or_create(&path, "ratings", budget).unwrap();
    assert!(matches!(
        ledger.hold(&plan(0.3)),
        Err(Error::ScheduleReserved { n_releases: 1 })
    ));
    assert!(matches!(ledger.held(&ids), Err(Error::NotHeld { .. })));
    let found = ledger.held(&ids[..1]).unwrap();
    assert!(ledger.take(&found, 0).is_ok() && is_already_taken(&ledger.take(&found, 0)));
}

#[test]
fn files_of_versions_1_and_2_hold_nothing_and_go_on_as_they_are() {
    for (version, budget) in [
        (1, budget()),
        (2, Budget::rdp(TARGET, ADD_REMOVE, 16.0).unwrap()),
    ] {
        let fixture = format!(
            "{}/tests/fixtures/ledger-v{version}.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        let (_folder, path) = scratch();
        fs::copy(&fixture, &path).unwrap();
        let mut ledger = Ledger::open_or_create(&path, "ratings-2024", budget).unwrap();
        let outcome = ledger.hold(&plan(0.1));
        assert!(matches!(outcome, Err(Error::CannotHold { found, needed: 3 }) if found == version));
        assert_eq!(fs::read(&path).unwrap(), fs::read(&fixture).unwrap());
        assert_eq!(ledger.reserve(&plan(0.1)).unwrap().len(), 2);
        drop(ledger);
        let ledger = Ledger::open_or_create(&path, "ratings-2024", budget).unwrap();
        assert_eq!(ledger.n_releases(), 4);
        assert!(!fs::read_to_string(&path).unwrap().contains("held"));
    }
}

#[test]
fn an_empty_plan_holds_nothing() {
    let mut ledger = Ledger::in_memory("ratings", budget()).unwrap();
    let empty = dp_accounting::Plan::calibrate(TARGET, ADD_REMOVE, &[]).unwrap();
    let reservation = ledger.hold(&empty).unwrap();
    assert!(reservation.is_empty());
    assert!(matches!(
        ledger.take(&reservation, 0),
        Err(Error::NotHeld { .. })
    ));
}

#[test]
fn a_certificate_of_a_release_that_was_never_handed_out_is_not_covered() {
    let (_folder, path) = scratch();
    let part = plan(0.5);
    let mut ledger = open(&path).unwrap();
    let reservation = ledger.hold(&part).unwrap();
    let first = ledger.take(&reservation, 0).unwrap().record();
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!(summary.taken, reservation.release_ids()[..1]);
    assert_eq!(summary.held, reservation.release_ids()[1..]);
    assert_eq!(summary.releases.len(), 2);
    let second = summary.releases[1].clone();
    let certificate = Certificate::builder(&part, "ratings")
        .releases(vec![first, second])
        .build()
        .unwrap();
    assert!(matches!(
        summary.covers(&certificate),
        Err(Error::NotInLedger {
            reason: "it is held, and was never handed out",
            ..
        })
    ));
    let _spend = ledger.take(&reservation, 1).unwrap();
    Ledger::audit(&path).unwrap().covers(&certificate).unwrap();
}
