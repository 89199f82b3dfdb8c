//! Warnings of the workflows and, with `-v`, logs of what the program does, on standard error.
//!
//! An event contains only public values: names of files and settings given by the operator, the
//! contents of the plan, the number of releases made. No id, record, count or other value of the
//! data is ever logged, so that logs may be kept and shared like settings. Times are not logged
//! either, because processing time depends on the data.

use std::fmt::Debug;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

use crate::args::{flag_of, with_flags};
use crate::screen::{say, set_quiet, warn};

/// Events of training runs with this target are printed as notices, not as warnings.
const NOTICE: &str = "dp_personal::notice";

/// Prints warnings, and logs if requested: `-v` logs what is done, `-vv` also the individual steps.
/// With `--quiet`, standard error contains only errors.
pub(crate) fn start(verbose: u8, quiet: bool) {
    set_quiet(quiet);
    if quiet {
        return;
    }
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .without_time()
        .with_ansi(false)
        .with_filter(filter_fn(|of| *of.level() > Level::WARN));
    let own =
        filter_fn(move |of| is_own(of.target()) && *of.level() <= level).with_max_level_hint(level);
    tracing_subscriber::registry()
        .with(lines)
        .with(Warnings)
        .with(own)
        .init();
}

/// Prints warnings in this program's format.
struct Warnings;

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let of = event.metadata();
        if *of.level() > Level::WARN {
            return;
        }
        let mut text = Message::default();
        event.record(&mut text);
        let text = with_flags(&text.0, |name| flag_of("train", name));
        if of.target() == NOTICE {
            say(&text);
        } else {
            warn(&text);
        }
    }
}

/// The text of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Only events of the program and its workflows: the log messages of other libraries have not been
/// checked for private values. The other libraries of this project have names with the same prefix.
fn is_own(target: &str) -> bool {
    let root = target.split("::").next();
    [Some("dp"), Some("dp_cli"), Some("dp_personal")].contains(&root)
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
