//! `dp train --method am-ssp --feedback implicit`: each record is a positive example, and items
//! have public features.

use crate::features::{sandbox, train};
use crate::implicit::check_list_figures;
use crate::support::words;

const IMPLICIT: [&str; 6] = [
    "--feedback",
    "implicit",
    "--min-rating",
    "4",
    "--json",
    "--show-internal",
];

#[test]
fn held_out_users_get_lists_that_follow_their_genre_and_new_items_too() {
    let sandbox = sandbox();
    let more = [
        &IMPLICIT[..],
        &["--split", "users", "--dim", "4", "--steps", "2"],
    ]
    .concat();
    let json = train(&sandbox, &more).exits(0).json();
    assert_eq!(
        (&json["method"], &json["n_items"]),
        (&"am-ssp".into(), &37.into())
    );
    assert_eq!((&json["dim"], &json["steps"]), (&4.into(), &2.into()));
    let metrics = &json["internal"]["metrics"];
    check_list_figures(metrics);
    let ndcg = |name: &str| metrics[name].as_f64().unwrap();
    assert!(ndcg("test_ndcg_at_20") > ndcg("popularity_ndcg_at_20"));

    let text = |name: &str| sandbox.text(name);
    let certificate = text("dp-model/certificate.json");
    for label in [
        "total weights",
        "likes 1",
        "likes 2",
        "one person has one user id",
    ] {
        assert!(certificate.contains(label), "{label}");
    }
    let report = text("dp-model/report.md");
    for part in [
        "popularity_exponent",
        "unobserved_weight",
        "prior_variances",
        "1/sqrt(n)",
    ] {
        assert!(report.contains(part), "no {part} in {report}");
    }
    sandbox.dp(&["verify", "dp-model"]).exits(0);

    // users who like War get War first, also among items that are not in the model: even numbers
    // are War
    sandbox.write("me.csv", "item,rating\n0,5\n2,5\n4,5\n1,1\n");
    sandbox.write(
        "later.csv",
        "item,genres,year,actors\n900,War|Drama,1951,\n901,Art|Drama,1951,\n",
    );
    let recommend = words(
        "recommend --model dp-model --history me.csv --min-rating 4 --items later.csv -k 60 --json",
    );
    let found = sandbox.dp(&recommend).exits(0).json();
    let listed: Vec<String> = found["recommendations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["item"].as_str().unwrap().to_owned())
        .collect();
    let place = |item: &str| listed.iter().position(|found| found == item).unwrap();
    assert!(place("900") < place("901"), "{listed:?}");
    assert!(
        place("6") < place("7") && place("8") < place("9"),
        "{listed:?}"
    );
    assert!(!listed.contains(&"1".to_owned()));
}

#[test]
fn seeded_runs_repeat_and_are_marked() {
    let sandbox = sandbox();
    let more = [&IMPLICIT[..], &["--force", "--insecure-seed", "3"]].concat();
    let json = train(&sandbox, &more).exits(0).json();
    assert_eq!(json["released"]["private"], false);
    let first = sandbox.read("dp-model/item_factors.safetensors");
    train(&sandbox, &more).exits(0);
    assert_eq!(sandbox.read("dp-model/item_factors.safetensors"), first);
    sandbox.dp(&["verify", "dp-model"]).exits(6);
}
