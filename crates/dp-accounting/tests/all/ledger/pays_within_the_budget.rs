//! A plan is charged completely and within the budget, or not at all.

use std::fs;

use dp_accounting::{Budget, Error, Ledger, Measure, Plan, ReleaseRequest};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor};

use super::support::{ADD_REMOVE, TARGET, budget, mu_squared, open, plan, scratch};

#[test]
fn budget_pays_for_exactly_one_full_plan() {
    let (_folder, path) = scratch();
    let full = plan(1.0);
    let mut ledger = open(&path).unwrap();
    let spends = ledger.reserve(&full).unwrap();
    assert_eq!(spends.len(), 2);
    assert_eq!(spends[1].label(), "gramians\n2");
    assert_eq!(spends[1].event(), full.releases()[1].event());
    assert_eq!(
        (spends[1].n_draws(), spends[1].data_set_id()),
        (30, "ratings")
    );
    let error = ledger.reserve(&full).unwrap_err();
    assert!(matches!(
        error,
        Error::BudgetSpent { requested, spent, budget, measure: Measure::MuSquared }
            if requested <= budget && spent <= budget && requested + spent > budget
    ));
    // The rejected call wrote nothing, and after opening again it is still rejected.
    drop(ledger);
    let mut reopened = open(&path).unwrap();
    assert_eq!(reopened.n_releases(), 2);
    assert!(reopened.reserve(&full).is_err());
    assert!(reopened.remaining().unwrap().mu < 1e-5);
}

#[test]
fn spending_survives_and_adds_up() {
    let (_folder, path) = scratch();
    let mut costs = 0.0;
    let mut ids = Vec::new();
    for epsilon in [0.3, 0.1, 0.5] {
        let mut ledger = open(&path).unwrap();
        assert!((mu_squared(&ledger) - costs).abs() <= 1e-14);
        let part = plan(epsilon);
        costs += part.mu_squared().unwrap();
        ids.extend(
            ledger
                .reserve(&part)
                .unwrap()
                .iter()
                .map(|s| s.release_id().to_owned()),
        );
    }
    let ledger = open(&path).unwrap();
    let left = ledger.remaining().unwrap().mu.powi(2);
    assert!((mu_squared(&ledger) / costs - 1.0).abs() < 1e-14);
    assert!((left + costs - plan(1.0).mu_squared().unwrap()).abs() < 1e-12);
    // Release ids are in the file, all different, and are not hashes of any of its contents.
    let text = fs::read_to_string(&path).unwrap();
    for (i, id) in ids.iter().enumerate() {
        let line = text.lines().nth(i + 1).unwrap();
        assert!(
            line.contains(&format!("\"id\":\"{id}\""))
                && !line.contains(&format!("\"hash\":\"{id}\""))
        );
        assert_eq!(ids.iter().filter(|other| *other == id).count(), 1);
    }
}

#[test]
fn refused_plan_is_refused_as_a_whole() {
    let mut ledger = Ledger::in_memory("ratings", budget()).unwrap();
    let _spends = ledger.reserve(&plan(0.9)).unwrap();
    let before = ledger.spent().unwrap();
    // One of this plan's two releases would still fit.
    assert!(matches!(
        ledger.reserve(&plan(0.45)),
        Err(Error::BudgetSpent { .. })
    ));
    assert_eq!(ledger.spent().unwrap(), before);
    assert_eq!(ledger.n_releases(), 2);
}

#[test]
fn draws_of_all_plans_together_must_fit_the_reserve() {
    let high = ApproxDp {
        epsilon: 40.0,
        delta: 1e-9,
    };
    let mut ledger = Ledger::in_memory("d", Budget::new(high, ADD_REMOVE).unwrap()).unwrap();
    let small = Plan::calibrate(
        ApproxDp {
            epsilon: 5.0,
            ..high
        },
        ADD_REMOVE,
        &[ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 1_000)],
    )
    .unwrap();
    assert!(ledger.reserve(&small).is_ok());
    assert!(matches!(
        ledger.reserve(&small),
        Err(Error::SamplerAllowance {
            n_draws: 2_000,
            allowed: 1_411
        })
    ));
    assert_eq!(ledger.n_releases(), 1);
}

#[test]
fn plan_for_other_neighbours_is_refused() {
    let other = Budget::new(TARGET, Adjacency::ReplaceUser).unwrap();
    let mut ledger = Ledger::in_memory("ratings", other).unwrap();
    assert!(matches!(
        ledger.reserve(&plan(0.1)),
        Err(Error::AdjacencyMismatch { .. })
    ));
}

#[test]
fn empty_plan_is_free() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let empty = Plan::calibrate(TARGET, ADD_REMOVE, &[]).unwrap();
    let before = fs::metadata(&path).unwrap().len();
    assert!(ledger.reserve(&empty).unwrap().is_empty());
    assert_eq!(fs::metadata(&path).unwrap().len(), before);
}
