//! Are public features of items worth it on real ratings, and what do they know of items that nobody has rated?
//!
//! `cargo run --release -p dp-examples --example features_and_cold_start -- RATINGS ITEMS [CREDITS] [--seeds N] [--epsilons A,B] [--methods A,B] [--part valid]`

mod data;
mod ridge;
mod rounds;

use std::path::Path;
use std::time::Instant;

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, ApproxDp, Interactions, Private};
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, LocalBias};

use dp_pubfeat::{
    AmSspParams, Descent, EncoderDescent, LinearEncoder, Optimiser, ProblemSetup, PublicEncoder,
    StatisticsLearner, UserStep,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use data::{Data, N_BUCKETS};
use rounds::Settings;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USER_MEAN: LocalBias = LocalBias {
    center: 3.5,
    shrinkage: 5.0,
};

/// The rule behind the rows, found on the validation part at epsilon 1, 5 and 20 with one seed.
const fn settings(epsilon: f64) -> Settings {
    let (dim, n_rounds, taste, user_penalty) = match epsilon {
        e if e < 2.0 => (3, 6, 0.5, 5.0),
        e if e < 10.0 => (4, 10, 0.7, 5.0),
        _ => (8, 12, 0.7, 8.0),
    };
    Settings {
        dim,
        n_rounds,
        growth: 1.2,
        weight_share: 0.08,
        memory: 0.8,
        bound: [0.95, 0.95, 0.7],
        taste,
        scale: 0.15,
        l2_penalty: 0.08,
        user_penalty,
        floor: 0.5,
        center: 3.5,
        shrinkage: 5.0,
    }
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str, default: &str| -> String {
        match args.iter().position(|a| a == name) {
            Some(at) if at + 1 < args.len() => {
                args.drain(at..at + 2).next_back().unwrap_or_default()
            }
            _ => default.to_owned(),
        }
    };
    let n_seeds: u64 = flag("--seeds", "3").parse()?;
    let epsilons = flag("--epsilons", "1,5,20");
    let methods = flag(
        "--methods",
        "user-mean,adadpals,pooled,am-ssp,id-only,features",
    );
    let valid = flag("--part", "test") == "valid";
    let path = |at: usize| args.get(at).map(Path::new);
    let data = Data::read(
        path(0).ok_or("no ratings")?,
        path(1).ok_or("no items")?,
        path(2),
    )?;
    let held_out = if valid {
        &data.split.valid
    } else {
        &data.split.test
    };
    let run = Run {
        data: &data,
        held_out: held_out.expose(),
    };
    for epsilon in epsilons.split(',') {
        for method in methods.split(',') {
            let (mut rows, start) = (Vec::new(), Instant::now());
            for seed in 0..n_seeds {
                let mut row =
                    run.measure(method, epsilon.parse()?, &data.split.train, seed, false)?;
                if matches!(method, "features" | "am-ssp" | "user-mean") {
                    row.push(run.measure(method, epsilon.parse()?, &data.known, seed, true)?[0]);
                }
                rows.push(row);
            }
            let seconds = start.elapsed().as_secs_f64() / n_seeds as f64;
            print!("epsilon {epsilon:>3} {method:<10}");
            for at in 0..rows[0].len() {
                let (mean, se) = summary(&rows.iter().map(|r| r[at]).collect::<Vec<_>>());
                let name = match at {
                    0 => "all",
                    at if at > N_BUCKETS => "new items",
                    _ => "",
                };
                print!(" {name} {mean:.4}±{se:.4}");
            }
            println!("  {seconds:.1} s");
        }
    }
    Ok(())
}

struct Run<'a> {
    data: &'a Data,
    held_out: &'a Interactions,
}

impl Run<'_> {
    fn measure(
        &self,
        method: &str,
        epsilon: f64,
        train: &Private<Interactions>,
        seed: u64,
        only_new: bool,
    ) -> Result<Vec<f64>> {
        let target = ApproxDp::target(epsilon, 1e-5)?;
        let users = train.expose();
        match method {
            "user-mean" => self.data.errors(self.held_out, only_new, |user, _| {
                USER_MEAN.center + USER_MEAN.of(users.user(user).values())
            }),
            "adadpals" | "pooled" => {
                let params = if method == "pooled" {
                    FactorizationParams::for_target(target)
                } else {
                    FactorizationParams::adadpals_for_target(target)
                };
                let params = FactorizationParams {
                    init_seed: seed,
                    ..params
                };
                let fit = params.check()?;
                let adjacency = Adjacency::AddRemoveUser;
                let plan = fit.plan(self.data.n_items(), target, adjacency)?;
                let spends = Ledger::in_memory("measurement", Budget::new(target, adjacency)?)?
                    .reserve(&plan)?;
                let noise = &mut NoiseSource::insecure_seeded(seed);
                let model = fit.fit(train, &plan, spends, noise, &mut |_| {})?.model;
                let personal = model.fold_in_all(train)?.into_exposed();
                self.data.errors(self.held_out, only_new, |user, item| {
                    model.predict(&personal[user], item)
                })
            }
            "am-ssp" => {
                let (step, vectors) = am_ssp(self.data, train, target, seed)?;
                let fold_in = |row| step.fold_in(&vectors, AM_DIM, row);
                let personal = users
                    .users()
                    .map(fold_in)
                    .collect::<std::result::Result<Vec<_>, _>>()?;
                let vector = |item: usize| &vectors[item * AM_DIM..][..AM_DIM];
                self.data.errors(self.held_out, only_new, |user, item| {
                    personal[user].predict(vector(item))
                })
            }
            _ => {
                let kernel = data::kernel(self.data, method == "features", only_new);
                let settings = settings(epsilon);
                let model = rounds::fit(&settings, kernel, train, target, seed)?;
                let personal: Vec<_> = users
                    .users()
                    .map(|row| model.fold_in(row, settings.user_penalty))
                    .collect();
                self.data.errors(self.held_out, only_new, |user, item| {
                    model.predict(&personal[user], item)
                })
            }
        }
    }
}

const AM_DIM: usize = 4;

/// `AmSsp` with a matrix for each item and a linear encoder, settings of its own tests: the user step and the item vectors.
fn am_ssp(
    data: &Data,
    train: &Private<Interactions>,
    target: ApproxDp,
    seed: u64,
) -> Result<(UserStep, Vec<f64>)> {
    let user_step = UserStep {
        label_center: 3.5,
        offset_shrinkage: Some(5.0),
        l2_penalty: 5.0,
    };
    let params = AmSspParams {
        setup: ProblemSetup::new(AM_DIM, 1.0),
        user_step,
        n_rounds: 5,
        matrix_share: 0.3,
    };
    let fit = params.check()?;
    let plan = fit.plan(data.n_items(), target, Adjacency::AddRemoveUser)?;
    let budget = Budget::new(target, Adjacency::AddRemoveUser)?;
    let spends = Ledger::in_memory("measurement", budget)?.reserve(&plan)?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let features = data.features.clone().with_unit_rows();
    let mut encoder = LinearEncoder::random(features.into(), AM_DIM, &mut rng)?;
    encoder.parameters_mut().iter_mut().for_each(|t| *t *= 10.0);
    let descent = Descent::new(100, Optimiser::Adam { rate: 0.03 });
    let learner = EncoderDescent::new(encoder, descent, rng)?;
    let noise = &mut NoiseSource::insecure_seeded(seed);
    let fitted = fit.fit(learner, train, &plan, spends, noise)?;
    Ok((user_step, fitted.model.item_vectors()?))
}

/// Mean and its standard error.
fn summary(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|r| (r - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0) / n).sqrt())
}
