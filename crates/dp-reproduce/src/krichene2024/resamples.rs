//! `krichene2024-resamples`: figure 4, the number of times that statistics are released at a fixed
//! budget, with the same number of gradient steps.

use rayon::prelude::*;
use serde_json::{Map, json};

use super::super::ReproduceArgs;
use super::super::report::Row;
use super::methods::Method;
use super::set_up::SetUp;
use dp_personal::error::Result;

/// Total number of steps, as in the figure.
const N_STEPS: usize = 16;
const RESAMPLES: [usize; 5] = [1, 2, 4, 8, 16];
const FEATURES: usize = 2000;
/// Distance between the seeds of different repetitions.
const SEED_STRIDE: u64 = 1 << 20;

pub(super) fn rows(args: &ReproduceArgs) -> Result<Vec<Row>> {
    let set_up = SetUp::new(args)?;
    let n_features = match set_up.n_features.as_slice() {
        &[one] => one,
        several if several.contains(&FEATURES) => FEATURES,
        several => several.last().copied().unwrap_or(1),
    };
    let seeds = (0..args.seeds).map(|s| args.seed_base.wrapping_add(s));
    let seeds: Vec<u64> = seeds.collect();
    let cells: Vec<(f64, usize)> = set_up
        .epsilons
        .iter()
        .flat_map(|&epsilon| RESAMPLES.map(|n| (epsilon, n)))
        .collect();
    let measure = |seed: &u64| {
        let made = set_up.make(n_features, None, *seed)?;
        let each = (0..).zip(&cells).map(|(at, &(epsilon, n_resamples))| {
            let method = Method::Resampled {
                n_resamples,
                n_steps: N_STEPS,
            };
            let noise = seed.wrapping_mul(SEED_STRIDE).wrapping_add(at);
            method.risk(&made, epsilon, noise)
        });
        each.collect()
    };
    let by_seed: Vec<Vec<f64>> = seeds.par_iter().map(measure).collect::<Result<_>>()?;
    let rows = cells.iter().enumerate().map(|(at, &(epsilon, n))| {
        let values: Vec<f64> = by_seed.iter().map(|of_seed| of_seed[at]).collect();
        row(n_features, epsilon, n, &values)
    });
    Ok(rows.collect())
}

fn row(n_features: usize, epsilon: f64, n_resamples: usize, risks: &[f64]) -> Row {
    let params = Map::from_iter([
        ("n_features".to_owned(), json!(n_features)),
        ("resamples".to_owned(), json!(n_resamples)),
        ("steps".to_owned(), json!(N_STEPS)),
    ]);
    let method = if n_resamples == 1 { "ssp-c" } else { "ssp-i" };
    let metric = "excess risk per example";
    Row::over_seeds(method, Some(epsilon), params, metric, risks)
}
