//! The shared golden values that have a privacy loss distribution: every bracket holds the value
//! and is as narrow as measured. Read as `golden.rs` says; ignored unless asked for.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::PathBuf;
use std::time::Instant;

use dp_accounting::{Accountant, PldAccountant};
use dp_core::{Adjacency, DpEvent, Relation};
use serde_json::Value;

const FAMILIES: [&str; 14] = [
    "gaussian-delta",
    "gaussian-epsilon",
    "gaussian-hetero",
    "laplace-delta",
    "laplace-epsilon",
    "laplace-composed",
    "rr-delta",
    "optimal-composition",
    "discrete-laplace-delta",
    "discrete-gaussian-delta",
    "sgm-single",
    "sgm-epsilon",
    "sgm-delta",
    "heterogeneous",
];

/// Widest bracket measured, rounded up: relative to an epsilon or to a delta.
fn widest(family: &str) -> f64 {
    match family {
        "optimal-composition" | "rr-delta" => 1e-9,
        "discrete-laplace-delta" | "discrete-gaussian-delta" => 1e-11,
        "laplace-epsilon" | "laplace-composed" => 5e-6,
        "laplace-delta" => 2e-5,
        "sgm-single" => 3e-3,
        _ => 1e-4,
    }
}

fn golden_file() -> PathBuf {
    let path = std::env::var_os("DP_GOLDEN").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/golden"
            ))
        },
        PathBuf::from,
    );
    if path.is_dir() {
        path.join("accounting.json")
    } else {
        path
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn event(value: &Value, replace: bool) -> DpEvent {
    let get = |name: &str| number(&value[name]);
    let integer = |name: &str| u32::try_from(value[name].as_u64().unwrap()).unwrap();
    match value["mechanism"].as_str().unwrap() {
        "gaussian" => DpEvent::gaussian(get("sigma") / get("sensitivity")),
        "laplace" => DpEvent::laplace(get("scale") / get("sensitivity")),
        "discrete_laplace" => DpEvent::discrete_laplace(get("rate"), integer("sensitivity")),
        "discrete_gaussian" => DpEvent::discrete_gaussian(get("sigma"), integer("sensitivity")),
        "randomized_response" => {
            DpEvent::randomized_response(get("noise_probability"), integer("buckets"))
        }
        "approximate_dp" => DpEvent::approx_dp(
            get("epsilon"),
            get("delta"),
            if replace {
                Relation::Replace
            } else {
                Relation::AddRemove
            },
        ),
        "poisson_subsampled_gaussian" => {
            DpEvent::sampled_gaussian(get("sigma"), get("sampling_probability"))
        }
        other => panic!("unexpected mechanism {other}"),
    }
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_brackets_hold_every_golden_value() {
    let file: Value =
        serde_json::from_str(&std::fs::read_to_string(golden_file()).unwrap()).unwrap();
    let (mut n_cases, mut bad) = (0, Vec::new());
    for case in file["cases"].as_array().unwrap() {
        if !FAMILIES.contains(&case["family"].as_str().unwrap()) {
            continue;
        }
        if std::env::var("PLD_ONLY").is_ok_and(|only| !case["id"].as_str().unwrap().contains(&only))
        {
            continue;
        }
        n_cases += 1;
        let replace = case["neighbour"] == "replace_one";
        let mut accountant = PldAccountant::new(if replace {
            Adjacency::ReplaceUser
        } else {
            Adjacency::AddRemoveUser
        });
        for one in case["events"].as_array().unwrap() {
            let count = one["count"].as_u64().unwrap();
            accountant.compose(&event(one, replace), count).unwrap();
        }
        let query = &case["query"];
        let start = Instant::now();
        let bound = match query["kind"].as_str().unwrap() {
            "delta_at_epsilon" => accountant.delta(number(&query["epsilon"])),
            _ => accountant.epsilon(number(&query["delta"])),
        };
        let seconds = start.elapsed().as_secs_f64();
        let value = number(&case["value"]);
        let slack = value * 2.0 * number(&case["uncertainty_rel"]).max(1e-15) + 1e-300;
        if value < 1e-300 {
            assert!(bound.is_err() || bound.is_ok_and(|b| b.lower <= value + slack));
            continue;
        }
        let Ok(bound) = bound else {
            println!("{} {bound:?}", case["id"]);
            bad.push(case["id"].clone());
            continue;
        };
        let width = (bound.upper - bound.lower) / bound.upper.max(1e-300);
        println!(
            "{} {value:.12e} [{:+.2e}, {:+.2e}] width {width:.1e} {:.1} ms",
            case["id"],
            bound.lower / value - 1.0,
            bound.upper / value - 1.0,
            seconds * 1e3
        );
        let sound = bound.lower <= value + slack && value - slack <= bound.upper;
        if !(sound && width <= widest(case["family"].as_str().unwrap())) {
            bad.push(case["id"].clone());
        }
    }
    assert!(n_cases >= 80, "only {n_cases} cases");
    assert!(bad.is_empty(), "{bad:?}");
}
