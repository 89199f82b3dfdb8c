//! What users gain by it.

use super::{ALPHAS, federate, figure, sandbox};
use crate::support::words;

#[test]
fn users_who_are_alike_in_part_gain_from_learning_in_part_together() {
    let sandbox = sandbox();
    let json = federate(
        &sandbox,
        &["--insecure-seed", "3", "--json", "--show-internal"],
    );
    let json = json.exits(0).json();
    let [alone, partly, one] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(
        partly < 0.9 * alone && partly < 0.6 * one,
        "{alone} {partly} {one}"
    );
    for alpha in ALPHAS {
        let [noisy, without] = ["private", "no_noise"].map(|kind| figure(&json, alpha, kind));
        assert!(
            (noisy / without - 1.0).abs() < 0.1,
            "{alpha} {noisy} {without}"
        );
    }
    // by the users' losses the others are worse by so much that they are chosen with a probability below 1e-9
    assert_eq!(json["alpha"], 1.0);
    assert_eq!(
        (&json["n_features"], &json["rounds"]),
        (&7.into(), &30.into())
    );
    let choice = json["internal"]["own_choice"]["over_rows"]
        .as_f64()
        .unwrap();
    let ridge = json["internal"]["own_ridge"]["over_rows"].as_f64().unwrap();
    assert!(choice < ridge, "{choice} {ridge}");
    // a fifth of the rows is compared on: 0.8 of 2400, and all of them are counted once
    let n_rows = json["internal"]["n_rows"].as_u64().unwrap();
    assert!((1800..2150).contains(&n_rows), "{n_rows}");
}

#[test]
fn classes_are_fitted_by_the_logistic_loss() {
    let sandbox = sandbox();
    let args = words("--task classification --threshold 0 --json --show-internal");
    let more = ["--insecure-seed", "1", "--learning-rate", "2"];
    let json = federate(&sandbox, &[&args[..], &more].concat())
        .exits(0)
        .json();
    assert_eq!(json["internal"]["metric"], "accuracy");
    let [alone, partly, _] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(partly > 0.7 && partly > alone, "{alone} {partly}");
    assert!(json["internal"]["own_choice"].is_null());
    federate(&sandbox, &["--threshold", "0", "--out", "x"]).exits(2);
}
