//! Ledgers that take over from others: nothing is lost, and the guarantee is correct.

use std::fs;
use std::path::Path;

use dp_accounting::{
    Budget, BudgetKind, Certificate, Error, Ledger, LedgerSummary, Plan, PlannedRelease, Standing,
};
use dp_core::{ApproxDp, DpEvent, Relation};

use super::support::{ADD_REMOVE, TARGET, budget, open, plan, scratch};

const RDP: BudgetKind = BudgetKind::Rdp { order: 16.0 };

fn target(epsilon: f64, delta: f64) -> ApproxDp {
    ApproxDp { epsilon, delta }
}

fn fixture(version: u32, path: &Path) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    fs::copy(format!("{folder}/ledger-v{version}.jsonl"), path).unwrap();
}

fn copy_of(path: &Path, name: &str) -> std::path::PathBuf {
    path.with_file_name(name)
}

/// Checks that a rewritten ledger contains everything that must not be lost.
fn check_same_releases(old: &LedgerSummary, new: &LedgerSummary) {
    assert_eq!(new.releases[..old.releases.len()], old.releases);
    assert_eq!((&new.held, &new.taken), (&old.held, &old.taken));
    assert_eq!(new.notes, old.notes);
    for (old, new) in old.entries.iter().zip(&new.entries) {
        assert_eq!(
            (old.time, &old.run, old.standing),
            (new.time, &new.run, new.standing)
        );
    }
    assert_eq!(new.schema_version, 5);
}

fn is_refused(outcome: Result<std::path::PathBuf, Error>, part: &str) {
    match outcome {
        Err(Error::LedgerSuccession { reason, .. }) => assert!(reason.contains(part), "{reason}"),
        other => panic!("{part}: {other:?}"),
    }
}

#[test]
fn one_ledger_pays_for_gaussian_sampled_and_selected_releases() {
    let noisy_sum = plan(0.2);
    let step = DpEvent::sampled_gaussian(4.0, 0.02);
    let steps = (0..20)
        .map(|_| PlannedRelease::new("step", step.clone(), 5))
        .collect();
    let training = Plan::with_noise_multipliers(1e-5, ADD_REMOVE, steps).unwrap();
    let choice = DpEvent::BoundedRange {
        epsilon: 0.05,
        relation: Relation::AddRemove,
    };
    let choice = vec![PlannedRelease::new("choice", choice, 0)];
    let choice = Plan::with_noise_multipliers(1e-5, ADD_REMOVE, choice).unwrap();

    let expected = [(&noisy_sum, 2), (&training, 1), (&choice, 1)];
    // the smallest epsilon at which two of the sums, the training and the choice fit, determined by
    // what a ledger accepts
    let order = order_of(&Budget::rdp_for(TARGET, ADD_REMOVE, &expected).unwrap());
    let ledger_of = |epsilon: f64| {
        let budget = Budget::rdp(target(epsilon, 1e-5), ADD_REMOVE, order).unwrap();
        Ledger::in_memory("d", budget)
    };
    let all = [&noisy_sum, &training, &choice, &noisy_sum];
    let fits = |epsilon: f64| {
        // if epsilon is so small that this order has no budget, no ledger can be created
        ledger_of(epsilon)
            .is_ok_and(|mut ledger| all.iter().all(|plan| ledger.reserve(plan).is_ok()))
    };
    let (mut too_little, mut enough) = (0.3, 1.0);
    assert!(!fits(too_little) && fits(enough));
    for _ in 0..60 {
        let middle = f64::midpoint(too_little, enough);
        match fits(middle) {
            true => enough = middle,
            false => too_little = middle,
        }
    }
    let mut ledger = ledger_of(enough).unwrap();
    let mut spent = 0.0;
    for plan in [&noisy_sum, &training, &choice] {
        spent += ledger.cost(plan).unwrap();
        assert!(ledger.affords(plan).is_ok());
        assert_eq!(ledger.reserve(plan).unwrap().len(), plan.releases().len());
    }
    assert!((ledger.balance().spent / spent - 1.0).abs() < 1e-13);
    // the last expected plan uses the rest, and nothing more fits
    let left = ledger.remaining().unwrap().mu;
    assert!((left / noisy_sum.gdp().unwrap().mu - 1.0).abs() < 1e-9);
    let _spends = ledger.reserve(&noisy_sum).unwrap();
    assert!(matches!(
        ledger.reserve(&choice),
        Err(Error::BudgetSpent { .. })
    ));
    // the epsilon that was found is the one that the budget computes for these plans
    let asked = ledger.budget().epsilon_for(ledger.balance().spent).unwrap();
    assert!((asked / enough - 1.0).abs() < 1e-9, "{asked} {enough}");
    // an order that was chosen for these plans is at least as good as another
    let chosen = Budget::rdp_for(TARGET, ADD_REMOVE, &expected).unwrap();
    let share = |budget: &Budget| {
        let ledger = Ledger::in_memory("d", *budget).unwrap();
        let cost: f64 = [&noisy_sum, &training, &choice]
            .map(|p| ledger.cost(p).unwrap())
            .iter()
            .sum();
        cost / ledger.balance().budget
    };
    for order in [13.0, 16.0, 40.0] {
        let other = Budget::rdp(TARGET, ADD_REMOVE, order).unwrap();
        assert!(share(&chosen) <= 1.05 * share(&other), "{order}");
    }
    // without plans, the order at which most Gaussian releases fit
    let general =
        Ledger::in_memory("d", Budget::rdp_for(TARGET, ADD_REMOVE, &[]).unwrap()).unwrap();
    let gaussian = Ledger::in_memory("d", budget()).unwrap();
    let kept = general.remaining().unwrap().mu / gaussian.remaining().unwrap().mu;
    assert!(kept > 0.75 && kept < 1.0, "{kept}");
    let alone = gaussian
        .budget()
        .epsilon_for(gaussian.cost(&plan(0.5)).unwrap());
    assert!(alone.unwrap() <= 0.5);
}

fn order_of(budget: &Budget) -> f64 {
    match budget.kind() {
        BudgetKind::Rdp { order } => order,
        other => panic!("{other}"),
    }
}

#[test]
fn a_schedule_of_version_3_becomes_a_ledger_of_mixed_mechanisms() {
    let (_folder, path) = scratch();
    fixture(3, &path);
    let before = fs::read(&path).unwrap();
    let old = Ledger::audit(&path).unwrap();
    assert_eq!(
        (old.budget.kind(), old.releases.len(), old.taken.len()),
        (BudgetKind::Schedule, 4, 4)
    );

    let backup = Ledger::upgrade(&path, RDP, target(3.0, 2e-5)).unwrap();
    assert_eq!(backup, copy_of(&path, "ledger.jsonl.bak-1"));
    let new = Ledger::audit(&path).unwrap();
    check_same_releases(&old, &new);
    assert_eq!(
        (new.budget.kind(), new.budget.target()),
        (RDP, target(3.0, 2e-5))
    );
    // the old delta covers the fact that the change was decided after seeing outputs, and the
    // filter has the rest
    assert!((new.budget.carried_delta() / 1e-5 - 1.0).abs() < 1e-12);
    let alone = Ledger::in_memory(
        "d",
        Budget::rdp(target(3.0, 1e-5), ADD_REMOVE, 16.0).unwrap(),
    );
    let alone = alone.unwrap().balance().budget;
    assert!((new.balance.budget / alone - 1.0).abs() < 1e-9 && new.balance.budget <= alone);
    // every old line is referenced by its hash
    let text = fs::read_to_string(&path).unwrap();
    for id in &old.taken {
        assert!(
            text.contains(&format!("\"id\":\"{id}\""))
                && text.contains(&format!("\"paid_by\":\"{id}\""))
        );
    }
    // the old file is complete, and accepts no more charges
    assert!(fs::read(&backup).unwrap().starts_with(&before));
    assert_eq!(
        Ledger::audit(&backup).unwrap().successor.as_deref(),
        Some("ledger.jsonl")
    );
    let closed = Ledger::open(&backup, "ratings", ADD_REMOVE);
    assert!(
        matches!(closed, Err(Error::LedgerClosed { successor, .. }) if successor == "ledger.jsonl")
    );

    // and the new one continues
    let mut ledger = Ledger::open(&path, "ratings", ADD_REMOVE).unwrap();
    assert!(
        ledger
            .held(&old.taken)
            .is_ok_and(|found| ledger.take(&found, 0).is_err())
    );
    let _spends = ledger.reserve(&plan(0.3)).unwrap();
    drop(ledger);
    let second = Ledger::upgrade(&path, RDP, target(4.0, 2e-5)).unwrap();
    assert_eq!(second, copy_of(&path, "ledger.jsonl.bak-2"));
    let last = Ledger::audit(&path).unwrap();
    assert_eq!(
        (last.releases.len(), last.budget.carried_delta()),
        (6, new.budget.carried_delta())
    );
}

#[test]
fn a_change_of_kind_costs_the_old_delta_and_not_less() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let _spends = ledger.reserve(&plan(0.5)).unwrap();
    drop(ledger);
    let before = fs::read(&path).unwrap();
    for (part, kind, epsilon, delta) in [
        ("a delta above 0.00001", RDP, 3.0, 1e-5),
        ("a delta above 0.00001", RDP, 3.0, 0.9e-5),
        ("at least epsilon 1", RDP, 0.9, 3e-5),
        ("follows no other", BudgetKind::Schedule, 3.0, 3e-5),
        ("at least epsilon 1", BudgetKind::Gaussian, 0.9, 1e-5),
        ("delta 0.00001", BudgetKind::Gaussian, 1.0, 0.9e-5),
    ] {
        is_refused(Ledger::upgrade(&path, kind, target(epsilon, delta)), part);
    }
    // what was spent must fit: at order 1.5 the delta of the new filter leaves nothing, or too
    // little
    let too_little = Ledger::upgrade(&path, RDP, target(1.0, 1.000_001e-5));
    assert!(matches!(
        too_little,
        Err(Error::BudgetSpent { .. } | Error::Param(_))
    ));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);

    Ledger::upgrade(&path, RDP, target(2.0, 2e-5)).unwrap();
    let other_order = BudgetKind::Rdp { order: 12.0 };
    is_refused(
        Ledger::upgrade(&path, other_order, target(2.0, 2e-5)),
        "a delta above 0.00002",
    );
    is_refused(
        Ledger::upgrade(&path, BudgetKind::Gaussian, target(9.0, 9e-5)),
        "need not be Gaussian",
    );
    // a third filter gets a third part of delta
    Ledger::upgrade(&path, other_order, target(2.0, 3e-5)).unwrap();
    let budget = Ledger::audit(&path).unwrap().budget;
    assert!((budget.carried_delta() / 2e-5 - 1.0).abs() < 1e-12);
}

#[test]
fn what_interrupted_lines_counted_is_counted_on() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let reservation = ledger.hold(&plan(0.2)).unwrap();
    let _spend = ledger.take(&reservation, 0).unwrap();
    ledger.note("n", "t").unwrap();
    let _spends = ledger.reserve(&plan(0.3)).unwrap();
    let spent = ledger.balance().spent;
    drop(ledger);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 70]).unwrap();
    let old = Ledger::audit(&path).unwrap();
    assert!(old.torn && old.releases.len() == 3 && (old.balance.spent / spent - 1.0).abs() < 1e-15);
    Ledger::upgrade(&path, BudgetKind::Gaussian, TARGET).unwrap();
    let new = Ledger::audit(&path).unwrap();
    check_same_releases(&old, &new);
    assert_eq!(new.releases[3].label, "remains of an interrupted line");
    assert!((new.balance.spent / spent - 1.0).abs() < 1e-15);
    // held releases are handed out once, whichever file they were reserved in
    let mut ledger = open(&path).unwrap();
    let found = ledger.held(reservation.release_ids()).unwrap();
    assert!(matches!(
        ledger.take(&found, 0),
        Err(Error::AlreadyTaken { .. })
    ));
    assert!(ledger.take(&found, 1).is_ok());
}

#[test]
fn certificates_of_older_versions_are_covered_by_the_upgraded_ledger() {
    let (_folder, path) = scratch();
    fixture(1, &path);
    let old = Ledger::audit(&path).unwrap();
    Ledger::upgrade(&path, BudgetKind::Gaussian, target(1.5, 1e-5)).unwrap();
    let new = Ledger::audit(&path).unwrap();
    check_same_releases(&old, &new);
    // no line of version 1 names its run, so each line is a run
    assert!(old.releases.len() > 1 && old.runs().eq((0..old.releases.len()).map(|at| at..at + 1)));
    assert!((new.balance.spent / old.balance.spent - 1.0).abs() < 1e-14);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let text = fs::read_to_string(format!("{folder}/certificate-v1.json")).unwrap();
    new.covers(&Certificate::from_json(&text).unwrap()).unwrap();

    // a Renyi ledger of version 2 keeps its order, or carries delta for a change of order
    let (_folder, path) = scratch();
    fixture(2, &path);
    let old = Ledger::audit(&path).unwrap();
    Ledger::upgrade(&path, old.budget.kind(), old.budget.target()).unwrap();
    let new = Ledger::audit(&path).unwrap();
    check_same_releases(&old, &new);
    assert_eq!((new.budget, new.balance), (old.budget, old.balance));
}

#[test]
fn two_ledgers_of_one_data_set_add_up() {
    let (folder, path) = scratch();
    let (other, out) = (copy_of(&path, "other"), copy_of(&path, "both"));
    let gaussian = BudgetKind::Gaussian;
    let mut spent = 0.0;
    for path in [&path, &other] {
        let mut ledger = open(path).unwrap();
        let reservation = ledger.hold(&plan(0.5)).unwrap();
        let _spend = ledger.take(&reservation, 1).unwrap();
        ledger.note("n", "t").unwrap();
        spent += ledger.balance().spent;
    }
    let old = [&path, &other].map(|path| Ledger::audit(path).unwrap());
    let paths = [&path, &other];
    let merge = |kind, epsilon, delta| Ledger::merge(&paths, &out, kind, target(epsilon, delta));
    // one filter at this delta must cover both budgets: twice mu^2
    let mu_squared = 2.0 * old[0].balance.budget;
    let joint = budget().epsilon_for(mu_squared * (1.0 + 2e-9)).unwrap();
    assert!(joint > 1.4 && joint < 1.6);
    for (kind, epsilon, delta) in [
        (gaussian, joint * (1.0 - 1e-6), 1e-5),
        (gaussian, 1.4, 2e-5),
        (gaussian, joint, 1e-5 * (1.0 - 1e-6)),
        (RDP, 1.5, 3e-5),
        (BudgetKind::Schedule, 9.0, 9e-5),
    ] {
        let outcome = merge(kind, epsilon, delta);
        assert!(
            matches!(outcome, Err(Error::LedgerSuccession { .. })),
            "{kind} {epsilon}: {outcome:?}"
        );
    }
    // a copy does not count as a second ledger
    let copy = copy_of(&path, "copy");
    fs::copy(&path, &copy).unwrap();
    let twice = Ledger::merge(&[&path, &copy], &out, gaussian, target(joint, 1e-5));
    assert!(
        matches!(twice, Err(Error::LedgerSuccession { reason, .. }) if reason.contains("copy"))
    );
    let twice = Ledger::merge(&[&path, &path], &out, gaussian, target(joint, 1e-5));
    assert!(matches!(twice, Err(Error::LedgerLocked { .. })));
    let taken = Ledger::merge(&paths, &copy, gaussian, target(joint, 1e-5));
    assert!(matches!(taken, Err(Error::LedgerExists { .. })));
    fs::remove_file(&copy).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    merge(gaussian, joint, 1e-5).unwrap();
    let both = Ledger::audit(&out).unwrap();
    assert_eq!(
        (both.releases.len(), both.held.len(), both.notes.len()),
        (4, 2, 2)
    );
    assert!((both.balance.spent / spent - 1.0).abs() < 1e-15 && both.budget.carried_delta() == 0.0);
    assert_eq!(
        both.releases,
        [&old[0].releases[..], &old[1].releases].concat()
    );
    for path in paths {
        let closed = Ledger::open(path, "ratings", ADD_REMOVE);
        assert!(
            matches!(closed, Err(Error::LedgerClosed { successor, .. }) if successor == "both")
        );
    }
    let mut ledger = Ledger::open(&out, "ratings", ADD_REMOVE).unwrap();
    let found = ledger.held(&both.held).unwrap();
    assert!(ledger.take(&found, 0).is_ok());
    drop(ledger);
    // running it again changes nothing
    let whole = fs::read(&out).unwrap();
    merge(gaussian, joint, 1e-5).unwrap();
    assert_eq!(fs::read(&out).unwrap(), whole);
    assert!(matches!(
        merge(gaussian, 2.0 * joint, 1e-5),
        Err(Error::LedgerExists { .. })
    ));
}

#[test]
fn an_interrupted_merge_goes_on_when_it_is_run_again() {
    let (folder, path) = scratch();
    let (other, out) = (copy_of(&path, "other"), copy_of(&path, "both"));
    let pending = copy_of(&path, ".both.merge.pending");
    let paths = [&path, &other];
    for path in paths {
        let _spends = open(path).unwrap().reserve(&plan(0.5)).unwrap();
    }
    let before = paths.map(|path| fs::read(path).unwrap());
    let merge = |epsilon| Ledger::merge(&paths, &out, BudgetKind::Gaussian, target(epsilon, 2e-5));
    // left by a merge that closed nothing: the ledgers continued since, and nothing of the pending
    // file is used
    fs::write(&pending, "{}").unwrap();
    merge(2.0).unwrap();
    let (closed, merged) = (fs::read(&path).unwrap(), fs::read(&out).unwrap());

    // the machine stopped after this many ledgers were closed, before or after the new one got its
    // name
    let stopped = |n_closed: usize, named: bool| {
        fs::write(&path, &closed).unwrap();
        if n_closed < 2 {
            fs::write(&other, &before[1]).unwrap();
        }
        let _ = fs::remove_file(&out);
        fs::write(if named { &out } else { &pending }, &merged).unwrap();
    };
    for (n_closed, named) in [(2, false), (1, false), (1, true)] {
        stopped(n_closed, named);
        let refused = open(&path).unwrap_err().to_string();
        assert!(refused.contains("both"), "{refused}");
        // another target is another merge
        let text = merge(3.0).unwrap_err().to_string();
        assert_eq!(text.contains("run the same merge again"), !named, "{text}");
        merge(2.0).unwrap();
        assert_eq!(fs::read(&out).unwrap(), merged);
        assert!(!pending.exists());
        for path in paths {
            assert!(matches!(open(path), Err(Error::LedgerClosed { .. })));
        }
    }
    // a ledger that was charged since is not in the file that was written
    stopped(1, false);
    let _spends = open(&other).unwrap().reserve(&plan(0.1)).unwrap();
    is_refused(
        merge(2.0).map(|()| folder.path().into()),
        "same merge again",
    );
    assert!(!out.exists() && open(&other).is_ok());
    // nor can a missing file be created again: it may have been renamed, and still accept charges
    stopped(1, false);
    fs::remove_file(&pending).unwrap();
    is_refused(
        merge(2.0).map(|()| folder.path().into()),
        "same merge again",
    );
    assert!(open(&other).is_ok());
}

#[test]
fn ledgers_of_different_kinds_add_up_at_the_sum_of_their_guarantees() {
    let (_folder, path) = scratch();
    let (other, out) = (copy_of(&path, "other"), copy_of(&path, "both"));
    fixture(3, &other);
    let mut ledger = open(&path).unwrap();
    let _spends = ledger.reserve(&plan(0.5)).unwrap();
    drop(ledger);
    let paths = [&path, &other];
    let refused = Ledger::merge(&paths, &out, RDP, target(2.0, 2e-5));
    assert!(matches!(refused, Err(Error::LedgerSuccession { .. })));
    Ledger::merge(&paths, &out, RDP, target(2.0, 3e-5)).unwrap();
    let both = Ledger::audit(&out).unwrap();
    assert_eq!((both.releases.len(), both.taken.len()), (6, 4));
    assert!((both.budget.carried_delta() / 2e-5 - 1.0).abs() < 1e-12);
    assert!(both.entries.iter().all(|entry| entry.cost > 0.0));
    assert_eq!(both.entries[0].standing, Standing::HandedOut);
    // ledgers of other data are not merged
    let (elsewhere, more) = (copy_of(&path, "elsewhere"), copy_of(&path, "more"));
    drop(Ledger::create(&elsewhere, "other data", budget()).unwrap());
    let refused = Ledger::merge(&[&out, &elsewhere], &more, RDP, target(9.0, 9e-5));
    assert!(matches!(
        refused,
        Err(Error::LedgerMismatch {
            field: "data_set",
            ..
        })
    ));
}
