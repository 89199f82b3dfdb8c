//! Errors by round of `dp personalize` and `dp federate`: what they converge to, and where they
//! must not appear.

use serde_json::{Value, json};

use super::page;
use super::well_formed::check;
use crate::support::{Run, Sandbox, names_in, words};
use crate::{federate, personalize};

/// The errors by round in `internal.json`.
fn by_round(sandbox: &Sandbox) -> Value {
    let text = page(sandbox, "internal.json");
    let json: Value = serde_json::from_str(&text).unwrap();
    json["by_round"].clone()
}

fn numbers(values: &Value) -> Vec<f64> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap()).collect()
}

/// The lines by name, the released one's first.
fn lines(by_round: &Value) -> Vec<(String, Vec<f64>)> {
    let others = by_round["others"].as_array().unwrap();
    let all = std::iter::once(by_round).chain(others);
    all.map(|line| {
        let name = line["name"].as_str().unwrap();
        (name.to_owned(), numbers(&line["values"]))
    })
    .collect()
}

/// Values before the last round are in internal files only: not in other files, not on the screen,
/// not in the logs.
#[track_caller]
fn assert_internal(sandbox: &Sandbox, run: &Run) {
    let mut said = run.json();
    // times contain arbitrary digits
    said["internal"]["seconds"] = Value::Null;
    said["internal"]["quality"] = Value::Null;
    said["verdict"] = Value::Null;
    let mut places = vec![
        ("standard output".to_owned(), said.to_string()),
        ("standard error".to_owned(), run.stderr.clone()),
    ];
    for name in names_in(&sandbox.path("dp-model")) {
        let bytes = sandbox.read(&format!("dp-model/{name}"));
        places.push((name, String::from_utf8_lossy(&bytes).into_owned()));
    }
    assert!(places.len() > 5 && run.stderr.contains("measuring on held-out rows"));
    for (line, values) in lines(&by_round(sandbox)) {
        let (last, before) = values.split_last().unwrap();
        for figure in before.iter().map(|value| format!("{value:.4}")) {
            let is_new = figure != format!("{last:.4}");
            for (place, text) in places.iter().filter(|_| is_new) {
                assert!(!text.contains(&figure), "{figure} of {line} in {place}");
            }
        }
    }
    let released = page(sandbox, "report.json");
    assert!(!released.contains("round\"") && !released.contains("by_round"));
}

#[test]
fn rounds_of_personalization_end_at_the_figures_of_the_run() {
    let sandbox = personalize::sandbox();
    let args = words("--insecure-seed 3 --held-out-users 0.2 --json --show-internal -vv");
    let run = personalize::personalize(&sandbox, &args).exits(0);
    let of = by_round(&sandbox);
    assert_eq!(of["metric"], "RMSE on held-out rows");
    assert_eq!(of["rounds"], json!([0, 1, 2, 3, 4]));
    let lines = lines(&of);
    for (at, users) in ["trained_on", "held_out"].into_iter().enumerate() {
        let values = &lines[at].1;
        let last = personalize::figure(&run.json(), users, "private");
        assert_eq!((values.len(), values[4]), (5, last));
        let mut before = values[..4].iter().map(|value| value.to_bits());
        assert!(before.all(|bits| bits != last.to_bits()));
    }
    let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["users trained on", "users held out"]);
    assert_internal(&sandbox, &run);
}

#[test]
fn users_held_out_have_their_line_where_nobody_is_trained_on() {
    let sandbox = personalize::sandbox();
    let args = words("--held-out-users 0.9999999 --json --show-internal");
    let run = personalize::personalize(&sandbox, &args).exits(0);
    let lines = lines(&by_round(&sandbox));
    let last = personalize::figure(&run.json(), "held_out", "private");
    assert_eq!((lines.len(), lines[0].0.as_str()), (1, "users held out"));
    assert_eq!(lines[0].1.last(), Some(&last));
}

#[test]
fn every_method_with_rounds_shows_them() {
    let sandbox = personalize::sandbox();
    for (method, steps) in [("alternating", 2), ("gradient", 3), ("residual", 1)] {
        let n = steps.to_string();
        let args = [
            "--method",
            method,
            "--steps",
            &n,
            "--force",
            "--json",
            "--show-internal",
        ];
        let run = personalize::personalize(&sandbox, &args).exits(0);
        let of = by_round(&sandbox);
        let rounds: Vec<usize> = (0..=steps).collect();
        assert_eq!(of["rounds"], json!(rounds), "{method}");
        let last = personalize::figure(&run.json(), "trained_on", "private");
        let lines = lines(&of);
        assert_eq!((lines.len(), lines[0].1[steps]), (1, last), "{method}");
        assert_eq!(lines[0].0, "private");
    }
    for without in [&["--method", "projectors"][..], &["--no-split"]] {
        personalize::personalize(&sandbox, &[without, &["--force"]].concat()).exits(0);
        assert!(by_round(&sandbox).is_null(), "{without:?}");
        sandbox.dp(&["report", "dp-model"]).exits(0);
        assert!(!page(&sandbox, "internal.html").contains("Convergence by round"));
    }
}

#[test]
fn rounds_of_federation_end_at_the_figures_of_the_run() {
    let sandbox = federate::sandbox();
    let args = words("--insecure-seed 4 --json --show-internal -vv");
    let run = federate::federate(&sandbox, &args).exits(0);
    let of = by_round(&sandbox);
    let rounds: Vec<usize> = (1..=15).map(|n| 2 * n).collect();
    assert_eq!(of["rounds"], json!(rounds));
    let all = lines(&of);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "alpha inf (one model), chosen",
            "alpha 0 (alone)",
            "alpha 1"
        ]
    );
    for ((_, values), alpha) in all.iter().zip(["inf", "0.0", "1.0"]) {
        let last = federate::figure(&run.json(), alpha, "private");
        assert_eq!((values.len(), values[14]), (15, last), "{alpha}");
        assert_ne!(values[0].to_bits(), last.to_bits());
    }
    assert_internal(&sandbox, &run);
    // alone there is no noise: a run of ten rounds ends where this one was after ten
    let args = words("--rounds 10 --force --json --show-internal");
    let short = federate::federate(&sandbox, &args).exits(0).json();
    let last = federate::figure(&short, "0.0", "private");
    assert_eq!(all[1].1[4].to_bits(), last.to_bits());
}

/// The held-out share is too small for any row, so the training data are the same, once with a
/// watch that finds nothing to measure and once without one. The effect of measuring on rows is
/// tested where runs are implemented (`fits/observed.rs` of dp-personalize, `fits/watched.rs` of
/// dp-fedsgd).
#[test]
fn what_is_released_is_the_same_with_and_without_figures_by_round() {
    let seed = ["--insecure-seed", "7"];
    let sampled = ["--sampling-probability", "0.5"];
    for more in [&[][..], &sampled, &["--alpha-grid", "1"]] {
        let sandbox = federate::sandbox();
        for (out, split) in [("watched", "--test-share=1e-15"), ("alone", "--no-split")] {
            let args = [more, &seed, &["--rounds", "6", "--out", out, split]].concat();
            federate::federate(&sandbox, &args).exits(0);
        }
        let [watched, alone] =
            ["watched", "alone"].map(|out| sandbox.read(&format!("{out}/shared.safetensors")));
        assert!(watched == alone, "{more:?}");
    }
    for method in ["residual", "gradient", "alternating"] {
        let sandbox = personalize::sandbox();
        for (out, split) in [("watched", "--test-share=1e-15"), ("alone", "--no-split")] {
            let args = [&seed[..], &["--method", method, "--out", out, split]].concat();
            personalize::personalize(&sandbox, &args).exits(0);
        }
        let [watched, alone] =
            ["watched", "alone"].map(|out| sandbox.read(&format!("{out}/subspace.safetensors")));
        assert!(watched == alone, "{method}");
    }
}

#[test]
fn pages_show_a_line_for_every_alpha() {
    let sandbox = federate::sandbox();
    let grid = ["--alpha-grid", "0,0.1,0.3,1,inf", "--rounds", "8"];
    let args = [&grid[..], &["--insecure-seed", "3"]].concat();
    federate::federate(&sandbox, &args).exits(0);
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let html = page(&sandbox, "internal.html");
    check(&html);
    assert!(
        html.contains("Convergence by round") && html.contains("RMSE on held-out rows by round")
    );
    assert!(html.contains("Lines that are not drawn are in the table."));
    let markdown = page(&sandbox, "internal.md");
    let all = lines(&by_round(&sandbox));
    assert_eq!(all.len(), 5);
    let heads: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert!(markdown.contains(&format!("| round | {} |", heads.join(" | "))));
    for round in [1, 8] {
        let row: Vec<String> = all
            .iter()
            .map(|(_, values)| format!("{:.4}", values[round - 1]))
            .collect();
        assert!(markdown.contains(&format!("| {round} | {} |", row.join(" | "))));
        for figure in row {
            assert!(html.contains(&format!("<td>{figure}</td>")));
        }
    }
    for name in ["report.html", "report.md"] {
        assert!(!page(&sandbox, name).contains("by round"), "{name}");
    }
}

#[test]
fn internal_files_of_earlier_versions_have_pages() {
    let sandbox = personalize::sandbox();
    personalize::personalize(&sandbox, &[]).exits(0);
    let written: Value = serde_json::from_str(&page(&sandbox, "internal.json")).unwrap();
    let mut without = written.clone();
    without.as_object_mut().unwrap().remove("by_round");
    let mut none = written.clone();
    none["by_round"] = Value::Null;
    let mut older = written.clone();
    older["by_round"] = json!({"metric": "RMSE of old", "values": [0.75, 0.5]});
    for (file, shows) in [
        (without, false),
        (none, false),
        (older, true),
        (written, true),
    ] {
        sandbox.write("dp-model-internal/internal.json", file.to_string());
        sandbox.dp(&["report", "dp-model"]).exits(0);
        let markdown = page(&sandbox, "internal.md");
        assert_eq!(markdown.contains("Convergence by round"), shows);
        let is_old = markdown.contains("RMSE of old");
        assert_eq!(is_old, markdown.contains("| 2 | private | 0.5000 |"));
    }
    let newer =
        page(&sandbox, "internal.json").replace("\"schema_version\":2", "\"schema_version\":3");
    sandbox.write("dp-model-internal/internal.json", newer);
    let run = sandbox.dp(&["report", "dp-model"]).exits(4);
    run.says(&["internal.json", "newer"]);
}
