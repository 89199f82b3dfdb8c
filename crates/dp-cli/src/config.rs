//! Settings from a file and from the environment, which flags override.
//!
//! A flag on the command line overrides the environment variable `DP_FLAG`, which overrides the
//! file given by `--config`. Both are converted to flags, so that the command line's checks and
//! error messages apply to them too.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use dp_personal::error::Error as WorkflowError;
use toml::{Table, Value};

use crate::args::{COMMAND, Cli};
use crate::error::{Error, Result};
use crate::screen::{is_silent, say};

/// What the program should do.
pub(crate) enum Invocation {
    Run(Box<Cli>),
    /// Print the settings, in the format of a file.
    Print(String),
}

/// Reads the command line, and adds settings from the file and the environment.
///
/// # Errors
/// Those of the file. [`Error::Refused`] for an invalid command line, and [`Error::Helped`] for a
/// request for help: in both cases clap has printed the message.
pub(crate) fn invocation(argv: &[OsString]) -> Result<Invocation> {
    let Some((path, given)) = lenient(argv) else {
        return Ok(Invocation::Run(strict(argv, &[])?));
    };
    let settings = added(&path, &given)?;
    let argv = with_settings(argv, &settings);
    if given.get_flag("print_config") {
        return print_config(&argv, &settings).map(Invocation::Print);
    }
    Ok(Invocation::Run(strict(&argv, &settings)?))
}

/// The names of a command, such as `train` or `nightly` and `run`.
type CommandPath = Vec<String>;

/// The command and what is given for it, whatever else may be wrong with the command line.
fn lenient(argv: &[OsString]) -> Option<(CommandPath, ArgMatches)> {
    let (first, mut matches) = ignoring_errors(COMMAND.clone())
        .try_get_matches_from(argv)
        .ok()?
        .remove_subcommand()?;
    let mut path = vec![first];
    while let Some((name, inner)) = matches.remove_subcommand() {
        path.push(name);
        matches = inner;
    }
    Some((path, matches))
}

fn ignoring_errors(command: Command) -> Command {
    command.ignore_errors(true).mut_subcommands(ignoring_errors)
}

/// The command of these names,
/// with the flags that all commands have; `None` for a group of commands.
fn find(path: &[String]) -> Option<Command> {
    let command = path
        .iter()
        .try_fold(&*COMMAND, |command, name| command.find_subcommand(name))?;
    let common = COMMAND.get_arguments().filter(|arg| arg.is_global_set());
    let mut command = command.clone().args(common);
    command.build();
    Some(command).filter(|of| !of.has_subcommands())
}

/// What the environment and the file say of flags that are not given.
fn added(path: &[String], given: &ArgMatches) -> Result<Vec<Setting>> {
    // a group of commands without one of them: clap lists them
    let Some(command) = find(path) else {
        return Ok(Vec::new());
    };
    let mut taken = Given::new(&command);
    for arg in command.get_arguments() {
        if given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            taken.take(arg);
        }
    }
    let mut settings = environment(&command, &mut taken)?;
    if let Some(file) = given.get_one::<std::path::PathBuf>("config") {
        let table = table(file, path)?;
        settings.extend(of_file(
            (file, &path.join(".")),
            &table,
            &command,
            &mut taken,
        )?);
    }
    Ok(settings)
}

/// Appends the settings as flags after the command's name, with positional ones at the end.
fn with_settings(argv: &[OsString], settings: &[Setting]) -> Vec<OsString> {
    let name = command_position(argv).unwrap_or(argv.len().saturating_sub(1));
    let mut all = argv[..=name].to_vec();
    let words = |positional: bool| {
        let of_kind = settings.iter().filter(move |s| s.positional == positional);
        of_kind.flat_map(|setting| setting.words.iter().map(OsString::from))
    };
    all.extend(words(false));
    all.extend_from_slice(&argv[name + 1..]);
    all.extend(words(true));
    all
}

/// Where the last name of the command stands.
fn command_position(argv: &[OsString]) -> Option<usize> {
    let (mut command, mut found) = (&*COMMAND, None);
    let mut at = 1;
    while at < argv.len() && command.has_subcommands() {
        let word = argv[at].to_string_lossy();
        if word == "--config" {
            at += 1;
        } else if let Some(inner) = command.find_subcommand(word.as_ref()) {
            (command, found) = (inner, Some(at));
        }
        at += 1;
    }
    found
}

/// The final, strict parse.
fn strict(argv: &[OsString], settings: &[Setting]) -> Result<Box<Cli>> {
    let parsed = COMMAND
        .clone()
        .try_get_matches_from(argv)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    parsed
        .map(Box::new)
        .map_err(|error| refused(&error, settings))
}

/// The settings in the format of a file. Missing settings are not an error, because they are to be
/// filled in.
fn print_config(argv: &[OsString], settings: &[Setting]) -> Result<String> {
    match COMMAND.clone().try_get_matches_from(argv) {
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
            return Err(refused(&error, settings));
        }
        _ => {}
    }
    let Some((path, matches)) = lenient(argv) else {
        return Ok(String::new());
    };
    let command = find(&path);
    Ok(command.map_or_else(String::new, |command| toml(&path, &command, &matches)))
}

/// The expected value of a flag whose value is not a number: clap only reports that it is invalid.
fn expected_number(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let source = error.source()?;
    let kind = if shown.starts_with("--alpha-grid") {
        "numbers from 0 to inf, separated by commas, as in 0,0.3,1,inf"
    } else if shown.contains(',') && source.is::<ParseFloatError>() {
        "numbers separated by commas, as in 1,5"
    } else if source.is::<ParseFloatError>() {
        "a number, such as 0.5 or 1e-5"
    } else if source.is::<ParseIntError>() {
        "a whole number, 0 or above, in digits"
    } else {
        return None;
    };
    Some(format!("{shown} takes {kind}"))
}

/// Whether the command has no epsilon but that of all nights together.
fn is_epsilon_of_nights(error: &clap::Error) -> bool {
    let is_epsilon =
        |arg: &ContextValue| matches!(arg, ContextValue::String(arg) if arg == "--epsilon");
    error.kind() == ErrorKind::UnknownArgument
        && error.get(ContextKind::InvalidArg).is_some_and(is_epsilon)
        && error.to_string().contains("--lifetime-epsilon")
}

/// Prints clap's message, and which settings do not come from the command line.
fn refused(error: &clap::Error, settings: &[Setting]) -> Error {
    if !is_silent() {
        // if this write fails, the error cannot be reported; the exit code still indicates it
        let _ = error.print();
    }
    if error.exit_code() == 0 {
        return Error::Helped;
    }
    if let Some(expected) = expected_number(error) {
        say(&format!("hint: {expected}"));
    }
    if is_epsilon_of_nights(error) {
        say("hint: --lifetime-epsilon is the epsilon of all nights together, which is paid once");
    }
    for setting in settings {
        say(&format!(
            "note: {} comes from {}",
            setting.name, setting.origin
        ));
    }
    Error::Refused
}

/// Flags that control how settings are read.
const OWN: [&str; 4] = ["config", "print_config", "help", "version"];

/// A setting that does not come from the command line.
struct Setting {
    /// Its name in messages.
    name: String,
    /// Where it comes from.
    origin: String,
    /// Whether it is a positional argument.
    positional: bool,
    /// How it would be written on the command line.
    words: Vec<String>,
}

/// Arguments that already have a value, and those that conflict with them.
struct Given<'a> {
    command: &'a Command,
    settled: BTreeSet<&'a str>,
}

impl<'a> Given<'a> {
    fn new(command: &'a Command) -> Self {
        let settled = BTreeSet::new();
        Self { command, settled }
    }

    /// Marks an argument as set, and those that conflict with it: a source with higher priority
    /// overrides them instead of causing a conflict error.
    fn take(&mut self, arg: &'a Arg) {
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

/// The arguments that can be set, with positional ones in order.
fn settable(command: &Command) -> impl Iterator<Item = &Arg> {
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

/// Values from the environment for arguments that have no value yet.
fn environment<'a>(command: &'a Command, given: &mut Given<'a>) -> Result<Vec<Setting>> {
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
    // only afterwards, because two that conflict within the environment are an error
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

/// Values from the table of a file for arguments that have no value yet.
fn of_file<'a>(
    (path, section): (&Path, &str),
    table: &Table,
    command: &'a Command,
    given: &mut Given<'a>,
) -> Result<Vec<Setting>> {
    let refuse = |reason: String| Error::Config {
        path: path.to_owned(),
        reason,
    };
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

/// One setting as words; `None` for a switch that is off.
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

/// The values as typed on a command line: one word, or one for each element of a list.
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

/// The table of a command, such as `[train]` or `[nightly.run]`; empty when the file has none.
///
/// # Errors
/// When the file cannot be read, is not TOML, or holds anything but tables of commands.
fn table(path: &Path, names: &[String]) -> Result<Table> {
    let text = std::fs::read_to_string(path).map_err(|e| WorkflowError::read(path, e))?;
    let refuse = |reason: String| Error::Config {
        path: path.to_owned(),
        reason,
    };
    let mut table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| refuse(error.to_string().trim_end().to_owned()))?;
    refuse_no_commands(&table, &COMMAND, &[], names).map_err(refuse)?;
    for name in names {
        table = match table.remove(name) {
            Some(Value::Table(inner)) => inner,
            _ => return Ok(Table::new()),
        };
    }
    Ok(table)
}

/// Refuses anything but tables of commands, and in those of commands that have commands of their own, of these.
fn refuse_no_commands(
    table: &Table,
    commands: &Command,
    above: &[&str],
    names: &[String],
) -> std::result::Result<(), String> {
    for (key, value) in table {
        let path = [above, &[key.as_str()]].concat();
        let section = path.join(".");
        let Some(command) = commands.find_subcommand(key) else {
            let named = names.join(".");
            return Err(format!(
                "`{section}` is not a command; settings go in a table named after their command, such as [{named}]"
            ));
        };
        let Some(inner) = value.as_table() else {
            return Err(format!("`{section}` must be a table: [{section}]"));
        };
        if command.has_subcommands() {
            refuse_no_commands(inner, command, &path, names)?;
        }
    }
    Ok(())
}

/// The settings of a command as a table of TOML; what is not set stands there as a comment, with its
/// default.
fn toml(path: &[String], command: &Command, matches: &ArgMatches) -> String {
    let (words, section) = (path.join(" "), path.join("."));
    let mut out =
        format!("# dp {words} --config FILE; flags and DP_ variables override it\n[{section}]\n");
    for arg in settable(command).filter(|arg| !arg.is_hide_set()) {
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

/// The value in TOML syntax.
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

/// Numbers as they were typed if that is valid TOML; everything else is quoted.
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
