//! Settings written as a file.

use std::any::TypeId;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

use super::sources::{key, settable};

/// The settings of a command as a table of TOML; what is not set stands there as a comment, with its
/// default.
pub(super) fn toml(command: &Command, matches: &ArgMatches) -> String {
    let name = command.get_name();
    let mut out =
        format!("# dp {name} --config FILE; flags and DP_ variables count before it\n[{name}]\n");
    for arg in settable(command) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let help: Vec<&str> = help.split_whitespace().collect();
        let key = key(arg);
        let line = match (is_set(arg, matches), value(arg, matches)) {
            (true, Some(value)) => format!("{key} = {value}"),
            (false, Some(default)) => format!("# {key} = {default}"),
            (_, None) => format!("# {key} ="),
        };
        out.push_str(&format!("\n# {}\n{line}\n", help.join(" ")));
    }
    out
}

fn is_set(arg: &Arg, matches: &ArgMatches) -> bool {
    matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// The value as TOML writes it.
fn value(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = arg.get_id().as_str();
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Some(matches.get_flag(id).to_string());
    }
    if matches!(arg.get_action(), ArgAction::Count) {
        return Some(matches.get_count(id).to_string());
    }
    let typed = matches.get_raw(id)?;
    let values: Vec<String> = typed
        .map(|text| written(arg, &text.to_string_lossy()))
        .collect();
    let is_list = matches!(arg.get_action(), ArgAction::Append) || values.len() > 1;
    if is_list {
        return Some(format!("[{}]", values.join(", ")));
    }
    values.into_iter().next()
}

/// Numbers as they were typed where TOML writes them so too; all else is quoted.
fn written(arg: &Arg, text: &str) -> String {
    let of_type = arg.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<f64>(),
        TypeId::of::<usize>(),
        TypeId::of::<u64>(),
        TypeId::of::<u32>(),
    ];
    let is_number = numbers.iter().any(|number| of_type == *number);
    if is_number && format!("x = {text}").parse::<Table>().is_ok() {
        return text.to_owned();
    }
    Value::String(text.to_owned()).to_string()
}
