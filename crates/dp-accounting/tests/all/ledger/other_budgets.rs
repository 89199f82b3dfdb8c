//! Budgets that count at one Renyi order, and budgets for one schedule.

use std::fs;

use dp_accounting::{
    Budget, BudgetKind, Error, Ledger, Measure, Plan, PlannedRelease, ReleaseRequest,
};
use dp_core::{ApproxDp, DpEvent, ReplaceFactor};

use super::support::{ADD_REMOVE, TARGET, plan, scratch};

#[test]
fn a_renyi_ledger_counts_other_mechanisms_at_its_order() {
    let (_folder, path) = scratch();
    let budget = Budget::rdp(TARGET, ADD_REMOVE, 16.0).unwrap();
    let step = |label: &str| {
        let event = DpEvent::Composed {
            events: vec![DpEvent::gaussian(20.0), DpEvent::laplace(40.0)],
        };
        PlannedRelease::new(label, event, 2)
    };
    // such a plan can only be created if an accountant supports Laplace
    let plan = |label: &str| match Plan::with_noise_multipliers(1e-5, ADD_REMOVE, vec![step(label)])
    {
        Ok(plan) => plan,
        Err(Error::NotCertified { .. }) => {
            let gaussian = PlannedRelease::gaussian(label, 12.0, ReplaceFactor::Two, 2).unwrap();
            Plan::with_noise_multipliers(1e-5, ADD_REMOVE, vec![gaussian]).unwrap()
        }
        Err(other) => panic!("{other}"),
    };
    let mut ledger = Ledger::open_or_create(&path, "ratings", budget).unwrap();
    assert!(ledger.spent().is_err() && ledger.remaining().unwrap().mu > 0.0);
    let mut n_paid = 0;
    while ledger.reserve(&plan("step")).is_ok() {
        n_paid += 1;
        assert!(n_paid < 1_000);
    }
    let balance = ledger.balance();
    assert_eq!(balance.measure, Measure::Rdp);
    assert!(n_paid > 1 && balance.spent <= balance.budget);
    let each = balance.spent / f64::from(n_paid);
    assert!(balance.spent + each > balance.budget);
    drop(ledger);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"ledger\":\"dp-personal\",\"schema_version\":5,"));
    assert!(text.contains("\"filter\":{\"kind\":\"rdp\",\"order\":16.0}"));
    assert!(text.contains("\"rdp\":") && !text.contains("\"mu_squared\":"));
    let mut reopened = Ledger::open_or_create(&path, "ratings", budget).unwrap();
    assert_eq!(reopened.balance(), balance);
    assert!(matches!(
        reopened.reserve(&plan("more")),
        Err(Error::BudgetSpent {
            measure: Measure::Rdp,
            ..
        })
    ));
    drop(reopened);
    let other = Budget::rdp(TARGET, ADD_REMOVE, 17.0).unwrap();
    assert!(matches!(
        Ledger::open_or_create(&path, "ratings", other),
        Err(Error::LedgerMismatch {
            field: "filter",
            ..
        })
    ));
    let found = Ledger::open(&path, "ratings", ADD_REMOVE).unwrap();
    assert_eq!(found.budget().kind(), BudgetKind::Rdp { order: 16.0 });
    for order in [1.0, 1.001, f64::NAN, f64::INFINITY] {
        let made = Budget::rdp(TARGET, ADD_REMOVE, order)
            .and_then(|budget| Ledger::in_memory("d", budget));
        assert!(matches!(made, Err(Error::Param(_))), "{order}");
    }
}

#[test]
fn a_schedule_is_reserved_whole_and_once() {
    let (_folder, path) = scratch();
    let budget = Budget::schedule(TARGET, ADD_REMOVE).unwrap();
    let mut ledger = Ledger::open_or_create(&path, "ratings", budget).unwrap();
    let too_much = Plan::calibrate(
        ApproxDp {
            epsilon: 1.1,
            ..TARGET
        },
        ADD_REMOVE,
        &[ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1)],
    )
    .unwrap();
    assert!(matches!(
        ledger.reserve(&too_much),
        Err(Error::BudgetSpent {
            measure: Measure::Epsilon,
            ..
        })
    ));
    assert!(ledger.balance().spent.to_bits() == 0 && ledger.n_releases() == 0);
    assert_eq!(ledger.reserve(&plan(0.3)).unwrap().len(), 2);
    // the rest of the budget is used up, because the outputs have been seen
    let again = |ledger: &mut Ledger| ledger.reserve(&plan(0.01));
    assert!(matches!(
        again(&mut ledger),
        Err(Error::ScheduleReserved { n_releases: 2 })
    ));
    drop(ledger);
    let mut reopened = Ledger::open_or_create(&path, "ratings", budget).unwrap();
    assert!(again(&mut reopened).is_err());
    let balance = reopened.balance();
    assert!((balance.spent - balance.budget).abs() < 1e-300);
    drop(reopened);
    // after a crash that leaves one of its two lines, the schedule counts as reserved
    let text = fs::read_to_string(&path).unwrap();
    let two: Vec<&str> = text.lines().take(2).collect();
    fs::write(&path, format!("{}\n", two.join("\n"))).unwrap();
    let mut torn = Ledger::open_or_create(&path, "ratings", budget).unwrap();
    assert!(again(&mut torn).is_err());
}

#[test]
fn a_schedule_of_which_a_readable_torn_line_is_left_pays_no_second_time() {
    let (_folder, path) = scratch();
    let budget = Budget::schedule(TARGET, ADD_REMOVE).unwrap();
    let mut ledger = Ledger::create(&path, "ratings", budget).unwrap();
    let _spends = ledger.reserve(&plan(0.9)).unwrap();
    drop(ledger);
    let bytes = fs::read(&path).unwrap();
    let first = bytes.split_inclusive(|&byte| byte == b'\n').take(2);
    let whole: usize = first.map(<[u8]>::len).sum();
    fs::write(&path, &bytes[..whole - 70]).unwrap();
    let summary = Ledger::audit(&path).unwrap();
    assert!(summary.releases.is_empty() && summary.balance.spent > 0.0);
    for _ in 0..2 {
        let mut ledger = Ledger::open(&path, "ratings", ADD_REMOVE).unwrap();
        assert_eq!(ledger.n_releases(), 0);
        for refused in [
            ledger.affords(&plan(0.1)),
            ledger.reserve(&plan(0.1)).map(drop),
            ledger.hold(&plan(0.1)).map(drop),
        ] {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("interrupted line"), "{text}");
        }
    }
}
