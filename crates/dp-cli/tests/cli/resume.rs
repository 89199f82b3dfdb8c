//! Runs that are killed and go on from their list of releases.

use std::fs;
use std::time::{Duration, Instant};

use dp_accounting::Ledger;

use crate::support::{Sandbox, words};

/// A run of a few hundred rounds, so that a kill comes in the middle of it.
const LONG_RUN: [&str; 13] = [
    "train",
    "--method",
    "adadpals",
    "ratings.csv",
    "--epsilon",
    "1",
    "--delta",
    "1e-5",
    "--steps",
    "300",
    "--dim",
    "3",
    "--no-split",
];
/// Counts once, then two releases a round.
const N_RELEASES: usize = 601;

pub(crate) const LIST: &str = ".dp-model.partial/releases.list";

fn long_run() -> Vec<&'static str> {
    let mut args = LONG_RUN.to_vec();
    args.extend(["--ledger", "l.ledger", "--ledger-epsilon", "3", "--resume"]);
    args
}

#[test]
fn a_killed_run_goes_on_and_pays_for_at_most_one_step_twice() {
    let sandbox = Sandbox::with_ratings();
    let n_kills = 3;
    for kill in 0..n_kills {
        let mut child = sandbox.command().args(long_run()).spawn().unwrap();
        let give_up = Instant::now() + Duration::from_secs(60);
        while !sandbox.exists(LIST) && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(5 * kill));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    sandbox.dp(&long_run()).exits(0);
    let n_paid = Ledger::audit(sandbox.path("l.ledger"))
        .unwrap()
        .releases
        .len();
    let most = N_RELEASES + 2 * usize::try_from(n_kills).unwrap();
    assert!((N_RELEASES..=most).contains(&n_paid), "{n_paid}");
    sandbox
        .dp(&["verify", "dp-model", "--ledger", "l.ledger"])
        .exits(0);

    sandbox.dp(&["verify", "dp-model", "--recompute"]).exits(0);
}

/// A long run that was killed when its list had a release.
pub(crate) fn killed() -> Sandbox {
    let sandbox = Sandbox::with_ratings();
    let mut child = sandbox.command().args(long_run()).spawn().unwrap();
    // what does not hold together at the end of a list is taken for torn, so that damage needs an entry behind it
    let has_some = |list: Vec<u8>| {
        String::from_utf8_lossy(&list)
            .matches("previous_hash")
            .count()
            > 3
    };
    let give_up = Instant::now() + Duration::from_secs(60);
    while Instant::now() < give_up && !fs::read(sandbox.path(LIST)).is_ok_and(has_some) {}
    child.kill().unwrap();
    child.wait().unwrap();
    sandbox
}

/// A kill while an entry is written leaves a part of it, which the next run puts into a file beside the list.
#[test]
fn what_a_kill_cut_off_the_list_is_internal_and_the_model_verifies() {
    for more in [&[][..], &["--publish-releases"]] {
        let sandbox = killed();
        let list = sandbox.read(LIST);
        let entry = list.windows(16).rposition(|at| at == b"\"previous_hash\":");
        let part_of_an_entry = &list[..entry.unwrap()];
        sandbox.write(LIST, part_of_an_entry);
        sandbox.dp(&[&long_run()[..], more].concat()).exits(0);
        let verify = ["verify", "dp-model", "--ledger", "l.ledger", "--recompute"];
        sandbox.dp(&verify).exits(0);
        let torn = sandbox.read("dp-model-internal/internal-releases.torn");
        assert!(!torn.is_empty() && part_of_an_entry.ends_with(&torn));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_says_that_its_budget_is_spent_and_how_to_go_on() {
    let sandbox = Sandbox::with_ratings();
    let mut command = sandbox.command();
    command
        .args(long_run())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let has_one = |list: Vec<u8>| String::from_utf8_lossy(&list).contains("previous_hash");
    let give_up = Instant::now() + Duration::from_secs(60);
    while Instant::now() < give_up && !fs::read(sandbox.path(LIST)).is_ok_and(has_one) {}
    let id = child.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &id])
        .status();
    assert!(kill.unwrap().success());
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains("press Ctrl-C again to stop immediately"),
        "{said}"
    );
    assert!(
        said.contains(
            "the budget that the run paid stays spent: run the same command with --resume"
        ),
        "{said}"
    );
    sandbox.dp(&long_run()).exits(0);
}

#[test]
fn a_list_of_releases_goes_with_its_ledger_and_its_settings() {
    let sandbox = killed();
    sandbox.train(&["--resume"]).exits(2).says(&["--ledger"]);
    let (spent, list) = (sandbox.read("l.ledger"), sandbox.read(LIST));
    let mut other = long_run();
    other.extend(["--clip-norm", "0.9"]);
    sandbox.dp(&other).exits(2).says(&[
        "--resume: the interrupted run had other settings or other public inputs: --clip-norm was not given, and is 0.9",
        "leave --resume out for a new run",
    ]);
    assert_eq!(sandbox.read("l.ledger"), spent);
    fs::rename(sandbox.path("l.ledger"), sandbox.path("old.ledger")).unwrap();
    sandbox
        .dp(&long_run())
        .exits(5)
        .says(&["there is no ledger l.ledger", "restore the ledger"]);
    for name in ["l.ledger.key", "l.ledger.users"] {
        fs::rename(sandbox.path(name), sandbox.path(&format!("old.{name}"))).unwrap();
    }
    sandbox
        .dp(&long_run())
        .exits(2)
        .says(&["this ledger did not pay for the releases of the interrupted run"]);
    for name in ["l.ledger.key", "l.ledger.users"] {
        fs::rename(sandbox.path(&format!("old.{name}")), sandbox.path(name)).unwrap();
    }
    assert!(!sandbox.exists("dp-model") && !sandbox.exists("l.ledger"));
    // refused, the run is still there
    assert_eq!(sandbox.read(LIST), list);
    fs::rename(sandbox.path("old.ledger"), sandbox.path("l.ledger")).unwrap();
    sandbox.dp(&long_run()).exits(0);
}

#[test]
fn without_resume_an_interrupted_run_is_told_of_and_discarded() {
    let sandbox = killed();
    let mut anew = long_run();
    anew.retain(|arg| *arg != "--resume");
    sandbox
        .dp(&anew)
        .exits(0)
        .says(&["ended while paying or training", "stays spent"]);
}

#[test]
fn a_run_whose_ledger_has_no_room_ends_with_the_rounds_it_made() {
    let sandbox = Sandbox::with_ratings();
    let mut run = LONG_RUN.to_vec();
    run.extend(["--ledger", "l.ledger", "--ledger-epsilon", "1", "--resume"]);
    let mut child = sandbox.command().args(&run).spawn().unwrap();
    let half_way = |list: Vec<u8>| {
        String::from_utf8_lossy(&list).contains("\"round 20: item right-hand sides\"")
    };
    let give_up = Instant::now() + Duration::from_secs(60);
    while Instant::now() < give_up {
        if fs::read(sandbox.path(LIST)).is_ok_and(half_way) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // another run takes what is left
    let small = ["--ledger", "l.ledger", "--out", "small"];
    let mut other = words("train ratings.csv --epsilon 0.3 --delta 1e-5");
    other.extend(small);
    let paid = sandbox.dp(&other).code;
    if paid == 3 {
        return; // the run was nearly through: nothing to see
    }
    sandbox.dp(&run).exits(0).says(&[
        "resuming the interrupted run: ",
        " of its 601 releases were paid for",
        "finishing with the rounds already made",
    ]);
    sandbox
        .dp(&["verify", "dp-model", "--ledger", "l.ledger"])
        .exits(0);
}
