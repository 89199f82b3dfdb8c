//! `dp train --feedback implicit` without biases and restricted to head items.

use crate::support::{Run, Sandbox, words};

const LISTS: [&str; 6] = [
    "--feedback",
    "implicit",
    "--score-model",
    "plain",
    "--head-fraction",
    "0.4",
];
/// Of 25 items.
const N_HEAD: usize = 10;

fn train(sandbox: &Sandbox, more: &[&str]) -> Run {
    // by the rule there are too few likes for taste factors
    sandbox.train(&[&LISTS[..], &["--dim", "2"], more].concat())
}

fn json(sandbox: &Sandbox, name: &str) -> serde_json::Value {
    sandbox.value(name)
}

/// The rows of the released factors.
fn rows(sandbox: &Sandbox) -> Vec<Vec<f64>> {
    let file = sandbox.read("dp-model/item_factors.safetensors");
    let (length, rest) = file.split_first_chunk::<8>().unwrap();
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
    let header: serde_json::Value = serde_json::from_slice(&rest[..length]).unwrap();
    let dim = header["item_factors"]["shape"][1].as_u64().unwrap();
    let (numbers, _) = rest[length..].as_chunks::<8>();
    let numbers: Vec<f64> = numbers.iter().map(|&b| f64::from_le_bytes(b)).collect();
    let dim = usize::try_from(dim).unwrap();
    numbers.chunks(dim).map(<[f64]>::to_vec).collect()
}

#[test]
fn the_head_can_be_told_from_the_released_counts_alone() {
    let sandbox = Sandbox::with_ratings();
    train(&sandbox, &[]).exits(0);
    let report = json(&sandbox, "dp-model/report.json");
    assert_eq!(report["settings"]["head_fraction"], 0.4);
    assert_eq!(report["settings"]["score_model"], "plain");
    let counts: Vec<f64> = serde_json::from_value(report["counts"]["values"].clone()).unwrap();
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]));
    let rows = rows(&sandbox);
    let learnt = |&item: &usize| rows[item][1..].iter().any(|q| q.abs() > 0.0);
    let (head, others) = order.split_at(N_HEAD);
    assert!(head.iter().all(learnt) && !others.iter().any(learnt));
    // no biases: the popularity of the head, too small to matter if there are taste factors
    let popularity = |item: usize| 1e-6 * counts[item].max(0.0) / counts[order[0]].max(1.0);
    let expected = |item: &usize| (rows[*item][0] - popularity(*item)).abs() < 1e-18;
    assert!(head.iter().all(expected) && others.iter().all(|&item| rows[item][0] == 0.0));
    let file = sandbox.read("dp-model/item_factors.safetensors");
    let header = String::from_utf8_lossy(&file);
    // readers of version 2 do not support scores without biases; 6 has a typical user, if the noise leaves one
    assert!(
        [3, 6]
            .iter()
            .any(|of| header.contains(&format!("schema_version\\\":{of}")))
    );
    let certificate = sandbox.text("dp-model/certificate.json");
    for (label, is_there) in [
        ("item counts", true),
        ("round 1: Gramian of all users", true),
        ("item matrices", false),
    ] {
        assert_eq!(certificate.contains(label), is_there, "{label}");
    }
    let report = sandbox.text("dp-model/report.md");
    for part in [
        "(1 taste) for the 10 with the largest noisy counts, 4 rounds",
        "\"head_fraction\": 0.4",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
}

#[test]
fn such_a_run_is_verified_recomputed_and_reported_on() {
    for (tastes, length) in [
        (&["--dim", "2"][..], "(1 taste) for the 10 with"),
        // too few likes for taste factors: all rounds are used for popularity
        (
            &[],
            "ranked by popularity: released counts, refined in 4 rounds",
        ),
    ] {
        let sandbox = Sandbox::with_ratings();
        let args = [&LISTS[..], tastes, &["--ledger", "l", "--resume"]].concat();
        let said = sandbox.train(&args).exits(0).stdout;
        assert!(said.contains(length), "{said}");
        let verify = ["verify", "dp-model", "--ledger", "l", "--recompute"];
        sandbox.dp(&verify).exits(0);
        sandbox.dp(&["report", "dp-model"]).exits(0);
        let evaluate = ["evaluate", "ratings.csv", "--model", "dp-model"];
        sandbox.dp(&evaluate).exits(0);
    }
}

#[test]
fn settings_come_from_flags_the_environment_and_a_file() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write(
        "lists.toml",
        "[train]\nfeedback = \"implicit\"\nscore-model = \"plain\"\nhead-fraction = 0.2\n",
    );
    let config = ["--config", "lists.toml", "--print-config"];
    let env = [("DP_HEAD_FRACTION", "0.3"), ("DP_SCORE_MODEL", "biased")];
    for (more, env, head, model) in [
        (&[][..], &[][..], 0.2, "plain"),
        (&[], &env, 0.3, "biased"),
        (&["--head-fraction", "0.7"], &env, 0.7, "biased"),
    ] {
        let args = [&["train"][..], &config, more].concat();
        let printed = sandbox.run_with(&args, env).exits(0).stdout;
        let table: toml::Table = printed.parse().unwrap();
        assert_eq!(table["train"]["head-fraction"].as_float(), Some(head));
        assert_eq!(table["train"]["score-model"].as_str(), Some(model));
    }
}

#[test]
fn all_items_are_learnt_where_the_whole_is_asked_for_or_the_catalogue_is_small() {
    let sandbox = Sandbox::with_ratings();
    let base = words("--feedback implicit --score-model plain --dim 2");
    for more in [&["--head-fraction", "1"][..], &[]] {
        let args = [&base[..], more, &["--force"]].concat();
        let said = sandbox.train(&args).exits(0).stdout;
        assert!(said.contains("(1 taste), 4 rounds"), "{said}");
    }
}

#[test]
fn the_head_goes_with_biases_too() {
    let sandbox = Sandbox::with_ratings();
    let lists = ["--feedback", "implicit", "--head-fraction", "0.4"];
    for more in [
        &["--score-model", "biased", "--dim", "3"][..],
        &["--method", "adadpals", "--dim", "3"],
    ] {
        let args = [&lists[..], more, &["--force"]].concat();
        let said = sandbox.train(&args).exits(0).stdout;
        let expected = "(item bias and 2 tastes) for the 10 with the largest noisy counts";
        assert!(said.contains(expected), "{said}");
    }
    let adadpals = [&LISTS[..], &["--method", "adadpals", "--force"]].concat();
    sandbox.train(&adadpals).exits(0);
}

#[test]
fn who_likes_nothing_that_was_learnt_gets_the_popular_items() {
    let sandbox = Sandbox::with_ratings();
    train(&sandbox, &[]).exits(0);
    let recommend = |more: &[&str]| {
        let args = ["recommend", "--model", "dp-model", "--history", "me.csv"];
        sandbox.dp(&[&args, more].concat()).exits(0)
    };
    sandbox.write("me.csv", "item,rating\n");
    let said = recommend(&[]).stdout;
    assert!(said.starts_with("no ratings in the history"), "{said}");
    let report = json(&sandbox, "dp-model/report.json");
    let counts: Vec<f64> = serde_json::from_value(report["counts"]["values"].clone()).unwrap();
    let most = (0..counts.len()).max_by(|&a, &b| counts[a].total_cmp(&counts[b]));
    let json = recommend(&["--json"]).json();
    let list = json["recommendations"].as_array().unwrap();
    assert_eq!(list.len(), 10);
    let ids = sandbox.text("dp-model/items.csv");
    let first = ids.lines().nth(1 + most.unwrap()).unwrap();
    assert_eq!(first.split(',').next(), list[0]["item"].as_str());
    let all: String = (0..25).map(|item| format!("item-{item},5\n")).collect();
    sandbox.write("me.csv", format!("item,rating\n{all}"));
    assert!(recommend(&[]).stdout.starts_with("from 25 own ratings"));
}

#[test]
fn candidates_differ_in_the_head() {
    let sandbox = Sandbox::with_ratings();
    let of = |feedback: &str| {
        let args = ["tune", "ratings.csv", "--epsilon", "4", "--delta", "1e-5"];
        let heads = ["--try", "head-fraction=0.2", "--try", "head-fraction=1"];
        sandbox.dp(&[&args[..], &heads, &["--feedback", feedback]].concat())
    };
    of("explicit").exits(2).says(&["needs --feedback implicit"]);
    let said = of("implicit").exits(0).stdout;
    assert!(said.contains("head-fraction=0.2: "), "{said}");
}

#[test]
fn the_audit_makes_the_same_run() {
    let sandbox = Sandbox::new();
    let args = ["audit", "--epsilon", "4", "--delta", "1e-5", "--json"];
    let few = ["--runs", "4", "--canaries", "40", "--dim", "3"];
    let json = sandbox.dp(&[&args[..], &LISTS, &few].concat()).exits(0);
    let json = json.json();
    assert_eq!(json["verdict"], "holds");
}

#[test]
fn items_outside_the_head_have_no_interval_and_come_last_by_lower_ends() {
    let sandbox = Sandbox::with_ratings();
    train(&sandbox, &[]).exits(0);
    sandbox.write("me.csv", "item\nitem-3\nitem-5\n");
    let line = "recommend --model dp-model --history me.csv --json --rank-by lower -k 25";
    let json = sandbox.dp(&words(line)).exits(0).json();
    let list = json["recommendations"].as_array().unwrap();
    let lower: Vec<Option<f64>> = list.iter().map(|of| of["interval"][0].as_f64()).collect();
    let n_learned = lower.iter().flatten().count();
    assert!((N_HEAD - 2..=N_HEAD).contains(&n_learned), "{lower:?}");
    let (learned, others) = lower.split_at(n_learned);
    assert!(learned.is_sorted_by(|a, b| a >= b) && learned.iter().all(Option::is_some));
    assert!(others.iter().all(Option::is_none) && !others.is_empty());
}
