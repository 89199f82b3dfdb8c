//! Standard output and standard error. A closed pipe is not an error.

use std::error::Error as _;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::{AutoStream, ColorChoice};
use dp_personal::error::Error as WorkflowError;

use crate::args::{flag_of, with_flags};
use crate::error::{Error, Result};
use crate::style;

/// Prints text to standard output. If the reader closed the pipe early, as `head` does, this is not
/// an error.
pub(crate) fn print(text: &str) -> Result<()> {
    if is_silent() {
        return Ok(());
    }
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Print(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A summary on standard output, in colours where that is a terminal.
pub(crate) fn print_summary(text: &str) -> Result<()> {
    let is_coloured = AutoStream::choice(&stdout()) != ColorChoice::Never;
    match is_coloured {
        true => print(&style::summary(text)),
        false => print(text),
    }
}

/// Prints one JSON object to standard output.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Whether `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Sets whether standard error contains only errors.
pub(crate) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether standard error contains only errors.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// What a silent process may print: its errors, prefixed by its name.
static SPEAKER: Mutex<Speaker> = Mutex::new(Speaker::Everybody);

enum Speaker {
    Everybody,
    Nobody,
    Named(String),
}

/// Suppresses all further output.
pub(crate) fn set_silent() {
    set_quiet(true);
    *speaker() = Speaker::Nobody;
}

/// Prefixes all further messages with this name.
pub(crate) fn speak_as(name: &str) {
    *speaker() = Speaker::Named(name.to_owned());
}

/// Whether all output is suppressed.
pub(crate) fn is_silent() -> bool {
    matches!(*speaker(), Speaker::Nobody)
}

fn speaker() -> MutexGuard<'static, Speaker> {
    SPEAKER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints something the operator should know to standard error.
pub(crate) fn warn(text: &str) {
    if !is_quiet() {
        say(&format!("warning: {text}"));
    }
}

/// Prints who may see the result, or something else that is no reason for concern, to standard error.
pub(crate) fn note(text: &str) {
    if !is_quiet() {
        say(&format!("note: {text}"));
    }
}

/// Prints the error of a command, its causes and a hint to standard error, one line each.
pub(crate) fn print_error(error: &Error, command: &str) {
    if matches!(error, Error::Refused | Error::Helped) {
        return;
    }
    let mut said = error.to_string();
    say(&format!("error: {}", told(error, command)));
    let mut cause = error.source();
    while let Some(reason) = cause {
        let text = reason.to_string();
        if !said.contains(&text) {
            say(&format!("  because: {text}"));
            said = text;
        }
        cause = reason.source();
    }
    if let Some(hint) = error.hint(command) {
        say(&format!("hint: {hint}"));
    }
}

/// The message, with settings referred to by the command's flags.
fn told(error: &Error, command: &str) -> String {
    let flag = |name: &str| flag_of(command, name);
    let text = error.to_string();
    match error {
        Error::Param(of) | Error::Workflow(WorkflowError::Param(of)) => {
            let flag = flag(of.name).unwrap_or_else(|| of.name.to_owned());
            let expected = with_flags(&text[of.name.len()..], |name| flag_of(command, name));
            format!("{flag}{expected}")
        }
        Error::NotRecomputed(_)
        | Error::Workflow(
            WorkflowError::Usage(_)
            | WorkflowError::Diverged { .. }
            | WorkflowError::Model { .. }
            | WorkflowError::AfterPayment { .. }
            | WorkflowError::Unmeasured { .. },
        ) => with_flags(&text, flag),
        _ => text,
    }
}

/// A failed write is ignored on purpose: without standard error it cannot be reported, and the exit
/// code still indicates the error.
pub(crate) fn say(line: &str) {
    let _ = match &*speaker() {
        Speaker::Everybody => writeln!(anstream::stderr(), "{}", style::message(line)),
        Speaker::Named(name) => writeln!(stderr(), "{name}{line}"),
        Speaker::Nobody => Ok(()),
    };
}
