//! Ratings of items with public features.

use std::fmt::Write as _;

use super::{ALPHAS, federate_file, figure};
use crate::support::{Sandbox, USER, words};

/// All users like comedies, and every second user likes war.
fn rated() -> Sandbox {
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
            let war = if user % 2 == 0 { 5 } else { 1 };
            let stars = [war, 4, 2][item % 3];
            writeln!(ratings, "{USER}{user},{item},{stars}").unwrap();
        }
        writeln!(ratings, "{USER}{user},unlisted,5").unwrap();
    }
    sandbox.write("items.csv", items);
    sandbox.write("ratings.csv", ratings);
    sandbox
}

#[test]
fn ratings_are_predicted_from_public_features_of_items() {
    let sandbox = rated();
    let args =
        words("--items items.csv --insecure-seed 1 --json --show-internal --learning-rate 0.2");
    let run = federate_file(&sandbox, "ratings.csv", &args).exits(0);
    let json = run.json();
    // three genres, four decades, four buckets of popularity
    assert_eq!(json["n_features"], 11);
    assert_eq!(json["alpha"], "inf");
    let [alone, partly, one] = ALPHAS.map(|alpha| figure(&json, alpha, "private"));
    assert!(
        partly < alone && partly < 0.8 * one,
        "{alone} {partly} {one}"
    );
    let text = sandbox.text("dp-model/certificate.json");
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
fn users_describe_their_own_ratings_and_fit_their_own_models() {
    let sandbox = rated();
    let args = ["--items", "items.csv", "--learning-rate", "0.2"];
    federate_file(&sandbox, "ratings.csv", &args).exits(0);
    let text = sandbox.text("dp-model/item-features.csv");
    let mut lines = text.lines();
    let features = lines.next().unwrap().strip_prefix("item,").unwrap();
    assert!(features.starts_with("genre Comedy,genre Drama,genre War,1950s,"));
    let of: Vec<(&str, &str)> = lines.map(|line| line.split_once(',').unwrap()).collect();
    assert_eq!(of.len(), 40);
    assert!(
        of.iter()
            .all(|(_, cells)| cells.split(',').filter(|&c| c == "1").count() >= 3)
    );
    let joined = |stars: &dyn Fn(&str) -> u32| {
        let lines = of
            .iter()
            .map(|(_, cells)| format!("{},{cells}", stars(cells)));
        let lines: Vec<String> = lines.collect();
        format!("rating,{features}\n{}\n", lines.join("\n"))
    };
    // a new user who likes war and does not like comedies
    let is_war = |cells: &str| cells.starts_with("0,0,1,");
    sandbox.write(
        "mine.csv",
        joined(&|cells| if is_war(cells) { 5 } else { 2 }),
    );
    let fit = ["predict", "--model", "dp-model", "--history", "mine.csv"];
    let run = sandbox.dp(&[&fit[..], &["--rows", "mine.csv", "--json"]].concat());
    let json = run.exits(0).json();
    let predicted = json["predictions"].as_array().unwrap().iter();
    for (row, (item, cells)) in predicted.zip(&of) {
        let stars = row[1].as_f64().unwrap();
        assert_eq!(stars > 3.5, is_war(cells), "{item}: {stars}");
    }
    // without the features, or with others than the model's
    sandbox.write("bare.csv", "item,rating\n3,5\n");
    let bare = ["predict", "--model", "dp-model", "--history", "bare.csv"];
    sandbox
        .dp(&bare)
        .exits(4)
        .says(&["genre Comedy", "item-features.csv"]);
    sandbox.dp(&["verify", "dp-model"]).exits(0);
    sandbox.write("dp-model/item-features.csv", text.replacen("0,", "1,", 1));
    let changed = sandbox.dp(&["verify", "dp-model"]).exits(6);
    changed.says(&["item-features.csv"]);
}
