//! `dp evaluate`: metrics of a model on unseen ratings.

use serde_json::Value;

use crate::support::{Sandbox, USER, names_in, ratings, words};

fn evaluate(sandbox: &Sandbox, more: &[&str]) -> Value {
    let args = [
        &[
            "evaluate",
            "ratings.csv",
            "--model",
            "dp-model",
            "--json",
            "--show-internal",
        ],
        more,
    ]
    .concat();
    sandbox.dp(&args).exits(0).json()
}

fn figure(json: &Value, method: &str, metric: &str) -> f64 {
    let rows = json["internal"]["overall"].as_array().unwrap();
    let row = rows.iter().find(|row| row["method"] == method).unwrap();
    row[metric].as_f64().unwrap()
}

#[test]
fn the_figures_are_those_of_the_run_on_the_same_split() {
    let sandbox = Sandbox::with_ratings();
    for seed in ["0", "3"] {
        let args = ["--split-seed", seed];
        let run = sandbox
            .train(&[&["--json", "--show-internal", "--force"], &args[..]].concat())
            .exits(0)
            .json();
        // the run records how it split the data
        let found = evaluate(&sandbox, &[]);
        assert_eq!(found, evaluate(&sandbox, &args));
        for (method, metric) in [
            ("model", "test_rmse"),
            ("user-mean", "user_mean_rmse"),
            ("constant", "constant_rmse"),
        ] {
            let expected = run["internal"]["metrics"][metric].as_f64().unwrap();
            let found = figure(&found, method, "rmse");
            assert!(
                (found - expected).abs() < 1e-12,
                "{method}: {found}, {expected}"
            );
        }
        assert_eq!(found["released"], run["released"]);
        check_intervals(&found, &run);
    }
}

/// The model's metrics in the evaluation equal those of the run, including intervals over users and
/// groups.
fn check_intervals(found: &Value, run: &Value) {
    let rows = |of: &Value, table: &str| -> Vec<Value> {
        let rows = of["internal"]["quality"][table].as_array().unwrap().iter();
        rows.filter(|row| row["method"] == "model")
            .cloned()
            .collect()
    };
    let metrics = rows(found, "metrics");
    assert!(metrics.len() >= 2);
    // all items may occur in some list, which leaves no variation for coverage
    for row in &metrics[..2] {
        let end = |of: &str| row["estimate"][of].as_f64().unwrap();
        assert!(
            end("lower") < end("value") && end("value") < end("upper"),
            "{row}"
        );
    }
    assert_eq!(metrics, rows(run, "metrics"));
    assert_eq!(rows(found, "by_activity"), rows(run, "by_activity"));
    assert_eq!(rows(found, "by_popularity"), rows(run, "by_popularity"));
}

#[test]
fn implicit_feedback_is_measured_by_recall_as_in_the_run() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(120, 60, 12));
    let args = [
        "--feedback",
        "implicit",
        "--min-rating",
        "3",
        "--json",
        "--show-internal",
    ];
    let run = sandbox.train(&args).exits(0).json();
    let found = evaluate(&sandbox, &[]);
    assert_eq!(found, evaluate(&sandbox, &["--min-rating", "3"]));
    assert_eq!(found["internal"]["feedback"], "implicit");
    for (ours, runs) in [
        ("recall_at_20", "test_recall_at_20"),
        ("ndcg_at_20", "test_ndcg_at_20"),
    ] {
        let expected = run["internal"]["metrics"][runs].as_f64().unwrap();
        assert!((figure(&found, "model", ours) - expected).abs() < 1e-12);
    }
    check_intervals(&found, &run);
    let text = "evaluate ratings.csv --model dp-model --show-internal --no-ledger";
    let text = sandbox.dp(&words(text)).exits(0);
    text.prints(&["95 % interval", "gain over popularity", "coverage of items"]);
    let buckets = found["internal"]["by_popularity"].as_array().unwrap();
    let ks: Vec<u64> = buckets.iter().map(|b| b["k"].as_u64().unwrap()).collect();
    assert_eq!(ks, [100, 80, 60, 40, 20]);
    assert!(found["internal"]["overall"][1]["method"] == "popularity");
    let beside = evaluate(&sandbox, &["--non-private"]);
    for metric in ["recall_at_20", "ndcg_at_20"] {
        let model = figure(&beside, "model", metric);
        assert!((model - figure(&found, "model", metric)).abs() < 1e-12);
        let exact = figure(&beside, "non-private", metric);
        assert!(
            exact > 0.0 && exact <= 1.0 && (exact - model).abs() > 1e-9,
            "{exact}"
        );
    }
}

/// `mine` has three users who rated before, and one who did not; the constant predictor is the mean
/// of the history.
#[test]
fn a_history_of_its_own_tests_on_all_of_the_file() {
    let sandbox = Sandbox::with_model();
    sandbox.write(
        "old.csv",
        "user,item,rating\na,item-1,5\na,item-2,3\nb,item-1,1\nc,item-3,3\n",
    );
    sandbox.write(
        "new.csv",
        "user,item,rating\nb,item-4,5\na,item-1,1\nd,item-2,2\na,item-5,4\na,item-99,4\nc,item-6,NaN\n",
    );
    let args = words("evaluate new.csv --model dp-model --history old.csv");
    let found = sandbox
        .dp(&[&args[..], &["--json", "--show-internal"]].concat())
        .exits(0)
        .json();
    // b: 5, d: 2, a: 4 against the mean 3 of the history; a's item-1 is known, item-99 is not, NaN is nothing
    assert!((figure(&found, "constant", "rmse") - 2.0_f64.sqrt()).abs() < 1e-12);
    assert!((figure(&found, "constant", "mae") - 4.0 / 3.0).abs() < 1e-12);
    let data = &found["internal"]["data"];
    assert_eq!(data["also in the history, left out"], 1);
    assert_eq!(data["on items that the model does not know"], 1);
    assert_eq!(data["NaN or infinite, left out"], 1);
    assert_eq!(data["ratings of the history"], 4);
    let buckets = found["internal"]["by_popularity"].as_array().unwrap();
    let of = |key: &str| {
        buckets
            .iter()
            .map(|b| b[key].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!((of("n_targets"), of("n_items"), buckets.len()), (3, 25, 5));
    // the same pairs in every bucket: the squares add up to those of all pairs
    let mut squares = 0.0;
    for bucket in buckets {
        let scores = bucket["scores"].as_array().unwrap();
        let constant = scores.iter().find(|s| s["method"] == "constant").unwrap();
        let rmse = constant["rmse"].as_f64().unwrap_or(0.0);
        squares += rmse * rmse * bucket["n_targets"].as_f64().unwrap();
    }
    assert!((squares - 6.0).abs() < 1e-9, "{squares}");
    sandbox
        .dp(&[&args[..], &["--split-seed", "1"]].concat())
        .exits(2)
        .says(&["--split-seed"]);
}

#[test]
fn all_of_it_is_internal_and_printed_only_when_asked() {
    let sandbox = Sandbox::with_model();
    let before = names_in(&sandbox.path("dp-model"));
    let kept = "dp-model-internal/internal-evaluation.json";
    let args = words("evaluate ratings.csv --model dp-model");
    let shown = [&args[..], &["--show-internal"]].concat();
    let run = sandbox.dp(&shown).exits(0);
    let head = "internal, not covered by the guarantee: do not publish\n";
    assert!(run.stdout.starts_with(head), "{}", run.stdout);
    assert!(!run.stdout.contains(USER) && run.stderr.lines().count() == 1);
    assert!(!sandbox.exists(kept));
    let run = sandbox.dp(&args).exits(0);
    run.prints(&[kept, "--show-internal"]);
    assert!(!run.stdout.contains("RMSE"), "{}", run.stdout);
    let run = sandbox.dp(&[&args[..], &["--json"]].concat()).exits(0);
    assert!(run.json().get("internal").is_none(), "{}", run.stdout);

    let found = evaluate(&sandbox, &["--save", "--non-private"]);
    assert!(figure(&found, "non-private", "rmse") > 0.0);
    assert_eq!(found["released"]["private"], true);
    assert_eq!(sandbox.value(kept)["overall"], found["internal"]["overall"]);
    assert_eq!(names_in(&sandbox.path("dp-model")), before);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(sandbox.path(kept)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

/// Members of an object, in alphabetical order.
fn members(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn json_has_the_documented_members() {
    let sandbox = Sandbox::with_model();
    let found = evaluate(&sandbox, &[]);
    assert_eq!(
        members(&found),
        ["dim", "internal", "internal_folder", "n_items", "released"]
    );
    let internal = &found["internal"];
    assert_eq!(
        members(internal),
        [
            "by_popularity",
            "data",
            "feedback",
            "metrics",
            "overall",
            "quality"
        ]
    );
    assert_eq!(members(&internal["overall"][0]), ["mae", "method", "rmse"]);
    assert_eq!(
        members(&internal["by_popularity"][0]),
        ["bucket", "k", "n_items", "n_targets", "scores"]
    );
    let pages = sandbox
        .dp(&["report", "dp-model", "--json"])
        .exits(0)
        .json();
    assert_eq!(members(&pages), ["internal", "private", "released", "runs"]);
    let made = words("synth ratings --users 20 --items 10 --ratings 60");
    let made = sandbox
        .dp(&[&made[..], &["--out", "made", "--json"]].concat())
        .exits(0)
        .json();
    assert_eq!(members(&made), ["data_seed", "files"]);
    assert_eq!(made["files"][0]["n_lines"], 60);
}

#[test]
fn nothing_held_out_is_no_failure() {
    let sandbox = Sandbox::with_model();
    sandbox.write("none.csv", "user,item,rating\na,item-99,3\n");
    let args = [
        "evaluate",
        "none.csv",
        "--model",
        "dp-model",
        "--json",
        "--show-internal",
    ];
    let found = sandbox
        .dp(&[&args[..], &["--history", "ratings.csv"]].concat())
        .exits(0)
        .json();
    let overall = &found["internal"]["overall"][0];
    assert!(overall["rmse"].is_null() && overall["mae"].is_null());
}

#[test]
fn mistakes_are_named() {
    let sandbox = Sandbox::with_model();
    let run = |more: &[&str]| {
        let args = [&["evaluate", "ratings.csv", "--model", "dp-model"], more].concat();
        sandbox.dp(&args)
    };
    run(&["--min-rating", "3"])
        .exits(2)
        .says(&["--min-rating", "implicit"]);
    run(&["--history", "no.csv"]).exits(4).says(&["no.csv"]);
    sandbox
        .dp(&["evaluate", "ratings.csv", "--model", "nowhere"])
        .exits(4)
        .says(&["nowhere"]);
    sandbox
        .dp(&["evaluate", "ratings.csv"])
        .exits(2)
        .says(&["--model"]);
    sandbox.write(
        "e.toml",
        "[evaluate]\nratings = \"ratings.csv\"\nmodel = \"dp-model\"\njson = true\nshow-internal = true\n",
    );
    let configured = sandbox
        .dp(&["evaluate", "--config", "e.toml"])
        .exits(0)
        .json();
    assert_eq!(configured["internal"]["feedback"], "explicit");
}

#[test]
fn what_the_run_was_trained_on_is_not_tested_on() {
    let sandbox = Sandbox::with_ratings();
    let command = ["evaluate", "ratings.csv", "--model", "dp-model"];
    let refused = |sandbox: &Sandbox, more: &[&str], said: &[&str]| {
        let run = sandbox.dp(&[&command[..], more].concat());
        run.exits(2).says(said);
    };
    sandbox.train(&["--split-seed", "3"]).exits(0);
    for seed in ["0", "4"] {
        refused(
            &sandbox,
            &["--split-seed", seed],
            &["--split-seed 3", "trained on"],
        );
    }
    sandbox.train(&["--no-split", "--force"]).exits(0);
    refused(&sandbox, &[], &["--no-split", "--history"]);
    let newer = ["--history", "ratings.csv"];
    sandbox.dp(&[&command[..], &newer].concat()).exits(0);
    let implicit = ["--feedback", "implicit", "--force"];
    sandbox.train(&implicit).exits(0);
    refused(
        &sandbox,
        &["--min-rating", "2"],
        &["--min-rating", "all records"],
    );
}
