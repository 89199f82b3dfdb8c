//! Paced lifetimes: one event, one line per night, no night twice.

use std::fs;
use std::path::Path;

use dp_accounting::{
    BudgetKind, Error, Ledger, LedgerSummary, NightSpend, Pace, Plan, PlannedRelease, Standing,
};
use dp_core::{Adjacency, ReplaceFactor};

use super::support::{ADD_REMOVE, TARGET, mu_squared, open, plan, scratch};

fn lifetime_plan() -> Plan {
    let event = PlannedRelease::gaussian("nights", 8.0, ReplaceFactor::Two, 100).unwrap();
    Plan::with_noise_multipliers(TARGET.delta, ADD_REMOVE, vec![event]).unwrap()
}

fn pace() -> Pace {
    Pace::new(0.4, 30).unwrap()
}

/// A stand-in for the MAC of the store of first nights.
fn mac(n: usize) -> String {
    format!("{n:064x}")
}

fn reserved(ledger: &mut Ledger) -> String {
    ledger
        .reserve_lifetime(&lifetime_plan(), pace(), &mac(0))
        .unwrap()
}

/// Takes a night whose store continues from the one that the ledger names.
fn take(
    ledger: &mut Ledger,
    id: &str,
    night: u32,
    n_draws: u64,
    first_seen: &str,
) -> Result<NightSpend, Error> {
    let before = ledger.lifetime(id).map(|state| state.first_seen);
    let before = before.unwrap_or_else(|_| mac(0));
    ledger.take_night(id, night, n_draws, [&before, first_seen])
}

/// A ledger with a lifetime of which two nights were handed out.
fn with_nights_2_and_3(path: &Path) -> (Ledger, String) {
    let mut ledger = open(path).unwrap();
    let id = reserved(&mut ledger);
    for night in [2, 3] {
        assert_eq!(
            take(&mut ledger, &id, night, 10, &mac(5)).unwrap().night(),
            night
        );
    }
    (ledger, id)
}

#[test]
fn a_lifetime_is_paid_for_once_and_its_nights_cost_nothing() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let id = reserved(&mut ledger);
    let cost = mu_squared(&ledger);
    assert!((cost - 1.0 / 64.0).abs() < 1e-12);
    for (n, night) in [0, 1, 5, 6, 40].into_iter().enumerate() {
        let spend = take(&mut ledger, &id, night, 10, &mac(n + 1)).unwrap();
        assert_eq!((spend.night(), spend.n_draws()), (night, 10));
        assert_eq!((spend.pace(), spend.release_id()), (pace(), &*id));
        assert!((spend.noise_multiplier().unwrap() - 8.0).abs() < 1e-15);
        // the ledger can also be charged for other runs
        assert_eq!(ledger.reserve(&plan(0.05)).unwrap().len(), 2);
    }
    ledger.rebind_first_seen(&id, [&mac(5), &mac(77)]).unwrap();
    drop(ledger);
    let mut ledger = open(&path).unwrap();
    let state = ledger.lifetime(&id).unwrap();
    assert_eq!((state.last_night, state.n_nights), (Some(40), 5));
    assert_eq!((state.draws_left, &*state.first_seen), (50, &*mac(77)));
    assert_eq!(ledger.lifetimes().collect::<Vec<_>>(), [&*id]);
    assert!(ledger.has_night(&id, 5) && !ledger.has_night(&id, 4));
    let others = 5.0 * plan(0.05).mu_squared().unwrap();
    assert!((mu_squared(&ledger) - cost - others).abs() < 1e-12);
    // the event is never handed out as a whole
    for refused in [ledger.held(std::slice::from_ref(&id)).map(drop), {
        let other = ledger.hold(&plan(0.01)).unwrap();
        ledger
            .held(&[other.release_ids()[0].clone(), id.clone()])
            .map(drop)
    }] {
        assert!(matches!(refused, Err(Error::NotHeld { reason, .. }) if reason.contains("paced")));
    }
    drop(ledger);
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!(summary.entries[0].standing, Standing::Paced);
    let [(name, nights)] = &summary.nights[..] else {
        panic!("one lifetime")
    };
    assert_eq!((name, nights.len()), (&id, 6));
    assert!(nights[5].number.is_none() && nights[4].n_draws == 10);
    assert!(!summary.held.contains(&id) && !summary.taken.contains(&id));
}

#[test]
fn a_night_that_is_not_later_than_the_last_is_refused() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let id = reserved(&mut ledger);
    let taken = take(&mut ledger, &id, 7, 3, &mac(1)).unwrap();
    let before = fs::read(&path).unwrap();
    for night in [0, 6, 7] {
        let refused = take(&mut ledger, &id, night, 3, &mac(2));
        assert!(matches!(refused, Err(Error::NightPassed { last: 7, .. })));
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("later night"), "{said}");
    }
    drop((ledger, taken));
    // nor by another process, and nothing was written
    let mut ledger = open(&path).unwrap();
    assert!(take(&mut ledger, &id, 7, 3, &mac(2)).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(take(&mut ledger, &id, 8, 3, &mac(2)).unwrap().night(), 8);
}

#[test]
fn nights_end_when_the_reserved_draws_do() {
    let mut ledger = Ledger::in_memory("d", super::support::budget()).unwrap();
    let id = reserved(&mut ledger);
    for (night, draws) in [(0, 40), (1, 60)] {
        assert_eq!(
            take(&mut ledger, &id, night, draws, &mac(1))
                .unwrap()
                .n_draws(),
            draws
        );
    }
    let refused = take(&mut ledger, &id, 2, 1, &mac(1));
    assert!(matches!(
        refused,
        Err(Error::NightDraws { asked: 1, left: 0 })
    ));
    // the rejected night is not used up
    assert_eq!(take(&mut ledger, &id, 2, 0, &mac(1)).unwrap().night(), 2);
}

#[test]
fn what_is_no_lifetime_is_refused_with_a_reason() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let before = fs::read(&path).unwrap();
    let semidefinite = PlannedRelease::gaussian("g", 8.0, ReplaceFactor::SqrtTwo, 1).unwrap();
    let of = |releases, adjacency| {
        Plan::with_noise_multipliers(TARGET.delta, adjacency, releases).unwrap()
    };
    let whole = lifetime_plan().releases().to_vec();
    for (plan, mac) in [
        (of(vec![semidefinite], ADD_REMOVE), mac(0)),
        (of([&whole[..], &whole].concat(), ADD_REMOVE), mac(0)),
        (of(Vec::new(), ADD_REMOVE), mac(0)),
        (of(whole.clone(), Adjacency::AddRemoveRecord), mac(0)),
        (lifetime_plan(), "not a MAC".to_owned()),
    ] {
        let refused = ledger.reserve_lifetime(&plan, pace(), &mac);
        assert!(
            matches!(refused, Err(Error::LifetimePlan { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    let id = reserved(&mut ledger);
    let other = ledger.reserve(&plan(0.1)).unwrap();
    for bad in ["x", other[0].release_id()] {
        let refused = take(&mut ledger, bad, 1, 1, &mac(1));
        assert!(matches!(refused, Err(Error::NotALifetime { .. })));
        assert!(ledger.rebind_first_seen(bad, [&mac(0), &mac(1)]).is_err());
    }
    assert!(take(&mut ledger, &id, 1, 1, "MAC").is_err());
    // an older file has to be upgraded first, and then continues
    let old = path.with_file_name("old.jsonl");
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/ledger-v1.jsonl"
    );
    fs::copy(fixture, &old).unwrap();
    let audited = Ledger::audit(&old).unwrap();
    let reopen = || Ledger::open(&old, &audited.data_set_id, audited.budget.adjacency()).unwrap();
    let refused = reopen().reserve_lifetime(&lifetime_plan(), pace(), &mac(0));
    assert!(matches!(
        refused,
        Err(Error::LedgerVersion { needed: 5, .. })
    ));
    Ledger::upgrade(&old, audited.budget.kind(), audited.budget.target()).unwrap();
    let room = !matches!(
        reopen().reserve_lifetime(&lifetime_plan(), pace(), &mac(0)),
        Err(Error::LedgerVersion { .. })
    );
    assert!(room);
}

#[test]
fn a_night_goes_on_from_the_store_that_the_ledger_names() {
    let (_folder, path) = scratch();
    let (mut ledger, id) = with_nights_2_and_3(&path);
    let before = fs::read(&path).unwrap();
    for older in [mac(0), mac(6)] {
        for refused in [
            ledger.take_night(&id, 4, 1, [&older, &mac(7)]).map(drop),
            ledger.rebind_first_seen(&id, [&older, &mac(7)]),
        ] {
            assert!(matches!(refused, Err(Error::FirstSeenChanged)));
        }
    }
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(ledger.take_night(&id, 4, 1, [&mac(5), &mac(7)]).unwrap());
}

#[test]
fn a_crash_at_any_byte_makes_no_night_twice() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let id = reserved(&mut ledger);
    let mut handed_out = vec![(fs::metadata(&path).unwrap().len(), None, mac(0))];
    for night in [3, 4, 9] {
        let spend = take(&mut ledger, &id, night, 20, &mac(night as usize)).unwrap();
        let length = fs::metadata(&path).unwrap().len();
        handed_out.push((length, Some(spend.night()), mac(night as usize)));
    }
    drop(ledger);
    let bytes = fs::read(&path).unwrap();
    let first = usize::try_from(handed_out[0].0).unwrap();
    let line = |cut: usize| {
        handed_out
            .iter()
            .rfind(|(at, ..)| *at <= cut as u64)
            .unwrap()
    };
    for cut in first..=bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let (_, last, durable) = line(cut);
        let (_, next, begun) = handed_out
            .get(
                handed_out
                    .iter()
                    .position(|(at, ..)| *at > cut as u64)
                    .unwrap_or(3),
            )
            .unwrap();
        let mut ledger = open(&path).unwrap();
        let state = ledger.lifetime(&id).unwrap();
        assert!(
            state.last_night >= *last && state.last_night <= (*next).max(*last),
            "{cut}"
        );
        assert!(
            [durable, begun].contains(&&state.first_seen),
            "cut at {cut}"
        );
        if let Some(last) = *last {
            let again = take(&mut ledger, &id, last, 1, &mac(1));
            assert!(
                matches!(again, Err(Error::NightPassed { .. })),
                "cut at {cut}"
            );
        }
        assert_eq!(
            take(&mut ledger, &id, 10, 1, &mac(1)).unwrap().night(),
            10,
            "{cut}"
        );
        drop(ledger);
        assert_eq!(
            open(&path).unwrap().lifetime(&id).unwrap().last_night,
            Some(10)
        );
    }
}

#[test]
fn lifetimes_survive_an_upgrade_and_a_merge() {
    let (folder, path) = scratch();
    let (ledger, id) = with_nights_2_and_3(&path);
    let state = ledger.lifetime(&id).unwrap();
    drop(ledger);
    let goes_on = |path: &Path| {
        let found = Ledger::audit(path).unwrap();
        let adjacency = found.budget.adjacency();
        let mut ledger = Ledger::open(path, &found.data_set_id, adjacency).unwrap();
        assert_eq!(ledger.lifetime(&id).unwrap(), state);
        assert!(take(&mut ledger, &id, 3, 1, &mac(1)).is_err());
        assert!(ledger.check_night(&id, 4, 80).is_ok() && ledger.check_night(&id, 4, 81).is_err());
    };
    let kind = BudgetKind::Rdp { order: 16.0 };
    let more = dp_core::ApproxDp {
        epsilon: 2.0,
        delta: 3e-5,
    };
    Ledger::upgrade(&path, kind, more).unwrap();
    goes_on(&path);
    let other = folder.path().join("other.jsonl");
    drop(open(&other).unwrap());
    let (out, sum) = (
        folder.path().join("sum.jsonl"),
        dp_core::ApproxDp {
            epsilon: 4.0,
            delta: 9e-5,
        },
    );
    Ledger::merge(&[&path, &other], &out, kind, sum).unwrap();
    goes_on(&out);
}

#[test]
fn edited_nights_are_damage() {
    let (_folder, path) = scratch();
    let (ledger, id) = with_nights_2_and_3(&path);
    drop(ledger);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // a line is omitted, or the same night is repeated
    let without = [&lines[..2], &lines[3..]].concat().join("\n") + "\n";
    let twice = text.clone() + lines[3] + "\n";
    for bad in [without, twice] {
        assert!(LedgerSummary::from_bytes(bad.as_bytes()).is_err());
    }
    // even with recomputed hashes, as somebody who rewrites the file could produce, a night is
    // never repeated
    for (from, to) in [
        ("\"number\":3", "\"number\":2"),
        ("\"n_draws\":10", "\"n_draws\":91"),
        ("\"first_seen\":\"00", "\"first_seen\":\"0"),
        (&*id, &*mac(9)),
    ] {
        let (last, _) = lines[3].split_at(lines[3].len() - 75);
        assert!(last.contains(from));
        let hash = dp_accounting::sha256_hex(last.replacen(from, to, 1).as_bytes());
        let line = format!("{},\"hash\":\"{hash}\"}}", last.replacen(from, to, 1));
        let bad = [&lines[..3], &[&line]].concat().join("\n") + "\n";
        assert!(LedgerSummary::from_bytes(bad.as_bytes()).is_err(), "{to}");
    }
    // the helper that recomputes hashes produces lines that are accepted
    let (last, _) = lines[3].split_at(lines[3].len() - 75);
    let hash = dp_accounting::sha256_hex(last.as_bytes());
    assert!(lines[3].ends_with(&format!("{hash}\"}}")));
}
