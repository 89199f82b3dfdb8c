//! Logs of what the program does, on standard error, for `-v`.
//!
//! An event holds public values only: names of files and settings that the operator typed, what the plan says,
//! how many releases are made. No id, record, count or figure of the data is ever logged, so that logs may be kept
//! and sent around like settings; and no times, since how long the data takes is a figure of the data.

use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use crate::output;

/// Starts logging, if it was asked for: `-v` says what is done, `-vv` in which steps. With `--quiet` standard error has
/// errors only.
pub(crate) fn start(verbose: u8, quiet: bool) {
    output::set_quiet(quiet);
    let level = match verbose {
        0 => return,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .without_time()
        .with_ansi(false);
    let own =
        filter_fn(move |of| is_own(of.target()) && *of.level() <= level).with_max_level_hint(level);
    tracing_subscriber::registry().with(lines).with(own).init();
}

/// Events of the program and of its workflows alone: what another library logs nobody has read for private values.
/// The other libraries of this project begin with the same letters.
fn is_own(target: &str) -> bool {
    let root = target.split("::").next();
    [Some(env!("CARGO_BIN_NAME")), Some("dp_personal")].contains(&root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_do_not_log() {
        for own in [
            "dp",
            "dp::commands::account",
            "dp_personal::workflows::train",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "dp_data",
            "dp_data::ratings",
            "dp_personalize",
            "dpx",
            "rayon",
            "",
            "d",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
