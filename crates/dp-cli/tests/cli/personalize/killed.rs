//! Runs that are killed after their budget was spent.

use std::fs;
use std::time::{Duration, Instant};

use dp_accounting::Ledger;

use super::{SUBSPACE, personalize, samples};
use crate::support::{Sandbox, names_in, words};

/// Measuring takes seconds: every user leaves out each row, for each of the methods.
const SLOW: [&str; 8] = [
    "--sparse",
    "6",
    "--ledger",
    "l.ledger",
    "--ledger-epsilon",
    "4",
    "--max-rows",
    "12",
];
const RELEASED: &str = ".dp-model.partial/.released";

/// A run that was killed after its model was released and before it was measured.
fn killed_while_it_measures() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("data.csv", samples(1500));
    let run = words("personalize data.csv --delta 1e-5 --epsilon 4 --rank 1");
    let mut child = sandbox.command().args(run).args(SLOW).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(120);
    while !sandbox.exists(RELEASED) && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(sandbox.exists(RELEASED) && !sandbox.exists("dp-model"));
    sandbox
}

#[test]
fn a_model_that_was_paid_for_is_not_lost_and_not_paid_again() {
    let sandbox = killed_while_it_measures();
    let ledger = sandbox.read("l.ledger");
    assert!(
        !Ledger::audit(sandbox.path("l.ledger"))
            .unwrap()
            .releases
            .is_empty()
    );
    // the ledger has no room for a second run, and none is made
    let found = personalize(&sandbox, &SLOW).exits(7);
    found.says(&["the model is now in dp-model", "nothing was paid this time"]);
    assert_eq!(sandbox.read("l.ledger"), ledger);
    let names = names_in(&sandbox.path("dp-model"));
    let hidden = |name: &String| name.starts_with('.');
    assert!(!names.iter().any(hidden), "{names:?}");
    let args = ["verify", "dp-model", "--ledger", "l.ledger"];
    sandbox.dp(&args).exits(0);
    let model = sandbox.read(SUBSPACE);
    // from then on it is an ordinary model
    personalize(&sandbox, &SLOW).exits(3);
    assert_eq!(sandbox.read(SUBSPACE), model);
}

#[test]
fn a_model_that_is_there_is_not_replaced_by_one_that_was_left() {
    let sandbox = killed_while_it_measures();
    fs::create_dir(sandbox.path("dp-model")).unwrap();
    sandbox.write("dp-model/other.txt", "another model");
    sandbox.write("dp-model/certificate.json", "{}");
    personalize(&sandbox, &SLOW)
        .exits(7)
        .says(&["dp-model exists"]);
    assert!(sandbox.exists("dp-model/other.txt") && sandbox.exists(RELEASED));
    let forced = [&SLOW[..], &["--force"]].concat();
    personalize(&sandbox, &forced)
        .exits(7)
        .says(&["the model is now in dp-model"]);
    assert!(!sandbox.exists("dp-model/other.txt") && sandbox.exists(SUBSPACE));
}

#[test]
fn a_run_that_ended_while_it_trained_is_told_of() {
    let sandbox = super::sandbox();
    fs::create_dir(sandbox.path(".dp-model.partial")).unwrap();
    sandbox.write(".dp-model.partial/.paid", "");
    let run = personalize(&sandbox, &["--no-split"]).exits(0);
    run.says(&["ended while paying or training", "stays spent"]);
    assert!(!sandbox.exists("dp-model/.paid"));
}
