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

use data::{Data, N_BUCKETS};
use rounds::Settings;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USER_MEAN: LocalBias = LocalBias { center: 3.5, shrinkage: 5.0 };

fn settings(epsilon: f64, sets: &[(String, f64)]) -> Settings {
    let tastes = match epsilon {
        e if e < 2.0 => 0,
        e if e < 10.0 => 3,
        _ => 5,
    };
    let mut s = Settings {
        dim: 1 + tastes,
        n_rounds: if tastes == 0 { 4 } else { 8 },
        growth: 1.2,
        weight_share: 0.05,
        memory: 0.8,
        bound: [0.95, 0.95, 0.7],
        taste: 0.7,
        scale: 0.25,
        l2_penalty: 0.08,
        user_penalty: 5.0,
        floor: 0.5,
        center: 3.5,
        shrinkage: 5.0,
    };
    for (name, value) in sets {
        match name.as_str() {
            "dim" => s.dim = *value as usize,
            "rounds" => s.n_rounds = *value as usize,
            "growth" => s.growth = *value,
            "wshare" => s.weight_share = *value,
            "memory" => s.memory = *value,
            "b0" => s.bound[0] = *value,
            "b1" => s.bound[1] = *value,
            "b2" => s.bound[2] = *value,
            "taste" => s.taste = *value,
            "scale" => s.scale = *value,
            "l2" => s.l2_penalty = *value,
            "up" => s.user_penalty = *value,
            "floor" => s.floor = *value,
            "shrink" => s.shrinkage = *value,
            _ => {}
        }
    }
    s
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str, default: &str| -> String {
        match args.iter().position(|a| a == name) {
            Some(at) if at + 1 < args.len() => args.drain(at..at + 2).next_back().unwrap_or_default(),
            _ => default.to_owned(),
        }
    };
    let n_seeds: u64 = flag("--seeds", "3").parse()?;
    let epsilons = flag("--epsilons", "1,5,20");
    let methods = flag("--methods", "user-mean,adadpals,pooled,id-only,features");
    let valid = flag("--part", "test") == "valid";
    let prior = flag("--prior", ".15,.15,.1,.1,.1,.3,.1,.3");
    let prior = prior.split(',').map(str::parse).collect::<std::result::Result<Vec<f64>, _>>()?;
    let cold = flag("--cold", "yes") == "yes";
    let sets: Vec<(String, f64)> = flag("--set", "")
        .split(',')
        .filter_map(|s| s.split_once('='))
        .map(|(n, v)| Ok((n.to_owned(), v.parse()?)))
        .collect::<Result<_>>()?;
    let path = |at: usize| args.get(at).map(Path::new);
    let data = Data::read(path(0).ok_or("no ratings")?, path(1).ok_or("no items")?, path(2))?;
    let held_out = if valid { &data.split.valid } else { &data.split.test };
    let run = Run { data: &data, held_out: held_out.expose(), prior, sets };
    for epsilon in epsilons.split(',') {
        for method in methods.split(',') {
            let (mut rows, start) = (Vec::new(), Instant::now());
            for seed in 0..n_seeds {
                let mut row = run.measure(method, epsilon.parse()?, &data.split.train, seed, false)?;
                if cold && matches!(method, "features" | "user-mean") {
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
    prior: Vec<f64>,
    sets: Vec<(String, f64)>,
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
                let params = FactorizationParams { init_seed: seed, ..params };
                let fit = params.check()?;
                let adjacency = Adjacency::AddRemoveUser;
                let plan = fit.plan(self.data.n_items(), target, adjacency)?;
                let spends = Ledger::in_memory("measurement", Budget::new(target, adjacency)?)?.reserve(&plan)?;
                let noise = &mut NoiseSource::insecure_seeded(seed);
                let model = fit.fit(train, &plan, spends, noise, &mut |_| {})?.model;
                let personal = model.fold_in_all(train)?.into_exposed();
                self.data.errors(self.held_out, only_new, |user, item| model.predict(&personal[user], item))
            }
            _ => {
                let kernel = data::kernel(self.data, method == "features", &self.prior, only_new);
                let settings = settings(epsilon, &self.sets);
                let model = rounds::fit(&settings, kernel, train, target, seed)?;
                let personal: Vec<_> = users.users().map(|row| model.fold_in(row, settings.user_penalty)).collect();
                self.data.errors(self.held_out, only_new, |user, item| model.predict(&personal[user], item))
            }
        }
    }
}

/// Mean and its standard error.
fn summary(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|r| (r - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0) / n).sqrt())
}
