//! The writer, in a separate process: reserves, holds and takes, and prints the ids that it
//! receives.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dp_accounting::{Error, Ledger, Reservation, Result, Spend};

use super::{patiently, plan};

const PATH: &str = "DP_LEDGER_TORTURE_PATH";
const TURNS: &str = "DP_LEDGER_TORTURE_TURNS";
const UPGRADES: &str = "DP_LEDGER_TORTURE_UPGRADES";
const MARK: &str = "HANDED-OUT ";

/// With a number of turns, the file is reopened for each; without one, it stays open indefinitely.
/// Releases that a killed writer left held are taken first; then plans are reserved and held in
/// turn.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let path = Path::new(&path);
    if std::env::var_os(UPGRADES).is_some() {
        upgrade_for_ever(path);
    }
    let turns = std::env::var(TURNS).ok();
    for turn in 0..turns.as_ref().map_or(1, |n| n.parse().unwrap()) {
        let mut ledger = match patiently(path) {
            Ok(ledger) => ledger,
            Err(Error::Io { .. }) => return, // the disk is full
            Err(other) => panic!("{other}"),
        };
        let left = Ledger::audit(path).unwrap().held;
        let left = ledger.held(&left).unwrap();
        let mut goes_on = take_all(&left, &mut ledger);
        let mut holds = turn % 2 == 1;
        while goes_on {
            goes_on = pay(holds, &mut ledger) && turns.is_none();
            holds = !holds;
        }
    }
}

/// Alternately charges and rewrites the ledger.
fn upgrade_for_ever(path: &Path) {
    loop {
        let mut ledger = patiently(path).unwrap();
        let (budget, goes_on) = (*ledger.budget(), pay(true, &mut ledger));
        drop(ledger);
        assert!(goes_on);
        Ledger::upgrade(path, budget.kind(), budget.target()).unwrap();
    }
}

fn pay(holds: bool, ledger: &mut Ledger) -> bool {
    if !holds {
        let outcome = ledger.reserve(&plan("r", 3));
        return say(outcome, ledger).is_some();
    }
    let outcome = ledger.hold(&plan("h", 3));
    let reservation = went_well(outcome, ledger);
    reservation.is_some_and(|reservation| take_all(&reservation, ledger))
}

fn take_all(reservation: &Reservation, ledger: &mut Ledger) -> bool {
    (0..reservation.len()).all(|at| {
        let outcome = ledger.take(reservation, at).map(|spend| vec![spend]);
        say(outcome, ledger).is_some()
    })
}

/// Prints the ids.
fn say(outcome: Result<Vec<Spend>>, ledger: &mut Ledger) -> Option<()> {
    let mut out = std::io::stdout();
    for spend in went_well(outcome, ledger)? {
        writeln!(out, "{MARK}{}", spend.release_id()).unwrap();
    }
    out.flush().unwrap();
    Some(())
}

/// If a write failed, checks that the ledger cannot be used any more.
fn went_well<T>(outcome: Result<T>, ledger: &mut Ledger) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(Error::Io { .. }) => {
            let again = ledger.reserve(&plan("r", 1));
            assert!(matches!(again, Err(Error::LedgerPoisoned { .. })));
            None
        }
        Err(other) => panic!("{other}"),
    }
}

/// A command that runs this binary's test `name`, through `shell` (`"$@"` is the test) if given.
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

/// Starts a writer of `path` that rewrites it after each payment.
pub(super) fn start_upgrading(path: &Path) -> Child {
    let mut command = command("writer::child", None);
    command.env(PATH, path).env(UPGRADES, "1").spawn().unwrap()
}

/// The ids that a writer prints until it ends; `on_each` is called for each of them.
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
