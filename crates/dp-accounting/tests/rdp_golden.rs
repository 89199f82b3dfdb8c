//! The shared golden values for Renyi divergences and zCDP, each within its own tolerance. They are
//! read from `$DP_GOLDEN` (file or folder) or from `../shared/golden` beside the workspace. Ignored
//! unless asked for, and then a missing file is a failure.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::PathBuf;

use dp_accounting::rdp::conversion::{self, Conversion};
use dp_accounting::{Accountant, RdpAccountant, ZcdpAccountant};
use dp_core::{Adjacency, DpEvent, Relation};
use serde_json::Value;

fn golden() -> Value {
    let path = std::env::var_os("DP_GOLDEN").map_or_else(
        || {
            PathBuf::from(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../../shared/golden"
            ))
        },
        PathBuf::from,
    );
    let file = if path.is_dir() {
        path.join("accounting.json")
    } else {
        path
    };
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; set DP_GOLDEN to the golden values",
            file.display()
        )
    });
    serde_json::from_str(&text).unwrap()
}

/// Runs `check` on every case of `family`, asserts that there were `at_least` of them and
/// returns the largest relative error.
fn for_each_case(family: &str, at_least: usize, check: impl Fn(&Value) -> f64) {
    let file = golden();
    let (mut n_cases, mut worst) = (0, 0.0_f64);
    for case in file["cases"].as_array().unwrap() {
        if case["family"] != family {
            continue;
        }
        n_cases += 1;
        let (found, expected) = (check(case), number(&case["value"]));
        let tolerance = &case["tolerance"];
        let allowed = number(&tolerance["abs"]).max(number(&tolerance["rel"]) * expected.abs());
        let error = (found - expected).abs();
        assert!(
            error <= allowed,
            "{}: {found} instead of {expected}",
            case["id"]
        );
        worst = worst.max(error / expected.abs());
    }
    println!("{family}: {n_cases} cases, largest relative error {worst:e}");
    assert!(n_cases >= at_least, "{family}: only {n_cases} cases");
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn event(case: &Value) -> (DpEvent, u64) {
    let event = &case["events"][0];
    let get = |name: &str| number(&event[name]);
    let whole = |name: &str| u32::try_from(event[name].as_u64().unwrap()).unwrap();
    let relation = Relation::AddRemove;
    let resolved = match event["mechanism"].as_str().unwrap() {
        "gaussian" => DpEvent::gaussian(get("sigma") / get("sensitivity")),
        "laplace" => DpEvent::laplace(get("scale") / get("sensitivity")),
        "discrete_laplace" => DpEvent::discrete_laplace(get("rate"), whole("sensitivity")),
        "discrete_gaussian" => DpEvent::discrete_gaussian(get("sigma"), whole("sensitivity")),
        "randomized_response" => {
            DpEvent::randomized_response(get("noise_probability"), whole("buckets"))
        }
        "poisson_subsampled_gaussian" => {
            DpEvent::sampled_gaussian(get("sigma"), get("sampling_probability"))
        }
        "zcdp" => DpEvent::zcdp(get("rho"), relation),
        other => panic!("unexpected mechanism {other}"),
    };
    (resolved, event["count"].as_u64().unwrap())
}

fn adjacency(case: &Value) -> Adjacency {
    match case["neighbour"].as_str().unwrap() {
        "replace_one" => Adjacency::ReplaceRecord,
        _ => Adjacency::AddRemoveRecord,
    }
}

fn rdp(case: &Value) -> f64 {
    let mut accountant = RdpAccountant::new(adjacency(case));
    let (event, count) = event(case);
    accountant.compose(&event, count).unwrap();
    let bound = accountant.rdp(number(&case["query"]["alpha"])).unwrap();
    let truth = number(&case["value"]);
    // The bracket is honest: the reference is inside, up to its own last digit.
    let ulp = 2e-16 * truth;
    assert!(
        bound.lower <= truth + ulp && truth - ulp <= bound.upper,
        "{}: {bound:?}",
        case["id"]
    );
    bound.value
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_renyi_divergences() {
    for (family, at_least) in [
        ("gaussian-rdp", 3),
        ("laplace-rdp", 5),
        ("rr-rdp", 4),
        ("discrete-laplace-rdp", 3),
        ("discrete-gaussian-rdp", 4),
        ("sgm-rdp", 20),
    ] {
        for_each_case(family, at_least, rdp);
    }
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_conversions() {
    for_each_case("rdp-conversion", 7, |case| {
        let (event, query) = (&case["events"][0], &case["query"]);
        let (order, divergence) = (number(&event["alpha"]), number(&event["rdp"]));
        let conversion = match query["formula"].as_str().unwrap() {
            "mironov2017" => Conversion::Mironov2017,
            "cks2020" => Conversion::Cks2020,
            _ => Conversion::Asoodeh2020,
        };
        if query["kind"] == "epsilon_at_delta" {
            let delta = number(&query["delta"]);
            conversion::epsilon(order, divergence, delta, conversion).unwrap()
        } else {
            let epsilon = number(&query["epsilon"]);
            conversion::delta(order, divergence, epsilon, conversion).unwrap()
        }
    });
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_epsilon_on_fixed_orders() {
    let orders: Vec<f64> = golden()["default_orders"]
        .as_array()
        .unwrap()
        .iter()
        .map(number)
        .collect();
    for_each_case("rdp-epsilon-grid", 3, |case| {
        let mut accountant = RdpAccountant::with_orders(adjacency(case), orders.clone()).unwrap();
        let (event, count) = event(case);
        accountant.compose(&event, count).unwrap();
        let epsilon = accountant.epsilon(number(&case["query"]["delta"])).unwrap();
        assert!(epsilon.upper >= number(&case["value"]), "{}", case["id"]);
        let mut free = RdpAccountant::new(adjacency(case));
        free.compose(&event, count).unwrap();
        let better = free.epsilon(number(&case["query"]["delta"])).unwrap();
        assert!(better.upper <= epsilon.upper, "{}", case["id"]);
        epsilon.upper
    });
}

#[test]
#[ignore = "needs the golden values; see CONTRIBUTING.md"]
fn real_data_zcdp() {
    let ask = |case: &Value| {
        let (event, count) = event(case);
        let mut zcdp = ZcdpAccountant::new(adjacency(case));
        let mut rdp = RdpAccountant::new(adjacency(case));
        zcdp.compose(&event, count).unwrap();
        rdp.compose(&event, count).unwrap();
        let query = &case["query"];
        let [one, other] = if query["kind"] == "epsilon_at_delta" {
            let delta = number(&query["delta"]);
            [zcdp.epsilon(delta).unwrap(), rdp.epsilon(delta).unwrap()]
        } else {
            let epsilon = number(&query["epsilon"]);
            [zcdp.delta(epsilon).unwrap(), rdp.delta(epsilon).unwrap()]
        };
        assert!(one.upper >= number(&case["value"]), "{}", case["id"]);
        assert!(
            (other.upper / one.upper - 1.0).abs() < 1e-6,
            "{one:?} {other:?}"
        );
        one.upper
    };
    for_each_case("zcdp-epsilon", 4, ask);
    for_each_case("zcdp-delta", 3, ask);
}
