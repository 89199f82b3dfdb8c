//! Steps of shared subspaces for a growing number of users: Algorithm 2's step, the complete run of
//! the paper and the complete residual refinement.
//!
//! `cargo bench -p dp-benches --features criterion --bench personalize`

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may stop at a broken invariant"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, UserSamples};
use dp_data::SharedSubspace;
use dp_mechanism::NoiseSource;
use dp_personalize::{
    AltMinParams, Initialisation, NonPrivateAltMin, ResidualAltMinParams, Trainer,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .sample_size(10)
        .configure_from_args();
    let mut group = criterion.benchmark_group("personalize");
    for n_users in [5_000, 50_000] {
        let set_up = SharedSubspace {
            n_users,
            ..SharedSubspace::section_6()
        };
        let samples = set_up
            .generate(&mut ChaCha20Rng::seed_from_u64(1))
            .unwrap()
            .samples;
        group.throughput(Throughput::Elements(n_users as u64));
        for (name, run) in runs(&samples) {
            group.bench_function(BenchmarkId::new(name, n_users), |bencher| {
                bencher.iter(&run);
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

fn pay(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
    Ledger::in_memory("made data", budget)
        .unwrap()
        .reserve(plan)
        .unwrap()
}

type Run<'a> = Box<dyn Fn() + 'a>;

fn runs(samples: &UserSamples) -> [(&'static str, Run<'_>); 3] {
    let (target, adjacency) = (
        ApproxDp::target(1.0, 1e-6).unwrap(),
        Adjacency::AddRemoveUser,
    );
    let dim = samples.n_features();
    let paper = AltMinParams::section_6(2);
    let start = NonPrivateAltMin {
        rank: 2,
        n_rounds: 0,
    }
    .fit(samples)
    .unwrap();
    let step = AltMinParams {
        init: Initialisation::Given(start),
        ..paper.clone()
    };
    let alternating = |settings: AltMinParams| -> Run<'_> {
        let fit = settings.check().unwrap();
        let plan = fit.plan(dim, target, adjacency).unwrap();
        Box::new(move || {
            let noise = &mut NoiseSource::operating_system();
            black_box(fit.fit(samples, &plan, pay(&plan), noise).unwrap());
        })
    };
    let best = ResidualAltMinParams::new(2).check().unwrap();
    let plan = best.plan(dim, target, adjacency).unwrap();
    let refinement = Box::new(move || {
        let noise = &mut NoiseSource::operating_system();
        black_box(best.fit(samples, &plan, pay(&plan), noise).unwrap());
    });
    [
        ("step of statistics", alternating(step)),
        ("section 6", alternating(paper)),
        ("refinement", refinement),
    ]
}
