//! Complete fits: requirements, repeatability, and recovery of known parameters.

use dp_accounting::{CertificateBuilder, Plan, ReleaseRequest, Requests, Spend};
use dp_core::{
    Adjacency, ApproxDp, DpEvent, Interactions, InteractionsBuilder, Private, ReplaceFactor,
};
use dp_data::RatingSplit;
use dp_mechanism::{Error as RunError, NoiseSource};
use dp_multitask::{
    Error, FactorModel, FactorizationParams, Fitted, ItemPrior, ItemUpdate, MatrixFactorization,
    NonPrivateAls, Provenance, Run, Trainer, UserPenalties,
};

use chacha20::ChaCha20Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use crate::support::{ADJACENCY, Steps, error, pay, ratings, target};

fn small_ratings() -> RatingSplit {
    ratings(1200, 150, 60_000)
}

fn plan_and_spends(
    fit: &MatrixFactorization,
    n_items: usize,
    target: ApproxDp,
) -> (Plan, Vec<Spend>) {
    let plan = fit.plan(n_items, target, ADJACENCY).unwrap();
    let spends = pay(&plan);
    (plan, spends)
}

fn fit_seeded(
    data: &Private<Interactions>,
    params: FactorizationParams,
    seed: u64,
) -> Fitted<FactorModel> {
    let target = target(params.rule_epsilon);
    let fit = params.check().unwrap();
    let (plan, spends) = plan_and_spends(&fit, data.expose().n_items(), target);
    let mut noise = NoiseSource::insecure_seeded(seed);
    fit.fit(data, &plan, spends, &mut noise).unwrap()
}

#[test]
fn order_of_users_and_threads_do_not_change_a_single_bit() {
    let split = small_ratings();
    let mut params = FactorizationParams::adadpals_for_target(target(5.0));
    params.dim = Some(4);
    let reference = fit_seeded(&split.train, params.clone(), 7);
    let table = split.train.expose();
    let mut builder = InteractionsBuilder::new(table.n_items());
    for (new, old) in (0..).zip((0..table.n_users()).rev()) {
        for (item, value) in table.user(old).iter() {
            builder.push(new, item, value).unwrap();
        }
    }
    let reversed = Private::new(builder.build().0);
    for n_threads in [1, 2, 8] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build()
            .unwrap();
        let again = pool.install(|| fit_seeded(&reversed, params.clone(), 7));
        assert_eq!(again.model, reference.model);
    }
    let other = fit_seeded(&split.train, params, 8);
    assert_ne!(other.model, reference.model);
}

/// A training, with three times its budget for another release.
struct Beside(MatrixFactorization);

impl Trainer for Beside {
    type Data = Private<Interactions>;
    type Model = FactorModel;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        self.0.width(data)
    }

    fn requests(&self, width: usize, adjacency: Adjacency) -> Result<Requests, Error> {
        let Requests::Shares(mut all) = self.0.requests(width, adjacency)? else {
            unreachable!("a factorization asks for shares");
        };
        let total: f64 = all.iter().map(|request| request.budget_share).sum();
        let factor = ReplaceFactor::Two;
        all.push(ReleaseRequest::new("beside", 3.0 * total, factor, 1));
        Ok(Requests::Shares(all))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        self.0.describe(certificate)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<FactorModel, Error> {
        self.0.train(data, run)
    }
}

#[test]
fn the_number_of_tastes_follows_from_the_budget_of_the_training_alone() {
    let split = small_ratings();
    let params = FactorizationParams::adadpals_for_target(target(20.0));
    let trainer = Beside(params.clone().check().unwrap());
    let plan = trainer.plan(150, target(20.0), ADJACENCY).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(1);
    let model = trainer.fit(&split.train, &plan, pay(&plan), noise);
    let model = model.unwrap().model;
    let squares: Vec<f64> = (plan.releases().iter())
        .map(|release| match release.event() {
            DpEvent::Gaussian {
                noise_multiplier, ..
            } => noise_multiplier.powi(-2),
            other => panic!("{other:?}"),
        })
        .collect();
    let dim = |squares: &[f64]| {
        let mu = squares.iter().sum::<f64>().sqrt();
        params.rule_dim(mu, Some(model.counts().unwrap().mean()), 150)
    };
    assert_eq!(model.dim(), dim(&squares[..squares.len() - 1]));
    assert_ne!(model.dim(), dim(&squares));
}

#[test]
fn with_little_noise_the_model_nears_the_non_private_one() {
    let split = small_ratings();
    let als = NonPrivateAls {
        dim: 4,
        ..NonPrivateAls::default()
    };
    let best = error(&als.fit(&split.train).unwrap(), &split);
    let mut errors = Vec::new();
    for epsilon in [1.0, 38.0] {
        let mut params = FactorizationParams::adadpals_for_target(target(epsilon));
        params.dim = Some(4);
        errors.push(error(&fit_seeded(&split.train, params, 3).model, &split));
    }
    assert!(errors[1] < best + 0.04, "{errors:?} against {best}");
    assert!(
        errors[1] < errors[0] - 0.03,
        "noise must cost accuracy: {errors:?}"
    );
}

#[test]
fn seeded_noise_marks_the_certificate_and_real_noise_does_not() {
    let split = small_ratings();
    let params = FactorizationParams::adadpals_for_target(target(1.0));
    let seeded = fit_seeded(&split.train, params.clone(), 1);
    assert!(!seeded.certificate.verify().unwrap().is_private());
    assert_eq!(seeded.model.provenance(), Provenance::SeededNoise);
    let fit = params.check().unwrap().assuming("a test");
    let (plan, spends) = plan_and_spends(&fit, 150, target(1.0));
    let mut noise = NoiseSource::operating_system();
    let mut seen = Steps::default();
    let run = Run::new(&plan, spends, &mut noise).unwrap();
    let fitted = fit.run(&split.train, run.observed_by(&mut seen)).unwrap();
    let verified = fitted.certificate.verify().unwrap();
    assert!(verified.is_private());
    assert_eq!(fitted.model.provenance(), Provenance::Private);
    let epsilon = verified.guarantee.unwrap().epsilon;
    assert!((0.9999..=1.0).contains(&epsilon));
    assert!(fitted.certificate.assumptions.iter().any(|a| a == "a test"));
    let last = seen.0.last().unwrap();
    assert_eq!(
        (last.done, last.total),
        (plan.releases().len(), plan.releases().len())
    );
}

#[test]
fn a_fit_takes_exactly_the_spends_of_its_plan() {
    let split = small_ratings();
    let fit = FactorizationParams::adadpals_for_target(target(1.0))
        .check()
        .unwrap();
    let run = |plan: &Plan, spends: Vec<Spend>| {
        let mut noise = NoiseSource::insecure_seeded(0);
        fit.fit(&split.train, plan, spends, &mut noise)
    };
    let (plan, mut spends) = plan_and_spends(&fit, 150, target(1.0));
    spends.pop();
    assert!(matches!(
        run(&plan, spends),
        Err(Error::Mechanism(RunError::Spends {
            found: 10,
            expected: 11,
            ..
        }))
    ));

    let (_, mut spends) = plan_and_spends(&fit, 150, target(1.0));
    spends.swap(0, 1);
    assert!(matches!(
        run(&plan, spends),
        Err(Error::Mechanism(RunError::Spends { .. }))
    ));

    // spends with less noise than the plan promises
    let (_, spends) = plan_and_spends(&fit, 150, target(2.0));
    assert!(matches!(
        run(&plan, spends),
        Err(Error::Mechanism(RunError::Spends { .. }))
    ));

    let (plan, spends) = plan_and_spends(&fit, 151, target(1.0));
    assert!(matches!(
        run(&plan, spends),
        Err(Error::Mechanism(RunError::Plan { .. }))
    ));
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    type Change = fn(&mut FactorizationParams);
    let changes: [(&str, Change); 27] = [
        ("dim", |p| p.dim = Some(0)),
        ("dim", |p| p.dim = Some(257)),
        ("n_rounds", |p| p.n_rounds = 0),
        ("n_rounds", |p| p.n_rounds = 1001),
        ("round_growth", |p| p.round_growth = 0.0),
        ("weight_exponent", |p| p.weight_exponent = -0.1),
        ("weight_exponent", |p| p.weight_exponent = f64::NAN),
        ("count_share", |p| p.count_share = 0.0),
        ("count_share", |p| p.count_share = 1.0),
        ("count_clip_norm", |p| p.count_clip_norm = 0.0),
        ("count_floor", |p| p.count_floor = f64::INFINITY),
        ("matrix_share", |p| p.matrix_share = 1.0),
        ("clip_norm", |p| p.clip_norm = 0.0),
        ("clip_norm", |p| p.clip_norm = 1.0),
        ("label_center", |p| p.label_center = f64::NAN),
        ("label_bound", |p| p.label_bound = 0.0),
        ("bias_shrinkage", |p| p.bias_shrinkage = -1.0),
        ("user factor penalty", |p| p.training_penalties.factor = 0.0),
        ("user offset penalty", |p| {
            p.fold_in_penalties = Some(UserPenalties {
                offset: f64::NAN,
                ..p.training_penalties
            });
        }),
        ("item_ridge_factor", |p| p.item_ridge_factor = 0.0),
        ("item_l2_penalty", |p| p.item_l2_penalty = -1.0),
        ("init_stddev", |p| p.init_stddev = 0.0),
        ("label_bound", |p| p.label_bound = 1e308),
        ("label_center", |p| p.label_center = -1e308),
        ("item_ridge_factor", |p| p.item_ridge_factor = 1e308),
        ("item_l2_penalty", |p| p.item_l2_penalty = 1e7),
        ("weight_exponent", |p| p.weight_exponent = 1e7),
    ];
    for (name, change) in changes {
        let mut params = FactorizationParams::adadpals_for_target(target(1.0));
        change(&mut params);
        match params.check() {
            Err(Error::Param(bad)) => assert_eq!(bad.name, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn fold_in_is_the_minimiser_of_its_objective() {
    let split = small_ratings();
    let mut params = FactorizationParams::adadpals_for_target(target(20.0));
    params.dim = Some(3);
    let penalties = UserPenalties {
        offset: 20.0,
        factor: 5.0,
        factor_per_record: 0.2,
    };
    params.fold_in_penalties = Some(penalties);
    let model = fit_seeded(&split.train, params, 2).model;
    let table = split.train.expose();
    let row = table.user(5);
    let personal = model.fold_in(row).unwrap();
    let scoring = *model.scoring();
    let start = scoring.bias.center + scoring.bias.of(row.values());
    // computed from the definition: squared errors plus penalties
    let objective = |offset: f64, v: &[f64]| {
        let mut sum = penalties.offset * offset * offset;
        let per_user = penalties.factor + row.len() as f64 * penalties.factor_per_record;
        sum += per_user * v.iter().map(|v| v * v).sum::<f64>();
        for (item, y) in row.iter() {
            let factors = &model.item_factors()[item as usize * 3..][..3];
            let fitted = start + offset + factors[0] + factors[1] * v[0] + factors[2] * v[1];
            sum += (f64::from(y) - fitted).powi(2);
        }
        sum
    };
    let offset = personal.offset() - start;
    let v = personal.factor().to_vec();
    let least = objective(offset, &v);
    for step in [1e-3, -1e-3] {
        assert!(objective(offset + step, &v) > least);
        for k in 0..2 {
            let mut moved = v.clone();
            moved[k] += step;
            assert!(objective(offset, &moved) > least);
        }
    }
}

#[test]
fn a_user_without_records_gets_the_public_model() {
    let split = small_ratings();
    let params = FactorizationParams::adadpals_for_target(target(5.0));
    let model = fit_seeded(&split.train, params, 2).model;
    let mut builder = InteractionsBuilder::new(150);
    builder.ensure_users(1);
    let (nobody, _) = builder.build();
    let personal = model.fold_in(nobody.user(0)).unwrap();
    assert!((personal.offset() - 3.0).abs() < 1e-12);
    assert!(personal.factor().iter().all(|v| v.abs() < 1e-12));
    let best = model.recommend(&personal, 3, &[]).unwrap();
    assert_eq!(best.len(), 3);
    assert!(best[0].1 >= best[1].1 && best[1].1 >= best[2].1);
    let rest = model.recommend(&personal, 500, &[best[0].0]).unwrap();
    assert_eq!(rest.len(), 149);
    assert!(rest.iter().all(|&(item, _)| item != best[0].0));
}

#[test]
fn history_with_unknown_items_is_a_typed_error() {
    let split = small_ratings();
    let params = FactorizationParams::adadpals_for_target(target(5.0));
    let model = fit_seeded(&split.train, params, 2).model;
    let mut builder = InteractionsBuilder::new(151);
    builder.push(0, 150, 4.0).unwrap();
    let (table, _) = builder.build();
    assert!(matches!(model.fold_in(table.user(0)), Err(Error::Shape(_))));
}

#[test]
fn an_empty_table_trains_to_noise_without_an_error() {
    let nobody = Private::new(InteractionsBuilder::new(20).build().0);
    let mut params = FactorizationParams::adadpals_for_target(target(1.0));
    params.dim = Some(3);
    let fitted = fit_seeded(&nobody, params, 1);
    assert!(fitted.model.item_factors().iter().all(|v| v.is_finite()));
}

/// Generated ratings `3 + h_i + taste a_j b_i + noise`, 25 of 60 items for each of 1,500 users,
/// multiplied by `scale` and shifted by `shift`.
fn made(taste: f64, (scale, shift): (f64, f64)) -> Private<Interactions> {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let mut builder = InteractionsBuilder::new(60);
    for user in 0..1500_u32 {
        let own: f64 = StandardNormal.sample(&mut rng);
        for at in 0..25_u32 {
            let item = (at * 7 + user * 13) % 60;
            let (h, b) = (
                f64::from(item % 5) / 4.0 - 0.5,
                f64::from(item % 7) / 3.0 - 1.0,
            );
            let noise: f64 = StandardNormal.sample(&mut rng);
            let rating = 3.0 + h + taste * own * b + 0.8 * noise;
            #[allow(clippy::cast_possible_truncation, reason = "ratings are single")]
            builder
                .push(user, item, (scale * rating + shift) as f32)
                .unwrap();
        }
    }
    Private::new(builder.build().0)
}

#[test]
fn tastes_are_learnt_where_ratings_show_them() {
    for (taste, shown) in [(0.0, false), (0.8, true)] {
        for seed in 0..3 {
            let params = FactorizationParams::for_target(target(20.0));
            let fitted = fit_seeded(&made(taste, (1.0, 0.0)), params, seed);
            // from the counts alone the rule would choose 13 taste factors in both cases
            assert_eq!(
                fitted.model.n_tastes(),
                if shown { 13 } else { 0 },
                "taste {taste}, seed {seed}"
            );
        }
        // with a small budget, errors of the item biases look like a taste factor common to all
        // users; with a larger one, the energy of the noise looks like signal
        for (epsilon, by_counts) in [(1.0, 3), (2.0, 5), (5.0, 7)] {
            for seed in 0..3 {
                let params = FactorizationParams::for_target(target(epsilon));
                let params = params.with_rating_range(1.0, 5.0);
                let found = fit_seeded(&made(taste, (1.0, 0.0)), params, seed)
                    .model
                    .n_tastes();
                let expected = if shown { by_counts } else { 0 };
                assert_eq!(
                    found, expected,
                    "taste {taste}, epsilon {epsilon}, seed {seed}"
                );
            }
        }
        // a requested dimension is kept
        let mut params = FactorizationParams::for_target(target(20.0));
        params.dim = Some(3);
        let fitted = fit_seeded(&made(taste, (1.0, 0.0)), params, 0);
        assert_eq!(fitted.model.n_tastes(), 2);
    }
}

/// Sums that exceed their noise, but not by more than ratings without taste factors may have: users
/// keep the taste factors that predict their ratings, and no others. Votes have a standard deviation
/// of 3.
#[test]
fn users_vote_on_weak_taste_factors() {
    for (taste, is_kept) in [(0.0, false), (0.4, true)] {
        let data = made(taste, (1.0, 0.0));
        for seed in 1..4 {
            let mut params = FactorizationParams::for_target(target(20.0));
            params = params.with_rating_range(1.0, 5.0);
            let model = fit_seeded(&data, params.clone(), seed).model;
            let votes = model.taste_votes().unwrap();
            assert_eq!(votes.kept, is_kept, "taste {taste}, seed {seed}: {votes:?}");
            assert_eq!(votes.kept, votes.sum > votes.needed);
            // .01 of the released number of users, which is 1,500, and one standard deviation
            assert!((votes.needed - 15.0 - votes.noise_stddev).abs() < 3.0);
            assert_eq!(model.n_tastes(), if is_kept { 13 } else { 0 });
            // without votes, what they would decide is dropped
            if let ItemUpdate::Residual(of) = &mut params.item_update {
                of.taste_vote_share = 0.0;
            }
            let model = fit_seeded(&data, params, seed).model;
            assert_eq!((model.n_tastes(), model.taste_votes()), (0, None));
        }
    }
    // strong ones are kept without a vote, and dimensions that are set are not voted on
    for dim in [None, Some(3)] {
        let mut params = FactorizationParams::for_target(target(20.0));
        params.dim = dim;
        let model = fit_seeded(&made(0.8, (1.0, 0.0)), params, 0).model;
        assert_eq!(model.n_tastes(), dim.map_or(13, |dim| dim - 1));
        assert_eq!(model.taste_votes(), None);
    }
}

/// Few items with very different biases, on which all users agree: taste factors of the first rounds
/// take over a part of the biases, and what they say to all users alike must not count as signal.
#[test]
fn biases_of_few_items_are_no_tastes() {
    // the share of items above this is .4 and .33
    for (n_users, n_items, least, epsilon) in [(5000, 50, 0.25, 1.0), (600, 60, 0.43, 5.0)] {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let biases: Vec<f64> = (0..n_items).map(|_| 0.6 * normal()).collect();
        let mut builder = InteractionsBuilder::new(n_items);
        for user in 0..n_users {
            let level = 0.3 * normal();
            for (item, bias) in biases.iter().enumerate() {
                let is_rated = normal() > least;
                if !is_rated {
                    continue;
                }
                let rating = 3.0 + bias + level + 0.7 * normal();
                #[allow(clippy::cast_possible_truncation, reason = "ratings from 1 to 5")]
                let rating = rating.round().clamp(1.0, 5.0) as f32;
                builder.push(user, item as u32, rating).unwrap();
            }
        }
        let data = Private::new(builder.build().0);
        for seed in 0..4 {
            let params = FactorizationParams::for_target(target(epsilon));
            let params = params.with_rating_range(1.0, 5.0);
            let found = fit_seeded(&data, params, seed).model.n_tastes();
            assert_eq!(found, 0, "{n_users} users, seed {seed}");
        }
    }
}

/// Ratings that are the same for all items except for noise: the remaining biases are shrunk,
/// however large the noise of their sums is.
#[test]
fn item_biases_that_noise_drowns_are_held_back() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let mut builder = InteractionsBuilder::new(60);
    for user in 0..300_u32 {
        for at in 0..8_u32 {
            let noise: f64 = StandardNormal.sample(&mut rng);
            #[allow(clippy::cast_possible_truncation, reason = "ratings are single")]
            let rating = (3.0 + 0.8 * noise) as f32;
            builder
                .push(user, (at * 7 + user * 13) % 60, rating)
                .unwrap();
        }
    }
    let data = Private::new(builder.build().0);
    let mut params = FactorizationParams::for_target(target(0.5));
    params.dim = Some(1);
    let model = fit_seeded(&data, params, 2).model;
    let biases = model.item_factors().iter().step_by(model.dim());
    let squares: f64 = biases.map(|h| h * h).sum();
    let root_mean_square = (squares / 60.0).sqrt();
    assert!(root_mean_square < 0.2, "{root_mean_square}");
}

/// Item information from others, either the true one or that of other items.
#[test]
fn a_prior_counts_by_what_it_says() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let mut normal = || StandardNormal.sample(&mut rng);
    let truth: Vec<f64> = (0..60).map(|_| normal()).collect();
    let mut builder = InteractionsBuilder::new(60);
    for user in 0..300_u32 {
        for at in 0..8_u32 {
            let (item, noise): (_, f64) = ((at * 7 + user * 13) % 60, normal());
            #[allow(clippy::cast_possible_truncation, reason = "ratings are single")]
            let rating = (3.0 + 0.5 * truth[item as usize] + 0.8 * noise) as f32;
            builder.push(user, item, rating).unwrap();
        }
    }
    let data = Private::new(builder.build().0);
    let error = |prior: Option<Vec<f64>>| {
        let target = target(0.5);
        let mut fit = FactorizationParams::for_target(target).check().unwrap();
        if let Some(rows) = prior {
            fit = fit
                .with_prior(ItemPrior::new(rows, 1, 0..0).unwrap())
                .unwrap();
        }
        let (plan, spends) = plan_and_spends(&fit, 60, target);
        let model = fit
            .fit(&data, &plan, spends, &mut NoiseSource::insecure_seeded(3))
            .unwrap()
            .model;
        let h: Vec<f64> = model
            .item_factors()
            .iter()
            .copied()
            .step_by(model.dim())
            .collect();
        let mean = h.iter().sum::<f64>() / 60.0;
        let off = h
            .iter()
            .zip(&truth)
            .map(|(h, t)| (h - mean - 0.5 * t).powi(2));
        (off.sum::<f64>() / 60.0).sqrt()
    };
    let mut of_others = truth.clone();
    of_others.rotate_left(17);
    let (without, with, by_others) = (
        error(None),
        error(Some(truth.clone())),
        error(Some(of_others)),
    );
    assert!(with < 0.7 * without, "{with} {without}");
    assert!(by_others < 1.1 * without, "{by_others} {without}");
}

/// Users vote for taste factors that predict their ratings, and against those of other items.
#[test]
#[ignore = "heavy: part of CI"]
fn heavy_tastes_of_a_prior_are_used_where_users_vote_for_them() {
    let data = made(0.8, (1.0, 0.0));
    let bias = |item: u32| f64::from(item % 5) / 4.0 - 0.5;
    let truth: Vec<f64> = (0..60).map(|item| f64::from(item % 7)).collect();
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    let of_others: Vec<f64> = (0..60 * 6)
        .map(|_| StandardNormal.sample(&mut rng))
        .collect();
    let fitted = |rows: Option<(&Vec<f64>, usize)>, epsilon: f64, seed: u64| {
        let target = target(epsilon);
        let params = FactorizationParams::for_target(target).with_rating_range(1.0, 5.0);
        let mut fit = params.check().unwrap();
        if let Some((rows, n)) = rows {
            let prior = ItemPrior::new(rows.clone(), n, 0..n).unwrap();
            fit = fit.with_prior(prior).unwrap();
        }
        let (plan, spends) = plan_and_spends(&fit, 60, target);
        let noise = &mut NoiseSource::insecure_seeded(seed);
        let model = fit.fit(&data, &plan, spends, noise).unwrap().model;
        let h: Vec<f64> = (model.item_factors().iter())
            .copied()
            .step_by(model.dim())
            .collect();
        let mean = h.iter().sum::<f64>() / 60.0;
        let off = (0..60)
            .zip(&h)
            .map(|(item, h)| (h - mean - bias(item)).powi(2));
        (1 + model.n_tastes(), off.sum::<f64>())
    };
    // at epsilon 20 squares are .17 and .20 with a standard deviation of .09 each
    for (epsilon, most) in [(0.1, 1.15), (0.2, 1.15), (20.0, 1.6)] {
        let mut squares = [0.0; 2];
        for seed in 0..8 {
            let (dim, without) = fitted(None, epsilon, seed);
            let (found, with) = fitted(Some((&of_others, 6)), epsilon, seed);
            assert_eq!(found, dim, "epsilon {epsilon}, seed {seed}");
            squares[0] += without;
            squares[1] += with;
        }
        let ratio = squares[1] / squares[0];
        assert!(ratio < most, "epsilon {epsilon}: {ratio}");
    }
    // at epsilon .5 the noise on the votes of the 1,500 users has standard deviation 70
    for seed in 0..4 {
        assert_eq!(fitted(None, 0.5, seed).0, 1);
        assert!(fitted(Some((&truth, 1)), 0.5, seed).0 > 1, "seed {seed}");
    }
    // of thirty taste factors, of which the last column says the most, the budget decides how many are
    // used: two or three more than without a prior
    let mut small = || -> f64 { StandardNormal.sample(&mut rng) };
    let many: Vec<f64> = (truth.iter())
        .flat_map(|x| {
            (0..30)
                .map(|k| 0.01 * small() + [0.0, *x][k / 29])
                .collect::<Vec<_>>()
        })
        .collect();
    let without = fitted(None, 20.0, 0).0;
    let with = [0.5, 20.0].map(|epsilon| fitted(Some((&many, 30)), epsilon, 0).0);
    assert!((2..=3).contains(&(with[1] - without)), "{with:?} {without}");
    assert!(with[0] > 1 && with[0] < with[1], "{with:?}");
    // nobody votes on a table that says nothing about the items
    let nothing = vec![1.0; 60 * 3];
    assert_eq!(fitted(Some((&nothing, 3)), 20.0, 0).0, without);
}

#[test]
fn the_scale_of_ratings_is_learnt_where_nobody_said_it() {
    let rmse = |units: (f64, f64), params: FactorizationParams| {
        let data = made(0.8, units);
        let model = fit_seeded(&data, params, 5).model;
        let predicted = model.predict_held_out(&data, &data).unwrap().into_exposed();
        let squares = predicted.iter().map(|(p, y)| ((p - y) / units.0).powi(2));
        let squares = squares.sum::<f64>() / predicted.len() as f64;
        (squares.sqrt(), model.scale().copied())
    };
    let params = || FactorizationParams::for_target(target(5.0));
    let unspent = |params: FactorizationParams| FactorizationParams {
        scale_share: 0.0,
        ..params
    };
    let (stars, scale) = rmse((1.0, 0.0), params());
    assert!(!scale.unwrap().is_learnt(), "{scale:?}");
    for units in [(20.0, -15.0), (0.7, 86.0), (0.01, -0.03), (4.0, -12.0)] {
        let (learnt, scale) = rmse(units, params());
        let scale = scale.unwrap();
        assert!(
            scale.is_learnt() && (0.6..1.7).contains(&(scale.unit / units.0)),
            "{scale:?}"
        );
        let (_, none) = rmse(units, unspent(params()));
        assert!(none.is_none());
        assert!(learnt < 1.03 * stars, "{units:?}: {learnt}, {stars}");
    }
    // the benefit: without it, noise calibrated for stars on ratings that are hundredths of stars
    let (told_nothing, _) = rmse((0.01, -0.03), unspent(params()));
    assert!(told_nothing > 1.1 * stars, "{told_nothing}, {stars}");
}

#[test]
fn the_range_of_ratings_is_a_matter_of_units() {
    for (taste, dim) in [(0.8, Some(1)), (0.8, Some(3))] {
        let fitted = |units: (f64, f64)| {
            let mut params = FactorizationParams::for_target(target(20.0));
            params.dim = dim;
            let params = params.with_rating_range(units.0 + units.1, 5.0 * units.0 + units.1);
            let data = made(taste, units);
            let model = fit_seeded(&data, params, 5).model;
            let predicted = model.predict_held_out(&data, &data).unwrap();
            predicted
                .into_exposed()
                .into_iter()
                .map(move |(p, _)| (p - units.1) / units.0)
                .collect::<Vec<f64>>()
        };
        let (stars, percent) = (fitted((1.0, 0.0)), fitted((20.0, -15.0)));
        assert_eq!(stars.len(), 37_500);
        let apart = stars
            .iter()
            .zip(&percent)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        assert!(apart < 0.01, "{apart} stars");
    }
}

/// Users follow the item biases by different amounts, and some like popular items: the effects tell
/// users apart where no taste factor is learned, and are not among what is learned.
#[test]
fn global_effects_tell_users_apart_without_taste_factors() {
    let mut rng = ChaCha20Rng::seed_from_u64(21);
    let mut builders = [0, 1].map(|_| InteractionsBuilder::new(60));
    for user in 0..1500_u32 {
        let [slope, popular]: [f64; 2] = [0, 1].map(|_| StandardNormal.sample(&mut rng));
        for at in 0..60_u32 {
            // item i is rated by a user with probability 1 to 1/6, whatever its bias
            let item = (at * 7 + user) % 60;
            let rare = f64::from(item / 10);
            if rng.random_range(0.0..1.0) > (1.0 + rare).recip() {
                continue;
            }
            let h = f64::from(item % 5) / 2.0 - 1.0;
            let noise: f64 = StandardNormal.sample(&mut rng);
            let of_user = 0.6 * slope * h + 0.3 * popular * (1.5 - rare);
            let rating = 3.0 + h + of_user + 0.5 * noise;
            #[allow(clippy::cast_possible_truncation, reason = "ratings are single")]
            builders[usize::from(at % 4 == 0)]
                .push(user, item, rating as f32)
                .unwrap();
        }
    }
    let [own, held_out] = builders.map(|mut builder| {
        builder.ensure_users(1500);
        Private::new(builder.build().0)
    });
    let error = |global_effects: bool| {
        let params = FactorizationParams {
            dim: Some(1),
            global_effects,
            ..FactorizationParams::for_target(target(2.0)).with_rating_range(1.0, 5.0)
        };
        let model = fit_seeded(&own, params, 3).model;
        assert_eq!(model.n_tastes(), 0);
        assert!(model.nearest_items(1).unwrap().iter().all(Vec::is_empty));
        let pairs = model.predict_held_out(&own, &held_out).unwrap();
        let pairs = pairs.expose();
        let squares = pairs
            .iter()
            .map(|(found, true_one)| (found - true_one).powi(2));
        squares.sum::<f64>() / pairs.len() as f64
    };
    // both from the same noise; about 4,600 held-out ratings with noise of variance .25, and what
    // users have of their own has variance .36 * .5 + .09 * 2.2
    let [with, without] = [true, false].map(error);
    assert!(with < 0.8 * without, "{with} {without}");
}
