//! How users benefit.

use super::{ALPHAS, federate, figure, sandbox};
use crate::support::words;

#[test]
fn users_who_are_alike_in_part_gain_from_learning_in_part_together() {
    let sandbox = sandbox();
    let json = federate(
        &sandbox,
        &["--insecure-seed", "3", "--json", "--show-internal"],
    );
    let json = json.exits(0).json();
    let [alone, partly, one] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(
        partly < 0.9 * alone && partly < 0.6 * one,
        "{alone} {partly} {one}"
    );
    for alpha in ALPHAS {
        let [noisy, without] = ["private", "no_noise"].map(|kind| figure(&json, alpha, kind));
        assert!(
            (noisy / without - 1.0).abs() < 0.1,
            "{alpha} {noisy} {without}"
        );
    }
    // users fit their own parts around a shared part that was learned for all, which is better here
    // than one that was learned beside personal parts
    assert_eq!(json["alpha"], "inf");
    assert_eq!(
        (&json["n_features"], &json["rounds"]),
        (&7.into(), &30.into())
    );
    let choice = json["internal"]["own_choice"]["over_rows"]
        .as_f64()
        .unwrap();
    let ridge = json["internal"]["own_ridge"]["over_rows"].as_f64().unwrap();
    assert!(choice < ridge, "{choice} {ridge}");
    // a fifth of the rows is used for the comparison: 0.8 of 2400, and each of them is counted once
    let n_rows = json["internal"]["n_rows"].as_u64().unwrap();
    assert!((1800..2150).contains(&n_rows), "{n_rows}");
}

#[test]
fn classes_are_fitted_by_the_logistic_loss() {
    let sandbox = sandbox();
    let args = words("--task classification --threshold 0 --json --show-internal");
    let more = ["--insecure-seed", "1", "--learning-rate", "2"];
    let json = federate(&sandbox, &[&args[..], &more].concat())
        .exits(0)
        .json();
    assert_eq!(json["internal"]["metric"], "accuracy");
    let [alone, partly, _] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(partly > 0.7 && partly > alone, "{alone} {partly}");
    let own = |which: &str| json["internal"][which]["classes"].clone();
    let auc = |which: &str| own(which)["auc"].as_f64().unwrap();
    let [chosen, alone] = ["own_choice", "own_ridge"].map(auc);
    assert!(chosen > 0.8 && chosen > alone - 0.01, "{chosen} {alone}");
    for name in ["mean_user_auc", "log_loss", "recall_yes", "recall_no"] {
        assert!(own("own_choice")[name].is_f64(), "{name}");
    }
    federate(&sandbox, &["--threshold", "0", "--out", "x"]).exits(2);
}

/// Columns in raw units, one of which is a thousand times as large as the others.
fn raw_units(alphas: &str, rate: &str) -> crate::support::Run {
    let sandbox = sandbox();
    let text = sandbox.text("data.csv");
    let line = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        match (cells[1].parse::<f64>(), cells[2].parse::<f64>()) {
            (Ok(y), Ok(x)) => {
                let rest = cells[3..].join(",");
                format!(
                    "{},{},{},{rest}\n",
                    cells[0],
                    40.0 + 20.0 * y,
                    1000.0 + 500.0 * x
                )
            }
            _ => format!("{line}\n"),
        }
    };
    sandbox.write("data.csv", text.lines().map(line).collect::<String>());
    let args = format!(
        "federate data.csv --epsilon 8 --delta 1e-5 --alpha-grid {alphas} --insecure-seed 3 --json --show-internal"
    );
    let run = sandbox.dp(&[words(&args), words(rate)].concat());
    // even for a run that diverged, the release exists with its certificate
    let said = sandbox.dp(&["verify", "dp-model"]).exits(6);
    said.says(&["intact", "seeded noise"]);
    run
}

#[test]
fn columns_without_ranges_converge() {
    let json = raw_units("0.1,1,inf", "").exits(0).json();
    let rmse = |which: &str| json["internal"][which]["over_rows"].as_f64().unwrap();
    assert!(rmse("own_choice") < 1.02 * rmse("own_ridge"));
    for alpha in ["0.1", "1.0", "inf"] {
        for kind in ["private", "no_noise"] {
            assert!(figure(&json, alpha, kind) < 100.0, "{alpha} {kind}");
        }
    }
}

#[test]
fn a_run_that_diverges_names_the_flag_and_keeps_its_certificate() {
    let run = raw_units("inf", "--learning-rate 5").exits(1);
    run.says(&["diverged", "--learning-rate", "certificate"]);
}
