//! Several runs, runs of other commands, and folders that are not what they say.

use dp_accounting::Certificate;
use serde_json::Value;

use super::well_formed::check;
use super::{bind, page, trained};
use crate::support::{ratings, words};

#[test]
fn several_runs_stand_beside_each_other_and_their_budgets_add_up() {
    let sandbox = trained();
    let args = words("train ratings.csv --items items.csv --delta 1e-5 --out richer --dim 3");
    sandbox
        .dp(&[&args[..], &["--epsilon", "3"]].concat())
        .exits(0);
    sandbox.dp(&["report", "dp-model", "richer"]).exits(0);
    let html = page(&sandbox, "report.html");
    check(&html);
    check(&page(&sandbox, "internal.html"));
    assert!(html.contains("Items above the noise against epsilon"));
    // mu of (1, 1e-5) and of (3, 1e-5) from 30 digits of mpmath: 0.268051 and 0.719117; together 0.767451, whose epsilon is
    // 3.35348 at half of delta
    let together = |html: &str| -> f64 {
        let given = html
            .split("as much privacy as one run with epsilon ")
            .nth(1)
            .unwrap();
        given.split(' ').next().unwrap().parse().unwrap()
    };
    let given = together(&html);
    assert!((3.3534..3.3537).contains(&given), "{given}");
    assert!(page(&sandbox, "internal.html").contains("RMSE test against epsilon"));
    // twice the mu would be 7.48937 at half of delta; some releases change by a little less than twice as much
    let replaced = html.split("For replace-user it is epsilon ").nth(1);
    let replaced = replaced.unwrap().split(". ").next().unwrap();
    let replaced = replaced.split(".<").next().unwrap();
    let replaced: f64 = replaced.parse().unwrap();
    assert!((7.45..7.4894).contains(&replaced), "{replaced}");
    assert!(!html.contains("different deltas"));
    // the same run twice is one run
    sandbox.dp(&["report", "dp-model", "dp-model"]).exits(0);
    let given = together(&page(&sandbox, "report.html"));
    // mu 0.268051 alone, at half of delta: 1.044995
    assert!((1.044_99..1.0452).contains(&given), "{given}");
    // elsewhere
    sandbox
        .dp(&["report", "richer", "--out", "pages/today"])
        .exits(0);
    assert!(sandbox.exists("pages/today/report.html") && !sandbox.exists("richer/report.html"));
}

#[test]
fn runs_of_different_methods_are_different_lines_with_intervals() {
    let sandbox = trained();
    for more in [
        "--epsilon 3 --out richer --dim 3",
        "--epsilon 2 --out plain --method biases",
    ] {
        let line = format!("train ratings.csv --items items.csv --delta 1e-5 {more}");
        sandbox.dp(&words(&line)).exits(0);
    }
    let all = words("report dp-model richer plain");
    sandbox.dp(&all).exits(0);
    let html = page(&sandbox, "internal.html");
    check(&html);
    let chart = html.split("<figcaption>RMSE test against epsilon");
    let chart = chart.last().unwrap();
    let chart = chart.split("</figure>").next().unwrap();
    for name in ["pooled", "biases"] {
        assert!(chart.contains(&format!("</svg>{name}</li>")), "{chart}");
    }
    assert_eq!(chart.matches("<line class=\"error c0\"").count(), 2);
    assert_eq!(chart.matches("<line class=\"error c1\"").count(), 1);
    let numbers = page(&sandbox, "internal.md");
    let row = numbers
        .lines()
        .find(|line| line.starts_with("| plain | biases | 2 |"));
    assert!(row.is_some_and(|row| row.contains(" to ")), "{numbers}");
    assert!(page(&sandbox, "report.md").contains("| richer | pooled | 3.0000 |"));
    // settings that differ tell methods of one name apart
    let line = "train ratings.csv --items items.csv --delta 1e-5 --epsilon 2 --out plain --steps 3 --force";
    sandbox.dp(&words(line)).exits(0);
    sandbox.dp(&all).exits(0);
    let html = page(&sandbox, "report.html");
    for name in ["pooled, dim 3", "pooled, n-rounds 3"] {
        assert!(html.contains(&format!("</svg>{name}</li>")), "{name}");
    }
}

#[test]
fn the_internal_page_has_the_ledger_and_groups_of_users_and_no_empty_section() {
    let sandbox = trained();
    let line = "--items items.csv --force --ledger all.ledger --ledger-epsilon 4";
    sandbox.train(&words(line)).exits(0);
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let internal = page(&sandbox, "internal.md");
    for part in [
        "## Ledger",
        "| left | epsilon ",
        "| train | rating scale ... ",
        "## Quality by group",
        "By activity of users: RMSE",
        "* date: 20",
    ] {
        assert!(internal.contains(part), "no `{part}` in {internal}");
    }
    assert!(page(&sandbox, "report.md").contains("* date: 20"));
    for (name, text) in [
        ("internal", &internal),
        ("report", &page(&sandbox, "report.md")),
    ] {
        let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            let next = lines.peek().copied().unwrap_or("## ");
            let is_empty = line.starts_with("## ") && next.starts_with("## ");
            assert!(!is_empty, "{name}: nothing below {line}");
        }
    }
    // a ledger that is gone is told
    std::fs::remove_file(sandbox.path("all.ledger")).unwrap();
    sandbox.dp(&["report", "dp-model"]).exits(0);
    assert!(page(&sandbox, "internal.md").contains("all.ledger cannot be read"));
}

#[test]
fn only_runs_whose_epsilons_mean_the_same_share_a_curve() {
    let sandbox = trained();
    let args = words("train ratings.csv --items items.csv --epsilon 2");
    for (out, delta, data) in [
        ("alike", "1e-5", "ratings.csv"),
        ("stricter", "1e-6", "ratings.csv"),
        ("elsewhere", "1e-5", "others"),
    ] {
        let of = ["--out", out, "--delta", delta, "--data-set", data];
        sandbox.dp(&[&args[..], &of].concat()).exits(0);
    }
    let evaluate = ["evaluate", "--model", "dp-model", "--save", "--non-private"];
    sandbox.write("half.csv", ratings(407, 30, 6));
    let history = ["ratings.csv", "--history", "half.csv"];
    sandbox.dp(&[&evaluate[..], &history].concat()).exits(0);
    let dashed = "without privacy, split of dp-model, settings of dp demo";
    for (other, curve, note) in [
        ("alike", true, None),
        (
            "stricter",
            false,
            Some("different deltas: the total is at the largest"),
        ),
        ("elsewhere", false, Some("data sets with different names")),
    ] {
        sandbox.dp(&["report", "dp-model", other]).exits(0);
        let internal = page(&sandbox, "internal.html");
        assert_eq!(
            internal.contains("RMSE test against epsilon"),
            curve,
            "{other}"
        );
        // figures on another split are no level of this one
        assert!(!internal.contains("without privacy, "));
        let html = page(&sandbox, "report.html");
        assert!(note.is_none_or(|note| html.contains(note)), "{other}");
    }
    sandbox
        .dp(&[&evaluate[..], &["ratings.csv"]].concat())
        .exits(0);
    sandbox.dp(&["report", "dp-model", "alike"]).exits(0);
    assert!(page(&sandbox, "internal.html").contains(dashed));
    // figures of another run are left out
    sandbox.write(
        "alike-internal/internal-evaluation.json",
        page(&sandbox, "internal-evaluation.json"),
    );
    let run = sandbox.dp(&["report", "alike", "dp-model"]).exits(0);
    run.says(&["internal-evaluation.json is of another run"]);
    let text = sandbox.text("alike-internal/internal.md");
    assert!(!text.contains("Measured by dp evaluate"));
    assert!(text.contains("Measured by the run"));
    sandbox.write(
        "alike-internal/internal.json",
        page(&sandbox, "internal.json"),
    );
    let run = sandbox.dp(&["report", "alike", "dp-model"]).exits(0);
    run.says(&["internal.json is of another run and left out"]);
    // files of earlier versions do not say of which run they are
    let digest = Certificate::from_json(&page(&sandbox, "certificate.json"))
        .unwrap()
        .digest;
    let written = page(&sandbox, "internal.json");
    let older = written.replace(&format!("\"{digest}\""), "null");
    assert_ne!(older, written);
    sandbox.write("alike-internal/internal.json", older);
    let run = sandbox.dp(&["report", "alike", "dp-model"]).exits(0);
    assert!(!run.stderr.contains("internal.json"), "{}", run.stderr);
}

#[test]
fn pages_of_the_other_trainers() {
    let sandbox = crate::personalize::sandbox();
    crate::personalize::personalize(&sandbox, &[]).exits(0);
    sandbox.dp(&["report", "dp-model"]).exits(0);
    for name in ["report.html", "internal.html"] {
        check(&page(&sandbox, name));
    }
    let html = page(&sandbox, "report.html");
    assert!(html.contains("Features in the subspace"));
    assert!(html.contains("Share of the budget by release"));
    let internal = page(&sandbox, "internal.html");
    assert!(
        internal.contains("own data, ridge")
            && internal.contains("relative to the model without privacy")
    );
    sandbox
        .dp(&["report", "dp-model", "--title", "x"])
        .exits(2)
        .says(&["--title needs"]);

    let args = words("federate data.csv --epsilon 8 --delta 1e-5 --rounds 5 --out fed");
    sandbox.dp(&args).exits(0);
    sandbox.dp(&["report", "fed"]).exits(0);
    let html = sandbox.text("fed/report.html");
    check(&html);
    // users who learn alone share no coefficients; the choice is private, so either can be chosen
    let report: Value = serde_json::from_str(&sandbox.text("fed/report.json")).unwrap();
    let is_alone = report["model"].as_str().unwrap().contains("alpha 0 ");
    assert_eq!(html.contains("Shared coefficients"), !is_alone);
    // the choice is not Gaussian, and bars without a length would say nothing
    assert!(!html.contains("Share of the budget by release"));
    // each of several alphas has rounds, told apart by their labels
    for alpha in ["0.1", "1"] {
        let label = format!("<th scope=\"row\">alpha {alpha}: round 1</th><td>");
        assert!(html.contains(&label), "{alpha}");
    }
    assert!(!html.contains("RMSE"));
    let internal = sandbox.text("fed-internal/internal.html");
    check(&internal);
    assert!(internal.contains("no noise") && internal.contains("chosen"));
}

#[test]
fn a_claim_that_does_not_hold_is_not_repeated() {
    let sandbox = trained();
    sandbox
        .train(&["--out", "seeded", "--insecure-seed", "1"])
        .exits(0);
    let run = sandbox.dp(&["report", "seeded"]).exits(0);
    assert!(
        run.stderr.contains("not every run is private"),
        "{}",
        run.stderr
    );
    let html = sandbox.text("seeded/report.html");
    check(&html);
    assert!(html.contains("NOT PRIVATE") && !html.contains("<h1>Private"));
    assert!(!html.contains("it may be shown to anyone"));
    assert!(!sandbox.exists("seeded/report-items.csv"));

    let certificate = page(&sandbox, "certificate.json");
    sandbox.write(
        "dp-model/certificate.json",
        certificate
            .replace("\"unit\":\"user\"", "\"unit\":\"record\"")
            .replace("\"unit\": \"user\"", "\"unit\": \"record\""),
    );
    sandbox.dp(&["report", "dp-model"]).exits(6);
    sandbox
        .dp(&["evaluate", "ratings.csv", "--model", "dp-model"])
        .exits(6);
    sandbox.write("dp-model/certificate.json", &certificate);
    let factors = sandbox.read("seeded/item_factors.safetensors");
    sandbox.write("dp-model/item_factors.safetensors", factors);
    sandbox.dp(&["report", "dp-model"]).exits(6);
    assert!(!sandbox.exists("dp-model/report.html"));
    sandbox
        .dp(&["report", "nowhere"])
        .exits(4)
        .says(&["nowhere"]);
    sandbox.dp(&["report"]).exits(2).says(&["<DIR>"]);
}

#[test]
fn damaged_and_newer_files_of_a_run_are_refused() {
    let sandbox = trained();
    let good = page(&sandbox, "report.json");
    for (bad, said) in [
        ("{", "damaged"),
        (
            &*good.replace("\"schema_version\": 1", "\"schema_version\": 99"),
            "newer",
        ),
        (
            &*good.replace("\"values\": [", "\"values\": [1.5, "),
            "31 counts for 30 items",
        ),
    ] {
        sandbox.write("dp-model/report.json", bad);
        for command in [
            &["report", "dp-model"][..],
            &["verify", "dp-model"],
            &["evaluate", "ratings.csv", "--model", "dp-model", "--json"],
        ] {
            sandbox.dp(command).exits(6).says(&["report.json is not"]);
        }
        bind(&sandbox, Some(bad));
        sandbox
            .dp(&["report", "dp-model"])
            .exits(4)
            .says(&["report.json", said]);
    }
    sandbox.write(
        "c.toml",
        "[report]\nfolders = [\"dp-model\"]\njson = true\n",
    );
    bind(&sandbox, Some(&good));
    sandbox
        .dp(&["report", "--config", "c.toml"])
        .exits(0)
        .json();
}
