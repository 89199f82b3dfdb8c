//! Which columns of the item table `dp train --method am-ssp` uses as features, and that it reports
//! them.

use crate::features::{items, sandbox, train};
use crate::support::Sandbox;

/// The item table with an additional last column.
fn with_column(sandbox: &Sandbox, name: &str, field: impl Fn(usize) -> String) {
    let table = items();
    let lines = table.lines().enumerate().map(|(at, line)| {
        let field = if at == 0 { name.to_owned() } else { field(at) };
        format!("{line},{field}\n")
    });
    sandbox.write("items.csv", lines.collect::<String>());
}

const LEDGER: [&str; 4] = ["--ledger", "l.ledger", "--ledger-epsilon", "30"];

#[test]
fn the_columns_in_use_are_told_and_assumed_public() {
    let sandbox = sandbox();
    let run = train(&sandbox, &["--json", "--steps", "1"])
        .exits(0)
        .says(&["features: genres, year, actors of items.csv"]);
    let assumption = "columns genres, year, actors of the item table are public and were not made from this data set";
    let said = run.json()["released"]["assumptions"].to_string();
    assert!(said.contains(assumption), "{said}");
    let certificate = sandbox.text("dp-model/certificate.json");
    assert!(certificate.contains(assumption), "{certificate}");
    let quiet = train(&sandbox, &["--quiet", "--force", "--steps", "1"]).exits(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn columns_of_numbers_are_refused_unless_they_are_named() {
    let sandbox = sandbox();
    let counts = |at: usize| match at {
        3 => String::new(),
        _ => format!("{}e1", at / 2),
    };
    with_column(&sandbox, "n_ratings", counts);
    train(&sandbox, &LEDGER)
        .exits(2)
        .says(&["n_ratings", "--feature-cols"]);
    assert!(!sandbox.exists("dp-model"));
    let named = ["--feature-cols", "genres,n_ratings", "--steps", "1"];
    train(&sandbox, &named)
        .exits(0)
        .says(&["genres, n_ratings"]);
    // one field that is a word, or numbers that no two items share
    with_column(&sandbox, "size", |at| match at {
        3 => "many".to_owned(),
        _ => counts(at),
    });
    train(&sandbox, &["--force", "--steps", "1"])
        .exits(0)
        .says(&["actors, size of"]);
    with_column(&sandbox, "mean", |at| format!("3.{at}"));
    train(&sandbox, &["--force", "--steps", "1"])
        .exits(0)
        .says(&["year, actors of"]);
}

#[test]
fn years_count_by_decades_however_their_column_is_written() {
    let sandbox = sandbox();
    sandbox.write("items.csv", items().replace(",year,", ",Year,"));
    train(&sandbox, &["--steps", "1"]).exits(0);
    let weights = sandbox.text("dp-model/feature_weights.csv");
    let years = weights.lines().filter(|line| line.starts_with("Year,"));
    let names: Vec<_> = years.filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(names, ["1950s", "1960s", "1970s", "1980s"]);
}
