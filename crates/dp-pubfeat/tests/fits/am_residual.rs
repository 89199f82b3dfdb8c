//! Residual rounds on ratings: certificates, errors, items without ratings, items without features.

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_data::{MadeLabels, PublicFeatureTask};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    AmResidualSsp, AmResidualSspParams, Error, FeatureModel, FeaturePrior, ItemFeaturesBuilder,
    PriorVariances, Trainer,
};

use crate::support::{ADD_REMOVE, N_ITEMS, features, made, pay, table, target};

pub(crate) fn rounds(dim: usize, n_rounds: usize) -> AmResidualSsp {
    let mut params = AmResidualSspParams::for_target(target());
    (params.dim, params.n_rounds) = (dim, n_rounds);
    params.user_step.label_center = 1.5;
    params.check().unwrap()
}

pub(crate) fn prior() -> FeaturePrior {
    let features = features();
    FeaturePrior::new(&features, PriorVariances::for_features(&features)).unwrap()
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
    let unrated = |a: &String| a.contains("without ratings is public");
    assert!(!seeded.certificate.assumptions.iter().any(unrated));
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
    // no part of an item's own and no popularity: every item's vector is what the encoder says
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

/// Few features, so that they say much; the last ten items are never rated in training.
const SET_UP: PublicFeatureTask = PublicFeatureTask {
    n_users: 2500,
    n_items: 80,
    items_per_user: 25,
    n_features: 20,
    features_per_item: 4,
    dim: 4,
    labels: MadeLabels::Values { noise: 0.1 },
};

/// Squared errors of a model and of the user's own level; `vector` of an item.
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
    let [history, held_out, cold] = <[Interactions; 3]>::try_from(parts).ok().unwrap();
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
