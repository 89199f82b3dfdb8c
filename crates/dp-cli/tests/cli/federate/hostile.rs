//! Rows, flags and files that cannot be used.

use std::fmt::Write as _;

use super::{csv, federate, federate_file, rows};
use crate::support::{Sandbox, words};

#[test]
fn values_never_decide_an_error() {
    let sandbox = Sandbox::new();
    let users = rows(30);
    let mut text = csv(users.iter().enumerate());
    for (at, y) in ["nan", "inf", "1e38", "-1e38", "1e60", "0"]
        .iter()
        .enumerate()
    {
        writeln!(text, "wild-{at},{y},1e38,-1e38,1e30,0,nan,1e38,1").unwrap();
        writeln!(text, "wild-{at},{y},3e38,-3e38,1e30,0,1,1e38,1").unwrap();
    }
    sandbox.write("wild.csv", text);
    sandbox.write("empty.csv", "user,y,x0,x1\n");
    let nobody = r#"{"users": [], "num_samples": [], "user_data": {}}"#;
    sandbox.write("nobody.json", nobody);
    let no_row = r#"{"users": ["a"], "num_samples": [0], "user_data": {"a": {"x": [], "y": []}}}"#;
    sandbox.write("no-row.json", no_row);
    // no row of the declared length, a superfluous label, labels without rows
    let odd = r#"{"users": ["a", "b"], "num_samples": [3, 0], "user_data": {
        "a": {"x": [[1], [], [1, 2, 3]], "y": [1, NaN, [1, 2]]}, "b": {"x": [], "y": [1, 2]}}}"#;
    sandbox.write("odd.json", odd);
    let one = ["--alpha-grid", "1", "--force"];
    for file in [
        "wild.csv",
        "empty.csv",
        "nobody.json",
        "no-row.json",
        "odd.json",
    ] {
        let width = ["--n-features", "3", "--rounds", "3"];
        let width = if file.ends_with("json") {
            &width[..]
        } else {
            &[]
        };
        for args in [
            &["--alpha-grid", "0,1,inf"][..],
            &["--task", "classification"],
            &["--intercept", "own", "--shrink", "0.5", "--batch-size", "2"],
            &["--no-split", "--n-users", "30"],
        ] {
            let n = if args[0] == "--alpha-grid" { 2 } else { 0 };
            federate_file(&sandbox, file, &[args, &one[n..], width].concat()).exits(0);
            sandbox.dp(&["verify", "dp-model"]).exits(0);
        }
        let several = ["--epsilon", "1,2", "--out", "e", "--force"];
        federate_file(&sandbox, file, &[&several[..], width].concat()).exits(0);
    }
    let sampled = ["--sampling-probability", "0.3"];
    federate_file(&sandbox, "wild.csv", &[&one[..], &sampled].concat()).exits(0);
}

#[test]
fn bad_settings_are_named_before_the_data_is_touched() {
    let sandbox = Sandbox::new();
    for (args, said) in [
        (&["--alpha-grid", "0"][..], "--alpha-grid"),
        (&["--alpha-grid", "-1,2"], "--alpha-grid"),
        (&["--alpha-grid", "nan"], "--alpha-grid"),
        (&["--epsilon", "0"], "--epsilon"),
        (&["--epsilon", "1,-1"], "--epsilon"),
        (&["--rounds", "0"], "--rounds"),
        (&["--learning-rate", "0"], "--learning-rate"),
        (&["--clip-norm", "nan"], "--clip-norm"),
        (&["--shrink", "1.5"], "--shrink"),
        (&["--batch-size", "0"], "--batch-size"),
        (&["--sampling-probability", "0"], "--sampling-probability"),
        (&["--sampling-probability", "1.5"], "--sampling-probability"),
        (&["--n-users", "0"], "--n-users"),
        (&["--choice-share", "1"], "--choice-share"),
        (&["--loss-range", "0"], "--loss-range"),
        (&["--validation-share", "1"], "--validation-share"),
        (&["--test-share", "-0.1"], "--test-share"),
        (&["--max-rows", "0"], "--max-rows"),
        (&["--threshold", "1"], "--threshold"),
        (&["--feature-range", "1,0"], "--feature-range"),
        (&["--label-index", "1"], "--label-index"),
        (&["--n-features", "3"], "--n-features"),
        (&["--format", "leaf"], "--n-features"),
        (
            &["--format", "leaf", "--n-features", "0"],
            "--n-features is",
        ),
        // with a superfluous constant
        (
            &["--format", "leaf", "--n-features", "65536"],
            "--n-features is",
        ),
        (&["--validation-share", "0"], "--validation-share"),
        (
            &["--task", "classification", "--intercept", "own"],
            "intercept",
        ),
    ] {
        // the file does not exist, which shows that it was not opened
        let run = federate(&sandbox, args).exits(2).says(&[said]);
        assert!(!run.stderr.contains("data.csv"), "{}", run.stderr);
        assert!(sandbox.names().is_empty(), "{args:?}");
    }
    federate(&sandbox, &[]).exits(4).says(&["data.csv"]);
    assert!(sandbox.names().is_empty());
}

#[test]
fn bad_files_leave_nothing_and_spend_nothing() {
    let sandbox = Sandbox::new();
    for (text, said) in [
        ("user,y,x0\na,1\n", "data.csv:2:"),
        ("user,y,x0\na,1,one\n", "data.csv:2:3"),
        ("who,y,x0\na,1,2\n", "user"),
        ("user,y\na,1\n", "feature"),
    ] {
        sandbox.write("data.csv", text);
        federate(&sandbox, &["--ledger", "l.ledger"])
            .exits(4)
            .says(&[said]);
        assert_eq!(sandbox.names(), ["data.csv"]);
    }
    sandbox.write("data.csv", csv(rows(5).iter().enumerate()));
    let none = words("--validation-share 0 --alpha-grid 1 --out one");
    federate(&sandbox, &none).exits(0);
    federate(&sandbox, &["--out", ".", "--force"]).exits(2);
    federate(&sandbox, &[]).exits(0);
    federate(&sandbox, &[]).exits(7).says(&["dp-model exists"]);
}
