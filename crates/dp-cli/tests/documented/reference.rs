//! The tables of flags in `docs/reference`, from the definitions of the commands.

use std::fmt::Write as _;
use std::fs;

use clap::{Arg, Command};

use crate::pages::root;

/// Ends the generated part of a page; what follows is written by hand.
const END: &str = "<!-- end of the generated part -->\n";

/// Set to write the pages instead of comparing them.
const WRITE: &str = "DP_WRITE_REFERENCE";

/// The definition of `dp`, complete.
fn dp() -> Command {
    let mut dp = dp_cli::command();
    dp.build();
    dp
}

/// Visible commands of a command.
fn commands(of: &Command) -> impl Iterator<Item = &Command> {
    let all = of.get_subcommands();
    all.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// Name and generated part of every page.
fn pages() -> Vec<(String, String)> {
    let dp = dp();
    let mut pages: Vec<_> = commands(&dp)
        .map(|command| (page_name(command), page(command)))
        .collect();
    pages.push(("README".to_owned(), index(&dp)));
    pages
}

fn page_name(command: &Command) -> String {
    format!("dp-{}", command.get_name())
}

fn index(dp: &Command) -> String {
    let mut text = "# Reference\n\n| command | does |\n|---|---|\n".to_owned();
    for command in commands(dp) {
        let (name, page) = (command.get_name(), page_name(command));
        let about = one_line(command);
        writeln!(text, "| [`dp {name}`]({page}.md) | {about} |").unwrap();
    }
    text + "\n" + END
}

fn page(command: &Command) -> String {
    let mut text = format!("# dp {}\n\n{}.\n", command.get_name(), one_line(command));
    add_usage(&mut text, command, "##");
    for command in commands(command) {
        let name = command.get_bin_name().unwrap();
        write!(text, "\n## {name}\n\n{}.\n", one_line(command)).unwrap();
        add_usage(&mut text, command, "###");
    }
    let common = "[Flags of all commands](../command-line.md#flags-of-all-commands): `--config`, `--print-config`, `--verbose`, `--quiet`.";
    text + "\n" + common + "\n\n" + END
}

/// Usage line and a table of arguments under each heading.
fn add_usage(text: &mut String, command: &Command, level: &str) {
    if commands(command).next().is_some() {
        return;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    write!(text, "\n```text\n{usage}\n```\n").unwrap();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in arguments(command) {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            write!(text, "\n{level} {heading}\n").unwrap();
        }
        text.push_str("\n| argument | default | meaning |\n|---|---|---|\n");
        for arg in arguments(command).filter(|arg| arg.get_help_heading() == heading) {
            text.push_str(&row(arg));
        }
    }
    if let Some(more) = command.get_after_help() {
        let more = more.to_string().replace('\n', "\n\n");
        write!(text, "\n{}\n", plain(&more)).unwrap();
    }
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let all = command.get_arguments();
    all.filter(|arg| !arg.is_hide_set() && !dp_cli::COMMON_FLAGS.contains(&arg.get_id().as_str()))
}

/// Name, default and meaning of an argument; the help of a setting ends in its default where clap does not know it.
fn row(arg: &Arg) -> String {
    let help = arg.get_help().unwrap().to_string();
    let (meaning, usual) = match help
        .strip_suffix(']')
        .and_then(|help| help.rsplit_once(" [default: "))
    {
        Some((meaning, usual)) => (meaning.to_owned(), plain(usual)),
        None => (help, String::new()),
    };
    let given: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    let default = match (arg.is_required_set(), given.is_empty()) {
        (true, _) => "required".to_owned(),
        (false, true) => usual,
        (false, false) if arg.get_action().takes_values() => format!("`{}`", given.join(",")),
        (false, false) => String::new(),
    };
    let mut meaning = plain(&meaning);
    let choices = arg.get_possible_values();
    if !choices.is_empty() && !arg.is_hide_possible_values_set() && arg.get_action().takes_values()
    {
        let names: Vec<_> = choices
            .iter()
            .map(|choice| format!("`{}`", choice.get_name()))
            .collect();
        write!(meaning, ": {}", names.join(", ")).unwrap();
    }
    format!(
        "| `{}` | {default} | {meaning} |\n",
        written(arg).replace('|', "\\|")
    )
}

/// An argument as it is written on a command line.
fn written(arg: &Arg) -> String {
    let mut text = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(letter)) => format!("-{letter}"),
        (None, None) => String::new(),
    };
    if arg.get_action().takes_values() {
        let names = arg.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&names.join(" "));
    }
    text
}

fn one_line(command: &Command) -> String {
    plain(&command.get_about().unwrap().to_string())
}

/// Text within a table of Markdown.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[test]
fn the_reference_is_generated_from_the_commands() {
    let folder = root().join("docs/reference");
    for (name, generated) in pages() {
        let path = folder.join(format!("{name}.md"));
        let found = fs::read_to_string(&path).unwrap_or_default();
        if std::env::var_os(WRITE).is_some() {
            let own = found.split_once(END).map_or("", |(_, own)| own);
            fs::write(&path, generated + own).unwrap();
        } else {
            assert!(
                found.starts_with(&generated),
                "{} is not what the commands say; {WRITE}=1 cargo test -p dp-cli --test documented reference writes it",
                path.display()
            );
        }
    }
}

#[test]
fn no_page_of_a_command_is_left_over() {
    let pages = pages();
    for entry in fs::read_dir(root().join("docs/reference")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.trim_end_matches(".md");
        assert!(
            !name.starts_with("dp-") || pages.iter().any(|(page, _)| page == name),
            "docs/reference/{name}.md is of no command"
        );
    }
}

#[test]
fn every_exit_code_is_documented() {
    let page = fs::read_to_string(root().join("docs/reference/exit-codes.md")).unwrap();
    for code in 0..=9 {
        assert!(page.contains(&format!("\n| {code} | ")), "exit code {code}");
    }
}
