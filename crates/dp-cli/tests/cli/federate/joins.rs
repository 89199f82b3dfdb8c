//! Users who were held out from training: in the report, and with `dp predict`.

use std::fmt::Write as _;

use serde_json::Value;

use super::{ALPHAS, N_USERS, SHARED, csv, federate, federate_file, figure, rows, sandbox};
use crate::support::{Sandbox, USER};

const SEEDED: [&str; 4] = ["--insecure-seed", "3", "--json", "--show-internal"];

#[test]
fn users_who_join_later_gain_as_much() {
    let sandbox = sandbox();
    let args = [&SEEDED[..], &["--held-out-users", "0.25"]].concat();
    let json = federate(&sandbox, &args).exits(0).json();
    let mut joined = json.clone();
    joined["internal"] = json["internal"]["held_out"].clone();
    // 60 expected, 7 standard deviations are 47; the seed of the split is fixed
    let n = joined["internal"]["n_users"].as_u64().unwrap();
    assert!((13..107).contains(&n), "{n}");
    assert_eq!(json["internal"]["n_users"], N_USERS);
    for kind in ["private", "no_noise"] {
        let [alone, partly, one] = ALPHAS.map(|alpha| figure(&joined, alpha, kind));
        assert!(partly < 0.9 * alone && partly < 0.6 * one);
        for (alpha, new) in ALPHAS.into_iter().zip([alone, partly, one]) {
            let trained = figure(&json, alpha, kind);
            assert!(
                (new / trained - 1.0).abs() < 0.15,
                "{alpha} {new} {trained}"
            );
        }
    }
    let own = |which: &str| joined["internal"][which]["over_rows"].as_f64();
    assert!(own("own_choice") < own("own_ridge"));
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let page = sandbox.text("dp-model-internal/internal.html");
    assert!(page.contains("of new users"));
    let new = shown(&joined["internal"]["own_choice"]);
    assert!(page.contains(&new), "{new}");
    let without = federate(&sandbox, &[&SEEDED[..], &["--force"]].concat());
    assert!(without.exits(0).json()["internal"]["held_out"].is_null());
    let several = ["--epsilon", "1,2", "--held-out-users", "0.2", "--out", "x"];
    let refused = federate(&sandbox, &several).exits(2);
    refused.says(&["--held-out-users"]);
}

/// A value as formatted on pages.
fn shown(figures: &Value) -> String {
    format!("{:.4}", figures["over_rows"].as_f64().unwrap())
}

/// Users held out by the last run.
fn held_out(sandbox: &Sandbox) -> Vec<usize> {
    let table = sandbox.text("dp-model-internal/internal-users.csv");
    let held_out: Vec<usize> = table
        .lines()
        .filter_map(|line| line.split_once(",1,")?.0.strip_prefix(USER)?.parse().ok())
        .collect();
    assert!(held_out.len() > 12);
    held_out
}

#[test]
fn a_declared_number_of_users_counts_those_held_out() {
    let sandbox = sandbox();
    let args = ["--n-users", "240", "--held-out-users", "0.25"];
    federate(&sandbox, &[&SEEDED[..], &args].concat()).exits(0);
    let (first, out) = (sandbox.read(SHARED), held_out(&sandbox));
    let users = rows(N_USERS);
    let trained = users.iter().enumerate();
    let trained = trained.filter(|(user, _)| !out.contains(user));
    sandbox.write("trained.csv", csv(trained));
    // the same users, none of whom is held out
    let same = ["--n-users", "180", "--data-set", "data.csv", "--out", "b"];
    federate_file(&sandbox, "trained.csv", &[&SEEDED[..], &same].concat()).exits(0);
    assert!(first == sandbox.read("b/shared.safetensors"));
}

#[test]
fn without_tests_the_seed_still_deals_the_rows_that_alphas_are_compared_on() {
    let sandbox = sandbox();
    let of_seed = |seed| {
        let more = ["--no-split", "--split-seed", seed, "--force"];
        federate(&sandbox, &[&SEEDED[..], &more].concat()).exits(0);
        sandbox.read(SHARED)
    };
    assert!(of_seed("0") != of_seed("1"));
    let refused = ["--no-split", "--test-share", "0.1", "--out", "x"];
    federate(&sandbox, &refused).exits(2);
    let help = sandbox.dp(&["federate", "--help"]).exits(0).stdout;
    assert!(!help.contains("Train on all rows"), "{help}");
    let help = sandbox.dp(&["personalize", "--help"]).exits(0).stdout;
    assert!(help.contains("Train on all rows"), "{help}");
}

#[test]
fn users_who_are_held_out_do_not_touch_the_model() {
    let sandbox = sandbox();
    let args = [&SEEDED[..], &["--held-out-users", "0.25"]].concat();
    federate(&sandbox, &args).exits(0);
    let first = sandbox.read(SHARED);
    let held_out = held_out(&sandbox);
    let mut users = rows(N_USERS);
    for &user in &held_out {
        users[user].iter_mut().for_each(|(_, y)| *y = 9.0);
    }
    sandbox.write("other.csv", csv(users.iter().enumerate()));
    let data_set = ["--data-set", "data.csv", "--out", "b"];
    federate_file(&sandbox, "other.csv", &[&args[..], &data_set].concat()).exits(0);
    assert!(first == sandbox.read("b/shared.safetensors"));
    // and one who is used in training does
    let trained = (0..N_USERS).find(|user| !held_out.contains(user)).unwrap();
    users[trained].iter_mut().for_each(|(_, y)| *y = 9.0);
    sandbox.write("other.csv", csv(users.iter().enumerate()));
    let again = [&args[..], &data_set, &["--force"]].concat();
    federate_file(&sandbox, "other.csv", &again).exits(0);
    assert!(first != sandbox.read("b/shared.safetensors"));
}

/// Rows of a user with level 0.5 and a seventh slope of -0.6, as csv without users; then the same
/// without target, and the true values.
fn newcomer(n: usize) -> (String, String, Vec<f64>) {
    let mut history = "y,x0,x1,x2,x3,x4,x5,x6\n".to_owned();
    let (mut new, mut truth) = ("x0,x1,x2,x3,x4,x5,x6\n".to_owned(), Vec::new());
    for (at, (x, _)) in rows(40).into_iter().flatten().take(2 * n).enumerate() {
        let together = 0.3 * (x[0] + x[1] + x[2] - x[3] - x[4] - x[5]);
        let y = together + 0.5 - 0.6 * x[6];
        let x: Vec<String> = x.iter().map(ToString::to_string).collect();
        if at < n {
            writeln!(history, "{y},{}", x.join(",")).unwrap();
        } else {
            writeln!(new, "{}", x.join(",")).unwrap();
            truth.push(y);
        }
    }
    (history, new, truth)
}

fn predict(sandbox: &Sandbox, more: &[&str]) -> Value {
    let args = ["predict", "--model", "dp-model", "--history", "me.csv"];
    let run = sandbox.dp(&[&args[..], more, &["--json"]].concat());
    run.exits(0).json()
}

fn answers(json: &Value) -> Vec<f64> {
    let rows = json["predictions"].as_array().unwrap();
    rows.iter().map(|row| row[1].as_f64().unwrap()).collect()
}

fn rmse(found: &[f64], truth: &[f64]) -> f64 {
    assert_eq!(found.len(), truth.len());
    let squares = found.iter().zip(truth).map(|(a, b)| (a - b).powi(2));
    (squares.sum::<f64>() / truth.len() as f64).sqrt()
}

#[test]
fn somebody_new_predicts_from_the_shared_part() {
    let sandbox = sandbox();
    federate(&sandbox, &["--insecure-seed", "3"]).exits(0);
    let (history, new, truth) = newcomer(6);
    sandbox.write("me.csv", &history);
    sandbox.write("new.csv", &new);
    let names = sandbox.names();
    let found = predict(&sandbox, &["--rows", "new.csv"]);
    assert_eq!(found["provenance"], "seeded-noise");
    let with_rows = rmse(&answers(&found), &truth);
    // without history, only the shared part is used
    sandbox.write("me.csv", history.lines().next().unwrap());
    let none = predict(&sandbox, &["--rows", "new.csv"]);
    let none = rmse(&answers(&none), &truth);
    assert!(
        with_rows < 0.6 && with_rows < 0.85 * none,
        "{with_rows} {none}"
    );
    assert_eq!(sandbox.names(), names); // nothing is written
    // six rows alone do not determine seven slopes and a level
    sandbox.write("me.csv", &history);
    let own = predict(&sandbox, &[]);
    let own = &own["users"][0];
    assert_eq!(own["n_rows"], 6);
    let x6 = own["coefficients"]["x6"].as_f64().unwrap();
    assert!(x6 < -0.05, "{x6}");
    assert!(own["coefficients"]["x0"].as_f64().unwrap() > 0.15);
}

#[test]
fn one_row_and_an_own_level_leave_the_shared_slopes() {
    let sandbox = sandbox();
    federate(&sandbox, &[&SEEDED[..], &["--intercept", "own"]].concat()).exits(0);
    let slopes_after = |n: usize| {
        let history = newcomer(5).0;
        let lines: Vec<&str> = history.lines().take(1 + n).collect();
        sandbox.write("me.csv", lines.join("\n"));
        let model = predict(&sandbox, &[])["users"][0].clone();
        let slope = |at: usize| model["coefficients"][format!("x{at}")].as_f64().unwrap();
        (0..7).map(slope).collect::<Vec<f64>>()
    };
    let report = sandbox.text("dp-model/report.json");
    let report: Value = serde_json::from_str(&report).unwrap();
    let shared = report["charts"][0]["rows"].as_array().unwrap();
    let shared = shared.iter().map(|row| row[1][0].as_f64().unwrap());
    let one = slopes_after(1);
    assert!(one.iter().zip(shared).all(|(a, b)| (a - b).abs() < 1e-9));
    let five = slopes_after(5);
    assert!(one[0] > 0.05 && five != one, "{one:?} {five:?}");
}

#[test]
fn somebody_new_is_classified_by_own_rows_and_the_shared_part() {
    let sandbox = sandbox();
    let task = ["--task", "classification", "--threshold", "0"];
    let more = ["--insecure-seed", "1", "--learning-rate", "2"];
    federate(&sandbox, &[&task[..], &more].concat()).exits(0);
    let (history, new, truth) = newcomer(40);
    sandbox.write("me.csv", &history);
    sandbox.write("new.csv", &new);
    let found = answers(&predict(&sandbox, &["--rows", "new.csv"]));
    let pairs = found.iter().zip(&truth);
    let right = pairs.filter(|(p, y)| (**p > 0.5) == (**y > 0.0)).count();
    assert!(found.iter().all(|p| (0.0..=1.0).contains(p)));
    assert!(right >= 34, "{right} of 40");
}

#[test]
fn a_damaged_shared_part_is_refused() {
    let sandbox = sandbox();
    federate(&sandbox, &["--insecure-seed", "3"]).exits(0);
    sandbox.write("me.csv", newcomer(5).0);
    let bytes = sandbox.read(SHARED);
    let (known, other) = (br#"n_rounds\":30"#, br#"n_rounds\":-3"#);
    let at = bytes.windows(known.len()).position(|w| w == known).unwrap();
    let mut negative = bytes.clone();
    negative[at..][..other.len()].copy_from_slice(other);
    for bad in [&bytes[..bytes.len() - 3], &negative] {
        sandbox.write(SHARED, bad);
        let args = ["predict", "--model", "dp-model", "--history", "me.csv"];
        sandbox.dp(&args).exits(4).says(&["shared.safetensors"]);
    }
}
