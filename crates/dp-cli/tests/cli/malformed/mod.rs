//! Tables of command lines and files that make no sense. Each ends with the documented exit code and a message that
//! names the argument or the file and says what was expected; nothing panics, nothing is printed as a result, and no file
//! appears, vanishes or changes.

mod files;

use std::path::PathBuf;

use crate::support::{Run, Sandbox};

/// What `TARGET` stands for in a row.
const TARGET: &str = "--epsilon 1 --delta 1e-5";

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
    files::cells(table).map(row).collect()
}

/// Words `NAME=VALUE` in front are variables of the environment, and `""` is an empty argument.
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
    sandbox.dp_with(&args, &env)
}

/// Every file below the folder with its content.
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

/// What is not to be in a message: traces, and values printed for programmers.
const RAW: [&str; 6] = [
    "panicked",
    "backtrace",
    "Some(",
    "Error {",
    "Os {",
    "PoisonError",
];

/// Whether the message is one: it begins as an error, holds `parts`, and nothing for programmers.
fn is_message(said: &str, parts: &[&str]) -> bool {
    let begins = said
        .lines()
        .any(|line| line.starts_with("error: ") || line.starts_with("Usage: "));
    begins
        && parts.iter().all(|part| said.contains(part))
        && !RAW.iter().any(|raw| said.contains(raw))
}

#[track_caller]
fn check(sandbox: &Sandbox, table: &'static str) {
    let before = contents(sandbox);
    let (mut wrong, rows) = (Vec::new(), rows(table));
    for Row { line, code, parts } in &rows {
        let run = run(sandbox, line);
        let clean = run.stdout.is_empty() && contents(sandbox) == before;
        if run.code != *code || !is_message(&run.stderr, parts) || !clean {
            wrong.push(format!(
                "dp {line}\n  expected {code} and {parts:?}, found {} (clean: {clean})\n{}{}",
                run.code, run.stderr, run.stdout
            ));
        }
        assert!(contents(sandbox) == before, "{}", wrong.join("\n"));
    }
    let (n_wrong, n) = (wrong.len(), rows.len());
    assert!(wrong.is_empty(), "{n_wrong} of {n}:\n{}", wrong.join("\n"));
}

#[test]
fn of_training() {
    check(&files::with_model(), include_str!("train.txt"));
}

#[test]
fn of_ratings_and_items() {
    check(&files::with_model(), include_str!("ratings.txt"));
}

#[test]
fn of_models() {
    check(&files::with_models(), include_str!("models.txt"));
}

#[test]
fn of_settings() {
    check(&files::with_model(), include_str!("settings.txt"));
}

#[test]
fn of_audits() {
    check(&files::with_model(), include_str!("audit.txt"));
}

#[test]
fn of_questions() {
    check(&files::plain(), include_str!("questions.txt"));
}

#[test]
fn of_groups() {
    check(&files::with_groups(), include_str!("groups.txt"));
}

#[test]
fn of_the_other_commands() {
    check(&files::plain(), include_str!("others.txt"));
}

/// A name that is no UTF-8 is shown with a mark in its place; a file of that name is read.
#[test]
#[cfg(unix)]
fn file_names_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let sandbox = Sandbox::with_ratings();
    let name = OsStr::from_bytes(b"r\xff.csv");
    let train = || {
        let mut command = sandbox.command();
        command.arg("train").arg(name).args(TARGET.split(' '));
        Run::from(command.output().unwrap())
    };
    train().exits(4).says(&["r\u{fffd}.csv: cannot be opened"]);
    std::fs::copy(sandbox.path("ratings.csv"), sandbox.path("").join(name)).unwrap();
    train().exits(0);
    let mut command = sandbox.command();
    command
        .args(["audit", "--epsilon"])
        .arg(OsStr::from_bytes(b"\xff"));
    Run::from(command.output().unwrap())
        .exits(2)
        .says(&["--epsilon"]);
    let mut command = sandbox.command();
    command
        .args(["verify", "dp-model"])
        .env("DP_LEDGER", OsStr::from_bytes(b"\xff"));
    let run = Run::from(command.output().unwrap());
    run.exits(2)
        .says(&["DP_LEDGER of the environment is not text"]);
}

/// A file that may not be read or a folder that may not be written, told apart from one that is not there.
#[test]
#[cfg(unix)]
fn permissions_are_told() {
    use std::os::unix::fs::PermissionsExt;

    let sandbox = Sandbox::with_ratings();
    let lock = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(sandbox.path(name), mode).unwrap();
    };
    std::fs::create_dir(sandbox.path("shut")).unwrap();
    lock("shut", 0o500);
    if std::fs::write(sandbox.path("shut/probe"), "").is_ok() {
        return; // whoever runs this may write everywhere
    }
    sandbox
        .train(&["--out", "shut/model"])
        .exits(7)
        .says(&["cannot write shut", "denied"]);
    let ledger = sandbox.train(&["--ledger", "shut/l.ledger"]);
    ledger.exits(5).says(&["shut/l.ledger", "denied"]);
    lock("ratings.csv", 0o000);
    sandbox
        .train(&[])
        .exits(4)
        .says(&["ratings.csv: cannot be opened", "denied"]);
    lock("shut", 0o700);
    assert_eq!(sandbox.names(), ["ratings.csv", "shut"]);
}
