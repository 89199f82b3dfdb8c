//! `dp`: all users in one process.

use std::process::ExitCode;

use dp_personal::workers::Place;

fn main() -> ExitCode {
    dp_cli::run(Place::Alone).into()
}
