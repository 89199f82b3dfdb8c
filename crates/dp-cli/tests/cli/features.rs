//! `dp train --method am-ssp`: public features of items.

use crate::implicit::REFUSED;
use crate::support::{Run, Sandbox, USER, words};

/// 300 users, half of them fond of War, half of Art; items 0 to 29 are rated, 30 to 35 are only in
/// the table, 36 has no feature values at all.
fn ratings() -> String {
    let mut text = "user,item,rating\n".to_owned();
    for user in 0..300 {
        for step in 0..12 {
            let item = (5 * user + step) % 30;
            let likes = (user % 2 == 0) == (item % 2 == 0);
            let rating = if likes {
                4 + (user + item) % 2
            } else {
                1 + (user + item) % 2
            };
            text.push_str(&format!("{USER}{user},{item},{rating}\n"));
        }
    }
    // a user without any item of the catalogue, and a repeated pair
    text.push_str(&format!("{USER}none,999,5\n{USER}0,0,1\n{USER}0,0,5\n"));
    text
}

pub(crate) fn items() -> String {
    let mut text = "item,title,genres,year,actors,note\n".to_owned();
    for item in 0..36 {
        let genre = if item % 2 == 0 {
            "War|Drama"
        } else {
            "Art|Drama"
        };
        let year = 1950 + item;
        text.push_str(&format!(
            "{item},Title {item},{genre},{year},Ann|Actor {item},only {item}\n"
        ));
    }
    text + "36,Nothing,,,,\n"
}

/// A folder with ratings and items.
pub(crate) fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings());
    sandbox.write("items.csv", items());
    sandbox
}

const FEATURES: [&str; 4] = ["--items", "items.csv", "--method", "am-ssp"];

pub(crate) fn train(sandbox: &Sandbox, more: &[&str]) -> Run {
    let args = ["train", "ratings.csv", "--epsilon", "10", "--delta", "1e-5"];
    sandbox.dp(&[&args[..], &FEATURES, more].concat())
}

/// The same with a model trained at epsilon 10.
pub(crate) fn trained(more: &[&str]) -> Sandbox {
    let sandbox = sandbox();
    train(&sandbox, more).exits(0);
    sandbox
}

#[test]
fn a_run_leaves_the_usual_files_and_the_weights_of_features() {
    let sandbox = sandbox();
    let args = words("--ledger l.ledger --ledger-epsilon 30 --json --show-internal");
    let json = train(&sandbox, &args).exits(0).json();
    assert_eq!(
        (&json["method"], &json["n_items"]),
        (&"am-ssp".into(), &37.into())
    );
    assert_eq!((&json["dim"], &json["steps"]), (&8.into(), &12.into()));
    let metric = |name: &str| json["internal"]["metrics"][name].as_f64().unwrap();
    assert!(metric("test_rmse") < 0.8 * metric("user_mean_rmse"));
    assert!(json["released"]["epsilon"].as_f64().unwrap() <= 10.0);
    let assumptions = json["released"]["assumptions"].to_string();
    for part in ["features", "one person has one user id", "same ledger file"] {
        assert!(assumptions.contains(part), "{part}: {assumptions}");
    }
    let text = |name: &str| sandbox.text(name);
    let weights = text("dp-model/feature_weights.csv");
    let lines: Vec<&str> = weights.lines().collect();
    assert!(lines[0].starts_with("column,name,bias,taste_1,") && lines[1].starts_with(",,"));
    // values that two items have: three genres, four decades, one actor; notes are all different
    let names: Vec<_> = lines[2..]
        .iter()
        .map(|l| l.splitn(3, ',').take(2).collect::<Vec<_>>().join(","))
        .collect();
    let expected = [
        "genres,Art",
        "genres,Drama",
        "genres,War",
        "year,1950s",
        "year,1960s",
        "year,1970s",
        "year,1980s",
        "actors,Ann",
    ];
    assert_eq!(names, expected);
    let report = text("dp-model/report.md");
    for part in [
        "prior_variances",
        "taste_norm",
        "residuals 12",
        "rounds, method `am-ssp`",
    ] {
        assert!(report.contains(part), "no {part} in {report}");
    }
    for name in [
        "item_factors.safetensors",
        "items.csv",
        "certificate.json",
        "report.md",
        "feature_weights.csv",
    ] {
        let bytes = sandbox.read(&format!("dp-model/{name}"));
        assert!(
            !String::from_utf8_lossy(&bytes).contains(USER),
            "{name} names users"
        );
    }
    sandbox
        .dp(&["verify", "dp-model", "--ledger", "l.ledger"])
        .exits(0);
    sandbox.write(
        "dp-model/feature_weights.csv",
        weights.replace("War", "Wax"),
    );
    sandbox
        .dp(&["verify", "dp-model"])
        .exits(6)
        .says(&["feature_weights.csv"]);
}

#[test]
fn columns_are_those_that_are_named() {
    let sandbox = trained(&[
        "--feature-cols",
        "actors,genres",
        "--min-items",
        "1",
        "--steps",
        "2",
        "--dim",
        "3",
    ]);
    let weights = sandbox.text("dp-model/feature_weights.csv");
    assert_eq!(weights.lines().count(), 1 + 1 + 37 + 3);
    assert_eq!(
        weights.lines().nth(2).unwrap().split(',').next(),
        Some("actors")
    );
    // names, three weights and their standard errors
    assert!(weights.lines().all(|line| line.split(',').count() == 8) && !weights.contains("year,"));
    for (more, part) in [
        (&["--feature-cols", "genres,writers"][..], "writers"),
        (&["--feature-cols", "note"], "at least 2 items"),
        (&["--min-items", "99"], "at least 99 items"),
    ] {
        train(&sandbox, &[&["--force"], more].concat())
            .exits(4)
            .says(&[part]);
    }
    sandbox.write("items.csv", "item,title\n0,None\n");
    train(&sandbox, &["--force"]).exits(4).says(&["items.csv"]);
}

#[test]
fn flags_that_mean_nothing_together_are_refused_before_anything_is_read() {
    let sandbox = Sandbox::new();
    let both = ["train", "none.csv", "--epsilon", "1", "--delta", "1e-5"];
    for (more, part) in [
        (&["--method", "am-ssp"][..], "needs --items"),
        (&["--feature-cols", "genres"], "need --method am-ssp"),
        (&["--min-items", "3"], "need --method am-ssp"),
    ] {
        sandbox
            .dp(&[&both[..], more].concat())
            .exits(2)
            .says(&[part]);
    }
    for more in [
        &["--weight-exponent", "0"][..],
        &["--reg", "1"],
        &["--count-share", "0.1"],
    ] {
        let run = sandbox.dp(&[&both[..], &FEATURES, more].concat()).exits(2);
        run.says(&["has no meaning with --method am-ssp"]);
    }
    for (more, part) in [
        (&["--dim", "0"][..], "--dim is 0"),
        (&["--steps", "0"], "--steps is 0"),
        (&["--clip-norm", "1"], "--clip-norm is 1"),
        (&["--label-bound", "1e4"], "--label-bound is 10000"),
        (&["--label-bound=-1"], "--label-bound is -1"),
        (&["--label-center", "nan"], "--label-center is NaN"),
        (&["--feedback", "implicit", "--dim", "0"], "--dim is 0"),
        (
            &["--feature-cols", "genres,year,genres"],
            "names genres twice",
        ),
    ]
    .into_iter()
    .chain(REFUSED)
    {
        sandbox
            .dp(&[&both[..], &FEATURES, more].concat())
            .exits(2)
            .says(&[part]);
    }
    let tune = words("tune none.csv --epsilon 1 --delta 1e-5 --try dim=2");
    sandbox
        .dp(&[&tune[..], &FEATURES].concat())
        .exits(2)
        .says(&["only `dp train` supports it"]);
    let audit = words("audit --method am-ssp --epsilon 1 --delta 1e-5");
    sandbox
        .dp(&audit)
        .exits(2)
        .says(&["give RATINGS and their --items"]);
    assert!(sandbox.names().is_empty());
}

#[test]
fn settings_of_features_stand_in_files_like_all_others() {
    let sandbox = sandbox();
    let args = [
        &["train", "ratings.csv"],
        &FEATURES[..],
        &["--feature-cols", "genres,year", "--print-config"],
    ]
    .concat();
    let printed = sandbox.dp(&args).exits(0).stdout;
    let table: toml::Table = printed.parse().unwrap();
    assert_eq!(table["train"]["method"].as_str(), Some("am-ssp"));
    assert_eq!(
        table["train"]["feature-cols"].as_array().map(Vec::len),
        Some(2)
    );
    sandbox.write("c.toml", printed);
    let args =
        words("train --config c.toml --epsilon 5 --delta 1e-5 --label-bound 2 --label-center 3");
    let mut run = sandbox.command();
    run.env_remove("DP_ITEM_IDS_ARE_PUBLIC").args(&args); // the file names a catalogue
    Run::from(run.output().unwrap()).exits(0);
    let weights = sandbox.text("dp-model/feature_weights.csv");
    assert!(!weights.contains("actors,"));
    let seeded = train(&sandbox, &["--force", "--insecure-seed", "3"]).exits(0);
    assert!(
        seeded.stdout.to_lowercase().contains("not private"),
        "{}",
        seeded.stdout
    );
    sandbox.dp(&["verify", "dp-model"]).exits(6);
    let first = sandbox.read("dp-model/item_factors.safetensors");
    train(&sandbox, &["--force", "--insecure-seed", "3"]).exits(0);
    assert_eq!(sandbox.read("dp-model/item_factors.safetensors"), first);
}
