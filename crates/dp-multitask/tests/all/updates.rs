//! Item updates other than plain sufficient statistics, scores without biases, sampled records.

use dp_accounting::Plan;
use dp_data::{RatingSplit, rmse};
use dp_mechanism::{NoiseSource, ReleasedGrams};
use dp_multitask::{
    Error, FactorModel, FactorizationParams, Fitted, GradientClip, GradientRounds, ItemUpdate,
    LocalBias, Observed, ObservedSums, Observer, PooledMatrices, RecordSampling, ResidualBounds,
    ResidualRounds, Round, Run, ScoreModel, StepSize, Trainer, user_mean_predictions,
};

use crate::support::{self, ADJACENCY, error, pay, target};

pub(crate) const N_ITEMS: usize = 150;

pub(crate) fn ratings() -> RatingSplit {
    support::ratings(1200, N_ITEMS, 60_000)
}

pub(crate) fn params(epsilon: f64, item_update: ItemUpdate) -> FactorizationParams {
    FactorizationParams {
        dim: Some(4),
        item_update,
        ..FactorizationParams::adadpals_for_target(target(epsilon))
    }
}

pub(crate) fn residual(n_statistics_rounds: usize) -> ItemUpdate {
    ItemUpdate::Residual(ResidualRounds {
        n_statistics_rounds,
        ..ResidualRounds::new()
    })
}

pub(crate) fn gradient() -> ItemUpdate {
    ItemUpdate::NoisyGd(GradientRounds::new(1.0, 4))
}

pub(crate) fn pooled(epsilon: f64, item_update: ItemUpdate) -> FactorizationParams {
    FactorizationParams {
        pooled_matrices: Some(PooledMatrices::default()),
        matrix_share: 0.02,
        ..params(epsilon, item_update)
    }
}

/// Counts releases by their labels in the plan.
struct Count(usize);

impl Observer for Count {
    fn release(&mut self, seen: &Observed<'_>) {
        self.0 += if seen.labels[0] == seen.labels[1] {
            1
        } else {
            2
        };
    }
}

pub(crate) fn fit(
    split: &RatingSplit,
    params: FactorizationParams,
) -> (Fitted<FactorModel>, Plan, usize) {
    let mut seen = Count(0);
    let (fitted, plan) = fit_seen(split, params, &mut seen);
    (fitted, plan, seen.0)
}

pub(crate) fn fit_seen(
    split: &RatingSplit,
    params: FactorizationParams,
    see: &mut dyn Observer,
) -> (Fitted<FactorModel>, Plan) {
    let target = target(params.rule_epsilon);
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target, ADJACENCY).unwrap();
    let mut noise = NoiseSource::insecure_seeded(3);
    let run = Run::new(&plan, pay(&plan), &mut noise).unwrap();
    let fitted = fit.run(&split.train, run.observed_by(see)).unwrap();
    (fitted, plan)
}

pub(crate) fn user_mean(split: &RatingSplit) -> f64 {
    let bias = LocalBias {
        center: 3.0,
        shrinkage: 5.0,
    };
    let (train, test) = (split.train.expose(), split.test.expose());
    rmse(user_mean_predictions(train, test, bias)).unwrap()
}

#[test]
fn a_pooled_plan_has_the_weights_once_and_a_small_matrix_a_round() {
    let split = ratings();
    let (_, plan, n_seen) = fit(&split, pooled(5.0, ItemUpdate::Ssp));
    let drawn: Vec<_> = plan
        .releases()
        .iter()
        .map(|r| (r.label(), r.n_draws()))
        .collect();
    let n = N_ITEMS as u64;
    assert_eq!(
        drawn[..4],
        [
            ("item counts", n),
            ("item weights", n),
            ("round 1: pooled matrices", 10),
            ("round 1: item right-hand sides", 4 * n),
        ]
    );
    assert_eq!((drawn.len(), n_seen), (12, 12));
}

#[test]
fn plans_list_what_rounds_release() {
    let split = ratings();
    let short = |label: &str| label.split(": ").last().unwrap().to_owned();
    for (update, n_residual, others) in [
        (gradient(), 5, vec!["item counts", "item weights"]),
        (
            residual(2),
            3,
            vec![
                "item counts",
                "item matrices",
                "item right-hand sides",
                "item matrices",
                "item right-hand sides",
            ],
        ),
    ] {
        let (fitted, plan, n_seen) = fit(&split, params(5.0, update));
        let labels: Vec<_> = plan.releases().iter().map(|r| short(r.label())).collect();
        let (first, last) = labels.split_at(others.len());
        assert_eq!(first, others);
        assert!(last.len() == n_residual && last.iter().all(|l| l == "item residuals"));
        assert_eq!(fitted.certificate.releases.len(), labels.len());
        assert_eq!(n_seen, labels.len(), "a release was not shown");
        assert!(plan.guarantee().epsilon <= 5.0 && plan.guarantee().epsilon > 4.999);
    }
}

/// Factors before and after the only residual round of a run, and the matrices of the previous
/// round.
struct ResidualRound {
    before: Vec<f64>,
    after: Vec<f64>,
    matrices: ReleasedGrams,
}

/// Factors after every round, and the last matrices.
#[derive(Default)]
struct Kept {
    rounds: Vec<Vec<f64>>,
    matrices: Option<ReleasedGrams>,
}

impl Observer for Kept {
    fn release(&mut self, seen: &Observed<'_>) {
        if let ObservedSums::Grams { released, .. } = seen.sums {
            self.matrices = Some(released.clone());
        }
    }

    fn round(&mut self, round: &Round<'_>) {
        self.rounds.push(round.parameters.to_vec());
    }
}

fn last_round(split: &RatingSplit, mut params: FactorizationParams, pull: f64) -> ResidualRound {
    params.item_update = ItemUpdate::Residual(ResidualRounds {
        n_statistics_rounds: params.n_rounds - 1,
        pull,
        ..ResidualRounds::new()
    });
    let mut kept = Kept::default();
    fit_seen(split, params, &mut kept);
    let [.., before, after] = &kept.rounds[..] else {
        panic!("two rounds at least");
    };
    ResidualRound {
        before: before.clone(),
        after: after.clone(),
        matrices: kept.matrices.unwrap(),
    }
}

/// The difference that a pull makes for every item, together with its previous factors, without
/// bias coordinates. Everything else is equal.
fn pulled(
    split: &RatingSplit,
    params: &FactorizationParams,
) -> (Vec<[Vec<f64>; 2]>, ReleasedGrams) {
    let [without, with] = [0.0, 1.0].map(|pull| last_round(split, params.clone(), pull));
    assert_eq!(without.before, with.before);
    let ends = without.after.iter().zip(&with.after);
    let taken: Vec<f64> = ends.map(|(a, b)| a - b).collect();
    let slopes = |rows: &[f64], item: usize| rows[4 * item + 1..][..3].to_vec();
    let items = (0..N_ITEMS).map(|item| [slopes(&with.before, item), slopes(&taken, item)]);
    (items.collect(), with.matrices)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Without biases the last step of a run differs by `d = ridge (A + ridge I)^-1 x`, a part of `x`
/// with `A d = ridge (x - d)`.
#[test]
fn a_pull_draws_every_item_toward_zero_by_its_ridge() {
    let mut plain = params(38.0, ItemUpdate::Ssp);
    plain.score_model = ScoreModel::Plain;
    let (items, matrices) = pulled(&ratings(), &plain);
    let mut systems = Vec::new();
    for (item, [x, d]) in items.iter().enumerate() {
        let along = dot(d, x);
        assert!(along > 0.0 && along < dot(x, x), "item {item}: {along}");
        let (mut matrix, mut rhs) = (vec![0.0; 9], vec![0.0; 3]);
        matrices.write_item(item, &mut matrix, &mut rhs);
        systems.push((matrix[0] + matrix[4] + matrix[8], matrix, x, d));
    }
    // where users outweigh noise the matrix is already semidefinite
    systems.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut ridges = systems.iter().take(20).flat_map(|(_, matrix, x, d)| {
        let rows = matrix.chunks_exact(3).zip(x.iter().zip(*d));
        rows.map(|(row, (x, own))| dot(row, d) / (x - own))
    });
    let first = ridges.next().unwrap();
    assert!(first > 0.0 && ridges.all(|ridge| (ridge / first - 1.0).abs() < 1e-6));
}

#[test]
fn with_little_noise_every_update_nears_sufficient_statistics() {
    let split = ratings();
    let ssp = error(&fit(&split, params(38.0, ItemUpdate::Ssp)).0.model, &split);
    assert!(ssp < user_mean(&split) - 0.1, "{ssp}");
    let mut steps = params(38.0, gradient());
    steps.n_rounds = 20;
    steps.round_growth = 1.0;
    for (name, params) in [
        ("gradient", steps),
        ("residual", params(38.0, residual(2))),
        ("residual after one", params(38.0, residual(1))),
        ("pooled", pooled(38.0, ItemUpdate::Ssp)),
        ("pooled residual", pooled(38.0, residual(2))),
    ] {
        let found = error(&fit(&split, params).0.model, &split);
        assert!(found < ssp + 0.03, "{name}: {found} against {ssp}");
    }
}

#[test]
fn every_round_moves_the_factors_that_it_should() {
    // as many rounds of statistics as rounds: none are left for residuals
    let split = ratings();
    let ssp = fit(&split, params(5.0, ItemUpdate::Ssp)).0.model;
    let all = fit(&split, params(5.0, residual(5))).0.model;
    assert_eq!(ssp.item_factors(), all.item_factors());
    let some = fit(&split, params(5.0, residual(4))).0.model;
    assert_ne!(ssp.item_factors(), some.item_factors());
}
#[test]
fn without_biases_scores_are_the_centre_plus_a_product() {
    let split = ratings();
    for update in [ItemUpdate::Ssp, gradient(), residual(2)] {
        let mut params = params(38.0, update);
        params.score_model = ScoreModel::Plain;
        params.init_stddev = 0.3;
        params.training_penalties.factor = 5.0;
        let model = fit(&split, params).0.model;
        let rows = model.item_factors().chunks_exact(4);
        assert!(rows.clone().all(|row| row[0] == 0.0));
        assert!(rows.clone().any(|row| row[1..].iter().any(|q| *q != 0.0)));
        let personal = model.fold_in(split.train.expose().user(7)).unwrap();
        assert!((personal.offset() - 3.0).abs() < 1e-12);
        let written = serde_json::to_value(model.scoring()).unwrap();
        let again = serde_json::from_value(written).unwrap();
        assert_eq!(*model.scoring(), again);
    }
}

#[test]
fn without_biases_and_with_little_noise_tastes_are_learnt() {
    let split = ratings();
    let mut params = params(38.0, ItemUpdate::Ssp);
    params.score_model = ScoreModel::Plain;
    params.training_penalties.factor = 5.0;
    let found = error(&fit(&split, params).0.model, &split);
    assert!(found < user_mean(&split) - 0.05, "{found}");
}
#[test]
fn sampling_keeps_the_plan_but_tail_sampling_needs_counts() {
    let n_releases = |sampling| {
        let mut params = params(5.0, ItemUpdate::Ssp);
        params.weight_exponent = 0.0;
        params.record_sampling = sampling;
        let fit = params.check().unwrap();
        let plan = fit.plan(N_ITEMS, target(5.0), ADJACENCY).unwrap();
        plan.releases().len()
    };
    let records_per_user = 10;
    assert_eq!(n_releases(RecordSampling::All), 10);
    let seed = 1;
    let uniform = RecordSampling::Uniform {
        records_per_user,
        seed,
    };
    assert_eq!(n_releases(uniform), 10);
    assert_eq!(n_releases(RecordSampling::Tail { records_per_user }), 11);
}

#[test]
fn every_update_leaves_items_outside_the_head_at_zero() {
    let split = ratings();
    for update in [
        ItemUpdate::Ssp,
        ItemUpdate::NoisyGd(GradientRounds::new(1.0, 3)),
        residual(2),
    ] {
        let mut params = params(20.0, update);
        params.weight_exponent = 0.0;
        params.head_fraction = Some(0.2);
        let (fitted, ..) = fit(&split, params);
        let counts = fitted.model.counts().unwrap();
        let mut order: Vec<usize> = (0..N_ITEMS).collect();
        order.sort_by(|&a, &b| counts.values()[b].total_cmp(&counts.values()[a]));
        let dim = fitted.model.dim();
        let rows = fitted.model.item_factors();
        let learnt = |&item: &usize| rows[item * dim..][..dim].iter().any(|x| x.abs() > 0.0);
        let (head, tail) = order.split_at(N_ITEMS / 5);
        assert!(head.iter().all(learnt) && !tail.iter().any(learnt));
    }
}

#[test]
fn settings_survive_serialisation_and_older_ones_are_read() {
    let mut params = params(5.0, residual(2));
    params.record_sampling = RecordSampling::Tail {
        records_per_user: 9,
    };
    let mut json = serde_json::to_value(&params).unwrap();
    assert_eq!(
        serde_json::from_value::<FactorizationParams>(json.clone()).unwrap(),
        params
    );
    for new in [
        "item_update",
        "record_sampling",
        "score_model",
        "pooled_matrices",
    ] {
        json.as_object_mut().unwrap().remove(new);
    }
    let older: FactorizationParams = serde_json::from_value(json).unwrap();
    assert_eq!(older.item_update, ItemUpdate::Ssp);
    assert_eq!(older.record_sampling, RecordSampling::All);
}

#[test]
fn settings_out_of_range_or_against_each_other_are_refused() {
    let gradients = |change: fn(&mut GradientRounds)| {
        let mut settings = GradientRounds::new(1.0, 4);
        change(&mut settings);
        params(5.0, ItemUpdate::NoisyGd(settings))
    };
    let residuals = |change: fn(&mut ResidualRounds)| {
        let mut settings = ResidualRounds::new();
        change(&mut settings);
        params(5.0, ItemUpdate::Residual(settings))
    };
    let records = |sampling| FactorizationParams {
        record_sampling: sampling,
        ..params(5.0, ItemUpdate::Ssp)
    };
    let (records_per_user, seed) = (0, 1);
    let weight_share = 1.0;
    for (name, params) in [
        (
            "weight_share",
            FactorizationParams {
                pooled_matrices: Some(PooledMatrices { weight_share }),
                ..params(5.0, ItemUpdate::Ssp)
            },
        ),
        (
            "residual_bound",
            gradients(|g| g.residual_bound = f64::INFINITY),
        ),
        ("radius", gradients(|g| g.radius = 0.0)),
        ("weight_share", gradients(|g| g.weight_share = 1.0)),
        (
            "convexity",
            gradients(|g| g.step_size = StepSize::StronglyConvex { convexity: 0.0 }),
        ),
        (
            "n_statistics_rounds",
            residuals(|r| r.n_statistics_rounds = 0),
        ),
        ("pull", residuals(|r| r.pull = f64::NAN)),
        (
            "ratio",
            residuals(|r| r.bounds = ResidualBounds::Geometric { ratio: 1.5 }),
        ),
        (
            "records_per_user",
            records(RecordSampling::Tail { records_per_user }),
        ),
        (
            "records_per_user",
            records(RecordSampling::Uniform {
                records_per_user,
                seed,
            }),
        ),
    ] {
        match params.check() {
            Err(Error::Param(error)) => assert_eq!(error.name, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let listed = |n| {
        residuals(|_| {})
            .item_update
            .clone_with(ResidualBounds::Listed {
                values: vec![0.5; n],
            })
    };
    assert!(params(5.0, listed(2)).check().is_ok());
    assert!(matches!(
        params(5.0, listed(3)).check(),
        Err(Error::Shape(_))
    ));

    let implicit = FactorizationParams::implicit_for_target(target(5.0));
    let plain = ScoreModel::Plain;
    let pooled_matrices = Some(PooledMatrices::default());
    for params in [
        FactorizationParams {
            pooled_matrices,
            ..implicit.clone()
        },
        FactorizationParams {
            score_model: plain,
            ..pooled(5.0, ItemUpdate::Ssp)
        },
        pooled(5.0, gradient()),
        FactorizationParams {
            item_update: gradient(),
            ..implicit.clone()
        },
        FactorizationParams {
            dim: Some(1),
            score_model: plain,
            ..implicit
        },
        FactorizationParams {
            dim: Some(1),
            score_model: plain,
            ..params(5.0, ItemUpdate::Ssp)
        },
        FactorizationParams {
            dim: None,
            score_model: plain,
            ..params(5.0, ItemUpdate::Ssp)
        },
    ] {
        assert!(matches!(params.check(), Err(Error::Unsupported { .. })));
    }
}

trait WithBounds {
    fn clone_with(&self, bounds: ResidualBounds) -> ItemUpdate;
}

impl WithBounds for ItemUpdate {
    fn clone_with(&self, bounds: ResidualBounds) -> ItemUpdate {
        match self {
            Self::Residual(settings) => Self::Residual(ResidualRounds {
                bounds,
                clip: GradientClip::PerTask,
                ..settings.clone()
            }),
            other => other.clone(),
        }
    }
}
