//! `dp train --feedback implicit` and `dp recommend` on its model.

use crate::support::{Sandbox, words};

fn trained(more: &[&str]) -> (Sandbox, serde_json::Value) {
    let sandbox = Sandbox::with_ratings();
    let mut args = words("--feedback implicit --min-rating 3 --split users --json --show-internal");
    args.extend(more);
    let json = sandbox.train(&args).exits(0).json();
    (sandbox, json)
}

/// The internal metrics hold all figures of lists, the popularity baseline's too.
pub(crate) fn check_list_figures(metrics: &serde_json::Value) {
    for name in [
        "test_recall_at_20",
        "test_ndcg_at_20",
        "popularity_recall_at_20",
        "popularity_ndcg_at_20",
    ] {
        let value = metrics[name].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&value), "{name}: {value}");
    }
    assert_eq!(
        metrics["test_recall_by_bucket"].as_array().unwrap().len(),
        5
    );
}

#[test]
fn held_out_users_are_measured_by_recall_beside_popularity() {
    let (_, json) = trained(&["--dim", "3"]);
    check_list_figures(&json["internal"]["metrics"]);
    assert_eq!(json["released"]["private"], true);
    // 400 ratings, those of 3 and above stay
    let n = json["internal"]["n_ratings"].as_u64().unwrap();
    assert!(n > 100 && n < 400, "{n}");
}

#[test]
fn recall_by_length_is_that_at_20_for_lists_of_20() {
    let (sandbox, json) = trained(&["--dim", "3"]);
    let all = json["internal"]["metrics"]["test_recall_by_length"].clone();
    let all = all.as_array().unwrap();
    let at = |k: u64| all.iter().find(|at| at["k"] == k).unwrap()["model"].as_f64();
    assert_eq!(
        at(20),
        json["internal"]["metrics"]["test_recall_at_20"].as_f64()
    );
    assert!(at(1).unwrap() <= 1.0 && all.len() >= 5, "{all:?}");
    sandbox.dp(&["report", "dp-model"]).exits(0);
    let page = sandbox.text("dp-model-internal/internal.md");
    assert!(page.contains("## Recall by length of the list"), "{page}");
}

#[test]
fn ratings_that_are_not_used_are_told_before_anything_is_paid() {
    let sandbox = Sandbox::with_ratings();
    let likes = words("--feedback implicit --no-split --force --quiet");
    let loud = &words("--feedback implicit --force --no-split")[..];
    let told = |column: &str| {
        format!(
            "warning: column {column} of ratings.csv looks like ratings and is not used: with --feedback implicit every record counts as \
             positive; set --min-rating to count only high ratings"
        )
    };
    sandbox.train(loud).exits(0).says(&[&told("rating")]);
    assert!(!sandbox.train(&likes).exits(0).stderr.contains("looks like"));
    let more = [loud, &["--min-rating", "1"]].concat();
    assert!(!sandbox.train(&more).exits(0).stderr.contains("looks like"));
    let text = sandbox.text("ratings.csv");
    sandbox.write(
        "ratings.csv",
        text.replacen("rating\n", "movie_rating\n", 1),
    );
    sandbox.train(loud).exits(0).says(&[&told("movie_rating")]);
    sandbox.write("ratings.csv", text.replacen("rating\n", "Sterne\n", 1));
    sandbox.train(loud).exits(0).says(&[&told("Sterne")]);
    let declared = [loud, &["--rating-col", "week"]].concat();
    sandbox.write("ratings.csv", text.replacen("rating\n", "week\n", 1));
    sandbox.train(&declared).exits(0).says(&[
        "column week of ratings.csv is named by --rating-col, and its values are not used",
    ]);
    // without a header no line of the file is shown
    let bare = text.split_once('\n').unwrap().1.replace(',', "::");
    let bare = bare.replace(|c: char| !(c.is_ascii_digit() || ":.\n".contains(c)), "");
    sandbox.write("ratings.csv", bare);
    sandbox.train(loud).exits(0).says(&[&told("3")]);
    sandbox.write("ratings.csv", text.replacen("rating\n", "week\n", 1));
    assert!(!sandbox.train(loud).exits(0).stderr.contains("looks like"));
}

#[test]
fn the_certificate_lists_counts_gramian_and_sums() {
    let (sandbox, _) = trained(&["--steps", "2"]);
    let certificate = sandbox.text("dp-model/certificate.json");
    for label in [
        "item counts",
        "round 1: Gramian of all users",
        "round 2: item right-hand sides",
    ] {
        assert!(certificate.contains(label), "{label}");
    }
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

/// Flags of feedback that do not go together, and what is said of them.
pub(crate) const REFUSED: [(&[&str], &str); 5] = [
    (&["--min-rating", "4"], "--feedback implicit"),
    (&["--split", "users"], "--feedback implicit"),
    (
        &["--feedback", "implicit", "--split", "ratings"],
        "--split users",
    ),
    (
        &["--feedback", "implicit", "--label-bound", "1"],
        "--label-bound",
    ),
    (
        &["--feedback", "implicit", "--min-rating", "nan"],
        "--min-rating",
    ),
];

#[test]
fn recommendations_leave_out_the_whole_history_and_fold_in_what_was_liked() {
    let (sandbox, _) = trained(&["--dim", "3"]);
    sandbox.write("me.csv", "item,rating\nitem-3,5\nitem-4,1\n");
    let base = words("recommend --model dp-model --history me.csv -k 30 --json");
    let liked = [&base[..], &["--min-rating", "3"]].concat();
    for args in [&base[..], &liked] {
        let json = sandbox.dp(args).exits(0).json();
        let items: Vec<_> = json["recommendations"].as_array().unwrap().iter().collect();
        assert_eq!(items.len(), 23);
        assert!(
            items
                .iter()
                .all(|r| r["item"] != "item-3" && r["item"] != "item-4")
        );
    }
}

#[test]
fn flags_that_do_not_go_together_are_refused_before_anything_is_read() {
    let sandbox = Sandbox::with_ratings();
    for (args, says) in REFUSED {
        sandbox.train(args).exits(2).says(&[says]);
        assert!(!sandbox.exists("dp-model"));
    }
    let sandbox = Sandbox::with_model();
    sandbox.write("me.csv", "item,rating\nitem-3,5\n");
    let args = words("recommend --model dp-model --history me.csv --min-rating 3");
    sandbox.dp(&args).exits(2).says(&["--feedback implicit"]);
}

/// The whole budget for one release, one ranking for everybody, and every command that takes a model takes it.
#[test]
fn popularity_is_the_released_counts_with_the_whole_budget() {
    let sandbox = Sandbox::with_ratings();
    let line = "--feedback implicit --method popularity --publish-releases --json --show-internal";
    let json = sandbox.train(&words(line)).exits(0).json();
    assert_eq!(
        (&json["method"], &json["dim"], &json["steps"]),
        (&"popularity".into(), &1.into(), &0.into())
    );
    // no baseline is popularity itself
    assert!(json["verdict"].is_null());
    let metrics = &json["internal"]["metrics"];
    assert_eq!(
        metrics["test_recall_at_20"],
        metrics["popularity_recall_at_20"]
    );
    let certificate = sandbox.value("dp-model/certificate.json");
    let releases = certificate["releases"].as_array().unwrap();
    assert_eq!(
        (releases.len(), &releases[0]["label"]),
        (1, &"item counts".into())
    );
    assert!(certificate["guarantee"]["epsilon"].as_f64().unwrap() > 0.9999);
    sandbox
        .dp(&words("verify dp-model --recompute"))
        .exits(0)
        .prints(&["bit for bit"]);
    let report = sandbox.value("dp-model/report.json");
    let counts: Vec<f64> = serde_json::from_value(report["counts"]["values"].clone()).unwrap();
    let catalogue = sandbox.text("dp-model/items.csv");
    let names = catalogue
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap());
    let mut ranked: Vec<(&str, f64)> = names.zip(counts).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let own = [ranked[0].0, ranked[2].0];
    sandbox.write(
        "me.csv",
        format!("item,rating\n{},5\n{},1\n", own[0], own[1]),
    );
    let line = "recommend --model dp-model --history me.csv -k 30 --json";
    let found = sandbox.dp(&words(line)).exits(0).json();
    let items = found["recommendations"].as_array().unwrap().iter();
    let items: Vec<_> = items.map(|of| of["item"].as_str().unwrap()).collect();
    let expected = ranked.iter().map(|(name, _)| *name);
    let expected: Vec<_> = expected.filter(|name| !own.contains(name)).collect();
    assert_eq!(items, expected);
    sandbox
        .dp(&words(
            "evaluate ratings.csv --model dp-model --show-internal --no-ledger",
        ))
        .exits(0);
    sandbox.dp(&words("report dp-model")).exits(0);
}

/// The baseline of a verdict has the name, and makes the counts, of the method.
#[test]
fn other_methods_are_compared_with_popularity_that_has_the_whole_budget() {
    let (sandbox, _) = trained(&["--dim", "2"]);
    let internal = sandbox.value("dp-model-internal/internal.json");
    let rows = internal["quality"]["metrics"].as_array().unwrap();
    let named = |name: &str| rows.iter().any(|row| row["method"] == name);
    assert!(named("popularity (private, whole budget)") && named("popularity (released counts)"));
}

#[test]
fn popularity_has_an_audit_of_its_own() {
    let line = "audit --feedback implicit --method popularity --epsilon 8 --delta 1e-5 --canaries 30 --runs 4 --confidence 0.999999999 --json";
    let found = Sandbox::new().dp(&words(line)).exits(0).json();
    assert_eq!(found["verdict"], "holds");
}

/// Three likes each of one of four groups of ten items.
fn few_likes_each() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut lines = String::from("user,item\n");
    for user in 0..900 {
        for like in 0..3 {
            let place = (user / 4 + like * (1 + user % 3)) % 10;
            lines += &format!("u{user},{}\n", user % 4 * 10 + place);
        }
    }
    sandbox.write("likes.csv", lines);
    let items = (0..40).map(|item| format!("{item}\n"));
    sandbox.write(
        "items.csv",
        "item\n".to_owned() + &items.collect::<String>(),
    );
    sandbox
}

const FEW: &str = "likes.csv --items items.csv --feedback implicit --delta 1e-5";

#[test]
fn few_likes_each_are_learned_from_co_occurrences_and_recommended_by_the_stored_model() {
    let sandbox = few_likes_each();
    let run = [
        &["train"][..],
        &words(FEW),
        &words("--epsilon 8 --no-ledger --no-split --out m"),
    ]
    .concat();
    let printed = sandbox.dp(&run).exits(0);
    printed.prints(&["from co-occurrences of likes"]);
    let labels = sandbox.value("m/certificate.json")["releases"].clone();
    assert_eq!(labels[1]["label"], "number of users");
    sandbox.dp(&words("verify m --recompute")).exits(0);
    let warned = sandbox.dp(&[&run[..], &words("--force --reg 2 --clip-norm 0.5")].concat());
    warned.says(&["--clip-norm, --reg had no effect"]);
    // an item of the second group is liked by its users alone, so is the rest of the list
    sandbox.write("history.csv", "item\n13\n15\n");
    let list = words("recommend --model m --history history.csv -k 5 --json");
    let found = sandbox.dp(&list).exits(0).json();
    let text = found.to_string();
    let names = |item: i32| text.contains(&format!("\"{item}\""));
    let own_group = (10..20).filter(|&item| names(item)).count();
    assert!(own_group == 5 && !names(13) && !names(15), "{text}");
}

#[test]
fn an_audit_trains_by_the_rule_that_training_has() {
    let sandbox = few_likes_each();
    let trials = words("--epsilon 8 --no-split --canaries 20 --runs 4 --json");
    let run = [&["audit"][..], &words(FEW), &trials].concat();
    let found = sandbox.dp(&run).exits(0).json();
    assert_eq!(found["releases"][1]["label"], "number of users");
}
