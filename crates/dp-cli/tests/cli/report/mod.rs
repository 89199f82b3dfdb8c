//! `dp report`: pages about runs.

mod convergence;
mod elsewhere;
mod folders;
mod runaway;
mod well_formed;

use std::fs;

use dp_accounting::Certificate;
use serde_json::Value;

use crate::support::{Sandbox, USER, names_in, ratings, states_number, words};
use well_formed::check;

/// Ids and titles that would be markup if nobody took care.
const HOSTILE: &str = "<script>alert('1')</script>\"|`*_ &amp; <img src=x onerror=y>";

fn trained() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(407, 30, 12));
    let mut catalogue = "item,title\n".to_owned();
    for item in 0..30 {
        let title = match item {
            3 => HOSTILE.replace('"', "\"\""),
            n => format!("Title {n} of all"),
        };
        catalogue.push_str(&format!("item-{item},\"{title}\"\n"));
    }
    sandbox.write("items.csv", catalogue);
    sandbox
        .train(&["--items", "items.csv", "--dim", "3"])
        .exits(0);
    sandbox
}

fn page(sandbox: &Sandbox, name: &str) -> String {
    sandbox.text(&place(name))
}

/// Where a file of the run is: what is internal has a folder of its own.
fn place(name: &str) -> String {
    let internal = if name.starts_with("internal") {
        "-internal"
    } else {
        ""
    };
    format!("dp-model{internal}/{name}")
}

/// The certificate of `dp-model` with the hash of another `report.json`, or of none.
fn bind(sandbox: &Sandbox, values: Option<&str>) {
    let mut certificate = Certificate::from_json(&page(sandbox, "certificate.json")).unwrap();
    let files = ["item_factors.safetensors", "items.csv"];
    certificate.artifacts.clear();
    for name in files {
        let bytes = sandbox.read(&format!("dp-model/{name}"));
        certificate = certificate.with_artifact(name, &bytes);
    }
    if let Some(values) = values {
        sandbox.write("dp-model/report.json", values);
        certificate = certificate.with_artifact("report.json", values.as_bytes());
    }
    sandbox.issue("dp-model", &certificate);
}

#[test]
fn both_pages_and_their_twins_are_written_beside_the_model() {
    let sandbox = trained();
    let run = sandbox.dp(&["report", "dp-model"]).exits(0);
    run.prints(&["internal    dp-model-internal/internal.html"]);
    assert_eq!(run.stderr, "");
    for name in ["report.html", "internal.html"] {
        check(&page(&sandbox, name));
    }
    for name in ["report.html", "report.md"] {
        let text = page(&sandbox, name);
        for part in [
            "add or remove one user",
            "replace one user",
            "1.0000",
            "2.1538",
            "1e-5",
            "item counts",
            "round 7: item residuals",
            "one person has one user id",
            "above the noise",
            "Nearest items",
            "weight_exponent",
        ] {
            assert!(text.contains(part), "no `{part}` in {name}");
        }
    }
    // the same words as the statement that dp verify prints
    let verified = sandbox.dp(&["verify", "dp-model"]).exits(0).stdout;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "At a 5 % false-positive rate, an attacker who tests whether a given user is in the data has a true-positive rate of at most 8.5 %";
    for text in [
        &verified,
        &page(&sandbox, "report.html"),
        &page(&sandbox, "report.md"),
    ] {
        assert!(words(text).contains(sentence));
    }
    // again in place of the old ones, with nothing left over
    let before = names_in(&sandbox.path("dp-model"));
    sandbox.dp(&["report", "dp-model"]).exits(0);
    assert_eq!(names_in(&sandbox.path("dp-model")), before);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

#[test]
fn what_may_be_published_holds_nothing_internal() {
    let sandbox = trained();
    let evaluate = words("evaluate ratings.csv --model dp-model --save --non-private");
    sandbox.dp(&evaluate).exits(0);
    sandbox.dp(&["report", "dp-model"]).exits(0);
    for name in [
        "report.html",
        "report.md",
        "report-items.csv",
        "report.json",
    ] {
        let text = page(&sandbox, name);
        for word in [
            USER,
            "RMSE",
            "rmse",
            "n_users",
            "Recall",
            "user-mean",
            "seconds",
        ] {
            assert!(!text.contains(word), "`{word}` in {name}");
        }
        for count in [407, 4884] {
            assert!(!states_number(&text, count), "{count} in {name}");
        }
    }
    for name in ["internal.html", "internal.md"] {
        let text = page(&sandbox, name);
        for part in [
            "Internal: not covered by the guarantee",
            "RMSE test",
            "Convergence by round",
            "most popular fifth",
            "non-private",
            "407",
            "4884",
        ] {
            assert!(text.contains(part), "no `{part}` in {name}");
        }
        assert!(!text.contains(USER), "a user in {name}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let path = sandbox.path(&place(name));
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
    }
    let internal = page(&sandbox, "internal.md");
    assert!(internal.starts_with("# Internal: not covered by the guarantee\n"));
    check(&page(&sandbox, "internal.html"));
}

#[test]
fn convergence_ends_at_the_error_of_the_model() {
    let sandbox = trained();
    let json: Value = serde_json::from_str(&page(&sandbox, "internal.json")).unwrap();
    let rounds = json["by_round"]["values"].as_array().unwrap();
    assert_eq!(rounds.len(), 7);
    let metrics = json["metrics"].as_array().unwrap();
    let valid = metrics.iter().find(|m| m[0] == "RMSE validation").unwrap();
    assert_eq!(rounds[6], valid[1]);
    assert_ne!(rounds[0], rounds[6]);
}

#[test]
fn without_the_internal_files_there_is_no_internal_page() {
    let sandbox = trained();
    for name in ["internal.json", "internal.md"] {
        fs::remove_file(sandbox.path(&place(name))).unwrap();
    }
    let json = sandbox
        .dp(&["report", "dp-model", "--json"])
        .exits(0)
        .json();
    assert_eq!(json["internal"]["files"], serde_json::json!([]));
    assert_eq!(json["released"]["files"].as_array().unwrap().len(), 3);
    assert_eq!(json["private"], true);
    assert!(!sandbox.exists("dp-model-internal/internal.html"));
    // a run of an earlier version has no report.json either
    fs::remove_file(sandbox.path("dp-model/report.json")).unwrap();
    sandbox
        .dp(&["report", "dp-model"])
        .exits(6)
        .says(&["report.json"]);
    bind(&sandbox, None);
    sandbox.dp(&["report", "dp-model"]).exits(0);
    assert!(!page(&sandbox, "report.html").contains("Items above the noise"));
}

#[test]
fn counts_are_held_to_the_noise_of_their_release() {
    let sandbox = trained();
    let text = page(&sandbox, "report.json");
    let json: Value = serde_json::from_str(&text).unwrap();
    let noise = json["counts"]["noise_stddev"].as_f64().unwrap();
    let stated = |noise: f64| format!("\"noise_stddev\": {noise}");
    for other in [noise / 2.0, noise * (1.0 + 1e-6)] {
        let edited = text.replacen(&stated(noise), &stated(other), 1);
        assert_ne!(edited, text);
        bind(&sandbox, Some(&edited));
        for command in ["verify", "report"] {
            let run = sandbox.dp(&[command, "dp-model"]).exits(6);
            run.says(&["report.json", "noise", "the certificate's release has"]);
        }
    }
    // nor may the bound that they are compared by be missing
    let edited = text.replacen("\"count_clip_norm\"", "\"clip\"", 1);
    assert_ne!(edited, text);
    bind(&sandbox, Some(&edited));
    let run = sandbox.dp(&["verify", "dp-model"]).exits(6);
    run.says(&[
        "report.json",
        "neither certificate nor settings determine their noise",
    ]);
    bind(&sandbox, Some(&text));
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

#[test]
fn counts_of_the_chosen_candidate_are_held_to_its_release() {
    let sandbox = Sandbox::with_ratings();
    let line = "tune ratings.csv --epsilon 4 --delta 1e-5 --try dim=1 --try dim=1,label-bound=0.01";
    sandbox.dp(&line.split(' ').collect::<Vec<_>>()).exits(0);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
    let text = page(&sandbox, "report.json");
    let json: Value = serde_json::from_str(&text).unwrap();
    let noise = json["counts"]["noise_stddev"].as_f64().unwrap();
    let stated = |noise: f64| format!("\"noise_stddev\": {noise}");
    let edited = text.replacen(&stated(noise), &stated(noise / 2.0), 1);
    assert_ne!(edited, text);
    bind(&sandbox, Some(&edited));
    let run = sandbox.dp(&["verify", "dp-model"]).exits(6);
    run.says(&["report.json", "the certificate's release has"]);
}

#[test]
fn items_above_the_noise_are_those_of_the_released_counts() {
    let sandbox = trained();
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let json: Value = serde_json::from_str(&page(&sandbox, "report.json")).unwrap();
    let noise = json["counts"]["noise_stddev"].as_f64().unwrap();
    let counts = json["counts"]["values"].as_array().unwrap();
    let above = counts
        .iter()
        .filter(|c| c.as_f64().unwrap() / noise > 2.0)
        .count();
    let share = format!("{:.0} %", 100.0 * above as f64 / counts.len() as f64);
    assert!(page(&sandbox, "report.html").contains(&format!("<dd class=\"value\">{share}</dd>")));
    let table = page(&sandbox, "report-items.csv");
    let lines: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(lines.len(), 30);
    assert_eq!(
        lines.iter().filter(|line| line.ends_with(",1")).count(),
        above
    );
}

#[test]
fn chosen_titles_are_found_by_id_title_or_part() {
    let sandbox = trained();
    let args = [
        "report",
        "dp-model",
        "--title",
        "item-7",
        "--title",
        "title 21 OF ALL",
        "--title",
        "onerror",
    ];
    sandbox.dp(&args).exits(0);
    let html = page(&sandbox, "report.html");
    check(&html);
    for part in [
        "Title 7 of all",
        "Title 21 of all",
        "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;|`*_ &amp;amp; &lt;img src=x onerror=y&gt;",
    ] {
        assert!(html.contains(part), "no {part}");
    }
    assert!(!html.contains("<img") && !html.contains("<script"));
    let markdown = page(&sandbox, "report.md");
    assert!(!markdown.contains("<script") && markdown.contains("\\|\\`\\*\\_"));
    // titles of another table
    sandbox.write("names.csv", "item,title\nitem-7,The Seventh\n");
    sandbox
        .dp(&words("report dp-model --items names.csv --title seventh"))
        .exits(0);
    assert!(page(&sandbox, "report.html").contains("The Seventh"));
    assert!(page(&sandbox, "report-items.csv").contains("\nitem-7,The Seventh,"));
    let before = sandbox.read("dp-model/report.html");
    sandbox
        .dp(&["report", "dp-model", "--title", "Metropolis"])
        .exits(2)
        .says(&["--title Metropolis", "no item"]);
    assert_eq!(sandbox.read("dp-model/report.html"), before);
}
