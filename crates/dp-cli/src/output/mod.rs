//! What commands leave on disk and on the screen.

mod folder;
mod model_file;
mod report;
mod statement;

use std::error::Error as _;

pub(crate) use folder::OutputFolder;
pub(crate) use model_file::{CERTIFICATE, read_model, write_model};
pub(crate) use report::{Seconds, TrainReport};
pub(crate) use statement::privacy_statement;

use crate::error::{Error, Result};

/// One JSON object on standard output.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// The error and what caused it, one line each, on standard error.
pub(crate) fn print_error(error: &Error) {
    eprintln!("error: {error}");
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(reason) = cause {
        let text = reason.to_string();
        if !said.contains(&text) {
            eprintln!("  because: {text}");
            said = text;
        }
        cause = reason.source();
    }
}
