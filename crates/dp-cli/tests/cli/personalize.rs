//! `dp personalize`: a subspace and its certificate from csv, with everything private kept apart.

use std::io::Write as _;

use crate::support::{Run, Sandbox, USER, names_in};

const N_USERS: usize = 301;
const N_ROWS: usize = 12;
const SUBSPACE: &str = "dp-model/subspace.safetensors";

/// `user,target,a..f`: targets follow `s_u (a + b - c)` with a slope and a level of the user's own.
pub(crate) fn samples(n_users: usize) -> String {
    let mut text = "user,target,a,b,c,d,e,f\n".to_owned();
    let mut state = 1_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / (1_u64 << 23) as f64 - 1.0
    };
    for user in 0..n_users {
        let (slope, level) = (3.0 * uniform(), uniform());
        for _ in 0..N_ROWS {
            let x: Vec<f64> = (0..6).map(|_| uniform()).collect();
            let y = level + slope * (x[0] + x[1] - x[2]) + 0.05 * uniform();
            let cells: Vec<String> = x.iter().map(|x| format!("{x:.4}")).collect();
            text.push_str(&format!("{USER}{user},{y:.4},{}\n", cells.join(",")));
        }
    }
    text
}

pub(crate) fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", samples(N_USERS));
    sandbox
}

/// `dp personalize data.csv` at epsilon 4 with these arguments as well.
pub(crate) fn personalize(sandbox: &Sandbox, more: &[&str]) -> Run {
    let mut args = vec!["personalize", "data.csv", "--delta", "1e-5"];
    for (flag, usual) in [("--epsilon", "4"), ("--rank", "1")] {
        if !more.contains(&flag) {
            args.extend([flag, usual]);
        }
    }
    args.extend(more);
    sandbox.dp(&args)
}

fn figure(json: &serde_json::Value, users: &str, method: &str) -> f64 {
    let rows = json["internal"][users].as_array().unwrap();
    let row = rows.iter().find(|row| row["method"] == method).unwrap();
    row["over_rows"].as_f64().unwrap()
}

#[test]
fn few_rows_of_many_users_gain_from_the_shared_subspace() {
    let sandbox = sandbox();
    let args = [
        "--insecure-seed",
        "3",
        "--held-out-users",
        "0.2",
        "--json",
        "--max-rows",
        "5",
    ];
    let json = personalize(&sandbox, &args).exits(0).json();
    assert_eq!((&json["n_features"], &json["rank"]), (&6.into(), &1.into()));
    for users in ["trained_on", "held_out"] {
        let rmse = |method: &str| figure(&json, users, method);
        // the label noise has standard deviation .03
        assert!(rmse("non-private") < 0.15, "{}", rmse("non-private"));
        assert!(rmse("private") < 0.4, "{}", rmse("private"));
        for other in [
            "own-mean",
            "own-data",
            "own-ridge",
            "random-subspace",
            "single-model",
        ] {
            assert!(rmse("private") < 0.7 * rmse(other), "{users} {other}");
        }
    }
    assert_eq!(json["released"]["private"], false);
    assert_eq!(json["internal"]["n_rows"], N_USERS * N_ROWS);
}

#[test]
fn users_may_have_coefficients_of_their_own_beside_the_subspace() {
    let sandbox = Sandbox::new();
    // `2 s_u a`, and 1.5 times one of b to f by user
    let mut text = String::new();
    for line in samples(N_USERS).lines() {
        let cells: Vec<&str> = line.split(',').collect();
        let (Some(user), Some(Ok(a))) = (
            cells[0].strip_prefix(USER),
            cells.get(2).map(|x| x.parse::<f64>()),
        ) else {
            text.push_str(&format!("{line}\n"));
            continue;
        };
        let number: usize = user.parse().unwrap();
        let slope = if number.is_multiple_of(2) { 2.0 } else { -2.0 };
        let own: f64 = cells[3 + number % 5].parse().unwrap();
        let y = slope * a + 1.5 * own;
        text.push_str(&format!("{},{y:.4},{}\n", cells[0], cells[2..].join(",")));
    }
    sandbox.write("data.csv", text);
    let private = |more: &[&str]| {
        let json = personalize(&sandbox, more).exits(0).json();
        figure(&json, "trained_on", "private")
    };
    let args = ["--insecure-seed", "3", "--json", "--out", "plain"];
    let plain = private(&args);
    let args = ["--insecure-seed", "3", "--json", "--sparse", "1"];
    let sparse = private(&args);
    assert!(sparse < 0.5 * plain, "{sparse} {plain}");
    // who joins fits the same kind of model
    let users = sandbox.dp(&[
        "predict",
        "--model",
        "dp-model",
        "--history",
        "data.csv",
        "--json",
    ]);
    let users = users.exits(0).json();
    let own = users["users"][0]["coefficients"]["b"].as_f64().unwrap();
    assert!((own - 1.5).abs() < 0.3, "{own}");
}

#[test]
fn the_published_method_can_be_chosen() {
    let sandbox = sandbox();
    let args = [
        "--method",
        "alternating",
        "--epsilon",
        "30",
        "--insecure-seed",
        "3",
        "--json",
    ];
    let json = personalize(&sandbox, &args).exits(0).json();
    assert_eq!(
        (&json["method"], &json["steps"]),
        (&"alternating".into(), &1.into())
    );
    let rmse = |method| figure(&json, "trained_on", method);
    assert!(rmse("private") < rmse("random-subspace"));
    let args = ["--method", "alternating", "--task", "classification"];
    let run = personalize(&sandbox, &args).exits(2);
    assert!(
        run.stderr.contains("--task classification"),
        "{}",
        run.stderr
    );
    let args = [
        "--sparse",
        "1",
        "--task",
        "classification",
        "--out",
        "other",
    ];
    personalize(&sandbox, &args).exits(2);
}

#[test]
fn a_run_leaves_model_certificate_and_reports_and_pays() {
    let sandbox = sandbox();
    let ledger = ["--ledger", "l.ledger", "--ledger-epsilon", "5"];
    let run = personalize(&sandbox, &ledger).exits(0);
    assert!(
        run.stdout
            .contains("private     epsilon 4.0000, delta 1e-5"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout
            .contains("internal, not covered by the guarantee")
    );
    assert_eq!(
        names_in(&sandbox.path("dp-model")),
        [
            "certificate.json",
            "features.svg",
            "internal-users.csv",
            "internal.json",
            "internal.md",
            "internal.svg",
            "report.json",
            "report.md",
            "subspace.safetensors"
        ]
    );
    let verified = sandbox.dp(&["verify", "dp-model", "--ledger", "l.ledger", "--json"]);
    assert_eq!(verified.exits(0).json()["files_compared"], true);
    personalize(&sandbox, &["--ledger", "l.ledger", "--out", "more"]).exits(3);
    assert!(!sandbox.exists("more"));
    let mut bytes = sandbox.read(SUBSPACE);
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    sandbox.write(SUBSPACE, bytes);
    sandbox
        .dp(&["verify", "dp-model"])
        .exits(6)
        .says(&["subspace.safetensors"]);
}

#[test]
fn released_files_name_no_user_no_count_and_no_error() {
    let sandbox = sandbox();
    let run = personalize(&sandbox, &[]).exits(0);
    for file in [
        "certificate.json",
        "features.svg",
        "report.md",
        "subspace.safetensors",
    ] {
        let bytes = sandbox.read(&format!("dp-model/{file}"));
        let text = String::from_utf8_lossy(&bytes);
        for word in [
            USER, "RMSE", "rmse", "accuracy", "n_users", "n_rows", "seconds",
        ] {
            assert!(!text.contains(word), "{word} in {file}");
        }
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        assert!(
            !words.any(|word| ["301", "3612"].contains(&word)),
            "a count in {file}"
        );
    }
    assert!(!run.stdout.contains(USER) && !run.stderr.contains(USER));
    let read = |file: &str| String::from_utf8(sandbox.read(&format!("dp-model/{file}"))).unwrap();
    let internal = read("internal.md");
    assert!(internal.starts_with("# Internal: not covered by the guarantee\n"));
    assert!(internal.contains("| users | 301 |") && !internal.contains(USER));
    assert!(read("internal.svg").contains("not covered by the guarantee"));
    let table = read("internal-users.csv");
    assert_eq!(table.lines().count(), 1 + N_USERS);
    assert!(table.starts_with("user,held_out,history_rows,test_rows,rmse own-mean,"));
}

#[test]
#[cfg(unix)]
fn internal_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = sandbox();
    personalize(&sandbox, &[]).exits(0);
    for file in ["internal.md", "internal-users.csv", "internal.svg"] {
        let meta = std::fs::metadata(sandbox.path(&format!("dp-model/{file}"))).unwrap();
        assert_eq!(meta.permissions().mode() & 0o077, 0, "{file}");
    }
}

#[test]
fn seeds_repeat_and_say_that_nothing_is_private() {
    let sandbox = sandbox();
    let run = personalize(&sandbox, &["--insecure-seed", "7"]).exits(0);
    assert!(run.stdout.starts_with("NOT PRIVATE"));
    for (seed, out) in [("7", "again"), ("8", "other")] {
        personalize(&sandbox, &["--insecure-seed", seed, "--out", out]).exits(0);
    }
    let bytes = |folder: &str| sandbox.read(&format!("{folder}/subspace.safetensors"));
    assert_eq!(bytes("dp-model"), bytes("again"));
    assert_ne!(bytes("dp-model"), bytes("other"));
    sandbox.dp(&["verify", "dp-model"]).exits(6);
    personalize(&sandbox, &["--out", "x"]).exits(0);
    personalize(&sandbox, &["--out", "y"]).exits(0);
    assert_ne!(bytes("x"), bytes("y"));
}

#[test]
fn the_order_of_the_users_does_not_show() {
    let sandbox = sandbox();
    let text = samples(N_USERS);
    let mut lines: Vec<&str> = text.lines().collect();
    // users backwards, every user's rows in their order
    lines[1..].sort_by_key(|line| std::cmp::Reverse(line.split(',').next().map(str::to_owned)));
    sandbox.write("turned.csv", lines.join("\n"));
    let args = ["--insecure-seed", "7", "--held-out-users", "0.1"];
    personalize(&sandbox, &args).exits(0);
    let turned = [
        "personalize",
        "turned.csv",
        "--rank",
        "1",
        "--epsilon",
        "4",
        "--delta",
        "1e-5",
    ];
    let turned = [turned.as_slice(), &args, &["--out", "turned"]].concat();
    sandbox.dp(&turned).exits(0);
    assert_eq!(
        sandbox.read(SUBSPACE),
        sandbox.read("turned/subspace.safetensors")
    );
}

#[test]
fn users_that_are_held_out_do_not_touch_the_subspace() {
    let sandbox = sandbox();
    let args = ["--insecure-seed", "7", "--held-out-users", "0.3"];
    personalize(&sandbox, &args).exits(0);
    let before = sandbox.read(SUBSPACE);
    let table = String::from_utf8(sandbox.read("dp-model/internal-users.csv")).unwrap();
    let held_out = |line: &str| line.split(',').nth(1) == Some("1");
    let ids: Vec<&str> = table
        .lines()
        .filter(|line| held_out(line))
        .filter_map(|line| line.split(',').next())
        .collect();
    assert!(ids.len() > 40, "{}", ids.len());
    let text = samples(N_USERS);
    let turned = text.lines().map(|line| {
        let (user, rest) = line.split_once(',').unwrap();
        match rest.split_once(',') {
            Some((_, features)) if ids.contains(&user) => format!("{user},9,{features}\n"),
            _ => format!("{line}\n"),
        }
    });
    sandbox.write("data.csv", turned.collect::<String>());
    personalize(&sandbox, &[&args[..], &["--force"]].concat()).exits(0);
    assert_eq!(sandbox.read(SUBSPACE), before);
    sandbox.write("data.csv", samples(N_USERS - 150));
    personalize(&sandbox, &[&args[..], &["--force"]].concat()).exits(0);
    assert_ne!(sandbox.read(SUBSPACE), before);
}

#[test]
fn classes_are_fitted_by_the_logistic_loss() {
    let sandbox = sandbox();
    let args = [
        "--task",
        "classification",
        "--threshold",
        "0",
        "--epsilon",
        "10",
        "--rank",
        "2",
    ];
    let json = personalize(
        &sandbox,
        &[&args[..], &["--insecure-seed", "1", "--json"]].concat(),
    );
    let json = json.exits(0).json();
    assert_eq!(
        (&json["method"], &json["internal"]["metric"]),
        (&"gradient".into(), &"accuracy".into())
    );
    let accuracy = |method: &str| figure(&json, "trained_on", method);
    assert!(
        accuracy("private") > accuracy("own-mean") + 0.1,
        "{}",
        accuracy("private")
    );
    assert!(accuracy("private") > accuracy("single-model") + 0.1);
}

#[test]
fn packed_files_other_names_and_no_held_out_rows() {
    let sandbox = Sandbox::new();
    let text = samples(40).replace("user,target,a,", "clinic,days,note,");
    let file = std::fs::File::create(sandbox.path("data.csv")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
    let names = [
        "--user-col",
        "clinic",
        "--target-col",
        "days",
        "--feature-cols",
        "b,c,d",
    ];
    let args = [
        "--no-split",
        "--method",
        "projectors",
        "--rank",
        "2",
        "--json",
    ];
    let json = personalize(&sandbox, &[&names[..], &args].concat())
        .exits(0)
        .json();
    assert_eq!(
        (&json["n_features"], &json["steps"]),
        (&3.into(), &0.into())
    );
    assert!(json["internal"]["trained_on"][0]["over_rows"].is_null());
    let report = String::from_utf8(sandbox.read("dp-model/report.md")).unwrap();
    assert!(
        report.contains("Target `days`") && report.contains("| b |"),
        "{report}"
    );
}

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
        (&["--l2-penalty", "0"], "l2 penalty"),
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
        ("user,target,a\nx,1,\n", "a number for the feature"),
        ("user,a,b\nx,1,2\n", "no column for the target"),
        ("target,a,b\n1,1,2\n", "no column for the user"),
        ("user,target\nx,1\n", "no column for the feature"),
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

#[test]
fn an_output_folder_that_holds_the_data_is_not_replaced() {
    let sandbox = sandbox();
    personalize(&sandbox, &["--out", ".", "--force"]).exits(2);
    personalize(&sandbox, &[]).exits(0);
    personalize(&sandbox, &[])
        .exits(7)
        .says(&["dp-model exists"]);
    personalize(&sandbox, &["--force"]).exits(0);
}
