//! Runs whose values are not finite, or differ by orders of magnitude.

use serde_json::{Value, json};

use super::page;
use super::well_formed::check;
use crate::federate;
use crate::support::Sandbox;

/// The contents of `internal.json`.
fn internal(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&page(sandbox, "internal.json")).unwrap()
}

/// Pages of a run with other errors by round: the internal one in HTML and in Markdown.
fn pages_with(sandbox: &Sandbox, by_round: Value) -> [String; 2] {
    let mut file = internal(sandbox);
    file["by_round"] = by_round;
    sandbox.write("dp-model-internal/internal.json", file.to_string());
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let pages = ["internal.html", "internal.md"].map(|name| page(sandbox, name));
    check(&pages[0]);
    pages
}

/// Errors after rounds 5 and 10 of a released line and of another.
fn two_lines(released: Value, other: Value) -> Value {
    json!({
        "metric": "RMSE", "name": "one", "rounds": [5, 10], "values": released,
        "others": [{"name": "two", "values": other}],
    })
}

/// The chart of rounds: its number of lines, and whether it names them.
fn drawn(html: &str) -> (usize, bool) {
    let chart = html.split("<figcaption>RMSE by round").nth(1).unwrap();
    let chart = chart.split("</figure>").next().unwrap();
    let (above, plot) = chart.split_once("<div class=\"plot\">").unwrap();
    let n_lines = plot.matches("<path class=\"line").count();
    (n_lines, above.contains("class=\"legend\""))
}

fn quick_run() -> Sandbox {
    let sandbox = federate::sandbox();
    federate::federate(&sandbox, &["--rounds", "2"]).exits(0);
    sandbox
}

#[test]
fn a_run_without_finite_figures_has_both_pages() {
    let sandbox = federate::sandbox();
    federate::federate(&sandbox, &["--learning-rate", "1e300"]);
    let mut written = internal(&sandbox);
    assert!(written["by_round"].is_null(), "{}", written["by_round"]);
    // users' own models have a value even so; a run of an earlier version had none
    assert!(written["headline"]["value"].is_f64() && written["headline"]["metric"].is_string());
    written["headline"]["value"] = Value::Null;
    sandbox.write("dp-model-internal/internal.json", written.to_string());
    let usual = ["--epsilon", "4", "--rounds", "2", "--out", "usual"];
    federate::federate(&sandbox, &usual).exits(0);
    let twice = ["dp-model", "dp-model"];
    for runs in [&["dp-model"][..], &twice, &["dp-model", "usual"]] {
        sandbox.dp(&[&["report"], runs].concat()).exits(0);
        for name in ["report.html", "internal.html"] {
            check(&page(&sandbox, name));
        }
        let markdown = page(&sandbox, "internal.md");
        assert!(markdown.contains("| no figure: the run diverged | \u{2013} |"));
        assert!(markdown.contains("The run diverged: it has no figure to compare."));
        assert!(!markdown.contains("Convergence by round"));
        let is_compared = markdown.contains("Privacy and utility");
        assert_eq!(is_compared, runs.contains(&"usual"));
    }
    let markdown = page(&sandbox, "internal.md");
    assert!(
        markdown.contains("learning-rate 1e+300, n-rounds 30 | 8 | \u{2013} | \u{2013} |"),
        "{markdown}"
    );
    // a missing value is damage
    let mut without = written;
    without["headline"].as_object_mut().unwrap().remove("value");
    sandbox.write("dp-model-internal/internal.json", without.to_string());
    let run = sandbox.dp(&["report", "dp-model"]).exits(4);
    run.says(&["internal.json", "damaged", "value"]);
}

#[test]
fn lines_that_are_not_drawn_leave_one_table_in_one_format() {
    let sandbox = federate::sandbox();
    let grid = ["--alpha-grid", "1,inf", "--learning-rate", "1e9"];
    let args = [&grid[..], &["--rounds", "40", "--insecure-seed", "3"]].concat();
    // users take nothing of such models, and the shared part of the chosen one does not turn back
    federate::federate(&sandbox, &args).exits(0);
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let markdown = page(&sandbox, "internal.md");
    assert_eq!(markdown.matches("\n| round |").count(), 1, "{markdown}");
    let far = two_lines(json!([1e8, 2.0]), json!([1e36, null]));
    let [html, markdown] = pages_with(&sandbox, far);
    assert_eq!(drawn(&html), (1, false));
    assert!(markdown.contains("Lines that are not drawn are in the table."));
    assert_eq!(markdown.matches("\n| round |").count(), 1, "{markdown}");
    assert!(markdown.contains("| 5 | 1.000e8 | 1.000e36 |\n| 10 | 2.0000 | \u{2013} |"));
    // a single line has no table except its points, formatted in the same way
    let alone = json!({"metric": "RMSE", "rounds": [5, 10], "values": [1e8, 2.0]});
    let [_, markdown] = pages_with(&sandbox, alone);
    assert!(markdown.contains("| 5 | private | 1.000e8 |\n| 10 | private | 2.0000 |"));
}

#[test]
fn beside_a_line_of_zeros_the_others_are_drawn() {
    let sandbox = quick_run();
    let zeros = two_lines(json!([0.0, 0.0]), json!([0.5, 0.25]));
    let [html, markdown] = pages_with(&sandbox, zeros);
    assert_eq!(drawn(&html), (2, true));
    assert_eq!(markdown.matches("\n| round |").count(), 1);
    assert!(!markdown.contains("Lines that are not drawn"));
}

#[test]
fn lines_without_figures_are_left_to_the_table() {
    let sandbox = quick_run();
    let (figures, nulls) = (json!([0.5, 0.25]), json!([null, null]));
    let others = two_lines(figures.clone(), nulls.clone());
    let released = two_lines(nulls.clone(), figures);
    for (by_round, row) in [
        (others, "| 5 | 0.5000 | \u{2013} |"),
        (released, "| 5 | \u{2013} | 0.5000 |"),
    ] {
        let [html, markdown] = pages_with(&sandbox, by_round);
        assert_eq!(drawn(&html), (1, false));
        assert!(markdown.contains(row) && markdown.contains("Lines that are not drawn"));
    }
    let none = two_lines(nulls.clone(), nulls);
    for page in pages_with(&sandbox, none) {
        assert!(!page.contains("Convergence by round"));
    }
}

#[test]
fn large_figures_have_short_names_on_the_axis() {
    let sandbox = quick_run();
    let large = two_lines(json!([1e45, 4e45]), json!([2e45, 3e45]));
    let [html, _] = pages_with(&sandbox, large);
    let ticks = html.split("<text class=\"tick up\"").skip(1);
    let names = ticks.map(|tick| tick.split_once('>').unwrap().1);
    let names: Vec<&str> = names.map(|name| name.split('<').next().unwrap()).collect();
    assert!(
        names.ends_with(&["1e45", "2e45", "3e45", "4e45"]),
        "{names:?}"
    );
}

#[test]
fn internal_files_have_a_schema_of_their_own() {
    let sandbox = quick_run();
    let released: Value = serde_json::from_str(&page(&sandbox, "report.json")).unwrap();
    let mut file = internal(&sandbox);
    let schemas = [&released, &file].map(|file| file["schema_version"].as_u64());
    assert_eq!(schemas, [Some(1), Some(2)]); // readers of version 1 ignore `rounds`
    // which were the first and all up to the last
    file["schema_version"] = json!(1);
    sandbox.write("dp-model-internal/internal.json", file.to_string());
    let older = json!({"metric": "RMSE", "values": [0.75, 0.5]});
    let [_, markdown] = pages_with(&sandbox, older);
    assert!(markdown.contains("| 1 | private | 0.7500 |\n| 2 | private | 0.5000 |"));
    file["schema_version"] = json!(3);
    sandbox.write("dp-model-internal/internal.json", file.to_string());
    let run = sandbox.dp(&["report", "dp-model"]).exits(4);
    run.says(&["internal.json", "schema 3 is newer", "reads 2"]);
}
