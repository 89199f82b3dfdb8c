//! Accuracy on real ratings; needs the data sets.

use std::path::{Path, PathBuf};

use crate::support::Sandbox;

fn movielens_1m() -> PathBuf {
    let data = std::env::var_os("DP_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = data.join("ml-1m/ratings.csv.gz");
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
    let ratings = movielens_1m();
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
