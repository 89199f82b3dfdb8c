//! Adding or removing one unit moves every release by an exact integer within its bound.

use dp_accounting::Plan;
use dp_core::{Adjacency, Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    ConvexSspParams, ExampleWeights, ItemNumbers, LinearEncoder, Logistic, ProblemSetup,
    PublicEncoder, ResidualSspParams, SspParams, StatisticsLearner, Trainer, WeightRule,
};

use crate::support::{
    ADD_REMOVE, DIM, N_ITEMS, Seen, features, look, observed, pay, ridge, sampled, setup, sgd,
    table, target,
};

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
        observed(&ssp.with(ridge()), data, &plan, noise, |o| {
            seen.extend(look(o));
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
        observed(&fit.with(ridge()), data, &plan, noise, |o| {
            seen.extend(look(o));
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
        observed(&fit.with(Logistic, ridge()), data, &plan, noise, |o| {
            seen.extend(look(o));
        })
        .unwrap();
        seen
    })
}

/// The releases that depend on no earlier release of the data.
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
                // user 2 is hostile in all ways and still contributes; user 3 has no items
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
    // at the same released vectors: the integers that each row adds are within the bound and not
    // all 0
    let fit = ResidualSspParams::new(setup(), 3, 0.6, 0.2)
        .check()
        .unwrap();
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let (data, noise) = (table(N, None), &mut NoiseSource::insecure_seeded(6));
    let mut n_steps = 0;
    observed(&fit.with(ridge()), &data, &plan, noise, |observed| {
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

/// Two tables with different numbers and the same releases: vectors beyond their bound, labels
/// beyond theirs, and users without records.
fn alike(vector_scale: f32, label: f32, n_idle: u32) -> Private<Interactions> {
    let mut out = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    for user in 0..N + n_idle {
        let x = user as f32;
        let vector = [2.0 * (0.7 * x).sin(), 2.0 * (1.3 * x).cos(), 1.5];
        out.set_features(user, &vector.map(|x| vector_scale * x))
            .unwrap();
        for i in 0..if user < N { 5 } else { 0 } {
            let sign = if (user + i) % 3 == 0 { -1.0 } else { 1.0 };
            let item = (user * 3 + i * (1 + user % 3)) % N_ITEMS as u32;
            out.push(user, item, sign * label).unwrap();
        }
    }
    Private::new(out.build().0)
}

/// The result of each fit on given vectors; `on_samples` are the plans of `sampled` and `sgd`.
fn learned(data: &Private<Interactions>, on_samples: &[Plan; 2]) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    let noise = || NoiseSource::insecure_seeded(1);
    let ssp = SspParams::new(setup()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let fitted = ssp.with(ridge()).fit(data, &plan, pay(&plan), &mut noise());
    let fitted = fitted.unwrap();
    assert!(!fitted.certificate.verify().unwrap().is_private()); // seeded noise gives no privacy
    all.push(fitted.model.item_vectors().unwrap());

    let residual = ResidualSspParams::new(setup(), 1, 0.6, 0.2)
        .check()
        .unwrap();
    let plan = residual.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let fitted = residual
        .with(ridge())
        .fit(data, &plan, pay(&plan), &mut noise());
    all.push(fitted.unwrap().model.item_vectors().unwrap());

    let convex = ConvexSspParams::new(setup(), 2).check().unwrap();
    let plan = convex.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let (spends, noise) = (pay(&plan), &mut noise());
    let fitted = convex
        .with(Logistic, ridge())
        .fit(data, &plan, spends, noise);
    all.push(fitted.unwrap().model.item_vectors().unwrap());

    let [samples, gradients] = on_samples;
    let noise = &mut NoiseSource::insecure_seeded(1);
    let fitted = sampled()
        .with(ridge())
        .fit(data, samples, pay(samples), noise);
    all.push(fitted.unwrap().model.item_vectors().unwrap());

    let encoder = LinearEncoder::zeros(features(), DIM).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(1);
    let fitted = sgd()
        .with(encoder)
        .fit(data, gradients, pay(gradients), noise);
    all.push(fitted.unwrap().model.parameters().to_vec());
    all
}

#[test]
fn learners_see_released_values_alone() {
    let n_rows = LinearEncoder::zeros(features(), DIM)
        .unwrap()
        .parameters()
        .len()
        / DIM;
    let samples = sampled().plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let gradients = sgd().plan(n_rows, target(), ADD_REMOVE).unwrap();
    let plans = [samples, gradients];
    // same releases from different data: no learner can distinguish them
    let one = learned(&alike(1.0, 1.0, 0), &plans);
    assert_eq!(one, learned(&alike(4.0, 7.5, 25), &plans));
    // but from other releases they learn something else
    let other = learned(&alike(1.0, -0.5, 0), &plans);
    for (kind, (a, b)) in one.iter().zip(&other).enumerate() {
        assert_ne!(a, b, "fit {kind}");
    }
}
