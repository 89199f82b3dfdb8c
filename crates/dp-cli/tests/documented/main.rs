//! Every command that the documentation prints is run as printed, page by page, in one folder a page.
//!
//! `dp` is the binary under test. `cargo` is a stand-in: `cargo run -p dp-cli -- ...` is `dp ...`, and for anything
//! else it checks that the package, the test, the bench or the example exists. Files that a page takes for granted are
//! made first. Pages with commands of `dp-reproduce` are run by the tests of that package.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on should stop it"
)]

#[path = "../cli/support.rs"]
#[allow(
    dead_code,
    reason = "shared with the other tests, which need more of it"
)]
mod support;

mod input_files;
mod markdown;
mod notation;
mod pages;
mod public_types;
mod reference;
mod shell;
mod threats;

use markdown::Step;
use pages::{root, run, run_in_order};
use shell::Shell;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_dp");

#[test]
fn readme() {
    let printed = run("README.md", &[]);
    for part in [
        "generated 1000209 ratings of 6040 users for 3706 items",
        "\nprivate, epsilon 5 ",
        " report dp-demo",
        " verify dp-demo",
        " audit --epsilon 5",
    ] {
        assert!(printed.contains(part), "no `{part}` in {printed}");
    }
}

#[test]
fn readme_of_the_command() {
    run("crates/dp-cli/README.md", &[]);
}

#[test]
fn command_line() {
    run("docs/command-line.md", &[]);
}

#[test]
fn reference() {
    for page in [
        "docs/reference/dp-account.md",
        "docs/reference/dp-calibrate.md",
        "docs/reference/dp-completions.md",
        "docs/reference/dp-evidence.md",
    ] {
        run(page, &[("dp account questions.json", 1)]);
    }
}

/// The guides go on in the folder of the first tutorial.
#[test]
#[ignore = "heavy: part of CI"]
fn heavy_first_tutorial_and_guides() {
    let expected = [
        (
            "--epsilon 2 --delta 1e-5 --ledger ratings.ledger --out wednesday",
            3,
        ),
        ("dp verify other --ledger", 6),
    ];
    run_in_order(
        &["docs/tutorials/first-run.md", "docs/how-to.md"],
        &expected,
    );
}

#[test]
fn ledgers() {
    run("docs/ledgers.md", &[]);
}

#[test]
fn roles() {
    for page in [
        "docs/roles/privacy-officer.md",
        "docs/roles/auditor.md",
        "docs/roles/rust-engineer.md",
    ] {
        run(page, &[]);
    }
}

#[test]
fn nights() {
    run("docs/nights.md", &[]);
}

#[test]
fn tutorial_of_movielens() {
    run("docs/tutorials/movielens.md", &[]);
}

#[test]
fn tutorial_of_small_groups() {
    run("docs/tutorials/small-groups.md", &[]);
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_tutorial_of_federated_learning() {
    run("docs/tutorials/federate.md", &[]);
}

#[test]
fn concepts() {
    run("docs/concepts.md", &[]);
}

#[test]
fn tutorial_of_accounting() {
    run("docs/tutorials/account.md", &[]);
}

#[test]
fn tutorial_of_audits() {
    run("docs/tutorials/audit.md", &[("dp verify better.json", 6)]);
}

#[test]
fn commands_of_tests() {
    for page in ["docs/audits.md", "docs/kernel.md"] {
        run(page, &[]);
    }
}

/// No page with commands is missing above.
#[test]
fn every_page_is_run() {
    let own = concat!(
        include_str!("main.rs"),
        include_str!("../../../dp-reproduce/tests/cli/documented.rs")
    );
    for page in markdown::pages(&root()) {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        let prints = markdown::steps(&text)
            .iter()
            .any(|step| matches!(step, Step::Run(_)));
        assert!(
            !prints || own.contains(&format!("\"{page}\"")),
            "{page} prints commands that nothing runs"
        );
    }
}

/// Commands within a sentence: `dp` ones name a command that exists, `cargo` ones a target.
#[test]
fn commands_in_sentences_exist() {
    let shell = Shell::new(&root());
    let help = shell.run("dp --help").stdout;
    for page in markdown::pages(&root()) {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        for span in markdown::spans(&text) {
            let words: Vec<&str> = span.split_whitespace().collect();
            let span = words.join(" ");
            match words[..] {
                ["dp", command, ..] if command.starts_with(|c: char| c.is_ascii_lowercase()) => {
                    assert!(
                        help.contains(&format!("\n  {command} ")) || command == "help",
                        "{page}: {span}"
                    );
                }
                ["cargo", "test" | "bench" | "run", _, ..] => {
                    let found = shell.run(&format!("{span} < /dev/null > /dev/null"));
                    assert_eq!(found.code, 0, "{page}: {span}\n{}", found.stderr);
                }
                _ => {}
            }
        }
    }
}
