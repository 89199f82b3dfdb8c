//! Logs describe what is done and never the contents of the data.

use std::fmt::Write as _;
use std::fs;

use crate::support::{Run, Sandbox, names_in, words};

/// Prefix of every user id.
const ID: &str = "qvz-person-";
const N_USERS: usize = 60;

/// Data as csv, with every user id and every number in it, in forms that occur nowhere else.
struct Recognisable {
    csv: String,
    words: Vec<String>,
    /// The numbers as represented in the program.
    rounded: Vec<String>,
}

/// Rows of numbers with 14 decimals each.
fn recognisable(head: &str, n_rows: usize, n_numbers: usize, with_item: bool) -> Recognisable {
    let mut csv = format!("{head}\n");
    let (mut words, mut rounded) = (Vec::new(), Vec::new());
    let mut state = 11_u64;
    for user in 0..N_USERS {
        words.push(format!("{ID}{user}"));
        for row in 0..n_rows {
            let mut cells = vec![format!("{ID}{user}")];
            if with_item {
                cells.push(format!("item-{}", (7 * user + row) % 25));
            }
            for _ in 0..n_numbers {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // 14 decimals: a noisy value in a released file equals one of them with a total
                // probability of 1e-9
                let number = format!(
                    "{}.{:014}",
                    1 + (state >> 60) % 5,
                    (state >> 8) % 10_u64.pow(14)
                );
                let stored: f32 = number.parse().unwrap();
                rounded.push(stored.to_string());
                words.push(number.clone());
                cells.push(number);
            }
            writeln!(csv, "{}", cells.join(",")).unwrap();
            words.push(cells.join(","));
        }
    }
    Recognisable {
        csv,
        words,
        rounded,
    }
}

/// Nothing from the data occurs in the output, nor in the files that may be published.
#[track_caller]
fn assert_nothing_private(sandbox: &Sandbox, run: &Run, data: &Recognisable) {
    for word in &data.rounded {
        assert!(!run.stderr.contains(word.as_str()), "{word} in the logs");
    }
    let mut places = vec![
        ("standard output".to_owned(), run.stdout.clone()),
        ("standard error".to_owned(), run.stderr.clone()),
    ];
    for name in names_in(&sandbox.path("dp-model")) {
        let bytes = fs::read(sandbox.path("dp-model").join(&name)).unwrap();
        places.push((name, String::from_utf8_lossy(&bytes).into_owned()));
    }
    assert!(places.len() > 4, "too few files were looked at");
    for (place, text) in places {
        for word in &data.words {
            assert!(!text.contains(word.as_str()), "{word} in {place}");
        }
        assert!(!text.contains(ID), "a user id in {place}");
    }
}

#[test]
fn logs_of_a_training_run_hold_nothing_of_the_ratings() {
    let sandbox = Sandbox::new();
    let data = recognisable("user,item,rating", 10, 1, true);
    sandbox.write("data.csv", &data.csv);
    for verbose in ["-vv", "-vvvv"] {
        let args = words("train data.csv --epsilon 1 --delta 1e-5 --force");
        let run = sandbox.dp(&[&args[..], &[verbose]].concat()).exits(0);
        for said in [
            "reading ratings",
            "paying for the plan",
            "release made done=1",
            "writing",
        ] {
            assert!(run.stderr.contains(said), "no `{said}` in {}", run.stderr);
        }
        // counts of users and ratings are not public either
        assert!(
            !run.stderr.contains("60") && !run.stderr.contains("600"),
            "{}",
            run.stderr
        );
        assert_nothing_private(&sandbox, &run, &data);
    }
    let report = sandbox.dp(&["report", "dp-model", "-vv"]).exits(0);
    assert!(report.stderr.contains("reading a run"));
    assert_nothing_private(&sandbox, &report, &data);
    let args = words("evaluate data.csv --model dp-model --save -vv");
    let evaluated = sandbox.dp(&args).exits(0);
    assert!(evaluated.stderr.contains("reading ratings"));
    assert_nothing_private(&sandbox, &evaluated, &data);
}

/// `dp COMMAND data.csv ARGS -vv` on labelled rows, and the pages about the run.
fn log_rows(command: &str, args: &[&str]) {
    let sandbox = Sandbox::new();
    let data = recognisable("user,target,a,b,c,d", 8, 5, false);
    sandbox.write("data.csv", &data.csv);
    let head = [command, "data.csv", "--delta", "1e-5", "-vv"];
    let run = sandbox.dp(&[&head[..], args].concat()).exits(0);
    assert!(run.stderr.contains("reading rows"), "{}", run.stderr);
    assert_nothing_private(&sandbox, &run, &data);
    let report = sandbox.dp(&["report", "dp-model", "-vv"]).exits(0);
    assert_nothing_private(&sandbox, &report, &data);
}

#[test]
fn logs_of_personalization_hold_nothing_of_the_rows() {
    log_rows("personalize", &["--rank", "1", "--epsilon", "4"]);
}

#[test]
fn logs_of_federation_hold_nothing_of_the_rows() {
    let alphas = ["--rounds", "5", "--alpha-grid", "0,1,inf"];
    log_rows("federate", &[&alphas[..], &["--epsilon", "8"]].concat());
}

#[test]
fn messages_are_as_many_as_asked_for() {
    let sandbox = Sandbox::with_ratings();
    let plain = sandbox.train(&["--force"]).exits(0);
    assert_eq!(plain.stderr, "");
    let info = sandbox.train(&["--force", "-v"]).exits(0).stderr;
    let debug = sandbox
        .train(&["--force", "--verbose", "--verbose"])
        .exits(0)
        .stderr;
    assert!(info.contains("INFO") && !info.contains("DEBUG") && debug.contains("DEBUG"));
    // the flag may be given before the command, in the environment, or in the file
    let before = words("-v train ratings.csv --epsilon 1 --delta 1e-5 --force");
    assert_eq!(sandbox.dp(&before).exits(0).stderr, info);
    let env = sandbox
        .run_with(&before[1..], &[("DP_VERBOSE", "1")])
        .exits(0);
    assert_eq!(env.stderr, info);
    sandbox.write("v.toml", "[train]\nverbose = 1\n");
    let file = [&before[1..], &["--config", "v.toml"]].concat();
    assert_eq!(sandbox.dp(&file).exits(0).stderr, info);
    sandbox.write("w.toml", "[train]\nverbose = \"much\"\n");
    let file = [&before[1..], &["--config", "w.toml"]].concat();
    sandbox
        .dp(&file)
        .exits(2)
        .says(&["verbose", "whole number"]);
}

#[test]
fn quiet_leaves_errors_alone() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--insecure-seed", "1"]).exits(0);
    sandbox.write("mine.csv", "item,rating\nitem-1,5\n");
    let args = ["recommend", "--model", "dp-model", "--history", "mine.csv"];
    let loud = sandbox.dp(&args).exits(0);
    assert!(loud.stderr.contains("warning: this model is not private"));
    let quiet = sandbox.dp(&[&args[..], &["--quiet"]].concat()).exits(0);
    assert_eq!((quiet.stderr.as_str(), quiet.stdout), ("", loud.stdout));
    sandbox
        .dp(&["verify", "nowhere", "--quiet"])
        .exits(4)
        .says(&["error: "]);
    sandbox
        .dp(&["verify", "dp-model", "--quiet", "-v"])
        .exits(2);
}
