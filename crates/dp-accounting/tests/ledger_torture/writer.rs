//! The writer, in a process of its own: reserves and says what it was handed.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dp_accounting::Error;

use super::{patiently, plan};

const PATH: &str = "DP_LEDGER_TORTURE_PATH";
const TURNS: &str = "DP_LEDGER_TORTURE_TURNS";
const MARK: &str = "HANDED-OUT ";

/// With a number of turns the file is opened anew for each; without one it is kept for ever.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let path = Path::new(&path);
    let turns = std::env::var(TURNS).ok();
    for _ in 0..turns.as_ref().map_or(1, |n| n.parse().unwrap()) {
        let mut ledger = match patiently(path) {
            Ok(ledger) => ledger,
            Err(Error::Io { .. }) => return, // the disk is full
            Err(other) => panic!("{other}"),
        };
        while say(ledger.reserve(&plan("r", 3)), &mut ledger) && turns.is_none() {}
    }
}

/// Prints the ids; on a failed write, checks that the ledger is of no use any more.
fn say(
    outcome: dp_accounting::Result<Vec<dp_accounting::Spend>>,
    ledger: &mut dp_accounting::Ledger,
) -> bool {
    let mut out = std::io::stdout();
    match outcome {
        Ok(spends) => {
            for spend in spends {
                writeln!(out, "{MARK}{}", spend.release_id()).unwrap();
            }
            out.flush().unwrap();
            true
        }
        Err(Error::Io { .. }) => {
            let again = ledger.reserve(&plan("r", 1));
            assert!(matches!(again, Err(Error::LedgerPoisoned { .. })));
            false
        }
        Err(other) => panic!("{other}"),
    }
}

/// A command that runs this binary's test `name`, by way of `shell` (`"$@"` is the test) if given.
pub(super) fn command(name: &str, shell: Option<&str>) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match shell {
        None => Command::new(this),
        Some(script) => {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(this);
            command
        }
    };
    command.args(["--exact", name, "--nocapture"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Starts a writer of `path`.
pub(super) fn start(path: &Path, turns: Option<usize>, shell: Option<&str>) -> Child {
    let mut command = command("writer::child", shell);
    command.env(PATH, path);
    if let Some(turns) = turns {
        command.env(TURNS, turns.to_string());
    }
    command.spawn().unwrap()
}

/// The ids that a writer prints until its end; `on_each` is told of every one.
pub(super) fn ids(pipe: impl Read, mut on_each: impl FnMut()) -> Vec<String> {
    let mut ids = Vec::new();
    for line in BufReader::new(pipe).lines() {
        if let Some((_, id)) = line.unwrap().split_once(MARK) {
            ids.push(id.to_owned());
            on_each();
        }
    }
    ids
}
