//! `dp personalize`: a subspace and its certificate from csv, with everything private kept
//! separate.

mod hostile;
mod inputs;
mod killed;
mod learns;
mod released;

use crate::support::{Run, Sandbox, USER};

const N_USERS: usize = 301;
const N_ROWS: usize = 12;
const SUBSPACE: &str = "dp-model/subspace.safetensors";

/// `user,target,a..f`: targets follow `s_u (a + b - c)`, with an individual slope and level per
/// user.
pub(crate) fn samples(n_users: usize) -> String {
    let mut text = "user,target,a,b,c,d,e,f\n".to_owned();
    let mut state = 1_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / (1_u64 << 23) as f64 - 1.0
    };
    for user in 0..n_users {
        let (slope, level) = (3.0 * uniform(), uniform());
        for _ in 0..N_ROWS {
            let x: Vec<f64> = (0..6).map(|_| uniform()).collect();
            let y = level + slope * (x[0] + x[1] - x[2]) + 0.05 * uniform();
            let cells: Vec<String> = x.iter().map(|x| format!("{x:.4}")).collect();
            text.push_str(&format!("{USER}{user},{y:.4},{}\n", cells.join(",")));
        }
    }
    text
}

pub(crate) fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", samples(N_USERS));
    sandbox
}

/// `dp personalize data.csv` at epsilon 4 with further arguments.
pub(crate) fn personalize(sandbox: &Sandbox, more: &[&str]) -> Run {
    let mut args = vec!["personalize", "data.csv", "--delta", "1e-5"];
    for (flag, usual) in [("--epsilon", "4"), ("--rank", "1")] {
        if !more.contains(&flag) {
            args.extend([flag, usual]);
        }
    }
    args.extend(more);
    sandbox.dp(&args)
}

pub(crate) fn figure(json: &serde_json::Value, users: &str, method: &str) -> f64 {
    let rows = json["internal"][users].as_array().unwrap();
    let row = rows.iter().find(|row| row["method"] == method).unwrap();
    row["over_rows"].as_f64().unwrap()
}
