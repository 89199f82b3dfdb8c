//! Records that are not numbers, too large or too many are handled by rule and never cause an error
//! (docs/decisions/0005-records-that-are-not-numbers.md).

use crate::support::{Sandbox, USER, catalogue, ratings, words};

const N_ITEMS: usize = 200;

/// Trains on [`ratings`] with these additional lines and a declared catalogue; all results must be
/// finite and certified.
#[track_caller]
fn survives(lines: &str) -> serde_json::Value {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(60, N_ITEMS, 10) + lines);
    sandbox.write("items.csv", catalogue(N_ITEMS));
    let args = words("--items items.csv --json --show-internal --dim 3");
    let json = sandbox.train(&args).exits(0).json();
    sandbox.dp(&["verify", "dp-model"]).exits(0);
    sandbox.write("me.csv", "item,rating\nitem-3,5\n");
    let args = words("recommend --model dp-model --history me.csv --json");
    let rows = sandbox.dp(&args).exits(0).json()["recommendations"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 10);
    for row in rows.as_array().unwrap() {
        let predicted = row["predicted_rating"].as_f64().expect("a finite number");
        assert!(
            predicted.abs() < 1e4,
            "one user moved the model to {predicted}"
        );
    }
    json
}

#[test]
fn ratings_that_are_not_finite_are_as_if_never_given() {
    let mut lines = String::new();
    for (item, value) in ["nan", "NaN", "-nan", "inf", "-inf", "Infinity", "1e400"]
        .iter()
        .enumerate()
    {
        lines.push_str(&format!(
            "hostile,item-{item},{value}\n{USER}0,item-{},{value}\n",
            item + 50
        ));
    }
    let json = survives(&lines);
    assert_eq!(json["internal"]["n_ratings"], 600);
}

#[test]
fn huge_ratings_spoil_their_own_user_only() {
    let lines: String = (0..50)
        .map(|item| {
            format!(
                "hostile,item-{item},{}3e38\n",
                if item % 2 == 0 { "" } else { "-" }
            )
        })
        .collect();
    let json = survives(&lines);
    assert_eq!(json["internal"]["n_ratings"], 650);
    survives("hostile,item-1,3.4028235e38\nhostile,item-2,1e-45\nhostile,item-3,-0\n");
}

#[test]
fn of_repeated_pairs_the_last_finite_one_counts() {
    let json =
        survives(&format!("{USER}0,item-0,2\n{USER}0,item-0,4\n{USER}0,item-0,nan\n").repeat(40));
    assert_eq!(json["internal"]["n_ratings"], 600);
}

#[test]
fn one_user_may_have_very_many_ratings() {
    let mut lines = String::new();
    for round in 0..150 {
        for item in 0..N_ITEMS {
            lines.push_str(&format!("hostile,item-{item},{}\n", 1 + (round + item) % 5));
        }
    }
    let json = survives(&lines);
    assert_eq!(json["internal"]["n_ratings"], 600 + N_ITEMS);
}

#[test]
fn ratings_of_items_outside_the_catalogue_are_left_out() {
    let json = survives("hostile,vinyl-1,5\nhostile,vinyl-2,5\nann,item-1,3\n");
    assert_eq!(json["n_items"], N_ITEMS);
    assert_eq!(json["internal"]["n_ratings"], 601);
}

#[test]
fn whoever_is_taken_out_the_exit_code_stays_the_same() {
    let users: [&[&str]; 5] = [
        &["ann,item-1,4", "ann,item-2,5"],
        &["bob,item-1,nan"],
        &["cy,vinyl-9,3"],
        &["dee,item-1,3e38", "dee,item-1,3e38"],
        &["eve,item-0,1", "eve,item-4,2"],
    ];
    let sandbox = Sandbox::new();
    sandbox.write("items.csv", catalogue(5));
    // bit u of the set determines whether user u is in the data; for the empty set the file is only
    // a header
    for set in 0..1_u32 << users.len() {
        let present = users
            .iter()
            .enumerate()
            .filter(|(user, _)| set & (1 << user) != 0);
        let lines: String = present
            .flat_map(|(_, lines)| *lines)
            .map(|line| format!("{line}\n"))
            .collect();
        sandbox.write("ratings.csv", format!("user,item,rating\n{lines}"));
        let run = sandbox
            .train(&["--items", "items.csv", "--force", "--json"])
            .exits(0);
        assert_eq!(run.stderr, "", "users {set:b}");
        assert_eq!(run.json()["n_items"], 5);
    }
}
