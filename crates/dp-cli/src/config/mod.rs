//! Settings from a file and from the environment, beneath the flags.
//!
//! A flag on the command line counts before `DP_FLAG` of the environment, and that before the file
//! that `--config` names. Both are turned into flags, so that the command line's own checks and
//! messages hold for them too.

mod file;
mod print;
mod sources;

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::args::Cli;
use crate::error::{Error, Result};
use crate::screen::say;
#[cfg(test)]
pub(crate) use sources::key as key_of;
use sources::{Given, Setting};

/// What is to be done.
pub(crate) enum Invocation {
    Run(Box<Cli>),
    /// Settings, ready to be put in a file.
    Print(String),
}

/// Reads the command line, and what the file and the environment add to it.
///
/// # Errors
/// Those of the file. A bad command line ends the process with its message and exit code 2, and a
/// request for help with code 0.
pub(crate) fn invocation(argv: &[OsString]) -> Result<Invocation> {
    let Some((name, given)) = lenient(argv) else {
        return Ok(Invocation::Run(strict(argv, &[])?));
    };
    let settings = added(&name, &given)?;
    let argv = with_settings(argv, &settings);
    if given.get_flag("print_config") {
        return print_config(&argv, &settings).map(Invocation::Print);
    }
    Ok(Invocation::Run(strict(&argv, &settings)?))
}

/// The command and what is given for it, whatever else may be wrong with the command line.
fn lenient(argv: &[OsString]) -> Option<(String, ArgMatches)> {
    let command = Cli::command()
        .ignore_errors(true)
        .mut_subcommands(|command| command.ignore_errors(true));
    let mut matches = command.try_get_matches_from(argv).ok()?;
    matches.remove_subcommand()
}

/// What the environment and the file say of flags that are not given.
fn added(name: &str, given: &ArgMatches) -> Result<Vec<Setting>> {
    let built = built_command();
    let Some(command) = built.find_subcommand(name) else {
        return Ok(Vec::new());
    };
    let mut taken = Given::new(command);
    for arg in command.get_arguments() {
        if given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            taken.take(arg);
        }
    }
    let mut settings = sources::environment(command, &mut taken)?;
    if let Some(path) = given.get_one::<std::path::PathBuf>("config") {
        let table = file::table(path, &built, name)?;
        settings.extend(sources::file(path, &table, command, &mut taken)?);
    }
    Ok(settings)
}

/// The command line as clap sees it when it parses.
fn built_command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// The settings as flags behind the command's name, those without a flag at the end.
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

/// Where the name of the command stands.
fn command_position(argv: &[OsString]) -> Option<usize> {
    let built = built_command();
    let mut at = 1;
    while at < argv.len() {
        let word = argv[at].to_string_lossy();
        if word == "--config" {
            at += 1;
        } else if built.find_subcommand(word.as_ref()).is_some() {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Parses for good.
fn strict(argv: &[OsString], settings: &[Setting]) -> Result<Box<Cli>> {
    let parsed = Cli::command()
        .try_get_matches_from(argv)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    parsed
        .map(Box::new)
        .map_err(|error| refused(&error, settings))
}

/// The settings as a file holds them. What is missing is no error: it is to be filled in.
fn print_config(argv: &[OsString], settings: &[Setting]) -> Result<String> {
    match Cli::command().try_get_matches_from(argv) {
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
            return Err(refused(&error, settings));
        }
        _ => {}
    }
    let built = built_command();
    let Some((name, matches)) = lenient(argv) else {
        return Ok(String::new());
    };
    let command = built.find_subcommand(&name);
    Ok(command.map_or_else(String::new, |command| print::toml(command, &matches)))
}

/// What a flag takes whose value is no number: clap says only that it is none.
fn expected_number(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let source = error.source()?;
    let kind = if source.is::<ParseFloatError>() {
        "a number, such as 0.5 or 1e-5"
    } else if source.is::<ParseIntError>() {
        "a whole number, 0 or above, in digits"
    } else {
        return None;
    };
    Some(format!("{shown} takes {kind}"))
}

/// Shows what clap has to say, and which settings do not stand on the command line.
fn refused(error: &clap::Error, settings: &[Setting]) -> Error {
    if error.exit_code() == 0 {
        error.exit();
    }
    // a failure to write here leaves nobody to tell; the exit code still speaks
    let _ = error.print();
    if let Some(expected) = expected_number(error) {
        say(&format!("hint: {expected}"));
    }
    for setting in settings {
        say(&format!(
            "note: {} comes from {}",
            setting.name, setting.origin
        ));
    }
    Error::Refused
}
