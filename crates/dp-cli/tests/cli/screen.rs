//! Standard output: help, and readers that go away.

use std::process::Stdio;

use crate::support::{Run, Sandbox, words};

/// All there are.
const COMMANDS: [&str; 21] = [
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
    "similar",
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
fn colours_are_for_terminals_and_can_be_switched_off() {
    let sandbox = Sandbox::with_model();
    let verify = |env: &[(&str, &str)]| sandbox.run_with(&["verify", "dp-model"], env).exits(0);
    let plain = verify(&[]).stdout;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let forced = verify(&[("CLICOLOR_FORCE", "1")]).stdout;
    assert!(forced.contains("\u{1b}["), "{forced:?}");
    let without = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
    assert_eq!(verify(&without).stdout, plain);
    // what programs read has none
    let args = ["verify", "dp-model", "--json"];
    let json = sandbox.run_with(&args, &without[..1]).exits(0).stdout;
    assert!(!json.contains('\u{1b}'));
    let error = |env: &[(&str, &str)]| {
        sandbox
            .run_with(&["verify", "nowhere"], env)
            .exits(4)
            .stderr
    };
    assert!(error(&[]).starts_with("error: "));
    assert!(error(&without[..1]).starts_with("\u{1b}["));
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
