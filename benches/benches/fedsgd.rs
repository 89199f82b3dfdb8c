//! Rounds of personalised private SGD, and the updates per second that a server receives.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dp_accounting::{Budget, Ledger};
use dp_core::Adjacency;
use dp_data::PersonalOffsets;
use dp_fedsgd::{
    AdditiveLoss, AdditiveModel, PpSgd, PpSgdParams, Run, Server, StreamedBatches, Trainer,
    UpdateMessage,
};
use dp_mechanism::{NoiseSource, PoissonSampling};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

const N_ROUNDS: usize = 10;

/// Ten rounds, rows drawn afresh.
fn rounds(c: &mut Criterion) {
    let mut group = c.benchmark_group("dp-fedsgd/fit");
    group.sample_size(10);
    for (n_users, dim) in [(200, 100), (1000, 20), (1000, 100)] {
        let set_up = PersonalOffsets {
            n_users,
            dim,
            ..PersonalOffsets::figure_1a()
        };
        let data = set_up
            .generate(&mut ChaCha20Rng::seed_from_u64(1))
            .expect("sizes in range");
        let batches = StreamedBatches::new(&data.table, dim, |user, step, out| {
            data.rows(user, step, 10, out.cells_mut());
        });
        let model = AdditiveModel::new(AdditiveLoss::Squared, dim).expect("features");
        let fit = PpSgdParams::new(1.0, 0.7, 10.0, N_ROUNDS, n_users as f64);
        let fit = fit.check().expect("settings in range");
        group.throughput(Throughput::Elements((N_ROUNDS * n_users) as u64));
        group.bench_function(
            BenchmarkId::from_parameter(format!("{n_users}x{dim}")),
            |b| {
                b.iter(|| {
                    let plan = plan(&fit, dim);
                    let spends = spends(&plan);
                    let noise = &mut NoiseSource::operating_system();
                    fit.with(&model)
                        .fit(&batches, &plan, spends, noise)
                        .expect("a paid fit")
                });
            },
        );
    }
    group.finish();
}

/// One round of a server: checks, sums and releases `N` updates that are in memory.
fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("dp-fedsgd/server");
    group.sample_size(10);
    for (dim, n_clients) in [(100, 10_000), (10_000, 200), (1_000_000, 8)] {
        let all = PoissonSampling::new(1.0).expect("a probability").into();
        let fit = PpSgdParams::new(1.0, 0.7, 10.0, 1, n_clients as f64).sampled(all);
        let fit = fit.check().expect("settings in range");
        group.throughput(Throughput::Elements(n_clients as u64));
        group.bench_function(BenchmarkId::from_parameter(dim), |b| {
            let updates: Vec<_> = (0..n_clients)
                .map(|client| UpdateMessage {
                    run: String::new(),
                    round: 1,
                    client,
                    integers: (0..dim as i64).collect(),
                })
                .collect();
            b.iter_batched(
                || updates.clone(),
                |mut updates| {
                    let plan = plan(&fit, dim);
                    let noise = &mut NoiseSource::operating_system();
                    let run = Run::new(&plan, spends(&plan), noise).expect("a run");
                    let server = Server::new(fit, dim, run);
                    let mut server = server.expect("a paid server");
                    let round = server.open_round(n_clients).expect("entropy");
                    let round = round.expect("a first round");
                    let run = &round.message().run;
                    updates.iter_mut().for_each(|u| u.run.clone_from(run));
                    round.close(updates, &mut |_| {}).expect("entropy")
                },
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn plan(fit: &PpSgd, dim: usize) -> dp_accounting::Plan {
    fit.plan_with_noise(dim, 10.0, 1e-4, Adjacency::AddRemoveUser)
        .expect("a plan")
}

fn spends(plan: &dp_accounting::Plan) -> Vec<dp_accounting::Spend> {
    let budget = Budget::schedule(plan.target(), plan.adjacency()).expect("a budget");
    let ledger = Ledger::in_memory("benchmark", budget);
    ledger
        .and_then(|mut ledger| ledger.reserve(plan))
        .expect("an empty ledger")
}

criterion_group!(benches, rounds, messages);
criterion_main!(benches);
