//! Accuracy on real ratings; needs the data sets.

use std::path::{Path, PathBuf};

use crate::support::Sandbox;

fn data(file: &str) -> PathBuf {
    let data = std::env::var_os("DP_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = data.join(file);
    assert!(
        path.is_file(),
        "{} is missing: set DP_DATA to the folder of the data sets, see CONTRIBUTING.md",
        path.display()
    );
    path.canonicalize().unwrap()
}

#[test]
#[ignore = "needs the real data sets; see CONTRIBUTING.md"]
fn real_data_defaults_reach_the_targets_on_movielens_1m() {
    let ratings = data("ml-1m/ratings.csv.gz");
    let sandbox = Sandbox::new();
    for (epsilon, target) in [("1", 1.000), ("5", 0.945), ("20", 0.915)] {
        let args = [
            "--method",
            "adadpals",
            "--epsilon",
            epsilon,
            "--delta",
            "1e-5",
            "--json",
            "--show-internal",
        ];
        let train = ["train", ratings.to_str().unwrap(), "--force"];
        let json = sandbox
            .dp(&[train.as_slice(), &args].concat())
            .exits(0)
            .json();
        assert_eq!(json["n_items"], 3706);
        let metric = |name: &str| json["internal"]["metrics"][name].as_f64().unwrap();
        let (test, user_mean) = (metric("test_rmse"), metric("user_mean_rmse"));
        println!("epsilon {epsilon}: test RMSE {test:.4}, user mean {user_mean:.4}");
        assert!(
            test <= target,
            "test RMSE {test} at epsilon {epsilon}, target {target}"
        );
        // the free baselines of this data set; splits and estimates differ in the third digit
        assert!((user_mean - 1.033).abs() < 0.01, "user mean {user_mean}");
        assert!((metric("constant_rmse") - 1.117).abs() < 0.01);
        sandbox.dp(&["verify", "dp-model"]).exits(0);
    }
}

#[test]
#[ignore = "needs the real data sets; see CONTRIBUTING.md"]
fn real_data_schools_gain_from_each_other_at_epsilon_5() {
    let sandbox = Sandbox::new();
    let school = data("school/data.csv.gz");
    sandbox.write(
        "ranges.csv",
        "column,lower,upper\nx3,0,100\nx4,0,100\ntarget,0,70\n",
    );
    let args = [
        "personalize",
        school.to_str().unwrap(),
        "--rank",
        "1",
        "--epsilon",
        "5",
        "--delta",
        "1e-4",
        "--bounds",
        "ranges.csv",
        "--feature-range",
        "0,1",
        "--held-out-users",
        "0.2",
        "--json",
        "--show-internal",
    ];
    let json = sandbox.dp(&args).exits(0).json();
    for users in ["trained_on", "held_out"] {
        let rmse = |at: usize| json["internal"][users][at]["over_rows"].as_f64().unwrap();
        // own ridge, private, no privacy; means over seeds 10.4, 10.1, 10.1
        let [own, private, without] = [2, 5, 6].map(rmse);
        println!("{users}: own {own:.3}, private {private:.3}, no privacy {without:.3}");
        assert!(private < own && private < without + 0.2);
    }
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}
