//! `dp tune`: candidates in, the best of them out, everything charged.

use crate::support::{Run, Sandbox};

fn tune(sandbox: &Sandbox, more: &[&str]) -> Run {
    let always = ["tune", "ratings.csv", "--epsilon", "4", "--delta", "1e-5"];
    sandbox.dp(&[&always, more].concat())
}

#[test]
fn the_best_candidate_is_kept_and_the_certificate_covers_the_choice() {
    let sandbox = Sandbox::with_ratings();
    let candidates = ["--try", "dim=1", "--try", "dim=1, label-bound=0.01"];
    let run = tune(
        &sandbox,
        &[&candidates[..], &["--json", "--ledger", "l"]].concat(),
    )
    .exits(0);
    let json = run.json();
    let comparison = &json["released"]["comparison"];
    assert_eq!(json["released"]["tuning_included"], true);
    assert_eq!(comparison["candidates"].as_array().unwrap().len(), 2);
    let scores: Vec<f64> = serde_json::from_value(comparison["scores"].clone()).unwrap();
    let chosen = usize::from(scores[1] < scores[0]);
    assert_eq!(comparison["chosen"], chosen);
    let report = sandbox.text("dp-model/report.md");
    assert!(report.contains("## Candidates") && report.contains("| chosen |"));
    sandbox
        .dp(&["verify", "dp-model", "--ledger", "l"])
        .exits(0);
    // the budget is gone
    tune(
        &sandbox,
        &[&candidates[..], &["--ledger", "l", "--force"]].concat(),
    )
    .exits(3);
}

#[test]
fn the_summary_lists_candidates_and_their_noise() {
    let sandbox = Sandbox::with_ratings();
    let run = tune(&sandbox, &["--try", "reg=0.5", "--try", "steps=2"]).exits(0);
    for part in [
        "candidates  reg=0.5: ",
        "steps=2: ",
        "<- chosen",
        "released with noise of",
    ] {
        assert!(run.stdout.contains(part), "no `{part}` in {}", run.stdout);
    }
}

#[test]
fn odd_candidates_are_refused_before_the_data_is_read() {
    let sandbox = Sandbox::new();
    for (candidate, says) in [
        (
            "taste=3",
            "taste is not a setting; there are method, dim, no-global-effects, steps",
        ),
        ("dim", "NAME=VALUE"),
        ("dim=two", "two is not a whole number"),
        ("reg=much", "much is not a number"),
        ("reg=-1", "--reg"),
        ("method=popularity", "--feedback implicit"),
        (
            "method=biases,dim=3",
            "--dim does not go with --method biases",
        ),
        ("method=am-ssp", "am-ssp"),
        ("rating-range=1,10", "as in rating-range=1..5"),
        (
            "rating-range=10..1",
            "--rating-range takes a number and a larger one",
        ),
        ("dim=2", "give two or more"),
    ] {
        tune(&sandbox, &["--try", candidate]).exits(2).says(&[says]);
    }
    tune(&sandbox, &[]).exits(2).says(&["--try"]);
    tune(&sandbox, &["--try", "dim=2", "--score-share", "1"]).exits(2);
    tune(&sandbox, &["--try", "dim=2", "--resume"])
        .exits(2)
        .says(&["--ledger"]);
}

#[test]
fn candidates_may_be_other_methods() {
    let sandbox = Sandbox::with_ratings();
    for (feedback, method) in [("explicit", "biases"), ("implicit", "popularity")] {
        let own = format!("method={method}");
        let more = ["--feedback", feedback, "--try", "dim=2", "--try", &own];
        let more = [&more[..], &["--json", "--publish-releases", "--force"]].concat();
        let json = tune(&sandbox, &more).exits(0).json();
        let chosen = json["released"]["comparison"]["chosen"].as_u64().unwrap();
        assert_eq!(
            json["method"],
            ["pooled", method][usize::try_from(chosen).unwrap()]
        );
        sandbox.dp(&["verify", "dp-model", "--recompute"]).exits(0);
        let certificate = sandbox.text("dp-model/certificate.json");
        assert!(certificate.contains("candidate 2: item counts"));
        assert_eq!(
            certificate.contains("candidate 2: round 1"),
            method == "biases"
        );
    }
}

#[test]
fn defaults_of_candidates_follow_what_released_metrics_leave_of_the_budget() {
    let sandbox = Sandbox::with_ratings();
    let epsilon = |more: &[&str]| {
        let candidates = ["--try", "dim=1", "--try", "dim=3", "--force"];
        tune(&sandbox, &[&candidates[..], more].concat()).exits(0);
        let report = sandbox.value("dp-model/report.json");
        report["settings"]["rule_epsilon"].as_f64().unwrap()
    };
    let (whole, rest) = (epsilon(&[]), epsilon(&["--release-metrics", "0.5"]));
    // half of mu^2 is left; epsilon grows a little faster than mu
    assert!((0.62..0.71).contains(&(rest / whole)), "{rest} of {whole}");
}

#[test]
fn neither_help_nor_settings_offer_what_tune_refuses() {
    let sandbox = Sandbox::new();
    for (command, has) in [("tune", false), ("audit-tune", false), ("train", true)] {
        let help = sandbox.dp(&[command, "--help"]).exits(0).stdout;
        let template = sandbox.dp(&[command, "--print-config"]).exits(0).stdout;
        for (text, dashes) in [(help, "--"), (template, "# ")] {
            assert_eq!(
                text.contains(&format!("{dashes}feature-cols")),
                has,
                "{command}"
            );
            assert_eq!(text.contains("am-ssp"), has, "{command}");
        }
    }
    for (flag, value) in [
        ("--prior", "p.csv"),
        ("--min-items", "3"),
        ("--feature-cols", "a"),
    ] {
        let line = ["--try", "dim=1", flag, value];
        tune(&sandbox, &line).exits(2).says(&[flag]);
    }
}

#[test]
fn candidates_may_have_ranges() {
    let sandbox = Sandbox::with_ratings();
    let candidates = ["--try", "rating-range=1..5", "--try", "rating-range=0..10"];
    tune(&sandbox, &candidates).exits(0);
    let report = sandbox.value("dp-model/report.json");
    let chosen = report["comparison"]["chosen"].as_u64().unwrap();
    let center = [3.0, 5.0][usize::try_from(chosen).unwrap()];
    assert_eq!(report["settings"]["label_center"], center);
    // the range is known to whoever uses the model
    sandbox.write("me.csv", "item,rating\nitem-3,-50\n");
    let recommend = sandbox.dp(&["recommend", "--model", "dp-model", "--history", "me.csv"]);
    recommend
        .exits(0)
        .says(&["1 of 1 ratings in me.csv are outside"]);
}
