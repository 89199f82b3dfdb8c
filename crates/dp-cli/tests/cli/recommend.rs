//! `dp recommend`: one user's own view, from a model folder and the user's own ratings.

use serde_json::Value;

use crate::support::{Run, Sandbox, catalogue, ratings, words};

/// A model with tastes over 25 titled items, and a user who was not in training.
fn with_history(history: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(300, 25, 10));
    sandbox.write("items.csv", catalogue(25));
    let args = words("train ratings.csv --epsilon 20 --delta 1e-5 --dim 3");
    sandbox
        .dp(&[args.as_slice(), &["--items", "items.csv"]].concat())
        .exits(0);
    sandbox.write("me.csv", history);
    sandbox
}

fn recommend(sandbox: &Sandbox, more: &[&str]) -> Run {
    let args = ["recommend", "--model", "dp-model", "--history", "me.csv"];
    sandbox.dp(&[args.as_slice(), more].concat())
}

fn items(json: &Value) -> Vec<String> {
    let rows = json["recommendations"].as_array().unwrap();
    rows.iter()
        .map(|row| row["item"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn only_items_not_yet_rated_are_ranked_best_first() {
    let sandbox = with_history("item,rating\nitem-3,5\nitem-4,1\nitem-20,4\n");
    let run = recommend(&sandbox, &["-k", "25", "--json"]).exits(0);
    let json = run.json();
    run.says(&["note: this list is for its user alone"]);
    let found = items(&json);
    assert_eq!(found.len(), 22);
    for rated in ["item-3", "item-4", "item-20"] {
        assert!(!found.iter().any(|item| item == rated), "{rated}");
    }
    let rows = json["recommendations"].as_array().unwrap();
    let predicted: Vec<f64> = rows
        .iter()
        .map(|row| row["predicted_rating"].as_f64().unwrap())
        .collect();
    assert!(predicted.is_sorted_by(|a, b| a >= b), "{predicted:?}");
    assert!(rows.iter().zip(1..).all(|(row, rank)| row["rank"] == rank));
    let title = rows[0]["title"].as_str().unwrap();
    assert_eq!(title.replace("Title ", "item-"), found[0]);
    assert_eq!(json["n_history"], 3);
    assert_eq!(json["provenance"], "private");
}

#[test]
fn the_same_question_has_the_same_answer_and_taste_changes_it() {
    let sandbox = with_history("item,rating\nitem-3,5\nitem-4,1\n");
    let first = recommend(&sandbox, &["--json"]).exits(0).stdout;
    assert_eq!(recommend(&sandbox, &["--json"]).exits(0).stdout, first);
    sandbox.write("me.csv", "item,rating\nitem-3,1\nitem-4,5\n");
    assert_ne!(recommend(&sandbox, &["--json"]).exits(0).stdout, first);
}

#[test]
fn unknown_items_are_left_out_and_told() {
    let sandbox = with_history("item,rating\nitem-3,5\nvinyl-1,4\nvinyl-2,4\n");
    let json = recommend(&sandbox, &["--json"]).exits(0).json();
    assert_eq!(
        (&json["n_history"], &json["n_unknown_items"]),
        (&1.into(), &2.into())
    );
    let text = recommend(&sandbox, &[]).exits(0).stdout;
    assert!(
        text.contains("from 1 own rating:\n(2 more on items that are not in the model)"),
        "{text}"
    );
}

#[test]
fn a_user_without_ratings_gets_what_people_like_in_general() {
    let sandbox = with_history("item,rating\n");
    let run = recommend(&sandbox, &["-k", "3"]).exits(0);
    assert!(
        run.stdout.starts_with("no ratings in the history"),
        "{}",
        run.stdout
    );
    let empty = items(&recommend(&sandbox, &["--json"]).exits(0).json());
    sandbox.write("me.csv", "item,rating\nvinyl-1,5\n");
    assert_eq!(
        items(&recommend(&sandbox, &["--json"]).exits(0).json()),
        empty
    );
    sandbox.write("me.csv", "");
    assert_eq!(
        items(&recommend(&sandbox, &["--json"]).exits(0).json()),
        empty
    );
}

#[test]
fn more_places_than_items_give_all_items() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    for k in ["25", "26", "1000000", "18446744073709551615"] {
        let json = recommend(&sandbox, &["-k", k, "--json"]).exits(0).json();
        assert_eq!(items(&json).len(), 24, "k = {k}");
    }
}

#[test]
fn records_that_are_not_numbers_follow_the_rules_of_training() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    let plain = items(&recommend(&sandbox, &["--json"]).exits(0).json());
    sandbox.write(
        "me.csv",
        "item,rating\nitem-3,1\nitem-4,nan\nitem-3,5\nitem-5,inf\n",
    );
    assert_eq!(
        items(&recommend(&sandbox, &["--json"]).exits(0).json()),
        plain
    );
    sandbox.write("me.csv", "item,rating\nitem-3,3e38\n");
    recommend(&sandbox, &["--json"]).exits(0).json();
}

#[test]
fn a_bad_history_is_told_with_its_place() {
    let sandbox = with_history("item,rating\nitem-3,great\n");
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["me.csv:2:2: expected a number for the rating"]);
    sandbox.write("me.csv", "user,item,rating\nann,item-3,5\nbob,item-3,5\n");
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["me.csv:3:1: expected one user's ratings"]);
    std::fs::remove_file(sandbox.path("me.csv")).unwrap();
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["me.csv: cannot be opened"]);
}

/// Replaces bytes in the model's factors; both patterns have the same length.
fn patch(sandbox: &Sandbox, from: &str, to: &str) {
    let name = "dp-model/item_factors.safetensors";
    let mut bytes = sandbox.read(name);
    assert_eq!(from.len(), to.len());
    let found = bytes
        .windows(from.len())
        .position(|window| window == from.as_bytes());
    let at = found.expect("the header holds the pattern");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    sandbox.write(name, bytes);
}

#[test]
fn a_model_cut_short_anywhere_is_refused() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    let name = "dp-model/item_factors.safetensors";
    let whole = sandbox.read(name);
    for length in [0, 4, 8, 40, whole.len() / 2, whole.len() - 1] {
        sandbox.write(name, &whole[..length]);
        let run = recommend(&sandbox, &[]).exits(4);
        run.says(&[name, "not a whole safetensors file"]);
    }
}

#[test]
fn a_newer_model_is_refused_by_its_version() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    patch(&sandbox, r#"schema_version\":5"#, r#"schema_version\":9"#);
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["model schema 9 is newer"]);
}

#[test]
fn a_model_that_does_not_fit_together_is_refused() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    let whole = sandbox.read("dp-model/items.csv");
    sandbox.write("dp-model/items.csv", catalogue(24));
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["25 rows of factors for 24 items"]);
    sandbox.write("dp-model/items.csv", whole);
    patch(&sandbox, r#"dim\":5"#, r#"dim\":7"#);
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["expected f64 factors of length 7"]);
    patch(&sandbox, r#"dim\":7"#, r#"dim\":5"#);
    recommend(&sandbox, &[]).exits(0);
    let name = "dp-model/item_factors.safetensors";
    let mut bytes = sandbox.read(name);
    let at = bytes.len() - 8;
    bytes[at..].copy_from_slice(&f64::NAN.to_le_bytes());
    sandbox.write(name, bytes);
    recommend(&sandbox, &[]).exits(4).says(&["not all finite"]);
}

#[test]
fn a_missing_model_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("me.csv", "item,rating\nitem-3,5\n");
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["dp-model: holds no item_factors.safetensors, which dp train, dp tune and dp nightly write; name the output folder of a run"]);
}

#[test]
fn folders_that_hold_something_else_are_told_apart() {
    let sandbox = Sandbox::new();
    sandbox.write("me.csv", "item,rating\nitem-3,5\n");
    std::fs::create_dir(sandbox.path("dp-model")).unwrap();
    for name in ["subspace.safetensors", "shared.safetensors"] {
        sandbox.write(&format!("dp-model/{name}"), "");
        recommend(&sandbox, &[])
            .exits(4)
            .says(&["dp-model: holds linear models of users and no item factors: dp predict"]);
        std::fs::remove_file(sandbox.path(&format!("dp-model/{name}"))).unwrap();
    }
    for (line, says) in [
        (
            "report dp-model",
            "dp-model: contains no run: certificate.json is missing",
        ),
        (
            "report me.csv",
            "me.csv: is a file; name the output folder of a run",
        ),
        ("verify dp-model", "dp-model: contains no run"),
        (
            "evaluate me.csv --model nowhere",
            "nowhere: there is no such folder",
        ),
    ] {
        sandbox.dp(&words(line)).exits(4).says(&[says]);
    }
    sandbox
        .dp(&words("verify me.csv"))
        .exits(4)
        .says(&["me.csv: is not a certificate; name the output folder of a run"]);
}

#[test]
fn the_folder_of_a_run_is_proposed_for_one_next_to_it() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    std::fs::create_dir(sandbox.path("state")).unwrap();
    std::fs::rename(sandbox.path("dp-model"), sandbox.path("state/model")).unwrap();
    for line in [
        "recommend --model state --history me.csv",
        "evaluate me.csv --model state",
        "report state",
        "verify state",
        "publish state copy",
        "report state/model-internal",
        "verify state/model/report.json",
    ] {
        sandbox
            .dp(&words(line))
            .exits(4)
            .says(&["output folder of a run (did you mean state/model?)"]);
    }
}

#[test]
fn a_model_whose_certificate_was_cut_off_is_refused() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    let certificate = sandbox.read("dp-model/certificate.json");
    sandbox.write(
        "dp-model/certificate.json",
        &certificate[..certificate.len() / 2],
    );
    recommend(&sandbox, &[])
        .exits(6)
        .says(&["dp-model/certificate.json: the certificate does not hold"]);
}

#[test]
fn a_model_without_a_certificate_is_refused() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    std::fs::remove_file(sandbox.path("dp-model/certificate.json")).unwrap();
    recommend(&sandbox, &[]).exits(4).says(&[
        "dp-model: holds a model without its certificate.json",
        "dp publish",
        "--out",
    ]);
}

#[test]
fn what_was_a_yes_in_training_is_one_for_the_user() {
    let sandbox = with_history("item,rating\nitem-3,5\nitem-4,1\nitem-5,2\n");
    let line = "train ratings.csv --items items.csv --epsilon 20 --delta 1e-5 --feedback implicit --min-rating 4 --dim 5 --force";
    sandbox.dp(&words(line)).exits(0);
    let scores = |more: &[&str]| {
        let json = recommend(&sandbox, &[&["--json"], more].concat())
            .exits(0)
            .json();
        (
            json["min_rating"].as_f64(),
            json["recommendations"].to_string(),
        )
    };
    let usual = scores(&[]);
    assert_eq!(usual, scores(&["--min-rating", "4"]));
    let all = scores(&["--min-rating", "1"]);
    assert_ne!(usual.1, all.1);
    recommend(&sandbox, &[])
        .exits(0)
        .prints(&["from 3 own ratings:\n(ratings of 4 or more count as positive)"]);
    // without ratings every item is one that the user likes
    for likes in [
        "item\nitem-3\nitem-4\nitem-5\n",
        "item,when\nitem-3,1\nitem-4,1\nitem-5,2\n",
    ] {
        sandbox.write("me.csv", likes);
        assert_eq!(scores(&[]), (None, all.1.clone()));
    }
    recommend(&sandbox, &[]).exits(0).says(&[
        "warning: me.csv has no rating column: every record in it counts as positive, where training counted only ratings of 4 or more",
    ]);
    // a rating that is none is told all the same
    sandbox.write("me.csv", "item,rating\nitem-3,many\n");
    recommend(&sandbox, &[])
        .exits(4)
        .says(&["me.csv:2:2: expected a number"]);
}

#[test]
fn a_model_without_tastes_says_that_own_ratings_change_no_order() {
    let sandbox = with_history("item,rating\nitem-3,5\nitem-4,1\n");
    let tastes = recommend(&sandbox, &["--json"]).exits(0).json();
    assert_eq!(tastes["orders_alike"], false);
    let again =
        words("train ratings.csv --items items.csv --epsilon 20 --delta 1e-5 --method biases");
    sandbox.dp(&[&again[..], &["--force"]].concat()).exits(0);
    let first = recommend(&sandbox, &["--json"]).exits(0).json();
    assert_eq!(first["orders_alike"], true);
    let said = recommend(&sandbox, &[]).exits(0);
    said.prints(&[
        "this order is the same for every user: the model has no taste factors that 2 own ratings could inform",
    ]);
    assert!(
        !said.stdout.contains("from 2 own ratings"),
        "{}",
        said.stdout
    );
    sandbox.write("me.csv", "item,rating\nitem-3,1\nitem-4,5\n");
    let other = recommend(&sandbox, &["--json"]).exits(0).json();
    assert_eq!(items(&other), items(&first));
}

#[test]
fn intervals_are_those_of_the_released_noise() {
    let sandbox = with_history("item,rating\nitem-3,5\n");
    // biases are known to their posterior standard deviation
    let biases = recommend(&sandbox, &["--json"]).exits(0).json();
    for row in biases["recommendations"].as_array().unwrap() {
        let [low, high] = [0, 1].map(|end| row["interval"][end].as_f64().unwrap());
        assert!(low < high, "{row}");
    }
    let per_item = ["--method", "adadpals", "--items", "items.csv", "--force"];
    sandbox.train(&per_item).exits(0);
    let lower = recommend(&sandbox, &["--rank-by", "lower", "--json"]).exits(0);
    let ends = lower.json()["recommendations"].as_array().unwrap().clone();
    let ends: Vec<f64> = (ends.iter())
        .map(|row| row["interval"][0].as_f64().unwrap())
        .collect();
    assert!(ends.is_sorted_by(|a, b| a >= b), "{ends:?}");
    let line = "train ratings.csv --items items.csv --epsilon 20 --delta 1e-5 --feedback implicit --min-rating 4 --method popularity --force";
    sandbox.dp(&words(line)).exits(0);
    let released = sandbox.text("dp-model/report.json");
    let released: Value = serde_json::from_str(&released).unwrap();
    let counts = released["counts"]["values"].as_array().unwrap();
    let most = counts
        .iter()
        .map(|n| n.as_f64().unwrap())
        .fold(1.0, f64::max);
    let half = 1.96 * released["counts"]["noise_stddev"].as_f64().unwrap() / most;
    let json = recommend(&sandbox, &["--json"]).exits(0).json();
    for row in json["recommendations"].as_array().unwrap() {
        let score = row["predicted_rating"].as_f64().unwrap();
        let [low, high] = [0, 1].map(|end| row["interval"][end].as_f64().unwrap());
        assert!((score - low - half).abs() < 1e-9 && (high - score - half).abs() < 1e-9);
    }
    // all counts have the same noise
    let lower = recommend(&sandbox, &["--json", "--rank-by", "lower"]);
    assert_eq!(items(&lower.exits(0).json()), items(&json));
    recommend(&sandbox, &[])
        .exits(0)
        .prints(&["95 % interval", " to "]);
}

#[test]
fn predictions_stay_within_the_declared_range_and_odd_histories_are_told() {
    let sandbox = with_history("item,rating\nitem-3,5\nitem-4,1\n");
    let declared = words(
        "train ratings.csv --items items.csv --epsilon 20 --delta 1e-5 --dim 3 --rating-range 1,5 --force",
    );
    sandbox.dp(&declared).exits(0);
    let usual = recommend(&sandbox, &["--json"]).exits(0);
    assert!(!usual.stderr.contains("warning"), "{}", usual.stderr);
    assert_eq!(usual.json()["n_outside_range"], 0);
    sandbox.write("me.csv", "item,rating\nitem-3,200\nitem-4,-50\nitem-5,5\n");
    let odd = recommend(&sandbox, &["--json", "-k", "22"]).exits(0);
    let odd = odd
        .says(&["2 of 3 ratings in me.csv are outside 1 to 5"])
        .json();
    let mut n_clipped = 0;
    for row in odd["recommendations"].as_array().unwrap() {
        let [low, high] = [0, 1].map(|end| row["interval"][end].as_f64().unwrap());
        let score = row["predicted_rating"].as_f64().unwrap();
        assert!(
            1.0 <= low && low <= score && score <= high && high <= 5.0,
            "{row}"
        );
        n_clipped += usize::from(score >= 5.0 || score <= 1.0);
    }
    assert!(n_clipped > 0, "{odd}");
    // a learned scale has no ends, but what is far from it is told
    let learned = words("train ratings.csv --items items.csv --epsilon 20 --delta 1e-5 --force");
    sandbox.dp(&learned).exits(0);
    let said = "2 of 3 ratings in me.csv are outside";
    recommend(&sandbox, &[])
        .exits(0)
        .says(&[said, "the scale of ratings that the model learned"]);
}

#[test]
fn every_user_of_a_table_gets_what_that_user_would_get_alone() {
    let sandbox = with_history("item,rating\nitem-3,5\nitem-4,1\n");
    let line = |file: &str, more: &str| {
        let line =
            format!("recommend --model dp-model --history {file} -k 3 --user-col Kunde {more}");
        sandbox.dp(&words(&line)).exits(0).stdout
    };
    let ann = "ann,item-3,5\nann,item-4,1\n";
    sandbox.write("ann.csv", format!("Kunde,item,rating\n{ann}"));
    // a user with unknown items alone comes last
    sandbox.write(
        "all.csv",
        format!("Kunde,item,rating\neve,vinyl-1,3\nbob,item-3,1\n{ann}bob,item-9,5\n"),
    );
    let (alone, all) = (line("ann.csv", ""), line("all.csv", ""));
    let of = |text: &str, user: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(user));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(of(&all, "user,"), ["user,rank,item,title,score,low,high"]);
    assert_eq!(of(&all, "ann,"), of(&alone, "ann,"));
    let users = all.lines().map(|line| line.split(',').next().unwrap());
    let users: Vec<&str> = users.skip(1).step_by(3).collect();
    assert_eq!(users, ["bob", "ann", "eve"]);
    let own = recommend(&sandbox, &["--json", "-k", "3"]).exits(0).json();
    let lines = line("all.csv", "--json");
    let of_all: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(of_all[1]["user"], "ann");
    assert_eq!(of_all[1]["recommendations"], own["recommendations"]);
    // without the column it is an error that names it
    let refused = words("recommend --model dp-model --history both.csv");
    sandbox.write("both.csv", "user,item,rating\nann,item-3,5\nbob,item-3,1\n");
    sandbox.dp(&refused).exits(4).says(&["--user-col"]);
}

#[test]
fn similar_items_are_those_of_the_released_tastes() {
    let sandbox = with_history("item,rating\n");
    let similar = |more: &str| sandbox.dp(&words(&format!("similar --model dp-model {more}")));
    let json = similar("item-3 item-4 -k 24 --json").exits(0).json();
    let found = json["items"].as_array().unwrap();
    assert_eq!(
        (&found[0]["item"], &found[1]["item"]),
        (&"item-3".into(), &"item-4".into())
    );
    let mut n_shown = 0;
    for of in found {
        let near = of["similar"].as_array().unwrap();
        assert_eq!(of["is_above_noise"], !near.is_empty());
        let cosines: Vec<f64> = near.iter().map(|n| n["cosine"].as_f64().unwrap()).collect();
        assert!(cosines.is_sorted_by(|a, b| a >= b), "{cosines:?}");
        assert!(near.iter().all(|n| n["item"] != of["item"]));
        n_shown += near.len();
    }
    assert!(n_shown > 0, "{json}");
    let text = similar("item-3").exits(0).stdout;
    assert!(text.starts_with("item-3  Title 3\n"), "{text}");
    similar("Metropolis")
        .exits(2)
        .says(&["ITEM Metropolis: no item has this id"]);
    let biases = words(
        "train ratings.csv --items items.csv --epsilon 20 --delta 1e-5 --method biases --force",
    );
    sandbox.dp(&biases).exits(0);
    similar("item-3")
        .exits(0)
        .says(&["only item biases were learned"]);
}

#[test]
fn small_ratings_are_shown_with_significant_digits() {
    let sandbox = with_history("item,rating\nitem-3,0.004\n");
    let small = |line: &str| match line.rsplit_once(',') {
        Some((ids, rating)) if rating.len() == 1 => format!("{ids},0.00{rating}\n"),
        _ => format!("{line}\n"),
    };
    let text = ratings(300, 25, 10).lines().map(small).collect::<String>();
    sandbox.write("ratings.csv", text);
    let train = words(
        "train ratings.csv --items items.csv --epsilon 20 --delta 1e-5 --force --show-internal",
    );
    let run = sandbox.dp(&train).exits(0);
    let verdict = run.stdout.lines().find(|line| line.starts_with("verdict"));
    let verdict = verdict.unwrap();
    assert!(
        verdict.contains("RMSE 0.00") && !verdict.contains("+0.0000,"),
        "{verdict}"
    );
    let first = recommend(&sandbox, &["-k", "1"]).exits(0).stdout;
    let first = first.lines().last().unwrap().to_owned();
    let score = first.split_whitespace().nth(1).unwrap();
    assert!(score.len() >= "0.0042".len(), "{first}");
}
