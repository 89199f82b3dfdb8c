//! Do public features of items help on real ratings, and how well do they predict items without
//! ratings?
//!
//! `cargo run --release -p dp-examples --example features_and_cold_start -- RATINGS ITEMS [CREDITS] [--seeds N] [--epsilons A,B] [--methods A,B] [--part valid]`

mod data;
mod methods;

use std::path::Path;
use std::time::Instant;

use dp_core::ApproxDp;

use data::{Data, N_BUCKETS};
use methods::Task;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Methods that are also evaluated on items excluded from training.
const COLD: [&str; 3] = ["features", "am-ssp", "user-mean"];

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
    let all = "user-mean,adadpals,pooled,am-ssp,id-only,id-popularity,no-genres,no-credits,no-popularity,features";
    let methods = flag("--methods", all);
    let valid = flag("--part", "test") == "valid";
    let path = |at: usize| args.get(at).map(Path::new);
    let (ratings, items) = (path(0).ok_or("no ratings")?, path(1).ok_or("no items")?);
    let data = Data::read(ratings, items, path(2))?;
    for epsilon in epsilons.split(',') {
        let target = ApproxDp::target(epsilon.parse()?, 1e-5)?;
        for method in methods.split(',') {
            let (mut rows, start) = (Vec::new(), Instant::now());
            for seed in 0..n_seeds {
                let mut row = measure(&data, method, (target, seed), (valid, false))?;
                if COLD.contains(&method) {
                    row.push(measure(&data, method, (target, seed), (valid, true))?[0]);
                }
                rows.push(row);
            }
            let seconds = start.elapsed().as_secs_f64() / n_seeds as f64;
            println!(
                "epsilon {epsilon:>3} {method:<13}{}  {seconds:.1} s",
                line(&rows)
            );
        }
    }
    Ok(())
}

/// Errors over all held-out ratings and by popularity; with `only_new`, trained without the new
/// items and evaluated on them only.
fn measure(
    data: &Data,
    method: &str,
    (target, seed): (ApproxDp, u64),
    (valid, only_new): (bool, bool),
) -> Result<Vec<f64>> {
    let (split, known) = (&data.split, &data.known);
    let task = Task {
        train: if only_new { known } else { &split.train },
        features: &data.features,
        without_new: only_new,
        target,
        seed,
    };
    let held_out = if valid { &split.valid } else { &split.test };
    let predict = task.predictor(method)?;
    data.errors(held_out.expose(), only_new, predict)
}

/// Means over seeds and their standard errors.
fn line(rows: &[Vec<f64>]) -> String {
    let mut text = String::new();
    for at in 0..rows[0].len() {
        let (mean, se) = summary(&rows.iter().map(|r| r[at]).collect::<Vec<_>>());
        let name = match at {
            0 => "all",
            at if at > N_BUCKETS => "new items",
            _ => "",
        };
        text.push_str(&format!(" {name} {mean:.4}±{se:.4}"));
    }
    text
}

/// Mean and its standard error.
fn summary(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|r| (r - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0) / n).sqrt())
}
