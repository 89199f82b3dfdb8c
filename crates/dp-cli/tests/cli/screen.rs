//! Standard output: help, and readers that go away.

use std::process::Stdio;

use crate::support::{Run, Sandbox, words};

/// All there are.
const COMMANDS: [&str; 20] = [
    "demo",
    "train",
    "tune",
    "personalize",
    "predict",
    "recommend",
    "publish",
    "verify",
    "account",
    "calibrate",
    "audit",
    "audit-personalize",
    "audit-federate",
    "audit-tune",
    "completions",
    "synth",
    "federate",
    "evaluate",
    "report",
    "ledger",
];

#[test]
fn help_fits_a_terminal_and_names_every_command() {
    let sandbox = Sandbox::new();
    let top = sandbox.dp(&["--help"]).exits(0).stdout;
    for command in COMMANDS {
        assert!(top.contains(&format!("\n  {command} ")), "{top}");
        let help = sandbox.dp(&[command, "--help"]).exits(0).stdout;
        for line in help.lines() {
            assert!(line.chars().count() <= 110, "{command}: {line}");
        }
    }
}

#[test]
fn every_flag_and_exit_code_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");
    let page = std::fs::read_to_string(path).unwrap();
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let help = sandbox.dp(&[command, "--help"]).exits(0).stdout;
        for word in help.split(|c: char| c.is_whitespace() || c == ',') {
            // a flag that may be repeated is followed by dots
            let word = word.trim_end_matches('.');
            let is_flag = word.starts_with("--") && word.len() > 2;
            assert!(
                !is_flag || page.contains(word) || ["--help", "--version"].contains(&word),
                "{word} of dp {command} is not in docs/command-line.md"
            );
        }
    }
    for code in 0..=8 {
        assert!(page.contains(&format!("\n| {code} | ")), "exit code {code}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let sandbox = Sandbox::with_ratings();
    for args in [
        ["train", "ratings.csv", "--epsilon", "1", "--delta", "1e-5"].as_slice(),
        &words("train ratings.csv --epsilon 1 --delta 1e-5 --json --force"),
        &["verify", "dp-model"],
    ] {
        let mut child = sandbox
            .command()
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let run: Run = child.wait_with_output().unwrap().into();
        let run = run.exits(0);
        assert_eq!(run.stderr, "");
        assert!(sandbox.exists("dp-model/certificate.json"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_printed_is_told_and_the_model_stays() {
    let sandbox = Sandbox::with_ratings();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = sandbox
        .command()
        .args(["train", "ratings.csv", "--epsilon", "1", "--delta", "1e-5"])
        .stdout(full)
        .output()
        .unwrap();
    Run::from(output)
        .exits(7)
        .says(&["cannot print the result"]);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}
