//! `dp demo`: the whole path on generated ratings of MovieLens-1M shape. What it prints as text is looked at where the README is run.

use crate::support::Sandbox;

#[test]
fn the_demo_shows_what_privacy_costs_and_leaves_a_certified_model() {
    let sandbox = Sandbox::with_ratings();
    // what an earlier demo wrote is replaced without being asked: its certificate names these data
    let earlier = ["--out", "dp-demo", "--data-set", "generated ratings"];
    sandbox.train(&earlier).exits(0);
    let json = sandbox.dp(&["demo", "--json"]).exits(0).json();
    let certificate = sandbox.value("dp-demo/certificate.json");
    assert_eq!(certificate["data_set_id"], "generated ratings");
    sandbox.dp(&["report", "dp-demo"]).exits(0);
    assert!(sandbox.exists("dp-demo/report.html"));
    sandbox.dp(&["verify", "dp-demo"]).exits(0);
    let rows = json["rows"].as_array().unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["method"].as_str().unwrap())
        .collect();
    let expected = [
        "constant",
        "user mean (free, local)",
        "private, epsilon 1",
        "private, epsilon 5",
        "no privacy",
    ];
    assert_eq!(names, expected);
    let rmse: Vec<f64> = rows
        .iter()
        .map(|row| row["test_rmse"].as_f64().unwrap())
        .collect();
    assert!(
        rmse.is_sorted_by(|a, b| a > b),
        "each line improves on the one above: {rmse:?}"
    );
    assert_eq!(
        sandbox.names(),
        ["dp-demo", "dp-demo-internal", "ratings.csv"]
    );
}

#[test]
fn the_demo_does_not_replace_a_real_model() {
    let sandbox = Sandbox::with_model();
    let before = sandbox.read("dp-model/certificate.json");
    sandbox
        .dp(&["demo", "--out", "dp-model"])
        .exits(7)
        .says(&["dp-model exists"]);
    assert_eq!(sandbox.read("dp-model/certificate.json"), before);
}
