//! Residual rounds on ratings: certificates, errors, items without ratings, items without features.

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_data::{GeneratedLabels, PublicFeatureTask};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    AmResidualSsp, AmResidualSspParams, Error, FeatureModel, FeaturePrior, ItemFeatures,
    ItemFeaturesBuilder, ObservedSums, PriorVariances, Trainer,
};

use crate::support::{ADD_REMOVE, N_ITEMS, features, made, observed, pay, releases, table, target};

pub(crate) fn rounds(dim: usize, n_rounds: usize) -> AmResidualSsp {
    let mut params = AmResidualSspParams::for_target(target());
    (params.dim, params.n_rounds) = (dim, n_rounds);
    params.user_step.label_center = 1.5;
    params.check().unwrap()
}

pub(crate) fn prior() -> FeaturePrior {
    prior_of(&features())
}

fn prior_of(features: &ItemFeatures) -> FeaturePrior {
    FeaturePrior::new(features, PriorVariances::for_features(features)).unwrap()
}

#[test]
fn the_certificate_lists_what_was_paid_under_either_adjacency() {
    let (fit, data) = (rounds(3, 4), table(40, None));
    for adjacency in [ADD_REMOVE, Adjacency::ReplaceUser] {
        let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
        let mut ledger =
            Ledger::in_memory("the data", Budget::new(target(), adjacency).unwrap()).unwrap();
        let spends = ledger.reserve(&plan).unwrap();
        let ids: Vec<String> = spends.iter().map(|s| s.release_id().to_owned()).collect();
        let os = &mut NoiseSource::operating_system();
        let prior = prior().with_unrated([4]).unwrap();
        let fitted = fit.with(&prior).fit(&data, &plan, spends, os).unwrap();
        let certificate = fitted.certificate;
        assert!(certificate.verify().unwrap().is_private());
        let listed: Vec<_> = certificate
            .releases
            .iter()
            .map(|r| r.release_id.clone())
            .collect();
        assert_eq!(listed, ids);
        let said = |text: &str| certificate.assumptions.iter().any(|a| a.contains(text));
        assert!(said("one person has one user id") && said("without ratings is public"));
        assert!(said("features") && !said("was made from that user's own data"));
    }
    let record = fit.plan(N_ITEMS, target(), Adjacency::ReplaceRecord);
    assert!(matches!(record, Err(Error::Unsupported { .. })));
    let noise = &mut NoiseSource::insecure_seeded(1);
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let seeded = fit
        .with(&prior())
        .fit(&data, &plan, pay(&plan), noise)
        .unwrap();
    assert!(!seeded.certificate.verify().unwrap().is_private());
    let mut assumptions = seeded.certificate.assumptions.iter();
    assert!(!assumptions.any(|a| a.contains("without ratings is public")));
}

#[test]
fn what_does_not_belong_together_is_refused_before_data_is_touched() {
    let (fit, data, os) = (
        rounds(3, 4),
        table(40, None),
        &mut NoiseSource::operating_system(),
    );
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let other = rounds(3, 5).plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let longer = rounds(4, 4).plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    for wrong in [&other, &longer] {
        let refused = fit.with(&prior()).fit(&data, wrong, pay(wrong), os);
        assert!(matches!(
            refused,
            Err(Error::Mechanism(dp_mechanism::Error::Plan { .. }))
        ));
    }
    let refused = fit.with(&prior()).fit(&data, &plan, pay(&other), os);
    assert!(matches!(
        refused,
        Err(Error::Mechanism(dp_mechanism::Error::Spends { .. }))
    ));
    let few = ItemFeaturesBuilder::new(N_ITEMS - 1, &[1]).unwrap().build();
    let few = FeaturePrior::new(&few, PriorVariances::for_features(&few)).unwrap();
    let plan = fit.plan(N_ITEMS - 1, target(), ADD_REMOVE).unwrap();
    let refused = fit.with(&few).fit(&data, &plan, pay(&plan), os);
    assert!(matches!(refused, Err(Error::Shape(_))));
    assert!(fit.plan(0, target(), ADD_REMOVE).is_err());
    assert!(fit.plan(u32::MAX as usize, target(), ADD_REMOVE).is_err());
    let features = features();
    for change in [
        |v: &mut PriorVariances| v.own = -1.0,
        |v: &mut PriorVariances| v.shared = f64::NAN,
        |v: &mut PriorVariances| v.categories[0] = 1e7,
        |v: &mut PriorVariances| v.categories.truncate(1),
    ] {
        let mut variances = PriorVariances::for_features(&features);
        change(&mut variances);
        assert!(FeaturePrior::new(&features, variances).is_err());
    }
}

#[test]
fn tables_without_users_and_items_without_features_are_no_failure() {
    let nothing = ItemFeaturesBuilder::new(2, &[3]).unwrap().build();
    let prior = FeaturePrior::new(&nothing, PriorVariances::for_features(&nothing)).unwrap();
    for n_idle in [0, 5] {
        let mut empty = InteractionsBuilder::new(2);
        empty.ensure_users(n_idle);
        let empty = Private::new(empty.build().0);
        let (fit, os) = (rounds(3, 2), &mut NoiseSource::operating_system());
        let plan = fit.plan(2, target(), ADD_REMOVE).unwrap();
        let model = fit
            .with(&prior)
            .fit(&empty, &plan, pay(&plan), os)
            .unwrap()
            .model;
        assert!(model.item_vectors().iter().all(|v| v.is_finite()));
        let nobody = Interactions::clone(empty.expose());
        for user in nobody.users() {
            let own = model.fold_in(user).unwrap();
            assert!((own.level - 1.5).abs() < 1e-12); // the public centre
        }
    }
}

#[test]
fn vectors_are_those_of_the_features_where_nothing_else_may_differ() {
    // no own part of an item and no popularity: every item's vector is the encoder's output
    let (features, data) = (features(), table(200, None));
    let mut variances = PriorVariances::for_features(&features);
    (variances.own, variances.popularity) = (0.0, 0.0);
    variances.categories = vec![0.2, 0.4];
    let prior = FeaturePrior::new(&features, variances).unwrap();
    let (fit, noise) = (rounds(3, 3), &mut NoiseSource::insecure_seeded(2));
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let model = fit
        .with(&prior)
        .fit(&data, &plan, pay(&plan), noise)
        .unwrap()
        .model;
    for item in 0..N_ITEMS {
        let own: Vec<(u32, f64)> = features.item(item).collect();
        let vector = model.weights().vector(&own).unwrap();
        let stored = &model.item_vectors()[item * 3..][..3];
        for (a, b) in vector.iter().zip(stored) {
            assert!((a - b).abs() < 1e-12, "item {item}: {a} {b}");
        }
    }
}

/// Few features, so that they are informative; the last ten items are never rated in training.
const SET_UP: PublicFeatureTask = PublicFeatureTask {
    n_users: 2500,
    n_items: 80,
    items_per_user: 25,
    n_features: 20,
    features_per_item: 4,
    dim: 4,
    labels: GeneratedLabels::Values { noise: 0.1 },
};

/// Squared errors of a model and of the user's level alone; `vector` returns an item's vector.
fn errors(
    model: &FeatureModel,
    (history, asked): (&Interactions, &Interactions),
    vector: impl Fn(usize) -> Vec<f64>,
) -> (f64, f64) {
    let (mut of_model, mut of_level) = (0.0, 0.0);
    for (seen, asked) in history.users().zip(asked.users()) {
        let own = model.fold_in(seen).unwrap();
        let mean = seen.values().iter().sum::<f32>() / (seen.len() as f32 + 5.0);
        for (item, y) in asked.iter() {
            of_model += (own.predict(&vector(item as usize)) - f64::from(y)).powi(2);
            of_level += f64::from(mean - y).powi(2);
        }
    }
    (of_model, of_level)
}

#[test]
fn ratings_alone_teach_items_and_features_of_items_never_rated() {
    let (data, _, features) = made(SET_UP, 8);
    let parts = data
        .examples
        .expose()
        .partition(3, |user, item, _| match item {
            70.. => 2,
            _ => usize::from((user * 7 + item as usize).is_multiple_of(5)),
        });
    let [history, held_out, cold] = <[Interactions; 3]>::try_from(parts.unwrap()).ok().unwrap();
    let history = Private::new(history);
    let target = ApproxDp::target(10.0, 1e-5).unwrap();
    let mut params = AmResidualSspParams::for_target(target);
    (params.dim, params.item_variance) = (5, 1.0);
    params.user_step.label_center = 0.0;
    params.user_step.l2_penalty = 0.3;
    let fit = params.check().unwrap();
    let mut variances = PriorVariances::for_features(&features);
    (variances.categories[0], variances.own) = (1.0, 0.05);
    let prior = FeaturePrior::new(&features, variances).unwrap();
    let prior = prior.with_unrated(70..80).unwrap();
    let plan = fit.plan(80, target, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(3);
    let model = fit
        .with(&prior)
        .fit(&history, &plan, pay(&plan), noise)
        .unwrap()
        .model;
    let stored = |item: usize| model.item_vectors()[item * 5..][..5].to_vec();
    let from_features = |item: usize| {
        let own: Vec<(u32, f64)> = features.item(item).collect();
        model.weights().vector(&own).unwrap()
    };
    let history = history.expose();
    let (of_model, of_level) = errors(&model, (history, &held_out), stored);
    assert!(of_model < 0.3 * of_level, "{of_model} {of_level}");
    assert!(cold.n_records() > 1000);
    let (of_model, of_level) = errors(&model, (history, &cold), stored);
    assert!(of_model < 0.4 * of_level, "cold: {of_model} {of_level}");
    let (of_model, of_level) = errors(&model, (history, &cold), from_features);
    assert!(of_model < 0.4 * of_level, "unknown: {of_model} {of_level}");
}

/// Smallest squared norm, relative to the squared bound, of a user whose residuals are clipped: a
/// bound that is wrong by .1 % in either direction fails, because a user beyond it is left out.
const REACHED: f64 = 0.998;

#[test]
fn a_user_moves_the_first_releases_within_their_bounds_and_not_by_nothing() {
    for dim in [1, 3] {
        let fit = rounds(dim, 1);
        let all = releases(&fit.with(prior()), &table(40, None));
        let labels: Vec<&str> = all.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["total weights", "residuals 1"]);
        let mut largest = [0.0_f64; 2];
        for user in 0..40 {
            let less = releases(&fit.with(prior()), &table(40, Some(user)));
            for ((a, b), largest) in all.iter().zip(&less).zip(&mut largest) {
                let (moved, bound) = (a.squared_distance(b), u128::from(a.l2_bound).pow(2));
                assert!(moved <= bound, "{} by user {user}", a.label);
                // user 2 is hostile in all ways and still contributes; user 3 has no items
                assert_eq!(moved > 0, user != 3, "{} by user {user}", a.label);
                *largest = largest.max(moved as f64 / bound as f64);
            }
        }
        assert!(largest.iter().all(|s| *s > REACHED), "{largest:?}");
    }
}

/// The table, followed by users whose ratings are so far apart that residuals are clipped whatever
/// the vectors; how far apart, and on how many items, varies.
fn with_users_at_the_bound() -> (Private<Interactions>, std::ops::Range<usize>) {
    let mut out = InteractionsBuilder::new(N_ITEMS);
    for (user, row) in (0..).zip(table(40, None).expose().users()) {
        for (item, y) in row.iter() {
            out.push(user, item, y).unwrap();
        }
    }
    for (user, n) in [(40, 1), (41, 2), (42, 7), (43, N_ITEMS as u32)] {
        for item in 0..n {
            let apart = [-1e3, 1e4, 50.0, -77.0][(item % 4) as usize];
            out.push(user, item, apart).unwrap();
        }
    }
    let data = out.build().0;
    let n = data.n_users();
    (Private::new(data), n - 4..n)
}

#[test]
fn every_round_s_bound_is_reached_and_passed_by_nobody_whatever_was_released_before() {
    for dim in [1, 3] {
        let (fit, (data, at_the_bound)) = (rounds(dim, 5), with_users_at_the_bound());
        let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(4);
        let (mut round, data) = (0, &data);
        observed(&fit.with(&prior()), data, &plan, noise, |observed| {
            let ObservedSums::Vector { grid, one_user, .. } = observed.sums else {
                panic!("another release")
            };
            let norm = |row: Vec<(usize, i64)>| -> u128 {
                row.iter()
                    .map(|(_, z)| u128::from(z.unsigned_abs()).pow(2))
                    .sum()
            };
            let bound = u128::from(grid.l2_bound()).pow(2);
            for (number, user) in data.expose().users().enumerate() {
                let norm = norm(one_user(user));
                assert!(norm <= bound);
                assert_eq!(norm > 0, !user.is_empty(), "user {number}, round {round}");
                if at_the_bound.contains(&number) {
                    let share = norm as f64 / bound as f64;
                    assert!(share > REACHED, "user {number}, round {round}: {share}");
                }
            }
            // c sqrt(1 + .1^2), with c shrinking over rounds
            let c = fit.params().bound.at(round);
            let stated = if round == 0 { 1.0 } else { 1.01_f64.sqrt() * c };
            assert!((grid.clip_norm() / stated - 1.0).abs() < 1e-12);
            round += 1;
        })
        .unwrap();
        assert_eq!(round, 6);
    }
}

fn fitted(
    params: AmResidualSspParams,
    prior: &FeaturePrior,
    data: &Private<Interactions>,
) -> FeatureModel {
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(8);
    let made = fit.with(prior).fit(data, &plan, pay(&plan), noise).unwrap();
    made.model
}

/// Six ratings of each of 40 users, with deviations from `center` multiplied by `scale`.
fn in_units(center: f32, scale: f32) -> Private<Interactions> {
    let mut out = InteractionsBuilder::new(N_ITEMS);
    for user in 0..40_u32 {
        for i in 0..6_u32 {
            let y = 1.0 + ((user * 7 + i * 5 + user * i) % 9) as f32 / 2.0;
            let item = (user + i * 2) % N_ITEMS as u32;
            out.push(user, item, scale * (y - center)).unwrap();
        }
    }
    Private::new(out.build().0)
}

#[test]
fn settings_in_other_units_give_the_same_model_in_those_units() {
    const SCALE: f32 = 4.0; // a power of 2, so that released integers are the same
    let scale = f64::from(SCALE);
    let params = AmResidualSspParams::for_target(target());
    let mut other = params.clone().in_units(scale);
    other.user_step.label_center = 0.0;
    let prior = prior();
    let one = fitted(params, &prior, &in_units(0.0, 1.0));
    let four = fitted(other, &prior, &in_units(3.5, SCALE));
    let largest = one
        .item_vectors()
        .iter()
        .fold(0.0_f64, |m, v| m.max(v.abs()));
    for (a, b) in one.item_vectors().iter().zip(four.item_vectors()) {
        assert!((b - scale * a).abs() < 1e-9 * scale * largest, "{b} {a}");
    }
}

#[test]
fn weights_of_features_count_by_their_ratios_even_where_their_squares_vanish_or_overflow() {
    let data = in_units(0.0, 1.0);
    let vectors = |unit: f64| {
        let mut builder = ItemFeaturesBuilder::new(N_ITEMS, &[3]).unwrap();
        for item in 0..N_ITEMS as u32 {
            builder.push(item, item % 3, 3.0 * unit).unwrap();
            builder.push(item, (item + 1) % 3, 4.0 * unit).unwrap();
        }
        let params = AmResidualSspParams::for_target(target());
        fitted(params, &prior_of(&builder.build()), &data)
            .item_vectors()
            .to_vec()
    };
    let plain = vectors(1.0);
    for unit in [1e-300, 1e300] {
        let pairs = plain.iter().zip(vectors(unit));
        assert!(
            pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-3),
            "{unit}"
        );
    }
}
