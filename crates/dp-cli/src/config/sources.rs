//! What the environment and the file say, as words of a command line.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use crate::error::{Error, Result};

/// Flags about the settings themselves.
const OWN: [&str; 4] = ["config", "print_config", "help", "version"];

/// One setting that does not stand on the command line.
pub(super) struct Setting {
    /// Its name in messages.
    pub(super) name: String,
    /// Where it stands.
    pub(super) origin: String,
    /// Whether it has no flag.
    pub(super) positional: bool,
    /// How it would be written on the command line.
    pub(super) words: Vec<String>,
}

/// Arguments that are settled, and those that cannot go with them.
pub(super) struct Given<'a> {
    command: &'a Command,
    settled: BTreeSet<&'a str>,
}

impl<'a> Given<'a> {
    pub(super) fn new(command: &'a Command) -> Self {
        let settled = BTreeSet::new();
        Self { command, settled }
    }

    /// Settles an argument, and with it those that conflict with it: what counts more overrides
    /// them rather than being refused for their sake.
    pub(super) fn take(&mut self, arg: &'a Arg) {
        self.settled.insert(arg.get_id().as_str());
        let id = arg.get_id();
        let others = self.command.get_arguments();
        for other in others {
            let conflicts = |a: &Arg, b: &clap::Id| {
                let against = self.command.get_arg_conflicts_with(a);
                against.iter().any(|c| c.get_id() == b)
            };
            if conflicts(arg, other.get_id()) || conflicts(other, id) {
                self.settled.insert(other.get_id().as_str());
            }
        }
    }

    fn has(&self, arg: &Arg) -> bool {
        self.settled.contains(arg.get_id().as_str())
    }
}

/// The arguments that can be set, positional ones in their order.
pub(super) fn settable(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !OWN.contains(&arg.get_id().as_str()))
}

/// Its name in a file.
pub(crate) fn key(arg: &Arg) -> String {
    arg.get_long().map_or_else(
        || arg.get_id().as_str().replace('_', "-"),
        ToOwned::to_owned,
    )
}

/// Its name in the environment.
fn variable(arg: &Arg) -> String {
    format!("DP_{}", key(arg).replace('-', "_").to_uppercase())
}

/// What the environment says of arguments that are not settled.
pub(super) fn environment<'a>(command: &'a Command, given: &mut Given<'a>) -> Result<Vec<Setting>> {
    let (mut settings, mut found) = (Vec::new(), Vec::new());
    for arg in settable(command) {
        let name = variable(arg);
        let Some(value) = std::env::var_os(&name).filter(|_| !given.has(arg)) else {
            continue;
        };
        let value = value
            .into_string()
            .map_err(|_| Error::Usage(format!("{name} of the environment is not text")))?;
        let value = match arg.get_action() {
            ArgAction::SetTrue => Value::Boolean(switch(&name, &value)?),
            ArgAction::Count => Value::Integer(times(&name, &value)?),
            _ => Value::String(value),
        };
        found.push(arg);
        settings.extend(setting(arg, &value, "the environment").map_err(Error::Usage)?);
    }
    // only now: two that conflict within the environment are a mistake
    found.into_iter().for_each(|arg| given.take(arg));
    Ok(settings)
}

fn switch(name: &str, value: &str) -> Result<bool> {
    match value {
        "1" | "true" => Ok(true),
        "0" | "false" | "" => Ok(false),
        _ => Err(Error::Usage(format!(
            "{name} is `{value}`, must be 1, true, 0 or false"
        ))),
    }
}

fn times(name: &str, value: &str) -> Result<i64> {
    value
        .parse()
        .map_err(|_| Error::Usage(format!("{name} is `{value}`, must be a whole number")))
}

/// What the table of a file says of arguments that are not settled.
pub(super) fn file<'a>(
    path: &Path,
    table: &Table,
    command: &'a Command,
    given: &mut Given<'a>,
) -> Result<Vec<Setting>> {
    let refuse = |reason: String| Error::Config {
        path: path.to_owned(),
        reason,
    };
    let section = command.get_name();
    if let Some(unknown) = table
        .keys()
        .find(|k| settable(command).all(|a| key(a) != **k))
    {
        let known: Vec<String> = settable(command).map(key).collect();
        return Err(refuse(format!(
            "[{section}] has no setting `{unknown}`; there are {}",
            known.join(", ")
        )));
    }
    let (mut settings, mut found_args) = (Vec::new(), Vec::new());
    for arg in settable(command) {
        if let Some(value) = table.get(&key(arg)).filter(|_| !given.has(arg)) {
            found_args.push(arg);
            let origin = format!("{}, [{section}]", path.display());
            let found = setting(arg, value, &origin);
            settings.extend(found.map_err(|reason| refuse(format!("[{section}] {reason}")))?);
        }
    }
    found_args.into_iter().for_each(|arg| given.take(arg));
    Ok(settings)
}

/// One setting as words; none for a switch that is off.
fn setting(arg: &Arg, value: &Value, origin: &str) -> std::result::Result<Option<Setting>, String> {
    let key = key(arg);
    let positional = arg.is_positional();
    let flag = match (arg.get_long(), arg.get_short()) {
        (None, Some(short)) => format!("-{short}"),
        _ => format!("--{key}"),
    };
    let words = match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(true)) => vec![flag.clone()],
        (ArgAction::SetTrue, Value::Boolean(false)) => return Ok(None),
        (ArgAction::SetTrue, other) => {
            return Err(format!("`{key}` is {other}, must be true or false"));
        }
        (ArgAction::Count, Value::Integer(times @ 0..=9)) => {
            (0..*times).map(|_| flag.clone()).collect()
        }
        (ArgAction::Count, other) => {
            return Err(format!(
                "`{key}` is {other}, must be a whole number from 0 to 9"
            ));
        }
        _ => {
            let write = |text: String| {
                if positional {
                    text
                } else {
                    format!("--{key}={text}")
                }
            };
            texts(arg, value)
                .ok_or_else(|| {
                    format!("`{key}` is {value}, must be text, a number or a list of these")
                })?
                .into_iter()
                .map(write)
                .collect()
        }
    };
    Ok(Some(Setting {
        name: if positional { key } else { flag },
        origin: origin.to_owned(),
        positional,
        words,
    }))
}

/// The values as they are typed: one word, or one for each element of a list.
fn texts(arg: &Arg, value: &Value) -> Option<Vec<String>> {
    let Value::Array(values) = value else {
        return Some(vec![scalar(value)?]);
    };
    let texts: Vec<String> = values.iter().map(scalar).collect::<Option<_>>()?;
    Some(match arg.get_value_delimiter() {
        Some(delimiter) => vec![texts.join(&delimiter.to_string())],
        None => texts,
    })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(n) => Some(n.to_string()),
        Value::Float(x) => Some(format!("{x:?}")),
        _ => None,
    }
}
