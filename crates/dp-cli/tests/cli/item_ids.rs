//! Item ids are published only where a catalogue, or the operator, says that they may be.

use crate::support::{Run, Sandbox, USER, catalogue, ratings, words};

/// Without the leave that tests give themselves.
fn dp(sandbox: &Sandbox, line: &str) -> Run {
    let mut command = sandbox.command();
    command
        .env_remove("DP_ITEM_IDS_ARE_PUBLIC")
        .args(words(line));
    command.output().unwrap().into()
}

const TARGET: &str = "--epsilon 1 --delta 1e-5 --ledger l.ledger --ledger-epsilon 3";

#[test]
fn no_id_is_published_without_a_catalogue_or_a_word_of_the_operator() {
    let sandbox = Sandbox::with_ratings();
    for command in [
        "train ratings.csv",
        "tune ratings.csv --try dim=2 --try dim=3",
    ] {
        dp(&sandbox, &format!("{command} {TARGET}")).exits(2).says(&[
            "--items, a public catalogue",
            "--item-ids-are-public if everybody may know every id in the ratings, including those that only one user has",
        ]);
        assert!(!sandbox.exists("l.ledger"), "{command}");
    }
    let allowed = format!("train ratings.csv {TARGET} --item-ids-are-public");
    dp(&sandbox, &allowed).exits(0);
    let said = sandbox.text("dp-model/certificate.json");
    assert!(said.contains("item ids of the input are public"));

    sandbox.write("items.csv", catalogue(25));
    let both = format!("{allowed} --items items.csv");
    dp(&sandbox, &both).exits(2);
    let proper = "train ratings.csv --epsilon 1 --delta 1e-5 --items items.csv --out proper";
    dp(&sandbox, proper).exits(0);
    let said = sandbox.text("proper/certificate.json");
    assert!(!said.contains("item ids of the input are public"));
}

#[test]
fn data_given_as_a_catalogue_are_refused_before_anything_is_paid() {
    let sandbox = Sandbox::with_ratings();
    let text = ratings(40, 25, 10);
    sandbox.write("copy.csv", &text);
    // the same ratings with their user column called otherwise, and without one
    sandbox.write("renamed.csv", text.replacen("user,", "visitor,", 1));
    let column = |line: &str| line.split(',').nth(1).unwrap().to_owned() + "\n";
    sandbox.write("column.csv", text.lines().map(column).collect::<String>());
    sandbox.write("users.csv", "item,user\nitem-1,ann\nitem-2,bob\n");
    sandbox.write("visitors.csv", "item,visitor\nitem-1,ann\nitem-2,bob\n");
    for (items, reason) in [
        ("ratings.csv", "it is the file of private data itself"),
        ("./ratings.csv", "it is the file of private data itself"),
        ("copy.csv", "it is the file of private data itself"),
        ("renamed.csv", "repeats an item id"),
        ("column.csv", "repeats an item id"),
        ("users.csv", "it has a column of users"),
    ] {
        for command in [
            "train ratings.csv",
            "train ratings.csv --method am-ssp",
            "tune ratings.csv --try dim=2 --try dim=3",
            "federate ratings.csv --rounds 2",
        ] {
            let run = dp(&sandbox, &format!("{command} {TARGET} --items {items}"));
            run.exits(4)
                .says(&["not a public catalogue of items", reason, "hint: "]);
            assert!(
                !sandbox.exists("l.ledger") && !sandbox.exists("dp-model"),
                "{command}"
            );
        }
    }
    // the user column is that of the flag
    sandbox.write("named.csv", text.replacen("user,", "visitor,", 1));
    let named = format!("train named.csv {TARGET} --user-col visitor --items visitors.csv");
    dp(&sandbox, &named)
        .exits(4)
        .says(&["it has a column of users"]);
}

#[test]
fn a_catalogue_that_names_users_as_titles_or_features_is_refused_before_anything_is_paid() {
    let sandbox = Sandbox::with_ratings();
    let items = (0..25).map(|item| format!("item-{item},{USER}{item},{USER}{}\n", item / 2));
    let items = items.collect::<String>();
    sandbox.write("titles.csv", "item,title,x\n".to_owned() + &items);
    sandbox.write("features.csv", "item,x,genres\n".to_owned() + &items);
    for command in [
        "train ratings.csv --items titles.csv",
        "tune ratings.csv --try dim=2 --try dim=3 --items titles.csv",
        "train ratings.csv --items features.csv --method am-ssp --feature-cols genres",
        "federate ratings.csv --rounds 2 --alpha-grid 1 --items features.csv",
    ] {
        let refused = dp(&sandbox, &format!("{command} {TARGET}")).exits(4);
        assert!(!refused.stderr.contains(USER), "{}", refused.stderr);
        refused.says(&["are ids of users"]);
        assert!(!sandbox.exists("l.ledger") && !sandbox.exists("dp-model"));
    }
}
