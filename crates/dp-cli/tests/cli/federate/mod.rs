//! `dp federate`: models that are partly shared and partly personal, with everything private kept
//! separate.

mod hostile;
mod joins;
mod leaf;
mod learns;
mod rated;
mod released;

use std::fmt::Write as _;

use serde_json::Value;

pub(crate) use released::INTERNAL;

use crate::support::{Run, Sandbox, USER};

const N_USERS: usize = 240;
const N_ROWS: usize = 10;
const SHARED: &str = "dp-model/shared.safetensors";
const ALPHAS: [&str; 3] = ["0.0", "1.0", "inf"];

/// Rows of users with six shared slopes, and an individual level and seventh slope.
fn rows(n_users: usize) -> Vec<Vec<([f64; 7], f64)>> {
    let mut state = 5_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / (1_u64 << 23) as f64 - 1.0
    };
    (0..n_users)
        .map(|_| {
            let (level, slope) = (0.8 * uniform(), 0.8 * uniform());
            (0..N_ROWS)
                .map(|_| {
                    let x: [f64; 7] = std::array::from_fn(|_| (1e4 * uniform()).round() / 1e4);
                    let together = 0.3 * (x[0] + x[1] + x[2] - x[3] - x[4] - x[5]);
                    let y = together + level + slope * x[6] + 0.05 * uniform();
                    (x, (1e4 * y).round() / 1e4)
                })
                .collect()
        })
        .collect()
}

fn csv<'a>(users: impl IntoIterator<Item = (usize, &'a Vec<([f64; 7], f64)>)>) -> String {
    let mut text = "user,y,x0,x1,x2,x3,x4,x5,x6\n".to_owned();
    for (user, rows) in users {
        for (x, y) in rows {
            let x: Vec<String> = x.iter().map(ToString::to_string).collect();
            writeln!(text, "{USER}{user},{y},{}", x.join(",")).unwrap();
        }
    }
    text
}

pub(crate) fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", csv(rows(N_USERS).iter().enumerate()));
    sandbox
}

/// `dp federate data.csv` at epsilon 8 with three alphas and 30 rounds, and further arguments.
pub(crate) fn federate(sandbox: &Sandbox, more: &[&str]) -> Run {
    federate_file(sandbox, "data.csv", more)
}

fn federate_file(sandbox: &Sandbox, file: &str, more: &[&str]) -> Run {
    let mut args = vec!["federate", file, "--delta", "1e-5"];
    for (flag, usual) in [
        ("--epsilon", "8"),
        ("--alpha-grid", "0,1,inf"),
        ("--rounds", "30"),
        ("--learning-rate", "0.4"),
    ] {
        if !more.contains(&flag) {
            args.extend([flag, usual]);
        }
    }
    args.extend(more);
    sandbox.dp(&args)
}

/// RMSE for an alpha, with or without noise.
pub(crate) fn figure(json: &Value, alpha: &str, kind: &str) -> f64 {
    let rows = json["internal"]["by_alpha"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["alpha"].to_string().trim_matches('"') == alpha);
    row.unwrap()[kind]["over_rows"].as_f64().unwrap()
}
