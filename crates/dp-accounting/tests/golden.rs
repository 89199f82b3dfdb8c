//! The shared golden values for compositions of Gaussian mechanisms, each within its own
//! tolerance. They are read from `$DP_GOLDEN` (file or folder) or from `../shared/golden` beside
//! the workspace. Ignored unless asked for, and then a missing file is a failure.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::PathBuf;

use dp_accounting::{GdpAccountant, gdp};
use dp_core::{Adjacency, ApproxDp, DpEvent};
use serde_json::Value;

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

/// Runs `check` on every case of `family`, and asserts that there were `at_least` of them.
fn for_each_case(family: &str, at_least: usize, check: impl Fn(&Value) -> f64) {
    let path = golden_file();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; set DP_GOLDEN to the golden values",
            path.display()
        )
    });
    let file: Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].as_array().unwrap();
    let mut n_cases = 0;
    for case in cases.iter().filter(|case| case["family"] == family) {
        n_cases += 1;
        let (found, expected) = (check(case), number(&case["value"]));
        let tolerance = &case["tolerance"];
        let allowed = number(&tolerance["abs"]).max(number(&tolerance["rel"]) * expected.abs());
        assert!(
            (found - expected).abs() <= allowed,
            "{}: {found} instead of {expected}",
            case["id"]
        );
        // Each of these is an upper bound up to the last digits.
        let floor = expected * (1.0 - 1e-13) - number(&tolerance["abs"]);
        assert!(found >= floor, "{} is too low: {found}", case["id"]);
    }
    assert!(n_cases >= at_least, "{family}: only {n_cases} cases");
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn accountant(case: &Value) -> GdpAccountant {
    let mut accountant = GdpAccountant::new(Adjacency::AddRemoveUser);
    for event in case["events"].as_array().unwrap() {
        assert_eq!(event["mechanism"], "gaussian");
        let z = number(&event["sigma"]) / number(&event["sensitivity"]);
        let count = event["count"].as_u64().unwrap();
        accountant.compose(&DpEvent::gaussian(z), count).unwrap();
    }
    accountant
}

fn epsilon_or_delta(case: &Value) -> f64 {
    let query = &case["query"];
    match query["kind"].as_str().unwrap() {
        "delta_at_epsilon" => accountant(case).delta(number(&query["epsilon"])),
        "epsilon_at_delta" => accountant(case).epsilon(number(&query["delta"])),
        other => panic!("unexpected query {other}"),
    }
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_gaussian_delta() {
    for_each_case("gaussian-delta", 12, epsilon_or_delta);
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_gaussian_epsilon() {
    for_each_case("gaussian-epsilon", 11, epsilon_or_delta);
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_gaussian_hetero() {
    for_each_case("gaussian-hetero", 4, epsilon_or_delta);
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_gaussian_sigma() {
    for_each_case("gaussian-sigma", 7, |case| {
        let query = &case["query"];
        let target = ApproxDp::target(number(&query["epsilon"]), number(&query["delta"])).unwrap();
        let count = case["events"][0]["count"].as_f64().unwrap();
        count.sqrt() / gdp::mu_for(target).unwrap()
    });
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_gaussian_rdp() {
    for_each_case("gaussian-rdp", 3, |case| {
        accountant(case).zcdp().rho * number(&case["query"]["alpha"])
    });
}
