//! Whole runs of personalised private SGD: L3 with all users in every round, L2 on samples, L4 in
//! every round.

mod everybody;
mod rounds;
mod samples;
mod server;

use dp_accounting::Plan;
use dp_audit::{AuditedTrainer, PpSgdOracle, SgdRun};
use dp_core::{Adjacency, InteractionsBuilder, UserSamples, UserSamplesBuilder};
use dp_fedsgd::{AdditiveLoss, AdditiveModel, PpSgdParams, PpSgdTrainer};
use dp_mechanism::NoiseSource;

const MAX_ROWS: usize = 4;
/// Rows of a step.
const BATCH: usize = 2;
/// Features that the ordinary users have.
const COMMON: usize = 5;
const N_ORDINARY: usize = 20;
const DELTA: f64 = 1e-5;
/// The label of canaries: after all steps of a run still far beyond any clip.
const FAR: f32 = 1e6;

type Rows = Vec<(Vec<f32>, f32)>;

fn built(n_features: usize, users: impl Iterator<Item = Rows>) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(n_features, MAX_ROWS).unwrap();
    for (user, rows) in (0..).zip(users) {
        builder
            .push(user, &vec![f32::NAN; n_features], 0.0)
            .unwrap(); // makes the user known even without rows
        for (x, y) in rows {
            builder.push(user, &x, y).unwrap();
        }
    }
    builder.build().0
}

/// An ordinary user by number: with different numbers of rows, some with gradients beyond a clip
/// of 1.
fn ordinary(dim: usize, user: usize) -> Rows {
    let wave = |at: usize| (at as f32 * 1.7).sin();
    let row = |r: usize| {
        let mut x = vec![0.0; dim];
        (0..COMMON).for_each(|c| x[c] = wave(user * 31 + r * 7 + c));
        (x, 2.0 * wave(user + r * 3))
    };
    (0..1 + user % MAX_ROWS).map(row).collect()
}

/// A user whose rows lie along a separate axis.
fn alone(dim: usize, axis: usize, label: f32) -> Rows {
    let mut x = vec![0.0; dim];
    x[axis] = 3.0;
    vec![(x, label); MAX_ROWS]
}

type Audited =
    AuditedTrainer<PpSgdTrainer<'static, AdditiveModel>, PpSgdOracle<'static, AdditiveModel>>;

/// A fit and its oracle. The model is small and is leaked for the rest of the test.
fn audited(params: PpSgdParams, dim: usize, plan: Plan) -> Audited {
    let model = AdditiveModel::new(AdditiveLoss::Squared, dim).unwrap();
    let (fit, model) = (params.check().unwrap(), Box::leak(Box::new(model)));
    Audited::on_batches(fit, model, plan, (MAX_ROWS, BATCH))
}

/// A run without canaries, and the messages to its clients.
fn run(trainer: &Audited, data: &UserSamples, noise: &mut NoiseSource) -> SgdRun {
    let nobody = InteractionsBuilder::new(1).build().0;
    let (_, views) = trainer.run(data.table(), &nobody, noise).unwrap();
    trainer.oracle().read(&views).unwrap()
}

fn plan(params: PpSgdParams, dim: usize, z: f64, delta: f64, adjacency: Adjacency) -> Plan {
    let fit = params.check().unwrap();
    fit.plan_with_noise(dim, z, delta, adjacency).unwrap()
}
