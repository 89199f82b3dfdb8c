//! Figures that were looked at and not paid for leave a note in the ledger, which later certificates name.

use dp_accounting::Ledger;

use crate::personalize::samples;
use crate::support::{Sandbox, words};

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

    // nothing is looked at where it cannot be noted
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
        // internal files that nobody was shown are no choice
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
