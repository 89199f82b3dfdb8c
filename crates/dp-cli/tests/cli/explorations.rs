//! Looking at unreleased metrics adds a note to the ledger, which later certificates mention.

use dp_accounting::Ledger;

use crate::personalize::samples;
use crate::support::{Run, Sandbox, words};

const CLAIM: &str = "not chosen by looking";

fn dp(sandbox: &Sandbox, line: &str) {
    sandbox.dp(&words(line)).exits(0);
}

fn certificate(sandbox: &Sandbox, folder: &str) -> String {
    sandbox.text(&format!("{folder}/certificate.json"))
}

#[test]
fn several_epsilons_are_named_by_the_certificates_of_later_runs() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(60));
    let run = "federate rows.csv --delta 1e-5 --rounds 2 --alpha-grid 1 --ledger l.ledger";
    dp(
        &sandbox,
        &format!("{run} --epsilon 1 --ledger-epsilon 4 --out first"),
    );
    assert!(certificate(&sandbox, "first").contains(CLAIM));
    let before = Ledger::audit(sandbox.path("l.ledger")).unwrap();

    dp(&sandbox, &format!("{run} --epsilon 0.5,1 --out look"));
    let after = Ledger::audit(sandbox.path("l.ledger")).unwrap();
    assert_eq!(after.balance, before.balance);
    assert_eq!(after.releases, before.releases);
    assert_eq!(after.notes.len(), before.notes.len() + 1);

    dp(&sandbox, &format!("{run} --epsilon 1 --out second"));
    let second = certificate(&sandbox, "second");
    assert!(
        !second.contains(CLAIM) && second.contains("several epsilons compared"),
        "{second}"
    );
    assert!(!sandbox.text("second/report.md").contains(CLAIM));
    dp(&sandbox, "verify second --ledger l.ledger");

    // nothing is shown if it cannot be noted
    let elsewhere = run.replace("l.ledger", "other.ledger");
    let missing = format!("{elsewhere} --epsilon 0.5,1 --out x");
    sandbox.run(&words(&missing)).exits(5);
    assert!(!sandbox.exists("x-internal") && !sandbox.exists("other.ledger"));
}

#[test]
fn what_was_printed_or_evaluated_is_named_by_later_certificates_and_not_by_its_own() {
    for look in [
        "train ratings.csv --epsilon 1 --delta 1e-5 --ledger l.ledger --out look --show-internal",
        "evaluate ratings.csv --model first",
    ] {
        let sandbox = Sandbox::with_ratings();
        let run = "train ratings.csv --epsilon 1 --delta 1e-5 --ledger l.ledger";
        dp(&sandbox, &format!("{run} --ledger-epsilon 4 --out first"));
        // internal files that were not shown to anybody do not count as a choice
        dp(&sandbox, &format!("{run} --out again"));
        assert!(certificate(&sandbox, "again").contains(CLAIM));
        dp(&sandbox, look);
        if look.starts_with("train") {
            assert!(certificate(&sandbox, "look").contains(CLAIM));
        }
        dp(&sandbox, &format!("{run} --out later"));
        let later = certificate(&sandbox, "later");
        assert!(
            !later.contains(CLAIM) && later.contains("the choice of settings"),
            "{later}"
        );
    }
}

#[test]
fn without_a_ledger_a_certificate_says_that_nothing_notes_it() {
    let sandbox = Sandbox::with_model();
    let said = "no ledger notes whether figures of this data set were looked at";
    assert!(certificate(&sandbox, "dp-model").contains(said));
}

/// Makes two runs on one ledger, then calls `deed`; returns the certificate of the next run.
fn after(deed: impl FnOnce(&Sandbox)) -> String {
    let sandbox = Sandbox::with_ratings();
    let run = "train ratings.csv --epsilon 1 --delta 1e-5 --ledger l.ledger";
    dp(&sandbox, &format!("{run} --ledger-epsilon 4 --out first"));
    dp(&sandbox, &format!("{run} --out second"));
    deed(&sandbox);
    dp(&sandbox, &format!("{run} --out later"));
    certificate(&sandbox, "later")
}

#[test]
fn pages_that_compare_runs_or_were_asked_for_are_named_by_later_certificates() {
    let kind = "runs shown by dp report";
    for pages in [
        "report first second --out pages --internal",
        "report first second",
        "report first --out pages --internal",
    ] {
        let later = after(|sandbox| dp(sandbox, pages));
        let is_said = later.contains("before, once (") && later.contains(kind);
        assert!(is_said && !later.contains(CLAIM), "{pages}: {later}");
    }
    // released values alone, and a page of the run's own files, compare nothing
    for pages in ["report first second --out pages", "report first"] {
        let later = after(|sandbox| dp(sandbox, pages));
        assert!(later.contains(CLAIM), "{pages}: {later}");
    }
}

#[test]
fn a_model_is_noted_in_the_ledger_that_goes_on_with_its_own() {
    let sandbox = Sandbox::with_ratings();
    let run = "train ratings.csv --epsilon 1 --delta 1e-5 --ledger-epsilon 2";
    dp(&sandbox, &format!("{run} --ledger l.ledger --out first"));
    dp(&sandbox, &format!("{run} --ledger m.ledger --out second"));
    dp(&sandbox, "ledger merge l.ledger m.ledger --out both.ledger");
    let looked = sandbox.dp(&words("evaluate ratings.csv --model first"));
    assert_eq!(looked.exits(0).stderr, "");
    let run = "train ratings.csv --epsilon 1 --delta 1e-5 --ledger both.ledger --out later";
    dp(&sandbox, run);
    let later = certificate(&sandbox, "later");
    assert!(later.contains("a model measured by dp evaluate") && !later.contains(CLAIM));
}

#[test]
fn what_no_ledger_can_note_is_said_to_whoever_looks() {
    let sandbox = Sandbox::with_ratings();
    let run =
        "train ratings.csv --epsilon 1 --delta 1e-5 --ledger l.ledger --new-ledger --out first";
    dp(&sandbox, run);
    std::fs::remove_dir_all(sandbox.path("first-internal")).unwrap();
    let looked = sandbox.dp(&words("evaluate ratings.csv --model first"));
    looked
        .exits(0)
        .says(&["cannot record this look at its data", "is missing"]);
}

/// `dp evaluate --show-internal` without naming a ledger.
fn printed(sandbox: &Sandbox, more: &str) -> Run {
    let line = format!("evaluate ratings.csv --show-internal {more}");
    let mut command = sandbox.program(crate::BINARY);
    command.args(words(&line)).output().unwrap().into()
}

#[test]
fn figures_are_not_printed_where_the_ledger_of_the_model_cannot_note_it() {
    let sandbox = Sandbox::with_ratings();
    let run = "train ratings.csv --epsilon 1 --delta 1e-5 --ledger l.ledger";
    dp(&sandbox, &format!("{run} --ledger-epsilon 4 --out first"));
    dp(&sandbox, "publish first copy");
    let n_notes = || Ledger::audit(sandbox.path("l.ledger")).unwrap().notes.len();
    let before = n_notes();
    // a copy does not record where its ledger is
    let refused = printed(&sandbox, "--model copy").exits(2);
    refused.says(&["--ledger", "--no-ledger"]);
    let said = printed(&sandbox, "--model copy --no-ledger").exits(0);
    said.says(&["no ledger records"]);
    assert_eq!(n_notes(), before);
    let noted = printed(&sandbox, "--model copy --ledger l.ledger");
    assert_eq!(noted.exits(0).stderr, "");
    assert_eq!(n_notes(), before + 1);
    // a missing ledger cannot record a note
    std::fs::rename(sandbox.path("l.ledger"), sandbox.path("away.ledger")).unwrap();
    let refused = printed(&sandbox, "--model first");
    assert_eq!(refused.exits(5).stdout, "");
    let said = printed(&sandbox, "--model first --no-ledger").exits(0);
    said.says(&["cannot record"]);
    let noted = printed(&sandbox, "--model first --ledger away.ledger");
    assert_eq!(noted.exits(0).stderr, "");
}

#[test]
fn without_a_ledger_whoever_is_shown_figures_is_told_that_nothing_notes_it() {
    let sandbox = Sandbox::with_ratings();
    let shown = sandbox.train(&["--show-internal"]).exits(0);
    shown.says(&["no ledger records that figures"]);
    let shown = printed(&sandbox, "--model dp-model").exits(0);
    shown.says(&["no ledger records that figures"]);
}

#[test]
fn candidates_are_not_said_to_be_unlooked_at_either() {
    let sandbox = Sandbox::with_ratings();
    let ledger = "--epsilon 1 --delta 1e-5 --ledger l.ledger --ledger-epsilon 4";
    let tune = format!("tune ratings.csv --try dim=2 --try dim=3 {ledger} --out");
    dp(&sandbox, &format!("{tune} first"));
    let said = "the candidates and all other settings were not chosen by looking at this data set";
    assert!(certificate(&sandbox, "first").contains(said));
    dp(
        &sandbox,
        &format!("train ratings.csv {ledger} --out look --show-internal"),
    );
    dp(&sandbox, &format!("{tune} second"));
    let second = certificate(&sandbox, "second");
    assert!(!second.contains(said) && second.contains("the choice of settings"));
}
