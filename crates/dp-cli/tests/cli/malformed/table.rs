//! Rows of a table of command lines, and the checks for each of them.

use std::path::PathBuf;

use crate::support::{Run, Sandbox};

/// The lines of a table as cells, without comments and empty lines.
pub(crate) fn cells(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(" | ").map(str::trim).collect())
}

/// The replacement for `TARGET` in a row.
pub(crate) const TARGET: &str = "--epsilon 1 --delta 1e-5";

/// Arguments, exit code and parts of the message.
struct Row {
    line: String,
    code: i32,
    parts: Vec<&'static str>,
}

fn rows(table: &'static str) -> Vec<Row> {
    let row = |cells: Vec<&'static str>| {
        let [line, code, parts] = cells[..] else {
            panic!("not a row: {cells:?}");
        };
        Row {
            line: line.replace("TARGET", TARGET),
            code: code.parse().unwrap(),
            parts: parts.split(" & ").collect(),
        }
    };
    cells(table).map(row).collect()
}

/// Leading words `NAME=VALUE` are environment variables, and `""` is an empty argument.
fn run(sandbox: &Sandbox, line: &str) -> Run {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let n_variables = words
        .iter()
        .take_while(|word| word.starts_with("DP_"))
        .count();
    let variables = words.drain(..n_variables);
    let env: Vec<_> = variables
        .map(|word| word.split_once('=').unwrap())
        .collect();
    let args: Vec<&str> = words
        .into_iter()
        .map(|word| word.trim_matches('"'))
        .collect();
    let env = [&env[..], &[("RUST_BACKTRACE", "1")]].concat();
    sandbox.run_with(&args, &env)
}

/// Every file in the folder and its subfolders, with its content.
fn contents(sandbox: &Sandbox) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut folders = vec![sandbox.path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push((path.clone(), std::fs::read(path).ok()));
        }
    }
    found.sort();
    found
}

/// Must not occur in a message: traces, and values printed for programmers.
const RAW: [&str; 6] = [
    "panicked",
    "backtrace",
    "Some(",
    "Error {",
    "Os {",
    "PoisonError",
];

/// Whether the message is well formed: it begins as an error and contains `parts`, and nothing for
/// programmers.
fn is_message(said: &str, parts: &[&str]) -> bool {
    let begins = said
        .lines()
        .any(|line| line.starts_with("error: ") || line.starts_with("Usage: "));
    begins
        && parts.iter().all(|part| said.contains(part))
        && !RAW.iter().any(|raw| said.contains(raw))
}

#[track_caller]
pub(crate) fn check(sandbox: &Sandbox, table: &'static str) {
    let before = contents(sandbox);
    let (mut wrong, rows) = (Vec::new(), rows(table));
    for Row { line, code, parts } in &rows {
        let run = run(sandbox, line);
        let clean = run.stdout.is_empty() && contents(sandbox) == before;
        if run.code != *code || !is_message(&run.stderr, parts) || !clean {
            wrong.push(format!(
                "{line}\n  expected {code} and {parts:?}, found {} (clean: {clean})\n{}{}",
                run.code, run.stderr, run.stdout
            ));
        }
        assert!(contents(sandbox) == before, "{}", wrong.join("\n"));
    }
    let (n_wrong, n) = (wrong.len(), rows.len());
    assert!(wrong.is_empty(), "{n_wrong} of {n}:\n{}", wrong.join("\n"));
}
