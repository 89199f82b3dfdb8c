//! Rows, flags and files that cannot be used.

use super::{SUBSPACE, personalize, samples, sandbox};
use crate::support::Sandbox;

#[test]
fn values_never_decide_an_error() {
    let hostile: String = ["nan", "inf", "-inf", "1e400", "3e38", "-3e38", "1e-45"]
        .iter()
        .flat_map(|v| {
            [
                format!("h,{v},1,1,1,1,1,1\n"),
                format!("h,1,{v},{v},1,1,1,{v}\n"),
            ]
        })
        .collect();
    let header = samples(0);
    let zeros = "z,0,0,0,0,0,0,0\n".repeat(9);
    for text in [
        samples(60) + &hostile,
        samples(60) + &zeros,
        header.clone(),
        header.clone() + "lone,1,2,3,4,5,6,7\n",
        header + &hostile,
    ] {
        for args in [
            ["--method", "residual", "--intercept", "own"].as_slice(),
            &["--method", "gradient", "--intercept", "shared"],
            &["--task", "classification", "--held-out-users", "0.5"],
        ] {
            let sandbox = Sandbox::new();
            sandbox.write("data.csv", &text);
            personalize(&sandbox, args).exits(0);
            sandbox.dp(&["verify", "dp-model"]).exits(0);
        }
    }
}

#[test]
fn a_row_with_an_empty_cell_is_as_if_it_were_not_there() {
    let whole = samples(60);
    let holes = "zqx-user-1,,1,2,3,4,5,6\nzqx-user-2,0.5,1,2, ,4,5,6\nzqx-user-3,0.5,1,2,3,4,5,\n";
    let comma = whole.replace(',', ";").replace('.', ",");
    let learned = |text: &str| {
        let sandbox = Sandbox::new();
        sandbox.write("data.csv", text);
        personalize(&sandbox, &["--insecure-seed", "3"]).exits(0);
        sandbox.read(SUBSPACE)
    };
    let expected = learned(&whole);
    assert!(learned(&(whole.clone() + holes)) == expected);
    assert!(learned(&comma) == expected, "semicolons and decimal commas");
}

#[test]
fn bad_settings_are_named_before_the_data_is_touched() {
    for (args, said) in [
        (["--rank", "0"].as_slice(), "--rank is 0"),
        (&["--rank", "40", "--method", "projectors"], "--rank is 40"),
        (&["--epsilon", "0"], "--epsilon is 0"),
        (&["--epsilon", "nan"], "--epsilon is NaN"),
        (&["--steps", "101"], "--steps is 101"),
        (
            &["--steps", "1", "--method", "projectors"],
            "--steps has no meaning",
        ),
        (&["--max-rows", "0"], "--max-rows is 0"),
        (
            &["--max-rows", "1", "--method", "alternating"],
            "--max-rows is 1",
        ),
        (
            &["--gradient-clip", "1", "--method", "alternating"],
            "--gradient-clip has no meaning",
        ),
        (&["--gradient-clip", "2"], "--gradient-clip has no meaning"),
        (
            &["--learning-rate", "1", "--method", "alternating"],
            "--learning-rate has no meaning",
        ),
        (
            &["--learning-rate", "2", "--method", "projectors"],
            "--learning-rate has no meaning",
        ),
        (&["--test-share", "1"], "--test-share is 1"),
        (&["--held-out-users", "-0.5"], "--held-out-users is -0.5"),
        (&["--threshold", "1"], "--task classification"),
        (
            &["--task", "classification", "--threshold", "nan"],
            "threshold",
        ),
        (
            &["--task", "classification", "--intercept", "own"],
            "no own means",
        ),
        (
            &["--task", "classification", "--l2-penalty", "1,2"],
            "--l2-penalty",
        ),
        (&["--l2-penalty", "0"], "--l2-penalty"),
        (
            &["--method", "gradient", "--gradient-clip", "0"],
            "--gradient-clip is 0",
        ),
        (
            &["--method", "gradient", "--learning-rate", "inf"],
            "--learning-rate is inf",
        ),
        (&["--feature-range", "1"], "--feature-range"),
        (&["--target-range", "2,1"], "--target-range"),
        (&["--method", "nonsense"], "nonsense"),
        (&["--ledger", "no/such/l.ledger"], "no folder no/such"),
        (
            &["--insecure-seed", "1", "--ledger", "l"],
            "--insecure-seed",
        ),
    ] {
        let sandbox = Sandbox::new();
        let run = personalize(&sandbox, args).exits(2).says(&[said]);
        assert_eq!(run.stdout, "");
        assert!(
            sandbox.names().is_empty(),
            "{args:?} left {:?}",
            sandbox.names()
        );
    }
}

#[test]
fn more_dimensions_than_features_are_refused() {
    let sandbox = sandbox();
    for args in [
        ["--rank", "7"].as_slice(),
        &["--rank", "3", "--feature-cols", "a,b"],
    ] {
        personalize(&sandbox, args)
            .exits(2)
            .says(&["features", "--rank"]);
    }
    assert_eq!(sandbox.names(), ["data.csv"]);
}

#[test]
fn settings_that_do_not_fit_cost_nothing() {
    let sandbox = sandbox();
    let ledger = ["--ledger", "l.ledger", "--ledger-epsilon", "9"];
    personalize(&sandbox, &ledger).exits(0);
    let (before, names) = (sandbox.read("l.ledger"), sandbox.names());
    let absurd = usize::MAX.to_string();
    for (args, said) in [
        (
            ["--method", "alternating", "--max-rows", "1"].as_slice(),
            "--max-rows is 1",
        ),
        (&["--sparse", "7"], "--sparse"),
        (&["--sparse", &absurd], "--sparse"),
        (&["--sparse", "8", "--intercept", "shared"], "--sparse"),
        (&["--sparse", "3", "--feature-cols", "a,b"], "--sparse"),
    ] {
        let args = [args, &["--ledger", "l.ledger", "--out", "more"]].concat();
        personalize(&sandbox, &args).exits(2).says(&[said]);
        assert_eq!(sandbox.read("l.ledger"), before, "{args:?}");
        assert_eq!(sandbox.names(), names, "{args:?}");
    }
}

#[test]
fn bad_files_are_told_by_place_and_nothing_is_spent() {
    let sandbox = Sandbox::new();
    for (text, said) in [
        ("user,target,a\nx,1\n", "data.csv:2:3: expected 3 fields"),
        (
            "user,target,a\nsecret,secret,1\n",
            "data.csv:2:2: expected a number for the target",
        ),
        ("user,target,a\nx,1,two\n", "a number for the feature"),
        ("user,a,b\nx,1,2\n", "target column not found"),
        ("target,a,b\n1,1,2\n", "user column not found"),
        ("user,target\nx,1\n", "feature column not found"),
        ("", "expected at least one record"),
    ] {
        sandbox.write("data.csv", text);
        let run = personalize(&sandbox, &["--ledger", "l.ledger"])
            .exits(4)
            .says(&[said]);
        assert!(!run.stderr.contains("secret"));
        assert_eq!(sandbox.names(), ["data.csv"]);
    }
    personalize(&sandbox, &["--bounds", "nowhere.csv"])
        .exits(4)
        .says(&["nowhere.csv"]);
    sandbox.write("data.csv", samples(5));
    for text in [
        "a,0,1\n",
        "column,lower,upper\na,1,0\n",
        "column,lower,upper\na,x,1\n",
        "",
    ] {
        sandbox.write("b.csv", text);
        personalize(&sandbox, &["--bounds", "b.csv"])
            .exits(4)
            .says(&["b.csv"]);
    }
    sandbox.write("b.csv", "column,lower,upper\nzz,0,1\n");
    personalize(&sandbox, &["--bounds", "b.csv"])
        .exits(2)
        .says(&["zz"]);
}
