//! `dp train`: the JSON object and the meaning of the flags.

use serde_json::Value;

use crate::support::{Sandbox, catalogue};

/// Every key with the keys above it, lists marked with `[]`.
fn keys(value: &Value, path: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let path = format!("{path}.{key}");
                keys(member, path.trim_start_matches('.'), all);
            }
        }
        Value::Array(_) => all.push(format!("{path}[]")),
        _ => all.push(path.to_owned()),
    }
}

#[test]
fn json_is_one_object_with_the_documented_keys() {
    let sandbox = Sandbox::with_ratings();
    let keys_with = |more: &[&str]| {
        let run = sandbox
            .train(&[&["--json", "--force"], more].concat())
            .exits(0);
        let looks = more.contains(&"--show-internal");
        let warning = if looks {
            "warning: no ledger notes that figures"
        } else {
            ""
        };
        assert!(run.stderr.starts_with(warning) && run.stderr.is_empty() != looks);
        let mut found = Vec::new();
        keys(&run.json(), "", &mut found);
        found.sort();
        found
    };
    let found = keys_with(&["--show-internal"]);
    let expected = [
        "dim",
        "internal.metrics.constant_rmse",
        "internal.metrics.test_rmse",
        "internal.metrics.user_mean_rmse",
        "internal.metrics.valid_rmse",
        "internal.n_ratings",
        "internal.n_users",
        "internal.quality.by_activity[]",
        "internal.quality.by_popularity[]",
        "internal.quality.metrics[]",
        "internal.seconds.evaluate",
        "internal.seconds.load",
        "internal.seconds.train",
        "internal_folder",
        "method",
        "n_items",
        "released.adjacency",
        "released.assumptions[]",
        "released.delta",
        "released.epsilon",
        "released.epsilon_replace",
        "released.gdp_mu",
        "released.private",
        "released.rho",
        "released.tuning_included",
        "steps",
        "verdict.baseline",
        "verdict.baseline_value",
        "verdict.gain",
        "verdict.interval[]",
        "verdict.is_released",
        "verdict.metric",
        "verdict.model",
        "verdict.outcome",
    ];
    assert_eq!(found, expected);
    let is_internal = |key: &str| key.starts_with("internal.") || key.starts_with("verdict.");
    let released = expected.iter().filter(|key| !is_internal(key));
    assert_eq!(keys_with(&[]), released.copied().collect::<Vec<_>>());
}

#[test]
fn json_says_what_was_guaranteed() {
    let sandbox = Sandbox::with_ratings();
    let json = sandbox
        .train(&["--json", "--show-internal", "--dim", "3", "--steps", "2"])
        .exits(0)
        .json();
    assert_eq!(json["method"], "pooled");
    assert_eq!(
        (&json["dim"], &json["steps"], &json["n_items"]),
        (&3.into(), &2.into(), &25.into())
    );
    let released = &json["released"];
    assert_eq!(released["private"], true);
    assert_eq!(released["adjacency"], "add-remove-user");
    assert_eq!(released["delta"], 1e-5);
    let number = |key: &str| released[key].as_f64().unwrap();
    assert!(number("epsilon") <= 1.0 && number("epsilon") > 0.9999);
    // mu at (1, 1e-5) is 0.268051107...: bisection on the closed form of delta(mu, epsilon) with
    // 30 digits in mpmath
    assert!((number("gdp_mu") - 0.268_051).abs() < 1e-5);
    assert!((number("rho") - number("gdp_mu").powi(2) / 2.0).abs() < 1e-9);
    assert!(number("epsilon_replace") > 1.5 * number("epsilon"));
    assert_eq!(json["internal"]["n_users"], 40);
    assert_eq!(json["internal"]["n_ratings"], 400);
}

#[test]
fn a_declared_catalogue_and_a_ledger_change_what_is_assumed() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", catalogue(30));
    let assumed = |args: &[&str]| {
        let json = sandbox
            .train(&[args, &["--json", "--force"]].concat())
            .exits(0)
            .json();
        (
            json["released"]["assumptions"].to_string(),
            json["n_items"].clone(),
        )
    };
    let (plain, n_items) = assumed(&[]);
    assert!(plain.contains("item ids of the input are public") && n_items == 25);
    assert!(plain.contains("no ledger: the guarantee is that of this run alone"));
    let (declared, n_items) = assumed(&["--items", "items.csv"]);
    assert!(!declared.contains("item ids") && n_items == 30);
    let (counted, _) = assumed(&["--ledger", "l.ledger"]);
    assert!(!counted.contains("no ledger") && counted.contains("same ledger file"));
}

#[test]
fn without_a_split_all_ratings_train_and_no_accuracy_is_reported() {
    let sandbox = Sandbox::with_ratings();
    let json = sandbox
        .train(&["--json", "--show-internal", "--no-split"])
        .exits(0)
        .json();
    for metric in ["valid_rmse", "test_rmse", "constant_rmse", "user_mean_rmse"] {
        assert!(json["internal"]["metrics"][metric].is_null(), "{metric}");
    }
    let run = sandbox
        .train(&["--no-split", "--force", "--show-internal"])
        .exits(0);
    run.prints(&["nothing held out"]);
    sandbox
        .train(&["--no-split", "--split-seed", "3", "--force"])
        .exits(2);
}

#[test]
fn the_split_seed_decides_what_is_held_out() {
    let sandbox = Sandbox::with_ratings();
    let constant = |seed: &str| {
        let args = [
            "--json",
            "--show-internal",
            "--force",
            "--insecure-seed",
            "1",
            "--split-seed",
            seed,
        ];
        let json = sandbox.train(&args).exits(0).json();
        json["internal"]["metrics"]["constant_rmse"]
            .as_f64()
            .unwrap()
    };
    let first = constant("0").to_bits();
    assert_eq!(constant("0").to_bits(), first);
    assert_ne!(constant("1").to_bits(), first);
}

#[test]
fn weights_without_exponent_release_no_counts() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--weight-exponent", "0", "--steps", "2"])
        .exits(0);
    let certificate = sandbox.value("dp-model/certificate.json");
    let labels: Vec<_> = certificate["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|release| release["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels.len(), 5);
    assert!(
        !labels.iter().any(|label| label.contains("counts")),
        "{labels:?}"
    );
    let report = sandbox.text("dp-model/report.md");
    assert!(!report.contains("Released counts"));
}

#[test]
fn epsilon_is_met_from_very_small_to_very_large() {
    let sandbox = Sandbox::with_ratings();
    for epsilon in ["1e-6", "0.1", "1", "10", "40"] {
        let args = ["--delta", "1e-5", "--epsilon", epsilon, "--json", "--force"];
        let json = sandbox
            .dp(&[&["train", "ratings.csv"], args.as_slice()].concat())
            .exits(0)
            .json();
        let asked: f64 = epsilon.parse().unwrap();
        let met = json["released"]["epsilon"].as_f64().unwrap();
        assert!(met <= asked && met > 0.9999 * asked, "{met} for {asked}");
        sandbox.dp(&["verify", "dp-model"]).exits(0);
    }
}
