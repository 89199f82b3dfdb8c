//! `dp`: all users in one process.

use std::process::ExitCode;

use dp_personal::workers::Place;

/// In place of the allocator of musl, which maps and unmaps memory so often that training takes an eighth more processor time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    dp_cli::run(Place::Alone).into()
}
