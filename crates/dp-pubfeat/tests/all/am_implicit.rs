//! Rounds on implicit feedback: bounds, certificates, errors, inputs that are read, learning.

use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    AmImplicitSsp, AmImplicitSspParams, Error, FeaturePrior, ItemFeaturesBuilder, LikesModel,
    ObservedSums, PriorVariances, Trainer,
};

use crate::am_residual::prior;
use crate::support::{ADD_REMOVE, N_ITEMS, observed, pay, releases, table, target};

/// Smallest squared norm of a user with likes, relative to the squared bound: every such user is at
/// the bound, so a bound that is wrong by .1 % in either direction fails.
const REACHED: f64 = 0.998;

fn rounds(dim: usize, n_rounds: usize) -> AmImplicitSsp {
    let mut params = AmImplicitSspParams::for_target(target());
    (params.dim, params.n_rounds) = (dim, n_rounds);
    params.check().unwrap()
}

#[test]
fn every_user_with_likes_moves_the_first_releases_by_their_bounds_and_nobody_by_more() {
    for dim in [1, 3] {
        let fit = rounds(dim, 1);
        let all = releases(&fit.with(prior()), &table(40, None));
        let labels: Vec<&str> = all.iter().map(|s| s.label.as_str()).collect();
        assert_eq!(labels, ["total weights", "likes 1"]);
        for user in 0..40 {
            let less = releases(&fit.with(prior()), &table(40, Some(user)));
            for (a, b) in all.iter().zip(&less) {
                let (moved, bound) = (a.squared_distance(b), u128::from(a.l2_bound).pow(2));
                assert!(moved <= bound, "{} by user {user}", a.label);
                // user 3 has no items
                let share = moved as f64 / bound as f64;
                assert_eq!(share > REACHED, user != 3, "{}: {share}", a.label);
            }
        }
    }
}

#[test]
fn every_round_bounds_every_user_whatever_was_released_before() {
    let (fit, data) = (rounds(3, 5), table(40, None));
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(4);
    let mut round = 0;
    observed(&fit.with(&prior()), &data, &plan, noise, |observed| {
        let ObservedSums::Vector { grid, one_user, .. } = observed.sums else {
            panic!("another release")
        };
        let bound = u128::from(grid.l2_bound()).pow(2);
        for user in data.expose().users() {
            let integers = one_user(user).into_iter();
            let squares = integers.map(|(_, z)| u128::from(z.unsigned_abs()).pow(2));
            let norm: u128 = squares.sum();
            assert!(norm <= bound);
            let share = norm as f64 / bound as f64;
            assert_eq!(share > REACHED, !user.is_empty(), "round {round}: {share}");
        }
        let stated = if round == 0 { 1.0 } else { 1.01_f64.sqrt() };
        assert!((grid.clip_norm() / stated - 1.0).abs() < 1e-12);
        round += 1;
    })
    .unwrap();
    assert_eq!(round, 6);
}

#[test]
fn values_of_records_are_not_looked_at() {
    let of = |y: fn(u32) -> f32| {
        let mut out = InteractionsBuilder::new(N_ITEMS);
        for user in 0..40_u32 {
            for i in 0..6 {
                out.push(user, (user + i * 2) % N_ITEMS as u32, y(user + i))
                    .unwrap();
            }
        }
        let all = releases(&rounds(3, 2).with(prior()), &Private::new(out.build().0));
        all.into_iter().map(|s| s.integers).collect::<Vec<_>>()
    };
    assert_eq!(of(|_| 1.0), of(|k| k as f32 - 7.5));
}

#[test]
fn the_certificate_lists_what_was_paid_under_either_adjacency() {
    let (fit, data) = (rounds(3, 4), table(40, None));
    for adjacency in [ADD_REMOVE, Adjacency::ReplaceUser] {
        let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
        let spends = pay(&plan);
        let ids: Vec<String> = spends.iter().map(|s| s.release_id().to_owned()).collect();
        let os = &mut NoiseSource::operating_system();
        let prior = prior().with_unrated([4]).unwrap();
        let certificate = fit
            .with(&prior)
            .fit(&data, &plan, spends, os)
            .unwrap()
            .certificate;
        assert!(certificate.verify().unwrap().is_private());
        let listed = certificate.releases.iter().map(|r| r.release_id.clone());
        assert_eq!(listed.collect::<Vec<_>>(), ids);
        let said = |text: &str| certificate.assumptions.iter().any(|a| a.contains(text));
        assert!(said("one person has one user id") && said("without ratings is public"));
    }
    let record = fit.plan(N_ITEMS, target(), Adjacency::ReplaceRecord);
    assert!(matches!(record, Err(Error::Unsupported { .. })));
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(1);
    let seeded = fit
        .with(&prior())
        .fit(&data, &plan, pay(&plan), noise)
        .unwrap();
    assert!(!seeded.certificate.verify().unwrap().is_private());
}

#[test]
fn what_does_not_belong_together_is_refused_before_data_is_touched() {
    let (fit, data) = (rounds(3, 4), table(40, None));
    let os = &mut NoiseSource::operating_system();
    for other in [rounds(3, 5), rounds(4, 4)] {
        let wrong = other.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
        let refused = fit.with(&prior()).fit(&data, &wrong, pay(&wrong), os);
        assert!(matches!(
            refused,
            Err(Error::Mechanism(dp_mechanism::Error::Plan { .. }))
        ));
    }
    let few = ItemFeaturesBuilder::new(N_ITEMS - 1, &[1]).unwrap().build();
    let few = FeaturePrior::new(&few, PriorVariances::for_likes(&few)).unwrap();
    let plan = fit.plan(N_ITEMS - 1, target(), ADD_REMOVE).unwrap();
    let refused = fit.with(&few).fit(&data, &plan, pay(&plan), os);
    assert!(matches!(refused, Err(Error::Shape(_))));
    assert!(fit.plan(0, target(), ADD_REMOVE).is_err());
    assert!(fit.plan(u32::MAX as usize, target(), ADD_REMOVE).is_err());
}

#[test]
fn tables_without_likes_and_items_without_features_are_no_failure() {
    let nothing = ItemFeaturesBuilder::new(2, &[3]).unwrap().build();
    let prior = FeaturePrior::new(&nothing, PriorVariances::for_likes(&nothing)).unwrap();
    let mut empty = InteractionsBuilder::new(2);
    empty.ensure_users(5);
    let empty = Private::new(empty.build().0);
    let (fit, os) = (rounds(3, 2), &mut NoiseSource::operating_system());
    let plan = fit.plan(2, target(), ADD_REMOVE).unwrap();
    let made = fit.with(&prior).fit(&empty, &plan, pay(&plan), os).unwrap();
    assert!(made.model.item_vectors().iter().all(|v| v.is_finite()));
    for user in empty.expose().users() {
        let own = made.model.fold_in(user).unwrap();
        assert!(own.level == 0.0 && own.vector == [1.0, 0.0, 0.0]);
    }
}

/// Users of two kinds, each of whom likes items of one of two genres and occasionally another item.
/// The last ten of 60 items are new.
fn of_two_kinds(
    n_users: u32,
) -> (
    Private<Interactions>,
    FeaturePrior,
    dp_pubfeat::ItemFeatures,
) {
    let (mut features, mut likes) = (
        ItemFeaturesBuilder::new(60, &[2, 5]).unwrap(),
        InteractionsBuilder::new(60),
    );
    for item in 0..60_u32 {
        features.push(item, item % 2, 1.0).unwrap();
        features.push(item, 2 + item % 5, 1.0).unwrap();
    }
    for user in 0..n_users {
        for i in 0..10 {
            let own = 2 * ((user / 2 * 7 + i * i + i) % 25) + user % 2;
            let item = if i == 9 { (own + 1) % 50 } else { own };
            likes.push(user, item, 1.0).unwrap();
        }
    }
    let features = features.build();
    let prior = FeaturePrior::new(&features, PriorVariances::for_likes(&features)).unwrap();
    let prior = prior.with_unrated(50..60).unwrap();
    (Private::new(likes.build().0), prior, features)
}

/// Number of users whose own kind of items has the higher scores, and of all users.
fn preference(
    model: &LikesModel,
    likes: &Interactions,
    items: std::ops::Range<usize>,
    vector: impl Fn(usize) -> Vec<f64>,
) -> (usize, usize) {
    let (mut right, mut all) = (0, 0);
    for (user, row) in likes.users().enumerate() {
        let own = model.fold_in(row).unwrap();
        let mean = |kind: usize| {
            let of_kind = items.clone().filter(|item| item % 2 == kind);
            of_kind.map(|item| own.predict(&vector(item))).sum::<f64>()
        };
        right += usize::from(mean(user % 2) > mean(1 - user % 2));
        all += 1;
    }
    (right, all)
}

#[test]
fn likes_alone_teach_items_and_features_of_items_never_rated() {
    let (likes, prior, features) = of_two_kinds(1500);
    let target = ApproxDp::target(5.0, 1e-5).unwrap();
    let mut params = AmImplicitSspParams::for_target(target);
    params.dim = 4;
    let fit = params.check().unwrap();
    let plan = fit.plan(60, target, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(3);
    let made = fit
        .with(&prior)
        .fit(&likes, &plan, pay(&plan), noise)
        .unwrap();
    let model = made.model;
    let stored = |item: usize| model.item_vectors()[item * 4..][..4].to_vec();
    let by_features = |item: usize| {
        let own: Vec<(u32, f64)> = features.item(item).collect();
        model.weights().vector(&own).unwrap()
    };
    let likes = likes.expose();
    for items in [0..50, 50..60] {
        let (right, all) = preference(&model, likes, items, stored);
        assert!(right * 10 > all * 9, "{right} of {all}");
    }
    let (right, all) = preference(&model, likes, 50..60, by_features);
    assert!(right * 10 > all * 9, "unknown: {right} of {all}");
    // nine different items per user, weight 1/3 each
    let totals = model.total_weights();
    let mean = totals[..50].iter().sum::<f64>() / 50.0;
    assert!((mean - 1500.0 * 3.0 / 50.0).abs() < 6.0 * model.total_weights_noise());
    assert!(
        model.total_weights_noise() > 0.0 && totals[55].abs() < 6.0 * model.total_weights_noise()
    );
}

/// Mean square of what the biases of 50 items scatter by over 20 seeds of the noise, in units of
/// their squared standard errors. These include what the ridge shrinks away, so it is below 1; it is
/// 1.6 to 2.2 without the noise in the items' popularity. Seeds are fixed, so the results are too.
fn scatter(n_users: u32, epsilon: f64) -> f64 {
    let (likes, prior, _) = of_two_kinds(n_users);
    let target = ApproxDp::target(epsilon, 1e-5).unwrap();
    let dim = 4;
    let params = AmImplicitSspParams {
        dim,
        ..AmImplicitSspParams::for_target(target)
    };
    let fit = params.check().unwrap();
    let plan = fit.plan(60, target, ADD_REMOVE).unwrap();
    let run = |seed| {
        let noise = &mut NoiseSource::insecure_seeded(seed);
        let made = fit.with(&prior).fit(&likes, &plan, pay(&plan), noise);
        let model = made.unwrap().model;
        let errors = model.standard_errors().unwrap().unwrap();
        (model.item_vectors().to_vec(), errors.items)
    };
    let runs: Vec<_> = (0..20).map(run).collect();
    let of_item = |item: usize| {
        let at = item * dim;
        let mean = runs.iter().map(|of| of.0[at]).sum::<f64>() / 20.0;
        let squares: f64 = runs.iter().map(|of| (of.0[at] - mean).powi(2)).sum();
        let expected: f64 = runs.iter().map(|of| of.1[at].powi(2)).sum();
        squares / 19.0 / (expected / 20.0)
    };
    (0..50).map(of_item).sum::<f64>() / 50.0
}

#[test]
fn standard_errors_of_likes_are_at_least_the_scatter_over_noise() {
    for (n_users, epsilon) in [(150, 5.0), (300, 20.0), (1500, 5.0)] {
        let found = scatter(n_users, epsilon);
        assert!((0.2..1.0).contains(&found), "{n_users} {epsilon}: {found}");
    }
}
