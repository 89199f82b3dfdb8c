use dp_accounting::{Budget, Ledger};
use dp_core::{UserSamples, UserSamplesBuilder};

use super::*;

const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;

fn users(n: u32) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(1, 1).unwrap();
    for user in 0..n {
        builder.push(user, &[1.0], 1.0).unwrap();
    }
    builder.build().0
}

fn paid(plan: &Plan) -> Spend {
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    let mut ledger = Ledger::in_memory("test", budget).unwrap();
    ledger.reserve(plan).unwrap().remove(0)
}

#[test]
fn replacement_halves_the_rate_and_costs_the_same() {
    // scores in [0, bound]: of one sign when a user comes or goes, of both when one is replaced
    let selection = AlphaSelection::new(1.0, 4.0).unwrap();
    for (adjacency, same) in [
        (ADD_REMOVE, ScoreChange::Monotone),
        (Adjacency::ReplaceUser, ScoreChange::General),
    ] {
        let found = selection.mechanism(adjacency).unwrap();
        let expected = ExponentialMechanism::new(1.0, 4.0, same, adjacency.relation());
        assert_eq!(found, expected.unwrap());
        let plan = selection.plan(1e-6, adjacency).unwrap();
        assert_eq!(plan.releases()[0].event(), &found.event());
    }
    // two runs, one user for whom the first is better by all of the bound: odds e and e^(1/2). 2^14 selections each, off by 6.2
    // standard deviations with probability below 1e-9
    let (data, n) = (users(1), 1 << 14);
    for (adjacency, odds) in [(ADD_REMOVE, 1.0_f64), (Adjacency::ReplaceUser, 0.5)] {
        let mechanism = selection.mechanism(adjacency).unwrap();
        let plan = selection.plan(1e-6, adjacency).unwrap();
        let loss = |_: UserRow<'_>, run: usize| if run == 0 { -7.0 } else { 9.0 };
        let scores = RunScores {
            loss,
            n_runs: 2,
            bound: 4.0,
        };
        let noise = &mut NoiseSource::insecure_seeded(3);
        let firsts = (0..n).filter(|_| {
            let sum = ScoreSum::accumulate(data.table(), 2, mechanism, &scores).unwrap();
            sum.select(paid(&plan), noise).unwrap().index() == 0
        });
        let share = firsts.count() as f64 / f64::from(n);
        let p = 1.0 / (1.0 + (-odds).exp());
        let stddev = (p * (1.0 - p) / f64::from(n)).sqrt();
        assert!((share - p).abs() < 6.2 * stddev, "{share} {p}");
    }
}

#[test]
fn a_loss_that_is_not_a_number_is_the_worst_one() {
    let (data, selection) = (users(400), AlphaSelection::new(1.0, 4.0).unwrap());
    let plan = selection.plan(1e-6, ADD_REMOVE).unwrap();
    for good in 0..3 {
        // the others are behind by 400 bounds: chosen with probability below e^-390
        let losses = |_: UserRow<'_>, run| if run == good { 0.0 } else { f64::NAN };
        let noise = &mut NoiseSource::insecure_seeded(1);
        let chosen = selection.select(data.table(), 3, losses, &plan, paid(&plan), noise);
        let (run, certificate) = chosen.unwrap();
        assert_eq!(run, good);
        assert!(!certificate.verify().unwrap().is_private()); // seeded
    }
}

#[test]
fn plans_of_others_select_nothing() {
    let (data, selection) = (users(5), AlphaSelection::new(1.0, 4.0).unwrap());
    let plan = selection.plan(1e-6, ADD_REMOVE).unwrap();
    let cheaper = AlphaSelection::new(0.1, 4.0).unwrap();
    let cheaper = cheaper.plan(1e-6, ADD_REMOVE).unwrap();
    let replace = selection.plan(1e-6, Adjacency::ReplaceUser).unwrap();
    let other = PlannedRelease::new("round 1", plan.releases()[0].event().clone(), 0);
    let other = Plan::with_noise_multipliers(1e-6, ADD_REMOVE, vec![other]).unwrap();
    let select = |plan: &Plan, spend| {
        let noise = &mut NoiseSource::insecure_seeded(1);
        selection.select(data.table(), 2, |_, _| 0.0, plan, spend, noise)
    };
    assert!(select(&plan, paid(&plan)).is_ok());
    for foreign in [&cheaper, &other, &replace] {
        assert!(matches!(
            select(&plan, paid(foreign)),
            Err(Error::Spends { .. })
        ));
    }
    assert!(matches!(
        select(&other, paid(&other)),
        Err(Error::Spends { .. })
    ));
    // a plan and a spend that agree with one another and not with the selection
    assert!(matches!(
        select(&cheaper, paid(&cheaper)),
        Err(Error::Mechanism(_))
    ));
}
