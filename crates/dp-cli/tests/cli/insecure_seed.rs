//! Repeatable noise is marked as not private wherever it is shown.

use dp_accounting::{Certificate, Status};

use crate::support::{Sandbox, ratings, words};

const FACTORS: &str = "item_factors.safetensors";

fn seeded() -> Sandbox {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--insecure-seed", "7"]).exits(0);
    sandbox
}

#[test]
fn the_same_seed_gives_the_same_factors_and_another_one_others() {
    let sandbox = seeded();
    sandbox
        .train(&["--insecure-seed", "7", "--out", "again"])
        .exits(0);
    sandbox
        .train(&["--insecure-seed", "8", "--out", "other"])
        .exits(0);
    let first = sandbox.read(&format!("dp-model/{FACTORS}"));
    assert_eq!(sandbox.read(&format!("again/{FACTORS}")), first);
    assert_ne!(sandbox.read(&format!("other/{FACTORS}")), first);
}

#[test]
fn without_a_seed_no_two_runs_are_alike() {
    let sandbox = Sandbox::with_model();
    sandbox.train(&["--out", "again"]).exits(0);
    let factors = |folder: &str| sandbox.read(&format!("{folder}/{FACTORS}"));
    assert_ne!(factors("dp-model"), factors("again"));
}

#[test]
fn the_order_of_the_lines_does_not_show() {
    let sandbox = seeded();
    let text = ratings(40, 25, 10);
    let mut lines: Vec<&str> = text.lines().skip(1).collect();
    lines.sort_by_key(|line| line.bytes().rev().collect::<Vec<_>>());
    sandbox.write(
        "ratings.csv",
        format!("user,item,rating\n{}\n", lines.join("\n")),
    );
    sandbox
        .train(&["--insecure-seed", "7", "--out", "again"])
        .exits(0);
    let factors = |folder: &str| sandbox.read(&format!("{folder}/{FACTORS}"));
    assert_eq!(factors("dp-model"), factors("again"));
}

#[test]
fn every_output_says_that_it_is_not_private() {
    let sandbox = Sandbox::with_ratings();
    let run = sandbox.train(&["--insecure-seed", "7"]).exits(0);
    assert!(run.stdout.starts_with("NOT PRIVATE"), "{}", run.stdout);
    assert!(!run.stdout.contains("epsilon 1"), "{}", run.stdout);

    let certificate = sandbox.value("dp-model/certificate.json");
    assert_eq!(certificate["status"]["kind"], "not-private");
    assert!(certificate["guarantee"].is_null());
    let report = sandbox.text("dp-model/report.md");
    assert!(report.starts_with("# Item factors, NOT PRIVATE"));
    assert!(report.contains("**Not private: seeded noise.**"));

    let json = sandbox
        .train(&["--insecure-seed", "7", "--json", "--force"])
        .exits(0)
        .json();
    assert_eq!(json["released"]["private"], false);
    for key in ["epsilon", "gdp_mu", "rho", "epsilon_replace"] {
        assert!(json["released"][key].is_null(), "{key}");
    }

    sandbox.write("me.csv", "item,rating\nitem-3,5\n");
    let args = ["recommend", "--model", "dp-model", "--history", "me.csv"];
    sandbox
        .dp(&args)
        .exits(0)
        .says(&["warning: this model is not private"]);
    let json = sandbox
        .dp(&[args.as_slice(), &["--json"]].concat())
        .exits(0)
        .json();
    assert_eq!(json["provenance"], "seeded-noise");
}

#[test]
fn verification_does_not_pass_what_promises_nothing() {
    let sandbox = seeded();
    let run = sandbox.dp(&["verify", "dp-model"]).exits(6);
    let run = run.says(&["intact, but it promises no privacy: seeded noise"]);
    assert_eq!(run.stdout, "");
    let json = sandbox
        .dp(&["verify", "dp-model", "--json"])
        .exits(6)
        .json();
    assert_eq!(
        (&json["verified"], &json["private"]),
        (&true.into(), &false.into())
    );
    assert!(json["guarantee"].is_null());
}

#[test]
fn a_seeded_certificate_cannot_be_edited_into_a_private_one() {
    let sandbox = seeded();
    let text = sandbox.text("dp-model/certificate.json");
    let edited = text.replace("not-private", "private");
    assert_ne!(edited, text);
    sandbox.write("edited.json", edited);
    sandbox
        .dp(&["verify", "edited.json"])
        .exits(6)
        .says(&["does not hold"]);
}

#[test]
fn a_certificate_that_denies_it_is_refused() {
    let sandbox = seeded();
    sandbox.train(&["--out", "other"]).exits(0);
    let two = words("train ratings.csv --epsilon 2 --delta 1e-5 --out two");
    sandbox.dp(&two).exits(0);
    let certificate = |folder: &str| {
        let text = sandbox.text(&format!("{folder}/certificate.json"));
        Certificate::from_json(&text).unwrap()
    };
    let refused = |folder: &str, parts: &[&str]| {
        sandbox.dp(&["verify", folder]).exits(6).says(parts);
        sandbox.dp(&["publish", folder, "x"]).exits(6).says(parts);
        assert!(!sandbox.exists("x"));
    };
    // the guarantee of a private run for the files of this one; adding to it renews its digest
    let mut denied = certificate("dp-model");
    denied.status = Status::Private;
    denied.guarantee = certificate("other").guarantee;
    sandbox.issue("dp-model", &denied.with_not_covered("nothing"));
    refused("dp-model", &[FACTORS, "its noise was seeded"]);
    // the same with a model of another run
    let mut denied = certificate("dp-model");
    let file = sandbox.read(&format!("other/{FACTORS}"));
    denied.artifacts.retain(|of| of.name != FACTORS);
    sandbox.write(&format!("dp-model/{FACTORS}"), &file);
    sandbox.issue("dp-model", &denied.with_artifact(FACTORS, &file));
    refused("dp-model", &["report.json", "was seeded"]);
    // the report of a run with another target
    let mut denied = certificate("two");
    denied.artifacts = certificate("other").artifacts;
    sandbox.issue("other", &denied.with_not_covered("nothing"));
    refused("other", &["report.json", "another target"]);
}
