//! Small data sets, paid plans, and records of what an observer saw.

use std::sync::Arc;

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private};
use dp_data::{PublicFeatureData, PublicFeatureTask};
use dp_pubfeat::{
    AmSsp, AmSspParams, ClientPolicy, ClientRecord, DpSgdParams, FeatureKernel, Fitted,
    ItemFeatures, ItemFeaturesBuilder, KernelRidge, NoiseSource, Observed, ObservedSums, Observer,
    Optimiser, ProblemSetup, RidgeNoise, Run, SampledSspParams, Trainer, UserStep,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

pub(crate) const DIM: usize = 3;
pub(crate) const N_ITEMS: usize = 12;
pub(crate) const ADD_REMOVE: Adjacency = Adjacency::AddRemoveUser;

pub(crate) fn target() -> ApproxDp {
    ApproxDp::target(3.0, 1e-5).unwrap()
}

/// Number, vector and records.
type OneUser = (u32, [f32; DIM], Vec<(u32, f32)>);

/// Users with 5 of 12 items each; user 2 is hostile, user 3 has no items.
fn users(n_users: u32) -> impl Iterator<Item = OneUser> {
    (0..n_users).map(|user| {
        let k = user as f32;
        let vector = match user {
            2 => [f32::MAX, -f32::MAX, 1e30],
            _ => [(k * 0.7).sin(), (k * 1.3).cos(), 0.4],
        };
        let records = (0..if user == 3 { 0 } else { 5 }).map(|i| {
            let item = (user * 3 + i * (1 + user % 3)) % N_ITEMS as u32;
            let y = if user == 2 {
                f32::MAX
            } else {
                (k + i as f32).sin()
            };
            (item, y)
        });
        (user, vector, records.collect())
    })
}

pub(crate) fn table(n_users: u32, without: Option<u32>) -> Private<Interactions> {
    let mut out = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    for (user, vector, records) in users(n_users) {
        if Some(user) != without {
            out.set_features(user, &vector).unwrap();
            for (item, y) in records {
                out.push(user, item, y).unwrap();
            }
        }
    }
    Private::new(out.build().0)
}

pub(crate) fn setup() -> ProblemSetup {
    ProblemSetup {
        label_norm: 0.7,
        ..ProblemSetup::new(DIM, 1.0)
    }
}

pub(crate) fn features() -> Arc<ItemFeatures> {
    let mut builder = ItemFeaturesBuilder::new(N_ITEMS, &[4, 6]).unwrap();
    for item in 0..N_ITEMS as u32 {
        builder.push(item, item % 4, 1.0).unwrap();
        builder.push(item, 4 + item % 6, 2.0).unwrap();
        builder.push(item, 4 + (item + 1) % 6, 1.0).unwrap();
    }
    builder.build().into()
}

pub(crate) fn kernel() -> FeatureKernel {
    FeatureKernel::new(&features(), 0.1).unwrap()
}

pub(crate) fn ridge() -> KernelRidge {
    let noise = RidgeNoise::FromRelease { item_norm: 1.0 };
    KernelRidge::new(kernel(), DIM, noise, 0.0).unwrap()
}

pub(crate) fn pay(plan: &Plan) -> Vec<Spend> {
    let gaussian = plan.mu_squared().is_ok();
    let (target, adjacency) = (plan.target(), plan.adjacency());
    let budget = if gaussian {
        Budget::new(target, adjacency)
    } else {
        Budget::schedule(target, adjacency)
    };
    let mut ledger = Ledger::in_memory("test", budget.unwrap()).unwrap();
    ledger.reserve(plan).unwrap()
}

/// A client's record that refuses nothing except repeats.
pub(crate) fn trusting() -> ClientRecord {
    ClientRecord::in_memory(ClientPolicy::trusting()).unwrap()
}

/// A run that pays for its own plan, with real noise.
pub(crate) fn fit<T>(
    trainer: &T,
    data: &T::Data,
    adjacency: Adjacency,
) -> dp_pubfeat::Result<Fitted<T::Model>>
where
    T: Trainer<Error = dp_pubfeat::Error>,
{
    let plan = trainer.plan(trainer.width(data), target(), adjacency)?;
    let noise = &mut NoiseSource::operating_system();
    trainer.fit(data, &plan, pay(&plan), noise)
}

struct ShowTo<F>(F);

impl<F: FnMut(&Observed<'_>)> Observer for ShowTo<F> {
    fn release(&mut self, seen: &Observed<'_>) {
        (self.0)(seen);
    }
}

/// A run that shows each release to `look`.
pub(crate) fn observed<T>(
    trainer: &T,
    data: &T::Data,
    plan: &Plan,
    noise: &mut NoiseSource,
    look: impl FnMut(&Observed<'_>),
) -> dp_pubfeat::Result<Fitted<T::Model>>
where
    T: Trainer<Error = dp_pubfeat::Error>,
{
    let mut look = ShowTo(look);
    let run = Run::new(plan, pay(plan), noise)?.observed_by(&mut look);
    trainer.run(data, run)
}

/// All releases on a table, with repeatable noise.
pub(crate) fn releases<T>(trainer: &T, data: &T::Data) -> Vec<Seen>
where
    T: Trainer<Error = dp_pubfeat::Error>,
{
    let plan = trainer.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let (mut seen, noise) = (Vec::new(), &mut NoiseSource::insecure_seeded(4));
    observed(trainer, data, &plan, noise, |o| seen.extend(look(o))).unwrap();
    seen
}

/// Released integers of one sum and its bound, and which coordinates are off-diagonal, which count
/// twice.
pub(crate) struct Seen {
    pub(crate) label: String,
    pub(crate) integers: Vec<i64>,
    pub(crate) twice: Vec<bool>,
    pub(crate) l2_bound: u64,
}

impl Seen {
    /// Squared norm of the difference, off-diagonals counted twice.
    pub(crate) fn squared_distance(&self, other: &Self) -> u128 {
        let each = self.integers.iter().zip(&other.integers).zip(&self.twice);
        each.map(|((a, b), &twice)| {
            let square = u128::from(a.abs_diff(*b)).pow(2);
            if twice { 2 * square } else { square }
        })
        .sum()
    }
}

/// What an observer sees of one release.
pub(crate) fn look(observed: &Observed<'_>) -> Vec<Seen> {
    let label = |k: usize| observed.labels[k].to_owned();
    match observed.sums {
        ObservedSums::Vector { grid, released, .. } => vec![Seen {
            label: label(0),
            integers: released.integers().to_vec(),
            twice: vec![false; released.len()],
            l2_bound: grid.l2_bound(),
        }],
        ObservedSums::Grams {
            grids, released, ..
        } => {
            let triangle = (0..DIM).flat_map(|a| (a..DIM).map(move |b| a != b));
            let n = released.matrix_integers().len();
            vec![
                Seen {
                    label: label(0),
                    integers: released.matrix_integers().to_vec(),
                    twice: triangle
                        .collect::<Vec<_>>()
                        .repeat(n / (DIM * (DIM + 1) / 2)),
                    l2_bound: grids.matrix().l2_bound(),
                },
                Seen {
                    label: label(1),
                    integers: released.rhs_integers().to_vec(),
                    twice: vec![false; released.rhs_integers().len()],
                    l2_bound: grids.rhs().l2_bound(),
                },
            ]
        }
        ObservedSums::Triangle { .. } => unreachable!("no such release in this crate"),
    }
}

/// A generated task with its kernel.
pub(crate) fn made(
    set_up: PublicFeatureTask,
    seed: u64,
) -> (PublicFeatureData, FeatureKernel, Arc<ItemFeatures>) {
    let made = set_up
        .generate(&mut ChaCha20Rng::seed_from_u64(seed))
        .unwrap();
    let mut builder = ItemFeaturesBuilder::new(set_up.n_items, &[set_up.n_features]).unwrap();
    for &(item, feature) in &made.features {
        builder.push(item, feature, 1.0).unwrap();
    }
    let features = builder.build().with_unit_rows();
    let kernel = FeatureKernel::new(&features, 0.0).unwrap();
    (made, kernel, features.into())
}

pub(crate) fn sampled() -> dp_pubfeat::SampledSsp {
    let params = SampledSspParams {
        setup: setup(),
        matrix_share: 0.4,
        n_steps: 4,
        sampling_probability: 0.25,
    };
    params.check().unwrap()
}

pub(crate) fn sgd() -> dp_pubfeat::DpSgd {
    let params = DpSgdParams {
        setup: setup(),
        n_steps: 4,
        sampling_probability: 0.25,
        gradient_norm: 0.5,
        optimiser: Optimiser::Adam { rate: 0.01 },
    };
    params.check().unwrap()
}

pub(crate) fn am_ssp(setup: ProblemSetup, n_rounds: usize) -> AmSsp {
    let params = AmSspParams {
        setup,
        user_step: UserStep {
            label_center: 0.2,
            offset_shrinkage: Some(3.0),
            l2_penalty: 0.05,
        },
        n_rounds,
        matrix_share: 0.5,
    };
    params.check().unwrap()
}
