//! Standard output and standard error. A reader that has gone away is no failure.

use std::error::Error as _;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Text on standard output. Whoever closed the pipe early, as `head` does, has seen enough.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Print(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// One JSON object on standard output.
pub fn print_json(value: &serde_json::Value) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Whether `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From here on standard error has errors only, or all again.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether standard error has errors only.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Something the operator should know, on standard error.
pub fn warn(text: &str) {
    if !is_quiet() {
        say(&format!("warning: {text}"));
    }
}

/// The error, what caused it and what to do, one line each, on standard error.
pub fn print_error(error: &Error) {
    if matches!(error, Error::Refused) {
        return;
    }
    let mut said = error.to_string();
    say(&format!("error: {said}"));
    let mut cause = error.source();
    while let Some(reason) = cause {
        let text = reason.to_string();
        if !said.contains(&text) {
            say(&format!("  because: {text}"));
            said = text;
        }
        cause = reason.source();
    }
    if let Some(hint) = error.hint() {
        say(&format!("hint: {hint}"));
    }
}

/// A failure to write here is left out on purpose: with standard error gone there is nobody left to
/// tell, and the exit code still speaks.
pub fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}
