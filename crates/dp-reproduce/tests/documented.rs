//! Runs every command on the pages about reproductions as printed, with `--quick` and one seed.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "shared with the tests of `dp`, which need more of it"
)]

#[path = "../../dp-cli/tests/documented/input_files.rs"]
mod input_files;
#[path = "../../dp-cli/tests/documented/markdown.rs"]
mod markdown;
#[path = "../../dp-cli/tests/documented/pages.rs"]
mod pages;
#[path = "../../dp-cli/tests/documented/shell.rs"]
mod shell;
#[path = "../../dp-cli/tests/cli/support.rs"]
mod support;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_dp-reproduce");

#[test]
fn reproductions() {
    pages::run("docs/reproductions.md", &[]);
}

#[test]
fn readme() {
    pages::run("crates/dp-reproduce/README.md", &[]);
}

#[test]
fn results() {
    pages::run("docs/results.md", &[]);
}
