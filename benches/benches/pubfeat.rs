//! Item vectors from public features, in the set-up of `dp-reproduce krichene2024-synthetic` with
//! 2000 features and a growing number of users: statistics of all items released once, 60 steps on
//! the item vectors after that, and the residual form with its pooled matrix.
//!
//! `cargo bench -p dp-benches --features criterion --bench pubfeat`

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may stop at a broken invariant"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private};
use dp_data::PublicFeatureTask;
use dp_mechanism::{NoiseSource, Trainer};
use dp_pubfeat::{
    FeatureKernel, ItemFeaturesBuilder, ItemStatistics, KernelRidge, ProblemSetup,
    ResidualSspParams, RidgeNoise, SspParams, StatisticsLearner, ValueDescent, ValueDescentParams,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const N_FEATURES: usize = 2000;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(10)
        .configure_from_args();
    let mut group = criterion.benchmark_group("pubfeat");
    for n_users in [5_000, 50_000] {
        let (data, kernel) = made(n_users);
        let dim = data.expose().feature_dim();
        group.throughput(Throughput::Elements(data.expose().n_records() as u64));
        group.bench_function(BenchmarkId::new("statistics", n_users), |bencher| {
            bencher.iter(|| black_box(statistics(&data)));
        });
        let released = statistics(&data);
        let params = ValueDescentParams::new(60);
        group.bench_function(BenchmarkId::new("60 steps", n_users), |bencher| {
            bencher.iter_batched(
                || ValueDescent::new(kernel.clone(), dim, params).unwrap(),
                |mut learner| {
                    learner.learn(&released).unwrap();
                    learner
                },
                BatchSize::LargeInput,
            );
        });
        group.bench_function(BenchmarkId::new("residual form", n_users), |bencher| {
            bencher.iter(|| black_box(residual(&data, &kernel)));
        });
    }
    group.finish();
    criterion.final_summary();
}

fn made(n_users: usize) -> (Private<Interactions>, FeatureKernel) {
    let task = PublicFeatureTask {
        n_users,
        ..PublicFeatureTask::new(N_FEATURES)
    };
    let made = task.generate(&mut ChaCha20Rng::seed_from_u64(1)).unwrap();
    let mut features = ItemFeaturesBuilder::new(task.n_items, &[N_FEATURES]).unwrap();
    for &(item, feature) in &made.features {
        features.push(item, feature, 1.0).unwrap();
    }
    let kernel = FeatureKernel::new(&features.build().with_unit_rows(), 0.0).unwrap();
    (made.examples, kernel)
}

fn target() -> ApproxDp {
    ApproxDp::target(5.0, 1e-5).unwrap()
}

fn pay(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
    Ledger::in_memory("made data", budget)
        .unwrap()
        .reserve(plan)
        .unwrap()
}

fn setup(dim: usize) -> ProblemSetup {
    ProblemSetup {
        label_norm: 0.4,
        ..ProblemSetup::new(dim, 2.0)
    }
}

/// From user data to noisy matrices and right-hand sides.
fn statistics(data: &Private<Interactions>) -> ItemStatistics {
    let (n_items, dim) = (data.expose().n_items(), data.expose().feature_dim());
    let ssp = SspParams::new(setup(dim)).check().unwrap();
    let plan = ssp
        .plan(n_items, target(), Adjacency::AddRemoveUser)
        .unwrap();
    let noise = &mut NoiseSource::operating_system();
    let fitted = ssp.fit(data, &plan, pay(&plan), noise).unwrap();
    fitted.model.into_iter().next().unwrap()
}

/// Six steps with the closed form.
fn residual(data: &Private<Interactions>, kernel: &FeatureKernel) -> Vec<f64> {
    let (n_items, dim) = (data.expose().n_items(), data.expose().feature_dim());
    let fit = ResidualSspParams::new(setup(dim), 6, 0.4, 0.11);
    let fit = fit.check().unwrap();
    let plan = fit
        .plan(n_items, target(), Adjacency::AddRemoveUser)
        .unwrap();
    let known = RidgeNoise::FromRelease { item_norm: 1.0 };
    let learner = KernelRidge::new(kernel.clone(), dim, known, 0.0127).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let fitted = fit
        .with(learner)
        .fit(data, &plan, pay(&plan), noise)
        .unwrap();
    fitted.model.item_vectors().unwrap()
}
