//! Bad arguments: exit code 2, with the flag named in the message, before any file is touched.

use crate::support::Sandbox;

/// Runs `dp train` on a file that does not exist: only a check made before reading can fail with
/// code 2.
#[track_caller]
fn rejects(args: &[&str], parts: &[&str]) {
    let sandbox = Sandbox::new();
    let mut all = vec!["train", "nowhere.csv"];
    if !args.contains(&"--epsilon") {
        all.extend(["--epsilon", "1"]);
    }
    if !args.contains(&"--delta") {
        all.extend(["--delta", "1e-5"]);
    }
    all.extend(args);
    let run = sandbox.dp(&all).exits(2).says(parts);
    assert_eq!(run.stdout, "");
    assert!(sandbox.names().is_empty(), "left {:?}", sandbox.names());
}

#[test]
fn epsilon_must_be_finite_and_positive() {
    for value in ["0", "-0", "-1", "nan", "inf", "-inf"] {
        rejects(
            &["--epsilon", value],
            &["--epsilon is ", "a finite number above 0"],
        );
    }
}

#[test]
fn delta_must_lie_between_zero_and_one() {
    for value in ["0", "-1e-5", "1", "2", "nan", "inf"] {
        rejects(
            &["--delta", value],
            &["--delta is ", "strictly between 0 and 1"],
        );
    }
}

#[test]
fn settings_out_of_range_are_named_by_their_flag() {
    for (flag, values, expected) in [
        (
            "--dim",
            ["0", "257"].as_slice(),
            "a whole number from 1 to 256",
        ),
        ("--steps", &["0", "1001"], "a whole number from 1 to 1000"),
        (
            "--clip-norm",
            &["0", "1", "-0.5", "nan"],
            "strictly between 0 and 1",
        ),
        (
            "--label-bound",
            &["0", "-1", "nan", "inf", "1e308"],
            "a number from 1e-6 to 1e6",
        ),
        ("--label-center", &["nan", "inf"], "a finite number"),
        (
            "--reg",
            &["0", "-1", "nan", "inf", "1e308"],
            "a number from 1e-6 to 1e6",
        ),
        (
            "--count-share",
            &["0", "1", "nan"],
            "strictly between 0 and 1",
        ),
        (
            "--weight-exponent",
            &["nan", "-1", "inf"],
            "a finite number, 0 or above",
        ),
    ] {
        for value in values {
            rejects(&[flag, value], &[&format!("{flag} is "), expected]);
        }
    }
}

#[test]
fn values_that_are_no_numbers_are_named_by_their_flag() {
    for (flag, value) in [
        ("--epsilon", "one"),
        ("--dim", "-3"),
        ("--dim", "2.5"),
        ("--steps", "-1"),
        ("--split-seed", "-1"),
    ] {
        rejects(&[flag, value], &["invalid value", flag]);
    }
}

#[test]
fn an_unknown_method_is_answered_with_the_known_ones() {
    rejects(
        &["--method", "als"],
        &[
            "invalid value 'als'",
            "possible values: auto, pooled, adadpals",
        ],
    );
}

#[test]
fn targets_beyond_the_precision_of_the_noise_are_refused() {
    for args in [["--epsilon", "1e6"], ["--delta", "1e-300"]] {
        rejects(
            &args,
            &["hint: ", "a smaller --epsilon or a larger --delta"],
        );
    }
}

#[test]
fn shares_too_small_for_any_noise_are_refused() {
    rejects(&["--count-share", "1e-30"], &["hint: ", "--count-share"]);
}

#[test]
fn the_ledger_budget_has_flags_of_its_own() {
    for value in ["0", "-1", "nan", "inf"] {
        rejects(
            &["--ledger", "l.ledger", "--ledger-epsilon", value],
            &["--ledger-epsilon is "],
        );
    }
    for value in ["0", "1", "nan"] {
        rejects(
            &["--ledger", "l.ledger", "--ledger-delta", value],
            &["--ledger-delta is "],
        );
    }
    rejects(&["--ledger-epsilon", "3"], &["--ledger <FILE>"]);
    rejects(
        &["--ledger", "no/such/l.ledger"],
        &["--ledger no/such/l.ledger", "no folder no/such"],
    );
}

#[test]
fn seeded_noise_and_a_ledger_exclude_each_other() {
    rejects(
        &["--insecure-seed", "1", "--ledger", "l.ledger"],
        &["--insecure-seed", "--ledger"],
    );
}

#[test]
fn privacy_targets_have_no_default() {
    let sandbox = Sandbox::new();
    for args in [
        ["train", "r.csv", "--epsilon", "1"],
        ["train", "r.csv", "--delta", "1e-5"],
    ] {
        sandbox
            .dp(&args)
            .exits(2)
            .says(&["required arguments were not provided"]);
    }
}

#[test]
fn an_output_path_must_name_a_folder() {
    let sandbox = Sandbox::with_ratings();
    for path in ["", "/", ".."] {
        sandbox.train(&["--out", path]).exits(2).says(&["--out"]);
        sandbox
            .train(&["--out", path, "--force"])
            .exits(2)
            .says(&["--out"]);
    }
}

#[test]
fn recommend_needs_at_least_one_place() {
    let sandbox = Sandbox::new();
    let args = ["recommend", "--model", "m", "--history", "h.csv", "-k", "0"];
    sandbox.dp(&args).exits(2).says(&["-k is 0", "1 or above"]);
}

/// Runs of every command that spends budget, on files that do not exist.
const PLANNED: [(&str, usize); 4] = [
    ("train nowhere.csv --items nothing.csv", 11),
    ("tune nowhere.csv --try dim=1 --try dim=3", 23),
    ("personalize nowhere.csv --rank 1", 4),
    ("federate nowhere.csv --alpha-grid 1", 1),
];

#[test]
fn a_plan_is_printed_before_anything_is_read_or_paid() {
    let sandbox = Sandbox::new();
    for (line, least) in PLANNED {
        let line = format!("{line} --epsilon 1 --delta 1e-5 --ledger l.ledger --new-ledger --plan");
        let line: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let said = sandbox.run(&line).exits(0);
        said.prints(&[
            "will cost",
            "delta 1e-5, add or remove one user",
            "release",
            "budget",
        ]);
        let json = sandbox
            .run(&[&line[..], &["--json"]].concat())
            .exits(0)
            .json();
        let plan = &json["plan"];
        let releases = plan["releases"].as_array().unwrap();
        assert!(releases.len() >= least, "{}: {}", line[0], releases.len());
        let epsilon = plan["guarantee"]["epsilon"].as_f64().unwrap();
        assert!(epsilon > 0.99 && epsilon <= 1.0, "{}: {epsilon}", line[0]);
        assert!(sandbox.names().is_empty());
    }
    let several = "federate nowhere.csv --epsilon 1,2 --delta 1e-5 --no-ledger --plan";
    let several: Vec<&str> = several.split(' ').collect();
    sandbox
        .run(&several)
        .exits(2)
        .says(&["--plan needs a single --epsilon"]);
}

#[test]
fn the_plan_lists_what_the_certificate_of_the_run_lists() {
    let sandbox = Sandbox::with_ratings();
    let planned = sandbox.train(&["--plan", "--json"]).exits(0).json();
    sandbox.train(&[]).exits(0);
    let certificate = sandbox.value("dp-model/certificate.json");
    let labels = |all: &serde_json::Value| -> Vec<String> {
        let all = all.as_array().unwrap().iter();
        all.map(|of| of["label"].to_string()).collect()
    };
    let planned = &planned["plan"];
    assert_eq!(
        labels(&planned["releases"]),
        labels(&certificate["releases"])
    );
    let epsilon = |of: &serde_json::Value| of["guarantee"]["epsilon"].as_f64().unwrap();
    assert!((epsilon(planned) - epsilon(&certificate)).abs() < 1e-9);
}

#[test]
fn what_is_to_be_given_instead_is_told() {
    rejects(
        &[
            "--method",
            "am-ssp",
            "--rating-range",
            "0,10",
            "--items",
            "i.csv",
        ],
        &[
            "--rating-range has no meaning with --method am-ssp: give --label-center 5 and --label-bound 2.375 instead",
        ],
    );
    let sandbox = Sandbox::new();
    let line = "federate rows.csv --epsilon 1 --delta 1e-5 --no-ledger --alpha-grid a";
    let line: Vec<&str> = line.split(' ').collect();
    sandbox.run(&line).exits(2).says(&["as in 0,0.3,1,inf"]);
}
