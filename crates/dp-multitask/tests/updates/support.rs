//! Fits of made ratings.

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{LongTailRatings, RatingSplit, SplitFractions, rmse};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    FactorModel, FactorizationParams, Fitted, GradientRounds, ItemUpdate, LocalBias, Observed,
    Observer, PooledMatrices, ResidualRounds, Run, Trainer, user_mean_predictions,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

pub(crate) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
pub(crate) const N_ITEMS: usize = 150;

pub(crate) fn target(epsilon: f64) -> ApproxDp {
    ApproxDp::target(epsilon, 1e-5).unwrap()
}

pub(crate) fn ratings() -> RatingSplit {
    LongTailRatings::new(1200, N_ITEMS, 60_000)
        .generate(&mut ChaCha20Rng::seed_from_u64(4))
        .unwrap()
        .split(SplitFractions::default(), 1)
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
    let mut ledger = Ledger::in_memory("test", Budget::new(target, ADJACENCY).unwrap()).unwrap();
    let spends = ledger.reserve(&plan).unwrap();
    let mut noise = NoiseSource::insecure_seeded(3);
    let run = Run::new(&plan, spends, &mut noise).unwrap();
    let fitted = fit.run(&split.train, run.observed_by(see)).unwrap();
    (fitted, plan)
}

pub(crate) fn error(model: &FactorModel, split: &RatingSplit) -> f64 {
    let pairs = model.predict_held_out(&split.train, &split.test).unwrap();
    rmse(pairs.into_exposed()).unwrap()
}

pub(crate) fn user_mean(split: &RatingSplit) -> f64 {
    let bias = LocalBias {
        center: 3.0,
        shrinkage: 5.0,
    };
    let (train, test) = (split.train.expose(), split.test.expose());
    rmse(user_mean_predictions(train, test, bias)).unwrap()
}
