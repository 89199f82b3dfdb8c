//! The file of settings: one table for each command.

use std::path::Path;

use toml::{Table, Value};

use dp_personal::error::Error as WorkflowError;

use crate::error::{Error, Result};

/// The table of the command `name`, empty when the file has none.
///
/// # Errors
/// When the file cannot be read, is not TOML, or holds anything but tables of commands.
pub(super) fn table(path: &Path, commands: &clap::Command, name: &str) -> Result<Table> {
    let text = std::fs::read_to_string(path).map_err(|e| WorkflowError::read(path, e))?;
    let refuse = |reason: String| Error::Config {
        path: path.to_owned(),
        reason,
    };
    let mut all: Table = text
        .parse()
        .map_err(|error: toml::de::Error| refuse(error.to_string().trim_end().to_owned()))?;
    for (key, value) in &all {
        let known = commands.find_subcommand(key).is_some();
        if !(known && value.is_table()) {
            let reason = if known {
                format!("`{key}` must be a table: [{key}]")
            } else {
                format!(
                    "`{key}` is not a command; settings stand in a table of their command, such as [{name}]"
                )
            };
            return Err(refuse(reason));
        }
    }
    Ok(match all.remove(name) {
        Some(Value::Table(table)) => table,
        _ => Table::new(),
    })
}
