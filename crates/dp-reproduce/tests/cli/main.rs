//! Runs the built binary as a reader of the papers would.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on should stop it"
)]

mod documented;
mod features;
#[path = "../../../dp-cli/tests/documented/input_files.rs"]
mod input_files;
mod limits;
mod malformed;
#[path = "../../../dp-cli/tests/documented/markdown.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of `dp`, which need more of it"
)]
mod markdown;
#[path = "../../../dp-cli/tests/documented/pages.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of `dp`, which need more of it"
)]
mod pages;
mod papers;
#[path = "../../../dp-cli/tests/documented/shell.rs"]
mod shell;
#[path = "../../../dp-cli/tests/cli/support.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of `dp`, which need more of it"
)]
mod support;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_dp-reproduce");
