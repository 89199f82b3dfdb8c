//! `dp recommend` on items that nobody rated, and on items that the model does not have.

use serde_json::Value;

use crate::features::{sandbox, trained};
use crate::support::{Run, Sandbox, words};

fn recommend(sandbox: &Sandbox, history: &str, more: &[&str]) -> Run {
    sandbox.write("me.csv", history);
    let args = words("recommend --model dp-model --history me.csv -k 99");
    sandbox.dp(&[&args[..], more].concat())
}

/// Predicted ratings by item.
fn predicted(run: &Run) -> Vec<(String, f64)> {
    let json = run.json();
    let rows = json["recommendations"].as_array().unwrap().iter();
    let row = |row: &Value| {
        let item = row["item"].as_str().unwrap().to_owned();
        (item, row["predicted_rating"].as_f64().unwrap())
    };
    rows.map(row).collect()
}

/// Widths of the intervals by item.
fn widths(run: &Run) -> Vec<(String, f64)> {
    let json = run.json();
    let rows = json["recommendations"].as_array().unwrap().iter();
    let row = |row: &Value| {
        let item = row["item"].as_str().unwrap().to_owned();
        let [low, high] = [0, 1].map(|end| row["interval"][end].as_f64().unwrap());
        (item, high - low)
    };
    rows.map(row).collect()
}

fn of(all: &[(String, f64)], item: &str) -> f64 {
    let found = all.iter().find(|(id, _)| id == item);
    found.unwrap_or_else(|| panic!("item {item} is ranked")).1
}

const WAR: &str = "item,rating\n0,5\n2,5\n4,4\n6,5\n1,1\n3,2\n5,1\n";

#[test]
fn items_that_nobody_rated_are_ranked_by_their_features() {
    let sandbox = trained(&[]);
    let all = predicted(&recommend(&sandbox, WAR, &["--json"]).exits(0));
    assert_eq!(all.len(), 37 - 7);
    // 30 and 32 are War, 31 and 33 are Art; nobody rated any of them
    for (war, art) in [("30", "31"), ("32", "33")] {
        assert!(of(&all, war) > of(&all, art) + 0.5, "{all:?}");
    }
    let art = WAR
        .replace(",5\n", ",x\n")
        .replace(",1\n", ",5\n")
        .replace(",x\n", ",1\n");
    let run = recommend(&sandbox, WAR, &["--json"]).exits(0);
    let widths = widths(&run);
    assert!(of(&widths, "36") > 1.2 * of(&widths, "8"), "{widths:?}");
    let lower = recommend(&sandbox, WAR, &["--json", "--rank-by", "lower"]).exits(0);
    let json = lower.json();
    let ends = json["recommendations"].as_array().unwrap().iter();
    let ends: Vec<f64> = ends
        .map(|row| row["interval"][0].as_f64().unwrap())
        .collect();
    assert!(ends.windows(2).all(|pair| pair[0] >= pair[1]), "{ends:?}");
    let other = predicted(&recommend(&sandbox, &art, &["--json"]).exits(0));
    assert!(of(&other, "31") > of(&other, "30"));
    let nobody = recommend(&sandbox, "item,rating\n", &[]).exits(0);
    nobody.prints(&["the order for a user without ratings"]);
}

#[test]
fn items_added_after_training_are_ranked_and_unknown_names_count_for_nothing() {
    let sandbox = trained(&[]);
    sandbox.write(
        "new.csv",
        "item,title,actors,genres,year,unused\n\
         new-1,A war,Nobody Known,War|Drama|Romance,1972,x\n\
         new-2,An art,Nobody Known,Art|Drama,1972,x\n\
         new-3,Nothing known,,Western,2050,x\n\
         new-4,The same as new-1,,Drama|War|War|Drama,1972,x\n\
         0,Another title,,Art,1950,x\n",
    );
    let run = recommend(&sandbox, WAR, &["--json", "--items", "new.csv"]).exits(0);
    let widths = widths(&run);
    // more is known of an item whose genre was rated than of one without any known name, and of a
    // rated item more than of either
    let [rated, war, nothing] = ["8", "new-1", "new-3"].map(|item| of(&widths, item));
    assert!(0.0 < rated && rated < war, "{widths:?}");
    assert!(rated < nothing, "{widths:?}");
    let all = predicted(&run);
    assert_eq!(all.len(), 37 - 7 + 4);
    assert!(of(&all, "new-1") > of(&all, "new-2") + 0.5, "{all:?}");
    assert!((of(&all, "new-1") - of(&all, "new-4")).abs() < 1e-9);
    assert!(of(&all, "new-3").is_finite());
    // what the model has stays as it was
    let before = predicted(&recommend(&sandbox, WAR, &["--json"]).exits(0));
    assert!(
        before
            .iter()
            .all(|(item, y)| (of(&all, item) - y).abs() < 1e-9)
    );
    let table = recommend(&sandbox, WAR, &["--items", "new.csv"])
        .exits(0)
        .stdout;
    assert!(
        table.contains("A war") && !table.contains("Another title"),
        "{table}"
    );
    sandbox.write("few.csv", "item,genres,year\nnew-1,War,1972\n");
    recommend(&sandbox, WAR, &["--items", "few.csv"])
        .exits(4)
        .says(&["actors"]);
    recommend(&sandbox, WAR, &["--items", "none.csv"]).exits(4);
    let weights = sandbox.text("dp-model/feature_weights.csv");
    sandbox.write(
        "dp-model/feature_weights.csv",
        weights.replace("War", "Wax"),
    );
    recommend(&sandbox, WAR, &["--items", "new.csv"])
        .exits(6)
        .says(&["feature_weights.csv", "its hash is not in the certificate"]);
    sandbox.write("dp-model/feature_weights.csv", &weights);
    recommend(&sandbox, WAR, &["--items", "new.csv"]).exits(0);
    let certificate = sandbox.text("dp-model/certificate.json");
    sandbox.write(
        "dp-model/certificate.json",
        certificate.replace("genres", "colours"),
    );
    recommend(&sandbox, WAR, &["--items", "new.csv"])
        .exits(6)
        .says(&["does not hold"]);
}

#[test]
fn a_model_of_ids_has_no_place_for_new_items() {
    let sandbox = sandbox();
    let args = words("train ratings.csv --epsilon 1 --delta 1e-5 --items items.csv");
    sandbox.dp(&args).exits(0);
    recommend(&sandbox, WAR, &["--items", "items.csv"])
        .exits(2)
        .says(&["--method am-ssp"]);
    // nor for weights that its certificate does not list
    sandbox.dp(&["verify", "dp-model"]).exits(0);
    sandbox.write("dp-model/feature_weights.csv", "column,name,bias\n,,1\n");
    recommend(&sandbox, WAR, &["--items", "items.csv"])
        .exits(6)
        .says(&["feature_weights.csv"]);
    sandbox
        .dp(&["verify", "dp-model"])
        .exits(6)
        .says(&["feature_weights.csv"]);
}
