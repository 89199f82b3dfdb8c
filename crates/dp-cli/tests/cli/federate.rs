//! `dp federate`: models learned partly together and partly alone, with everything private kept apart.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{Run, Sandbox, USER, names_in};

const N_USERS: usize = 240;
const N_ROWS: usize = 10;
const SHARED: &str = "dp-model/shared.safetensors";
const ALPHAS: [&str; 3] = ["0.0", "1.0", "inf"];

/// Rows of users with six shared slopes and a level and a seventh slope of their own.
fn rows(n_users: usize) -> Vec<Vec<([f64; 7], f64)>> {
    let mut state = 5_u64;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f64 / (1_u64 << 23) as f64 - 1.0
    };
    (0..n_users)
        .map(|_| {
            let (level, slope) = (0.8 * uniform(), 0.8 * uniform());
            (0..N_ROWS)
                .map(|_| {
                    let x: [f64; 7] = std::array::from_fn(|_| (1e4 * uniform()).round() / 1e4);
                    let together = 0.3 * (x[0] + x[1] + x[2] - x[3] - x[4] - x[5]);
                    let y = together + level + slope * x[6] + 0.05 * uniform();
                    (x, (1e4 * y).round() / 1e4)
                })
                .collect()
        })
        .collect()
}

fn csv<'a>(users: impl IntoIterator<Item = (usize, &'a Vec<([f64; 7], f64)>)>) -> String {
    let mut text = "user,y,x0,x1,x2,x3,x4,x5,x6\n".to_owned();
    for (user, rows) in users {
        for (x, y) in rows {
            let x: Vec<String> = x.iter().map(ToString::to_string).collect();
            writeln!(text, "{USER}{user},{y},{}", x.join(",")).unwrap();
        }
    }
    text
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", csv(rows(N_USERS).iter().enumerate()));
    sandbox
}

/// `dp federate data.csv` at epsilon 8 with three alphas and 30 rounds, and these arguments as well.
fn federate(sandbox: &Sandbox, more: &[&str]) -> Run {
    federate_file(sandbox, "data.csv", more)
}

fn federate_file(sandbox: &Sandbox, file: &str, more: &[&str]) -> Run {
    let mut args = vec!["federate", file, "--delta", "1e-5"];
    for (flag, usual) in [
        ("--epsilon", "8"),
        ("--alpha-grid", "0,1,inf"),
        ("--rounds", "30"),
        ("--learning-rate", "0.4"),
    ] {
        if !more.contains(&flag) {
            args.extend([flag, usual]);
        }
    }
    args.extend(more);
    sandbox.dp(&args)
}

/// RMSE of an alpha, with or without noise.
fn figure(json: &Value, alpha: &str, kind: &str) -> f64 {
    let rows = json["internal"]["by_alpha"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["alpha"].to_string().trim_matches('"') == alpha);
    row.unwrap()[kind]["over_rows"].as_f64().unwrap()
}

#[test]
fn users_who_are_alike_in_part_gain_from_learning_in_part_together() {
    let sandbox = sandbox();
    let json = federate(&sandbox, &["--insecure-seed", "3", "--json"]);
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
    // by the users' losses the others are worse by so much that they are chosen with a probability below 1e-9
    assert_eq!(json["alpha"], 1.0);
    assert_eq!(
        (&json["n_features"], &json["rounds"]),
        (&7.into(), &30.into())
    );
    let choice = json["internal"]["own_choice"]["over_rows"]
        .as_f64()
        .unwrap();
    let ridge = json["internal"]["own_ridge"]["over_rows"].as_f64().unwrap();
    assert!(choice < ridge, "{choice} {ridge}");
    // a fifth of the rows is compared on: 0.8 of 2400, and all of them are counted once
    let n_rows = json["internal"]["n_rows"].as_u64().unwrap();
    assert!((1800..2150).contains(&n_rows), "{n_rows}");
}

#[test]
fn a_run_leaves_model_certificate_and_reports_and_pays_once() {
    let sandbox = sandbox();
    let ledger = ["--ledger", "l.ledger"];
    let run = federate(&sandbox, &ledger).exits(0);
    let head = "private     epsilon 8.0000, delta 1e-5, add or remove one user";
    assert!(run.stdout.contains(head), "{}", run.stdout);
    assert!(
        run.stdout
            .contains("internal, not covered by the guarantee")
    );
    let files = [
        "certificate.json",
        "coefficients.svg",
        "internal-users.csv",
        "internal.json",
        "internal.md",
        "internal.svg",
        "report.json",
        "report.md",
        "shared.safetensors",
    ];
    assert_eq!(names_in(&sandbox.path("dp-model")), files);
    let verified = sandbox.dp(&["verify", "dp-model", "--ledger", "l.ledger", "--json"]);
    let verified = verified.exits(0).json();
    assert_eq!(verified["files_compared"], true);
    // number of users, two runs of 30 rounds, the choice
    let text = String::from_utf8(sandbox.read("dp-model/certificate.json")).unwrap();
    let certificate: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        certificate["releases"].as_array().unwrap().len(),
        1 + 2 * 30 + 1
    );
    assert_eq!(certificate["tuning_included"], true);
    assert!(text.contains("\"noisy number of users\""));
    federate(&sandbox, &["--ledger", "l.ledger", "--out", "more"]).exits(3);
    assert!(!sandbox.exists("more"));
    let mut bytes = sandbox.read(SHARED);
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    sandbox.write(SHARED, bytes);
    let changed = sandbox.dp(&["verify", "dp-model"]).exits(6);
    changed.says(&["shared.safetensors"]);
}

#[test]
fn one_alpha_is_gaussian_and_its_ledger_adds_up() {
    let sandbox = sandbox();
    let one = [
        "--alpha-grid",
        "1",
        "--n-users",
        "240",
        "--ledger",
        "l.ledger",
    ];
    federate(&sandbox, &[&one[..], &["--ledger-epsilon", "14"]].concat()).exits(0);
    let text = String::from_utf8(sandbox.read("dp-model/certificate.json")).unwrap();
    let certificate: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(certificate["releases"].as_array().unwrap().len(), 30);
    assert!(!text.contains("noisy number of users"));
    assert!(certificate["guarantee"]["gdp_mu"].as_f64().unwrap() > 1.0);
    let again = [&one[..], &["--out", "again"]].concat();
    federate(&sandbox, &again).exits(0);
    let third = [&one[..], &["--out", "third"]].concat();
    federate(&sandbox, &third).exits(3);
    sandbox
        .dp(&["verify", "again", "--ledger", "l.ledger"])
        .exits(0);
    // a choice is not Gaussian: that ledger cannot count it
    federate(&sandbox, &["--ledger", "l.ledger", "--out", "mixed"]).exits(5);
    assert!(!sandbox.exists("third") && !sandbox.exists("mixed"));
}

#[test]
fn several_epsilons_explore_and_release_nothing() {
    let sandbox = sandbox();
    let args = ["--epsilon", "0.3,40", "--insecure-seed", "1"];
    let run = federate(&sandbox, &args).exits(0);
    let note = "exploration: not covered by one certificate";
    assert!(run.stdout.starts_with(note), "{}", run.stdout);
    let files = [
        "internal-frontier.csv",
        "internal-frontier.svg",
        "internal.md",
    ];
    assert_eq!(names_in(&sandbox.path("dp-model")), files);
    for file in ["internal.md", "internal-frontier.svg"] {
        let text = String::from_utf8(sandbox.read(&format!("dp-model/{file}"))).unwrap();
        assert!(text.contains(note), "{file}");
    }
    let json = [&args[..], &["--force", "--json"]].concat();
    let json = federate(&sandbox, &json).exits(0).json();
    assert!(json["released"].is_null());
    let internal = &json["internal"];
    // alone once, two alphas at two epsilons and without noise
    assert_eq!(
        internal["frontier"].as_array().unwrap().len(),
        1 + 2 * 2 + 2
    );
    let winners = internal["winners"].as_array().unwrap();
    let best: Vec<String> = winners.iter().map(|w| w["alpha"].to_string()).collect();
    assert_eq!(best, ["0.0", "1.0", "1.0"]);
    assert_eq!(winners[0]["epsilon"], 0.3);
    let refused = federate(&sandbox, &["--epsilon", "1,2", "--ledger", "l.ledger"]);
    refused.exits(2).says(&["--ledger"]);
    assert!(!sandbox.exists("l.ledger"));
}

#[test]
fn released_files_name_no_user_and_internal_ones_are_for_their_owner() {
    let sandbox = sandbox();
    federate(&sandbox, &[]).exits(0);
    for file in names_in(&sandbox.path("dp-model")) {
        let bytes = sandbox.read(&format!("dp-model/{file}"));
        let named = bytes.windows(USER.len()).any(|at| at == USER.as_bytes());
        assert_eq!(named, file == "internal-users.csv", "{file}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let path = sandbox.path(&format!("dp-model/{file}"));
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077 == 0, file.starts_with("internal"), "{file}");
        }
    }
}

#[test]
fn seeds_repeat_and_the_order_of_users_does_not_show() {
    let sandbox = sandbox();
    federate(&sandbox, &["--insecure-seed", "7"]).exits(0);
    let first = sandbox.read(SHARED);
    sandbox.dp(&["verify", "dp-model"]).exits(6);
    let users = rows(N_USERS);
    let turned = users.iter().enumerate().rev();
    sandbox.write("turned.csv", csv(turned));
    let args = [
        "--insecure-seed",
        "7",
        "--out",
        "b",
        "--data-set",
        "data.csv",
    ];
    federate_file(&sandbox, "turned.csv", &args).exits(0);
    assert!(first == sandbox.read("b/shared.safetensors"));
    federate(&sandbox, &["--insecure-seed", "8", "--out", "c"]).exits(0);
    assert!(first != sandbox.read("c/shared.safetensors"));
}

fn leaf(users: &[Vec<([f64; 7], f64)>]) -> String {
    let list = |items: Vec<String>| items.join(", ");
    let ids = (0..users.len()).map(|u| format!("\"{USER}{u}\"")).collect();
    let counts = users.iter().map(|rows| rows.len().to_string()).collect();
    let data = users.iter().enumerate().map(|(u, rows)| {
        let x = rows.iter().map(|(x, _)| format!("{x:?}")).collect();
        let y = rows.iter().map(|(_, y)| y.to_string()).collect();
        format!(
            "\"{USER}{u}\": {{\"x\": [{}], \"y\": [{}]}}",
            list(x),
            list(y)
        )
    });
    let data = data.collect();
    format!(
        "{{\"users\": [{}], \"num_samples\": [{}], \"user_data\": {{{}}}}}",
        list(ids),
        list(counts),
        list(data)
    )
}

#[test]
fn leaf_json_and_csv_of_the_same_rows_give_the_same_model() {
    let sandbox = sandbox();
    sandbox.write("data.json", leaf(&rows(N_USERS)));
    federate(&sandbox, &["--insecure-seed", "2"]).exits(0);
    let seven = ["--n-features", "7"];
    let args = ["--insecure-seed", "2", "--out", "leaf"];
    federate_file(&sandbox, "data.json", &[args.as_slice(), &seven].concat()).exits(0);
    assert!(sandbox.read(SHARED) == sandbox.read("leaf/shared.safetensors"));
    let text = String::from_utf8(sandbox.read("leaf/certificate.json")).unwrap();
    assert!(text.contains("list `users`") && text.contains("--n-features"));
    assert!(!text.contains("names of columns") && !text.contains("user column"));
    // a row of another length in front of all others changes neither shape nor user
    let first = leaf(&rows(N_USERS)).replacen("\"x\": [", "\"x\": [[1], ", 1);
    let first = first.replacen("\"y\": [", "\"y\": [0, ", 1);
    sandbox.write("first.json", first.replacen("[10, ", "[11, ", 1));
    let args = [
        "--insecure-seed",
        "2",
        "--out",
        "first",
        "--data-set",
        "data.json",
    ];
    federate_file(&sandbox, "first.json", &[args.as_slice(), &seven].concat()).exits(0);
    assert!(sandbox.read(SHARED) == sandbox.read("first/shared.safetensors"));
    for (text, said) in [
        (
            leaf(&rows(3)).replace("[10, 10, 10]", "[10, 10, 9]"),
            "num_samples",
        ),
        (leaf(&rows(3)).replacen("-0.", "\"-0.", 1), "data.json:1:"),
        (
            leaf(&rows(3)).replacen(&format!("\"{USER}1\", "), "", 1),
            "num_samples",
        ),
        ("[1]".to_owned(), "an object"),
    ] {
        sandbox.write("data.json", text);
        let run = federate_file(
            &sandbox,
            "data.json",
            &["--out", "bad", "--n-features", "7"],
        );
        let run = run.exits(4).says(&[said]);
        assert!(!run.stderr.contains(USER), "{}", run.stderr);
        assert!(!sandbox.exists("bad"));
    }
    let named = ["--format", "leaf", "--user-col", "user"];
    federate(&sandbox, &named).exits(2).says(&["--user-col"]);
}

#[test]
fn ratings_are_predicted_from_public_features_of_items() {
    let sandbox = Sandbox::new();
    let mut items = "item,title,genres\n".to_owned();
    for item in 0..40 {
        let genre = ["War", "Comedy|Drama", "Drama"][item % 3];
        writeln!(items, "{item},Film ({}),{genre}", 1950 + 10 * (item % 4)).unwrap();
    }
    let mut ratings = "user,item,rating\n".to_owned();
    for user in 0..200 {
        for n in 0..12 {
            let item = (user * 11 + n * n) % 40;
            // comedies please all, and every second user likes war
            let war = if user % 2 == 0 { 5 } else { 1 };
            let stars = [war, 4, 2][item % 3];
            writeln!(ratings, "{USER}{user},{item},{stars}").unwrap();
        }
        writeln!(ratings, "{USER}{user},unlisted,5").unwrap();
    }
    sandbox.write("items.csv", items);
    sandbox.write("ratings.csv", ratings);
    let args = ["--items", "items.csv", "--insecure-seed", "1", "--json"];
    let run = federate_file(&sandbox, "ratings.csv", &args).exits(0);
    let json = run.json();
    // three genres, four decades, four buckets of popularity
    assert_eq!(json["n_features"], 11);
    assert_eq!(json["alpha"], 1.0);
    let [alone, partly, one] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(
        partly < alone && partly < 0.8 * one,
        "{alone} {partly} {one}"
    );
    let text = String::from_utf8(sandbox.read("dp-model/certificate.json")).unwrap();
    assert!(text.contains("\"ratings of items\""));
    for (bad, said) in [
        (&["--format", "ratings"][..], "--items"),
        (&["--items", "items.csv", "--format", "csv"], "--items"),
        (
            &["--items", "items.csv", "--features", "a"],
            "--feature-cols",
        ),
        (&["--items", "items.csv", "--bounds", "b.csv"], "b.csv"),
    ] {
        let code = if said == "b.csv" { 4 } else { 2 };
        let run = federate_file(&sandbox, "ratings.csv", &[bad, &["--out", "bad"]].concat());
        run.exits(code).says(&[said]);
        assert!(!sandbox.exists("bad"));
    }
    federate_file(
        &sandbox,
        "ratings.csv",
        &["--items", "no.csv", "--out", "x"],
    )
    .exits(4);
}

#[test]
fn classes_are_fitted_by_the_logistic_loss() {
    let sandbox = sandbox();
    let args = ["--task", "classification", "--threshold", "0", "--json"];
    let more = ["--insecure-seed", "1", "--learning-rate", "2"];
    let json = federate(&sandbox, &[&args[..], &more].concat())
        .exits(0)
        .json();
    assert_eq!(json["internal"]["metric"], "accuracy");
    let [alone, partly, _] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(partly > 0.7 && partly > alone, "{alone} {partly}");
    assert!(json["internal"]["own_choice"].is_null());
    federate(&sandbox, &["--threshold", "0", "--out", "x"]).exits(2);
}

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
    // no row of the declared length, a label too many, labels without rows
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
            "number of features",
        ),
        // with a constant one too many
        (
            &["--format", "leaf", "--n-features", "65536"],
            "number of features",
        ),
        (&["--validation-share", "0"], "--validation-share"),
        (
            &["--task", "classification", "--intercept", "own"],
            "intercept",
        ),
    ] {
        // there is no such file: nobody looked
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
    let none = [
        "--validation-share",
        "0",
        "--alpha-grid",
        "1",
        "--out",
        "one",
    ];
    federate(&sandbox, &none).exits(0);
    federate(&sandbox, &["--out", ".", "--force"]).exits(2);
    federate(&sandbox, &[]).exits(0);
    federate(&sandbox, &[]).exits(7).says(&["dp-model exists"]);
}
