//! `dp synth`: files that the other commands read.

use crate::support::{Sandbox, words};

#[test]
fn ratings_can_be_trained_on() {
    let sandbox = Sandbox::new();
    let sizes = ["--users", "300", "--items", "60", "--ratings", "6000"];
    let args = [&["synth", "ratings", "--out", "made"], &sizes[..]].concat();
    let said = sandbox.dp(&args).exits(0).stdout;
    assert!(
        said.contains("6000 lines") && said.contains("60 lines"),
        "{said}"
    );
    let ratings = sandbox.text("made/ratings.csv");
    assert_eq!(ratings.lines().count(), 6001);
    let users: std::collections::BTreeSet<_> = ratings
        .lines()
        .skip(1)
        .map(|l| l.split(',').next())
        .collect();
    assert_eq!(users.len(), 300);
    let args = words("train made/ratings.csv --items made/items.csv --epsilon 1 --delta 1e-5");
    sandbox.dp(&args).exits(0);
}

#[test]
fn groups_can_be_personalized() {
    let sandbox = Sandbox::new();
    let sizes = ["--users", "200", "--rows", "6", "--features", "4"];
    sandbox
        .dp(&[&["synth", "groups", "--out", "made"], &sizes[..]].concat())
        .exits(0);
    let rows = sandbox.text("made/rows.csv");
    assert_eq!(rows.lines().next(), Some("user,x1,x2,x3,x4,y"));
    assert_eq!(rows.lines().count(), 1201);
    let columns = ["--user-col", "user", "--target-col", "y", "--rank", "2"];
    let budget = ["--epsilon", "4", "--delta", "1e-5"];
    let args = [&["personalize", "made/rows.csv"], &columns[..], &budget].concat();
    sandbox.dp(&args).exits(0);
}

#[test]
fn the_seed_decides_the_data() {
    let sandbox = Sandbox::new();
    let made = |out: &str, seed: &str| {
        sandbox
            .dp(&[
                "synth",
                "groups",
                "--users",
                "20",
                "--data-seed",
                seed,
                "--out",
                out,
            ])
            .exits(0);
        sandbox.read(&format!("{out}/rows.csv"))
    };
    let (first, again, other) = (made("a", "1"), made("b", "1"), made("c", "2"));
    assert!(first == again && first != other);
}

#[test]
fn sizes_that_cannot_be_and_flags_of_the_other_kind_are_bad_arguments() {
    let sandbox = Sandbox::new();
    for (args, said) in [
        (
            &["ratings", "--rows", "3"] as &[_],
            "--rows does not go with KIND ratings",
        ),
        (
            &["groups", "--items", "3"],
            "--items does not go with KIND groups",
        ),
        (&["ratings", "--items", "5"], "--ratings"),
        (&["ratings", "--users", "0"], "--users"),
        (&["groups", "--rank", "9"], "--rank"),
        (&["pictures"], "pictures"),
    ] {
        let all = [&["synth"], args, &["--out", "made"]].concat();
        sandbox.dp(&all).exits(2).says(&[said]);
    }
    sandbox.write("taken", "kept");
    sandbox.dp(&["synth", "groups", "--out", "taken"]).exits(7);
    assert_eq!(sandbox.names(), ["taken"]);
}
