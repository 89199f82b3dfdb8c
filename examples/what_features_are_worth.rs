//! How close do private item vectors come to the true ones when items have public features?
//!
//! `cargo run --release -p dp-examples --example what_features_are_worth -- [N_FEATURES [EPSILON]]`
//!
//! Excess risk per example, `<u, v^ - v>^2 / 2`, of statistics released once and of residual steps
//! around the current vectors, both with the closed form of a linear encoder. For all methods, at
//! all sizes, with seeds, see `dp-reproduce krichene2024-synthetic`.

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp};
use dp_data::PublicFeatureTask;
use dp_mechanism::{NoiseSource, Trainer};
use dp_pubfeat::{
    FeatureKernel, ItemFeaturesBuilder, KernelRidge, ProblemSetup, ResidualSspParams, RidgeNoise,
    SspParams, StatisticsLearner,
};

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

/// A separate budget for each of the two, as if it were the only one.
fn pay(plan: &Plan) -> Result<Vec<Spend>> {
    let budget = Budget::new(plan.target(), ADJACENCY)?;
    Ok(Ledger::in_memory("made data", budget)?.reserve(plan)?)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let n_features = args.next().map_or(Ok(2000), |text| text.parse())?;
    let epsilon = args.next().map_or(Ok(5.0), |text| text.parse())?;

    // 5,000 users with 40 of 500 items each; an item has 10 of the features
    let task = PublicFeatureTask::new(n_features);
    let made = task.generate(&mut ChaCha20Rng::seed_from_u64(1))?;
    let mut features = ItemFeaturesBuilder::new(task.n_items, &[n_features])?;
    for &(item, feature) in &made.features {
        features.push(item, feature, 1.0)?;
    }
    let kernel = FeatureKernel::new(&features.build().with_unit_rows(), 0.0)?;
    let noise_known = RidgeNoise::FromRelease { item_norm: 1.0 };
    let ridge = |l2_penalty| KernelRidge::new(kernel.clone(), task.dim, noise_known, l2_penalty);

    let target = ApproxDp::target(epsilon, 1e-5)?;
    let mut setup = ProblemSetup::new(task.dim, 2.0); // labels above 2 are clipped
    setup.label_norm = 0.4; // bound on the norm of all labels of a user: most of the noise is proportional to it
    let (data, noise) = (&made.examples, &mut NoiseSource::operating_system());

    let nothing = made.excess_risk(&vec![0.0; task.n_items * task.dim]);
    println!("all vectors 0    {nothing:.5}");

    let once = SspParams::new(setup.clone()).check()?;
    let plan = once.plan(task.n_items, target, ADJACENCY)?;
    let fitted = once
        .with(ridge(0.0)?)
        .fit(data, &plan, pay(&plan)?, noise)?;
    let risk = made.excess_risk(&fitted.model.item_vectors()?);
    println!("released once    {risk:.5}");

    // six steps; the bound on a user's residuals falls from that of labels to that of their noise
    let steps = ResidualSspParams::new(setup, 6, 0.4, 0.11).check()?;
    let plan = steps.plan(task.n_items, target, ADJACENCY)?;
    let fitted = steps
        .with(ridge(0.0127)?)
        .fit(data, &plan, pay(&plan)?, noise)?;
    let risk = made.excess_risk(&fitted.model.item_vectors()?);
    println!("residual steps   {risk:.5}");
    Ok(())
}
