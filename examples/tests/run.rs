//! The quick examples run to completion and print the expected output.
//!
//! Built by `cargo test` along with the package; examples that need data files or minutes are only
//! compiled.

use std::path::PathBuf;
use std::process::Command;

/// Name of the example, and texts that its output must contain.
const EXAMPLES: [(&str, &[&str]); 11] = [
    ("account_for_your_pipeline", &["SGD noise"]),
    ("audit_a_certificate", &["private: true"]),
    ("audit_a_run", &["no violation found in 8", "VIOLATED in 8"]),
    ("personal_models_for_new_users", &["private subspace"]),
    ("plan_a_budget", &["month 13: budget spent"]),
    ("private_recommender", &["test RMSE private"]),
    ("release_a_count", &["5 stars"]),
    (
        "resume_after_a_crash",
        &["the run was cancelled", "100.0 %"],
    ),
    ("two_models_one_ledger", &["once more: budget spent"]),
    ("your_own_loss", &["true slopes [0.5, -0.3]"]),
    (
        "your_own_trainer",
        &["made again from 2 releases: true", "wherever the users are"],
    ),
];

/// Located next to the folder of this test's own binary.
fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test knows where it is");
    let profile = own.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    profile.join("examples").join(file)
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_examples_run_and_say_what_they_are_for() {
    for (name, expected) in EXAMPLES {
        let run = Command::new(built(name)).output();
        let run = run.unwrap_or_else(|e| panic!("{name}: {e}; build it with the package"));
        let (out, err) = (
            String::from_utf8_lossy(&run.stdout),
            String::from_utf8_lossy(&run.stderr),
        );
        assert!(run.status.success(), "{name}: {err}");
        for part in expected {
            assert!(out.contains(part), "{name} does not say {part:?}:\n{out}");
        }
    }
}
