//! What a run leaves behind, and what it costs.

use super::{N_USERS, SUBSPACE, personalize, samples, sandbox};
use crate::support::{USER, names_in, words};

#[test]
fn a_run_leaves_model_certificate_and_reports_and_pays() {
    let sandbox = sandbox();
    let ledger = ["--ledger", "l.ledger", "--ledger-epsilon", "5"];
    let run = personalize(&sandbox, &ledger).exits(0);
    assert!(
        run.stdout
            .contains("private     epsilon 4.0000, delta 1e-5"),
        "{}",
        run.stdout
    );
    run.prints(&["internal    dp-model-internal/internal.md: "]);
    assert!(!run.stdout.contains("RMSE"), "{}", run.stdout);
    assert_eq!(
        names_in(&sandbox.path("dp-model")),
        [
            "certificate.json",
            "features.svg",
            "manifest.json",
            "model-card.json",
            "model-card.md",
            "report.json",
            "report.md",
            "subspace.safetensors"
        ]
    );
    let internal = crate::federate::INTERNAL;
    assert_eq!(names_in(&sandbox.path("dp-model-internal")), internal);
    let verified = sandbox.dp(&["verify", "dp-model", "--ledger", "l.ledger", "--json"]);
    assert_eq!(verified.exits(0).json()["files_compared"], true);
    personalize(&sandbox, &["--ledger", "l.ledger", "--out", "more"]).exits(3);
    assert!(!sandbox.exists("more"));
    let mut bytes = sandbox.read(SUBSPACE);
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    sandbox.write(SUBSPACE, bytes);
    sandbox
        .dp(&["verify", "dp-model"])
        .exits(6)
        .says(&["subspace.safetensors"]);
}

#[test]
fn released_files_name_no_user_no_count_and_no_error() {
    let sandbox = sandbox();
    let run = personalize(&sandbox, &[]).exits(0);
    for file in [
        "certificate.json",
        "features.svg",
        "report.md",
        "subspace.safetensors",
    ] {
        let bytes = sandbox.read(&format!("dp-model/{file}"));
        let text = String::from_utf8_lossy(&bytes);
        for word in [
            USER, "RMSE", "rmse", "accuracy", "n_users", "n_rows", "seconds",
        ] {
            assert!(!text.contains(word), "{word} in {file}");
        }
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        assert!(
            !words.any(|word| ["301", "3612"].contains(&word)),
            "a count in {file}"
        );
    }
    assert!(!run.stdout.contains(USER) && !run.stderr.contains(USER));
    let read = |file: &str| sandbox.text(&format!("dp-model-internal/{file}"));
    let internal = read("internal.md");
    assert!(internal.starts_with("# Internal: not covered by the guarantee\n"));
    assert!(internal.contains("| users | 301 |") && !internal.contains(USER));
    assert!(read("internal.svg").contains("not covered by the guarantee"));
    let table = read("internal-users.csv");
    assert_eq!(table.lines().count(), 1 + N_USERS);
    assert!(table.starts_with("user,held_out,history_rows,test_rows,rmse own-mean,"));
}

#[test]
#[cfg(unix)]
fn internal_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = sandbox();
    personalize(&sandbox, &[]).exits(0);
    for file in crate::federate::INTERNAL {
        let meta = std::fs::metadata(sandbox.path(&format!("dp-model-internal/{file}"))).unwrap();
        assert_eq!(meta.permissions().mode() & 0o077, 0, "{file}");
    }
}

#[test]
fn seeds_repeat_and_say_that_nothing_is_private() {
    let sandbox = sandbox();
    let run = personalize(&sandbox, &["--insecure-seed", "7"]).exits(0);
    assert!(run.stdout.starts_with("NOT PRIVATE"));
    for (seed, out) in [("7", "again"), ("8", "other")] {
        personalize(&sandbox, &["--insecure-seed", seed, "--out", out]).exits(0);
    }
    let bytes = |folder: &str| sandbox.read(&format!("{folder}/subspace.safetensors"));
    assert_eq!(bytes("dp-model"), bytes("again"));
    assert_ne!(bytes("dp-model"), bytes("other"));
    sandbox.dp(&["verify", "dp-model"]).exits(6);
    personalize(&sandbox, &["--out", "x"]).exits(0);
    personalize(&sandbox, &["--out", "y"]).exits(0);
    assert_ne!(bytes("x"), bytes("y"));
}

#[test]
fn the_order_of_the_users_does_not_show() {
    let sandbox = sandbox();
    let text = samples(N_USERS);
    let mut lines: Vec<&str> = text.lines().collect();
    // users backwards, every user's rows in their order
    lines[1..].sort_by_key(|line| std::cmp::Reverse(line.split(',').next().map(str::to_owned)));
    sandbox.write("turned.csv", lines.join("\n"));
    let args = ["--insecure-seed", "7", "--held-out-users", "0.1"];
    personalize(&sandbox, &args).exits(0);
    let turned = words("personalize turned.csv --rank 1 --epsilon 4 --delta 1e-5");
    let turned = [turned.as_slice(), &args, &["--out", "turned"]].concat();
    sandbox.dp(&turned).exits(0);
    assert_eq!(
        sandbox.read(SUBSPACE),
        sandbox.read("turned/subspace.safetensors")
    );
}
