//! `dp calibrate`: solves for the missing parameter; invalid input is rejected.

use crate::support::{Run, Sandbox, words};

fn calibrate(args: &[&str]) -> Run {
    let mut all = vec!["calibrate"];
    all.extend(args);
    Sandbox::new().dp(&all)
}

/// `dp calibrate --epsilon 1 --delta 1e-5` with further arguments.
fn for_one(args: &[&str]) -> Run {
    let mut all = vec!["--epsilon", "1", "--delta", "1e-5"];
    all.extend(args);
    calibrate(&all)
}

#[test]
fn exactly_one_figure_is_left_out() {
    let all = words("--noise-multiplier 1 --steps 10 --sampling-probability 0.1");
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

#[test]
fn what_is_left_out_is_solved_for_on_the_safe_side() {
    // mu(1, 1e-5) = 0.26805112...: noise sqrt(1000) / mu, and (100 mu)^2 steps; halved under replacement.
    let unsampled = ["--sampling-probability", "1", "--json"];
    let solve = |args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(unsampled);
        for_one(&all).exits(0).json()
    };
    let noise = solve(&["--steps", "1000"]);
    let [lower, value, upper] =
        ["lower", "value", "upper"].map(|name| noise[name].as_f64().unwrap());
    let best = 117.972_930_770_958_98;
    assert!(
        lower <= best * (1.0 + 1e-12) && best <= value * (1.0 + 1e-12),
        "{noise}"
    );
    assert!(upper - lower <= 1e-4 * best && value <= upper);
    assert_eq!(noise["parameter"], "noise_multiplier");
    let guarantee = |at: usize| noise["guarantees"][at]["epsilon"].as_f64().unwrap();
    assert!(guarantee(0) <= 1.0 && guarantee(0) > 0.999 && guarantee(1) > 2.1);

    let steps = solve(&["--noise-multiplier", "100"]);
    assert_eq!(
        (&steps["value"], &steps["upper"]),
        (&718.into(), &718.into())
    );
    assert_eq!(steps["event"]["count"], 718);
    let replaced = solve(&["--noise-multiplier", "100", "--adjacency", "replace-user"]);
    assert_eq!(replaced["value"], 179);
}

#[test]
fn a_summary_states_both_kinds_of_neighbours() {
    let run = for_one(&["--noise-multiplier", "100", "--sampling-probability", "1"]).exits(0);
    for part in [
        "steps 718\n",
        "one more does not meet it",
        "add or remove one user (gdp)",
        "replace one user (gdp)",
        "exact ",
        "with a given user in the data as without",
        "is at most 2.7173 times as likely",
    ] {
        let lines: Vec<&str> = run.stdout.split_whitespace().collect();
        let unwrapped = run.stdout.contains(part) || lines.join(" ").contains(part);
        assert!(unwrapped, "no `{part}` in {}", run.stdout);
    }
}

#[test]
fn a_null_anywhere_in_an_event_is_solved_for() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "q.json",
        r#"{"adjacency": "replace-record", "epsilon": 1, "delta": 1e-5, "event":
            {"mechanism": "composed", "events": [
                {"mechanism": "gaussian", "noise_multiplier": 20, "replace_factor": "two"},
                {"mechanism": "repeated", "count": 3, "event":
                    {"mechanism": "gaussian", "noise_multiplier": null, "replace_factor": "sqrt-two"}}]}}"#,
    );
    let json = sandbox
        .dp(&["calibrate", "q.json", "--json"])
        .exits(0)
        .json();
    // sqrt(3 * 2 / (mu^2 - 4/400)), mu as above
    let value = json["value"].as_f64().unwrap();
    assert!((value - 9.849_197).abs() < 0.001, "{json}");
    assert_eq!(
        json["event"]["events"][1]["event"]["noise_multiplier"],
        json["value"]
    );
}
