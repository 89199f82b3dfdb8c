//! One unit more or less moves every release by an exact integer that is within its bound.

use dp_accounting::Plan;
use dp_core::{Adjacency, Interactions, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    ConvexSspParams, ExampleWeights, ItemNumbers, Logistic, ProblemSetup, ResidualSspParams,
    SspParams, StatisticsLearner, WeightRule,
};

use crate::support::{ADD_REMOVE, N_ITEMS, Seen, look, pay, ridge, setup, table, target};

const N: u32 = 40;

/// A run's releases on a table, with repeatable noise.
type Run = Box<dyn Fn(&Private<Interactions>) -> Vec<Seen>>;

fn weights() -> Vec<ExampleWeights> {
    let values: Vec<f64> = (0..N_ITEMS).map(|j| 0.2 + j as f64).collect();
    let given = |rule| {
        let values = values.clone();
        ExampleWeights::given(ItemNumbers::Public { values }, rule).unwrap()
    };
    vec![
        ExampleWeights::equal(),
        given(WeightRule::Normalise),
        given(WeightRule::Clip),
    ]
}

fn ssp(setup: ProblemSetup, adjacency: Adjacency) -> Run {
    let ssp = SspParams::new(setup).check().unwrap();
    let plan: Plan = ssp.plan(N_ITEMS, target(), adjacency).unwrap();
    Box::new(move |data| {
        let (mut seen, noise) = (Vec::new(), &mut NoiseSource::insecure_seeded(5));
        ssp.fit_watched(ridge(), data, &plan, pay(&plan), noise, &mut |o| {
            seen.extend(look(&o));
        })
        .unwrap();
        seen
    })
}

fn residual(setup: ProblemSetup) -> Run {
    let fit = ResidualSspParams::new(setup, 3, 0.6, 0.2).check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    Box::new(move |data| {
        let (mut seen, noise) = (Vec::new(), &mut NoiseSource::insecure_seeded(6));
        fit.fit_watched(ridge(), data, &plan, pay(&plan), noise, &mut |o| {
            seen.extend(look(&o));
        })
        .unwrap();
        seen
    })
}

fn convex(setup: ProblemSetup) -> Run {
    let mut params = ConvexSspParams::new(setup, 1);
    params.slope_norm = 0.3;
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    Box::new(move |data| {
        let (mut seen, noise) = (Vec::new(), &mut NoiseSource::insecure_seeded(7));
        let paid = (&plan, pay(&plan));
        fit.fit_watched(&Logistic, ridge(), data, paid, noise, &mut |o| {
            seen.extend(look(&o));
        })
        .unwrap();
        seen
    })
}

/// The releases before which nothing of the data was released: those that do not depend on earlier ones.
fn first(seen: Vec<Seen>) -> Vec<Seen> {
    let later = |s: &Seen| s.label.starts_with("residuals ") && s.label != "residuals 1";
    seen.into_iter().filter(|s| !later(s)).collect()
}

#[test]
fn a_user_moves_each_release_within_its_bound_and_not_by_nothing() {
    let mut runs = Vec::new();
    for weights in weights() {
        let setup = ProblemSetup { weights, ..setup() };
        runs.push(ssp(setup.clone(), ADD_REMOVE));
        runs.push(residual(setup.clone()));
        runs.push(convex(setup));
    }
    for run in runs {
        let all = first(run(&table(N, None)));
        let mut largest = vec![0.0_f64; all.len()];
        for user in 0..N {
            let less = first(run(&table(N, Some(user))));
            for ((a, b), largest) in all.iter().zip(&less).zip(&mut largest) {
                let moved = a.squared_distance(b);
                let bound = u128::from(a.l2_bound).pow(2);
                assert!(moved <= bound, "{} by user {user}", a.label);
                // user 2 is hostile in all ways and still heard; user 3 has no items
                assert_eq!(moved > 0, user != 3, "{} by user {user}", a.label);
                *largest = largest.max(moved as f64 / bound as f64);
            }
        }
        for (seen, largest) in all.iter().zip(largest) {
            assert!(
                largest > 0.2,
                "{}: the bound is loose, {largest}",
                seen.label
            );
        }
    }
}

#[test]
fn later_residual_steps_admit_every_user_that_has_items() {
    // on the same released vectors: what each row adds, in integers, is within the bound and not 0
    let fit = ResidualSspParams::new(setup(), 3, 0.6, 0.2)
        .check()
        .unwrap();
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let (data, noise) = (table(N, None), &mut NoiseSource::insecure_seeded(6));
    let mut n_steps = 0;
    fit.fit_watched(ridge(), &data, &plan, pay(&plan), noise, &mut |observed| {
        if let dp_pubfeat::ObservedSums::Vector { grid, one_user, .. } = observed.sums {
            n_steps += 1;
            for row in data.expose().users() {
                let integers = one_user(row).into_iter();
                let norm: u128 = integers
                    .map(|(_, z)| u128::from(z.unsigned_abs()).pow(2))
                    .sum();
                assert!(norm <= u128::from(grid.l2_bound()).pow(2));
                assert_eq!(norm > 0, !row.is_empty());
            }
        }
    })
    .unwrap();
    assert_eq!(n_steps, 3); // weights and two residual steps
}

#[test]
fn an_example_moves_each_release_within_the_bound_of_one_row() {
    // examples as rows: leaving out one record of user 5 moves the sums by that record's part only
    let run = ssp(setup().example_level(), Adjacency::ReplaceRecord);
    let all = run(&table(N, None));
    let data = table(N, None);
    let mut number = 0;
    let mut less = data.expose().partition(1, |_, _, _| {
        number += 1;
        usize::from(number == 27)
    });
    let less = run(&Private::new(less.remove(0)));
    // the noise is the same, so the difference is exact
    for (a, b) in all.iter().zip(&less) {
        let moved = a.squared_distance(b);
        assert!(moved > 0 && moved <= u128::from(a.l2_bound).pow(2));
        let blocks = a.integers.len() / N_ITEMS;
        let touched = (0..N_ITEMS)
            .filter(|j| a.integers[j * blocks..][..blocks] != b.integers[j * blocks..][..blocks]);
        assert_eq!(touched.count(), 1, "one item only");
    }
}

#[test]
fn learners_see_released_values_alone() {
    // same releases, other data behind them: the learner cannot tell
    let ssp = SspParams::new(setup()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let fit = |noise: &mut NoiseSource| {
        ssp.fit(ridge(), &table(N, None), &plan, pay(&plan), noise)
            .unwrap()
    };
    let (a, b) = (
        fit(&mut NoiseSource::insecure_seeded(1)),
        fit(&mut NoiseSource::insecure_seeded(1)),
    );
    assert_eq!(
        a.model.item_vectors().unwrap(),
        b.model.item_vectors().unwrap()
    );
    assert!(!a.certificate.verify().unwrap().is_private()); // seeded noise is none
}
