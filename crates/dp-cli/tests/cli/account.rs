//! `dp account`: every question of a file is answered independently.

use crate::support::{Run, Sandbox};

/// Three cases of Gaussian mechanisms, whose answers have a closed form.
const GOOD: &str = r#"{"schema_version": 1, "units": "nats", "cases": [
  {"id": "one", "neighbour": "add_remove", "query": {"kind": "epsilon_at_delta", "delta": 1e-5},
   "events": [{"mechanism": "gaussian", "count": 1, "sigma": 1.0, "sensitivity": 1}]},
  {"id": "half each", "neighbour": "replace_one", "query": {"kind": "epsilon_at_delta", "delta": 1e-5},
   "events": [{"mechanism": "gaussian", "count": 4, "sigma": 2, "sensitivity": 0.5},
              {"mechanism": "gaussian", "count": 12, "sigma": 4, "sensitivity": 1}]},
  {"id": "tree", "neighbour": "zero_out", "query": {"kind": "epsilon_at_delta", "delta": 1e-6},
   "events": [{"mechanism": "binary_tree_gaussian", "count": 1, "sigma": 5.0, "steps": 1}]}]}"#;

/// epsilon(1e-5) of the Gaussian mechanism at mu = 1.
const EPSILON: f64 = 4.377_178_095_681_224_5;

fn account(text: &str, more: &[&str]) -> Run {
    let sandbox = Sandbox::new();
    sandbox.write("q.json", text);
    let mut args = vec!["account", "q.json"];
    args.extend(more);
    sandbox.dp(&args)
}

#[test]
fn each_case_has_its_figures() {
    let json = account(GOOD, &["--json"]).exits(0).json();
    let cases = json["cases"].as_array().unwrap();
    let ids: Vec<_> = cases
        .iter()
        .map(|case| case["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["one", "half each", "tree"]);
    for (case, expected) in
        cases
            .iter()
            .zip([EPSILON, 4.377_178_095_681_2, 0.834_117_548_624_052_3])
    {
        let [lower, value, upper, seconds] =
            ["lower", "value", "upper", "seconds"].map(|name| case[name].as_f64().unwrap());
        assert!(
            lower <= expected * (1.0 + 1e-12) && expected <= upper * (1.0 + 1e-12),
            "{case}"
        );
        assert!(lower <= value && value <= upper && upper - lower < 1e-9 && seconds >= 0.0);
        assert_eq!(case["method"], "gdp");
    }
    assert!(cases[0].get("note").is_none());
    assert!(cases[2]["note"].as_str().unwrap().contains("add_remove"));
}

#[test]
fn the_table_rounds_to_the_side_that_promises_less() {
    let run = account(GOOD, &[]).exits(0);
    assert_eq!(run.stderr, "");
    let lines: Vec<&str> = run.stdout.lines().collect();
    let columns: Vec<&str> = lines[0].split_whitespace().collect();
    let names = ["id", "question", "answer", "bracket", "method", "time"];
    assert_eq!(columns, names, "{}", run.stdout);
    assert!(lines[1].starts_with("---------  -----"), "{}", run.stdout);
    assert!(
        lines[2].starts_with("one        epsilon at delta 1e-5       4.377179      exact  gdp "),
        "{}",
        run.stdout
    );
    assert!(lines[2].ends_with('s'), "no time in {}", lines[2]);
}

#[test]
fn below_the_table_stand_notes_and_one_line_of_summary() {
    let stdout = account(GOOD, &[]).exits(0).stdout;
    let (_, below) = stdout.split_once("\n\n").unwrap();
    let lines: Vec<&str> = below.lines().collect();
    assert!(lines[0].starts_with("note: zero_out"), "{below}");
    assert!(lines[0].ends_with("(tree)"), "{below}");
    let last = lines.last().unwrap();
    assert!(last.starts_with("3 answered, 0 failed, "), "{below}");
    assert!(last.contains("; slowest "), "{below}");

    let failed = account(&GOOD.replacen("\"sigma\": 2,", "\"sigma\": -2,", 1), &[]).exits(1);
    assert!(failed.stdout.contains("\n2 answered, 1 failed, "));
    let row = failed.stdout.lines().find(|l| l.starts_with("half each"));
    assert!(row.unwrap().contains("no answer"), "{}", failed.stdout);
}

#[test]
fn json_has_one_case_a_line() {
    let run = account(GOOD, &["--json"]).exits(0);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{}", run.stdout);
    for line in &lines[1..4] {
        let case: serde_json::Value = serde_json::from_str(line.trim_end_matches(',')).unwrap();
        assert!(case["seconds"].as_f64().unwrap() >= 0.0);
    }
    let empty = account(r#"{"schema_version": 1, "cases": []}"#, &["--json"]).exits(0);
    assert_eq!(empty.json()["cases"], serde_json::json!([]));
}

#[test]
fn a_case_without_an_answer_loses_no_other() {
    for (good, bad, said) in [
        ("\"sigma\": 2,", "\"sigma\": NaN,", "NaN"),
        ("\"sigma\": 2,", "\"sigma\": -2,", "sigma is -2"),
        ("\"sigma\": 2,", "\"sigma\": 1e999,", "out of range"),
        ("\"count\": 12", "\"count\": 0", "count is 0"),
        ("\"sensitivity\": 0.5", "\"l1\": 0.5", "unknown field `l1`"),
        ("replace_one", "replace", "unknown variant `replace`"),
    ] {
        let run = account(&GOOD.replacen(good, bad, 1), &["--json"]).exits(1);
        let run = run.says(&["1 of 3 cases have no answer"]);
        let json = run.json();
        assert!(json["cases"][0]["upper"].as_f64().unwrap() >= EPSILON);
        assert!(json["cases"][2]["value"].is_f64());
        let failed = &json["cases"][1];
        assert!(failed["error"].as_str().unwrap().contains(said), "{failed}");
        assert!(failed.get("value").is_none() && failed.get("upper").is_none());
        let plain = account(&GOOD.replacen(good, bad, 1), &[]).exits(1).stdout;
        assert!(plain.contains("half each: no answer: "), "{plain}");
        assert!(plain.contains("4.377179"), "{plain}");
    }
}

#[test]
fn an_event_is_answered_for_both_kinds_of_neighbours() {
    let event = r#"{"adjacency": "replace-user", "delta": 1e-5,
        "event": {"mechanism": "gaussian", "noise_multiplier": 2, "replace_factor": "two"}}"#;
    let json = account(event, &["--json"]).exits(0).json();
    assert_eq!(json["cases"][0]["id"], "replace-user");
    assert!(json["cases"][0]["upper"].as_f64().unwrap() >= EPSILON);
    assert_eq!(json["cases"][1]["id"], "add-remove-user");
    assert!(json["cases"][1]["upper"].as_f64().unwrap() < 0.6 * EPSILON);
}

#[test]
fn what_is_no_file_of_questions_is_a_bad_input_file() {
    for text in ["", "7", "[]", "{}", "item,rating", &GOOD[..GOOD.len() / 2]] {
        let run = account(text, &["--json"])
            .exits(4)
            .says(&["q.json: ", "hint: "]);
        assert_eq!(run.stdout, "");
    }
    account(
        &GOOD.replace("\"schema_version\": 1", "\"schema_version\": 3"),
        &[],
    )
    .exits(4)
    .says(&["schema_version is 3; expected 1"]);
    Sandbox::new()
        .dp(&["account", "nowhere.json"])
        .exits(4)
        .says(&["cannot read nowhere.json"]);
}
