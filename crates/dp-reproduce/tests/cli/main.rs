//! Runs the built binary as a reader of the papers would.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on should stop it"
)]

mod features;
mod limits;
mod malformed;
mod papers;
#[path = "../../../dp-cli/tests/cli/support.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of `dp`, which need more of it"
)]
mod support;

/// The program under test.
const BINARY: &str = env!("CARGO_BIN_EXE_dp-reproduce");
