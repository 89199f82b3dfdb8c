//! What users gain by it.

use std::fmt::Write as _;

use super::{ALPHAS, federate, federate_file, figure, sandbox};
use crate::support::{Sandbox, USER};

#[test]
fn users_who_are_alike_in_part_gain_from_learning_in_part_together() {
    let sandbox = sandbox();
    let json = federate(&sandbox, &["--insecure-seed", "3", "--json"]);
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
fn ratings_are_predicted_from_public_features_of_items() {
    let sandbox = Sandbox::new();
    let mut items = "item,title,genres\n".to_owned();
    for item in 0..40 {
        let genre = ["War", "Comedy|Drama", "Drama"][item % 3];
        writeln!(items, "{item},Film ({}),{genre}", 1950 + 10 * (item % 4)).unwrap();
    }
    let mut ratings = "user,item,rating\n".to_owned();
    for user in 0..200 {
        for n in 0..12 {
            let item = (user * 11 + n * n) % 40;
            // comedies please all, and every second user likes war
            let war = if user % 2 == 0 { 5 } else { 1 };
            let stars = [war, 4, 2][item % 3];
            writeln!(ratings, "{USER}{user},{item},{stars}").unwrap();
        }
        writeln!(ratings, "{USER}{user},unlisted,5").unwrap();
    }
    sandbox.write("items.csv", items);
    sandbox.write("ratings.csv", ratings);
    let args = ["--items", "items.csv", "--insecure-seed", "1", "--json"];
    let run = federate_file(&sandbox, "ratings.csv", &args).exits(0);
    let json = run.json();
    // three genres, four decades, four buckets of popularity
    assert_eq!(json["n_features"], 11);
    assert_eq!(json["alpha"], 1.0);
    let [alone, partly, one] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(
        partly < alone && partly < 0.8 * one,
        "{alone} {partly} {one}"
    );
    let text = String::from_utf8(sandbox.read("dp-model/certificate.json")).unwrap();
    assert!(text.contains("\"ratings of items\""));
    for (bad, said) in [
        (&["--format", "ratings"][..], "--items"),
        (&["--items", "items.csv", "--format", "csv"], "--items"),
        (
            &["--items", "items.csv", "--features", "a"],
            "--feature-cols",
        ),
        (&["--items", "items.csv", "--bounds", "b.csv"], "b.csv"),
    ] {
        let code = if said == "b.csv" { 4 } else { 2 };
        let run = federate_file(&sandbox, "ratings.csv", &[bad, &["--out", "bad"]].concat());
        run.exits(code).says(&[said]);
        assert!(!sandbox.exists("bad"));
    }
    federate_file(
        &sandbox,
        "ratings.csv",
        &["--items", "no.csv", "--out", "x"],
    )
    .exits(4);
}

#[test]
fn classes_are_fitted_by_the_logistic_loss() {
    let sandbox = sandbox();
    let args = ["--task", "classification", "--threshold", "0", "--json"];
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
