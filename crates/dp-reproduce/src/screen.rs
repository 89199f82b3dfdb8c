//! Standard output and standard error. A closed pipe is not an error.

use std::error::Error as _;
use std::io::{ErrorKind, Write, stderr, stdout};

use dp_personal::error::{Error, Result};
use serde_json::Value;

/// Prints text on standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Print(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints one JSON value on standard output.
pub(crate) fn print_json(value: &Value) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Prints the error and its causes, one line each, on standard error.
pub(crate) fn print_error(error: &Error) {
    let mut said = error.to_string();
    let mut lines = format!("error: {said}\n");
    let mut cause = error.source();
    while let Some(reason) = cause {
        let text = reason.to_string();
        if !said.contains(&text) {
            lines.push_str(&format!("  because: {text}\n"));
            said = text;
        }
        cause = reason.source();
    }
    // if standard error is closed, nothing can be printed; the exit code still reports the error
    let _ = stderr().write_all(lines.as_bytes());
}
