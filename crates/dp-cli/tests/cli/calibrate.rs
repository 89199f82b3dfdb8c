//! `dp calibrate`: what is left out is solved for, what makes no sense is refused.

use crate::support::{Run, Sandbox};

fn calibrate(args: &[&str]) -> Run {
    let mut all = vec!["calibrate"];
    all.extend(args);
    Sandbox::new().dp(&all)
}

/// `dp calibrate --epsilon 1 --delta 1e-5` and these.
fn for_one(args: &[&str]) -> Run {
    let mut all = vec!["--epsilon", "1", "--delta", "1e-5"];
    all.extend(args);
    calibrate(&all)
}

#[test]
fn exactly_one_figure_is_left_out() {
    let all = [
        "--noise-multiplier",
        "1",
        "--steps",
        "10",
        "--sampling-probability",
        "0.1",
    ];
    for args in [&all[..], &all[..2], &all[2..4], &all[4..], &[]] {
        for_one(args).exits(2).says(&["leave out exactly one of"]);
    }
    calibrate(&all[..4])
        .exits(2)
        .says(&["needs --epsilon and --delta"]);
}

#[test]
fn bad_figures_are_named_by_their_flag() {
    let steps = ["--steps", "10"];
    for (flag, values) in [
        ("--noise-multiplier", ["0", "-1", "nan", "inf"]),
        ("--sampling-probability", ["0", "-0.1", "nan", "1.5"]),
    ] {
        for value in values {
            let run = for_one(&[flag, value, steps[0], steps[1]]).exits(2);
            run.says(&[&format!("{flag} is ")]);
        }
    }
    for value in ["0", "-1", "1.5", "x"] {
        for_one(&["--steps", value, "--noise-multiplier", "1"])
            .exits(2)
            .says(&["--steps"]);
    }
    for (flag, value) in [("--epsilon", "nan"), ("--epsilon", "0"), ("--delta", "1")] {
        let other = if flag == "--delta" {
            ["--epsilon", "1"]
        } else {
            ["--delta", "1e-5"]
        };
        let args = [
            flag,
            value,
            other[0],
            other[1],
            "--steps",
            "1",
            "--noise-multiplier",
            "1",
        ];
        calibrate(&args)
            .exits(2)
            .says(&[&format!("{flag} is {}", value.replace("nan", "NaN"))]);
    }
    for_one(&["--adjacency", "replace"])
        .exits(2)
        .says(&["replace-user"]);
}

#[test]
fn a_file_has_one_parameter_that_is_null() {
    let event = r#"{"event": {"mechanism": "laplace", "noise_multiplier": 3}, "delta": 1e-5}"#;
    let sandbox = Sandbox::new();
    sandbox.write("q.json", event);
    sandbox
        .dp(&["calibrate", "q.json"])
        .exits(2)
        .says(&["nothing in the event is null"]);
    for bad in [
        event.replace('3', "null"),
        event.replace("event", "cases"),
        event.replace('3', "null").replace("1e-5", "NaN"),
        event.replace("laplace", "la place"),
    ] {
        sandbox.write("q.json", bad);
        sandbox
            .dp(&["calibrate", "q.json"])
            .exits(4)
            .says(&["q.json: "]);
    }
    sandbox
        .dp(&["calibrate", "q.json", "--steps", "3"])
        .exits(2);
}
