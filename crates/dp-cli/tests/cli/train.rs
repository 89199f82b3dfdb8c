//! `dp train`: the JSON object and the meaning of the flags.

use serde_json::Value;

use crate::support::{Sandbox, catalogue, words};

/// Every key with the keys above it, lists marked with `[]`.
fn keys(value: &Value, path: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let path = format!("{path}.{key}");
                keys(member, path.trim_start_matches('.'), all);
            }
        }
        Value::Array(_) => all.push(format!("{path}[]")),
        _ => all.push(path.to_owned()),
    }
}

#[test]
fn json_is_one_object_with_the_documented_keys() {
    let sandbox = Sandbox::with_ratings();
    let keys_with = |more: &[&str]| {
        let run = sandbox
            .train(&[&["--json", "--force"], more].concat())
            .exits(0);
        let looks = more.contains(&"--show-internal");
        let warning = if looks {
            "warning: no ledger records that figures"
        } else {
            ""
        };
        assert!(run.stderr.starts_with(warning) && run.stderr.is_empty() != looks);
        let mut found = Vec::new();
        keys(&run.json(), "", &mut found);
        for key in &mut found {
            // null where its noise hides it
            if key == "rating_scale.share_far[]" {
                key.truncate("rating_scale.share_far".len());
            }
        }
        found.sort();
        found
    };
    let found = keys_with(&["--show-internal"]);
    let expected = [
        "dim",
        "internal.metrics.constant_rmse",
        "internal.metrics.test_rmse",
        "internal.metrics.user_mean_rmse",
        "internal.metrics.valid_rmse",
        "internal.n_ratings",
        "internal.n_users",
        "internal.quality.by_activity[]",
        "internal.quality.by_popularity[]",
        "internal.quality.metrics[]",
        "internal.seconds.evaluate",
        "internal.seconds.load",
        "internal.seconds.train",
        "internal.verdict.baseline",
        "internal.verdict.baseline_value",
        "internal.verdict.gain",
        "internal.verdict.interval[]",
        "internal.verdict.is_released",
        "internal.verdict.metric",
        "internal.verdict.model",
        "internal.verdict.outcome",
        "internal_folder",
        "method",
        "n_items",
        "prior_votes",
        "rating_scale.center",
        "rating_scale.center_is_learnt",
        "rating_scale.has_long_tails",
        "rating_scale.share_far",
        "rating_scale.unit",
        "rating_scale.unit_is_learnt",
        "released.adjacency",
        "released.assumptions[]",
        "released.delta",
        "released.epsilon",
        "released.epsilon_replace",
        "released.gdp_mu",
        "released.private",
        "released.rho",
        "released.tuning_included",
        "steps",
        "taste_votes",
    ];
    assert_eq!(found, expected);
    let is_internal = |key: &str| key.starts_with("internal.");
    let released = expected.iter().filter(|key| !is_internal(key));
    assert_eq!(keys_with(&[]), released.copied().collect::<Vec<_>>());
}

#[test]
fn json_says_what_was_guaranteed() {
    let sandbox = Sandbox::with_ratings();
    let json = sandbox
        .train(&["--json", "--show-internal", "--dim", "3", "--steps", "2"])
        .exits(0)
        .json();
    assert_eq!(json["method"], "pooled");
    assert_eq!(
        (&json["dim"], &json["steps"], &json["n_items"]),
        (&5.into(), &2.into(), &25.into()),
        "an item bias, two tastes and two global effects"
    );
    let released = &json["released"];
    assert_eq!(released["private"], true);
    assert_eq!(released["adjacency"], "add-remove-user");
    assert_eq!(released["delta"], 1e-5);
    let number = |key: &str| released[key].as_f64().unwrap();
    assert!(number("epsilon") <= 1.0 && number("epsilon") > 0.9999);
    // mu at (1, 1e-5) is 0.268051107...: bisection on the closed form of delta(mu, epsilon) with
    // 30 digits in mpmath
    assert!((number("gdp_mu") - 0.268_051).abs() < 1e-5);
    assert!((number("rho") - number("gdp_mu").powi(2) / 2.0).abs() < 1e-9);
    assert!(number("epsilon_replace") > 1.5 * number("epsilon"));
    assert_eq!(json["internal"]["n_users"], 40);
    assert_eq!(json["internal"]["n_ratings"], 400);
}

#[test]
fn a_declared_catalogue_and_a_ledger_change_what_is_assumed() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", catalogue(30));
    let assumed = |args: &[&str]| {
        let json = sandbox
            .train(&[args, &["--json", "--force"]].concat())
            .exits(0)
            .json();
        (
            json["released"]["assumptions"].to_string(),
            json["n_items"].clone(),
        )
    };
    let (plain, n_items) = assumed(&[]);
    assert!(plain.contains("item ids of the input are public") && n_items == 25);
    assert!(plain.contains("no ledger: the guarantee is that of this run alone"));
    let (declared, n_items) = assumed(&["--items", "items.csv"]);
    assert!(!declared.contains("item ids") && n_items == 30);
    let (counted, _) = assumed(&["--ledger", "l.ledger"]);
    assert!(!counted.contains("no ledger") && counted.contains("same ledger file"));
}

#[test]
fn without_a_split_all_ratings_train_and_no_accuracy_is_reported() {
    let sandbox = Sandbox::with_ratings();
    let json = sandbox
        .train(&["--json", "--show-internal", "--no-split"])
        .exits(0)
        .json();
    for metric in ["valid_rmse", "test_rmse", "constant_rmse", "user_mean_rmse"] {
        assert!(json["internal"]["metrics"][metric].is_null(), "{metric}");
    }
    let run = sandbox
        .train(&["--no-split", "--force", "--show-internal"])
        .exits(0);
    run.prints(&["nothing held out"]);
    sandbox
        .train(&["--no-split", "--split-seed", "3", "--force"])
        .exits(2);
}

#[test]
fn the_split_seed_decides_what_is_held_out() {
    let sandbox = Sandbox::with_ratings();
    let constant = |seed: &str| {
        let args = [
            "--json",
            "--show-internal",
            "--force",
            "--insecure-seed",
            "1",
            "--split-seed",
            seed,
        ];
        let json = sandbox.train(&args).exits(0).json();
        json["internal"]["metrics"]["constant_rmse"]
            .as_f64()
            .unwrap()
    };
    let first = constant("0").to_bits();
    assert_eq!(constant("0").to_bits(), first);
    assert_ne!(constant("1").to_bits(), first);
}

#[test]
fn weights_without_exponent_release_no_counts() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--weight-exponent", "0", "--steps", "2"])
        .exits(0);
    let certificate = sandbox.value("dp-model/certificate.json");
    let labels: Vec<_> = certificate["releases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|release| release["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels.len(), 6);
    assert!(
        !labels.iter().any(|label| label.contains("counts")),
        "{labels:?}"
    );
    let report = sandbox.text("dp-model/report.md");
    assert!(!report.contains("Released counts"));
}

#[test]
fn epsilon_is_met_from_very_small_to_very_large() {
    let sandbox = Sandbox::with_ratings();
    for epsilon in ["1e-6", "0.1", "1", "10", "40"] {
        let args = ["--delta", "1e-5", "--epsilon", epsilon, "--json", "--force"];
        let json = sandbox
            .dp(&[&["train", "ratings.csv"], args.as_slice()].concat())
            .exits(0)
            .json();
        let asked: f64 = epsilon.parse().unwrap();
        let met = json["released"]["epsilon"].as_f64().unwrap();
        assert!(met <= asked && met > 0.9999 * asked, "{met} for {asked}");
        sandbox.dp(&["verify", "dp-model"]).exits(0);
    }
}

fn factors(sandbox: &Sandbox) -> Vec<u8> {
    sandbox.read("dp-model/item_factors.safetensors")
}

#[test]
fn auto_is_the_default_and_biases_have_factors_of_length_one() {
    let sandbox = Sandbox::with_ratings();
    let run = |more: &str| {
        let line = format!("--insecure-seed 3 --force --json {more}");
        let json = sandbox.train(&words(&line)).exits(0).json();
        (
            factors(&sandbox),
            json["method"].clone(),
            json["dim"].clone(),
        )
    };
    let default = run("");
    assert_eq!(default, run("--method auto"));
    assert_eq!(default, run("--method pooled"));
    let (biases, method, dim) = run("--method biases --label-center 2");
    assert_eq!((method, dim), ("biases".into(), 1.into()));
    // global effects are two more columns, of the factors and of their standard errors
    let (wide, _, dim) = run("--dim 1 --label-center 2");
    assert_eq!(dim, 3);
    let numbers = |file: &[u8]| -> Vec<[u8; 8]> {
        let length = u64::from_le_bytes(file[..8].try_into().unwrap());
        let start = 8 + usize::try_from(length).unwrap();
        let each = file[start..].chunks_exact(8);
        each.map(|bytes| bytes.try_into().unwrap()).collect()
    };
    let of_wide: Vec<_> = numbers(&wide).into_iter().step_by(3).collect();
    assert_eq!(of_wide, numbers(&biases));
    let (without, _, dim) = run("--dim 1 --label-center 2 --no-global-effects");
    assert_eq!((dim, &without), (1.into(), &biases));
}

#[test]
fn a_range_of_ratings_gives_their_centre_and_bound() {
    let sandbox = Sandbox::with_ratings();
    let run = |more: &str| {
        let seeded = ["--insecure-seed", "1", "--force"].into_iter();
        let all: Vec<&str> = seeded.chain(more.split_whitespace()).collect();
        sandbox.train(&all).exits(0);
        sandbox.value("dp-model/report.json")["run"]["settings"].clone()
    };
    let (stars, tens) = (run("--rating-range 1,5"), run("--rating-range 0,10"));
    assert_eq!(stars, run("--scale-share 0"));
    assert_ne!(stars, run(""));
    let numbers = |of: &Value| ["label_center", "label_bound"].map(|name| of[name].as_f64());
    assert_eq!(numbers(&stars), [Some(3.0), Some(1.0)]);
    assert_eq!(numbers(&tens), [Some(5.0), Some(2.5)]);
    sandbox
        .train(&["--rating-range", "0,10", "--label-bound", "2"])
        .exits(2)
        .says(&["--rating-range", "--label-bound"]);
    sandbox
        .train(&["--rating-range", "5,1"])
        .exits(2)
        .says(&["--rating-range"]);
}

#[test]
fn methods_that_do_not_fit_the_records_or_the_flags_are_refused_before_anything_is_read() {
    let sandbox = Sandbox::new();
    for (more, says) in [
        ("--method popularity", "--feedback implicit"),
        ("--method biases --feedback implicit", "--method popularity"),
        (
            "--no-global-effects --feedback implicit",
            "--no-global-effects",
        ),
        (
            "--method biases --dim 3",
            "--dim does not go with --method biases",
        ),
        (
            "--method popularity --feedback implicit --reg 2",
            "--reg does not go with --method popularity",
        ),
    ] {
        sandbox
            .train(&words(&format!("{more} --ledger l.ledger")))
            .exits(2)
            .says(&[says]);
        assert!(!sandbox.exists("l.ledger"));
    }
}

/// Ratings without tastes: those of the first rounds are dropped, and the rounds before are measured all the same.
#[test]
fn a_run_that_drops_its_tastes_is_measured_round_by_round() {
    let sandbox = Sandbox::new();
    let mut state = 1_u64;
    let mut below = |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut text = "user,item,rating\n".to_owned();
    for user in 0..600 {
        for item in 0..40 {
            if below(55) < 40 - item {
                text += &format!("u{user},i{item},{}\n", 1 + below(5));
            }
        }
    }
    sandbox.write("ratings.csv", text);
    let line = "train ratings.csv --epsilon 2 --delta 1e-5 --insecure-seed 1 --json";
    let json = sandbox.dp(&words(line)).exits(0).json();
    assert_eq!(json["dim"], 3, "an item bias and two global effects");
    let internal = sandbox.value("dp-model-internal/internal.json");
    let by_round = internal["by_round"]["values"].as_array().unwrap();
    assert_eq!(by_round.len(), 7);
}

#[test]
fn the_summary_leads_to_the_internal_page_and_not_to_private_figures_on_the_screen() {
    let sandbox = Sandbox::with_ratings();
    let run = sandbox.train(&[]).exits(0);
    assert!(!run.stdout.contains("--show-internal"), "{}", run.stdout);
    run.prints(&[
        "internal    dp-model-internal/internal.md: measured on private data",
        "verdict     in dp-model-internal/internal.md: ",
    ]);
    assert!(sandbox.exists("dp-model-internal/internal.md"));
    for more in [&["--no-split"][..], &["--no-split", "--show-internal"]] {
        let run = sandbox.train(&[&["--force"], more].concat()).exits(0);
        run.prints(&["none: nothing was held out (--no-split)"]);
    }
}

#[test]
fn columns_that_contradict_the_catalogue_are_refused_before_anything_is_paid() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", "item,title\nitem-1,One\nitem-2,Two\n");
    let columns = "--user-col item --item-col user";
    for (columns, says) in [
        (
            "--user-col user --item-col user",
            "both name the column user",
        ),
        (columns, "it has a column of users"),
        ("--item-col title", "its item ids come from another column"),
    ] {
        let more = format!("{columns} --items items.csv --ledger l.ledger --new-ledger");
        let run = sandbox.train(&words(&more));
        assert!([2, 4].contains(&run.code), "{}", run.stderr);
        run.says(&[says]);
        assert!(!sandbox.exists("l.ledger"), "{columns}");
    }
    sandbox
        .train(&words("--rating-col user --ledger l.ledger"))
        .exits(2)
        .says(&["--rating-col names the column user", "give --user-col"]);
    assert!(!sandbox.exists("l.ledger"));
}

#[test]
fn records_outside_the_catalogue_and_the_range_of_ratings_are_counted_on_the_internal_page() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", "item\nitem-1\nitem-2\nother\n");
    let run = sandbox
        .train(&words("--items items.csv --rating-range 2,5"))
        .exits(0);
    let all = sandbox.text("ratings.csv");
    let records: Vec<Vec<&str>> = all
        .lines()
        .skip(1)
        .map(|l| l.split(',').collect())
        .collect();
    let is_inside = |record: &&Vec<&str>| ["item-1", "item-2"].contains(&record[1]);
    let n_outside = records.len() - records.iter().filter(is_inside).count();
    let n_low = records
        .iter()
        .filter(is_inside)
        .filter(|record| record[2] == "1")
        .count();
    assert!(n_low > 0);
    let page = sandbox.text("dp-model-internal/internal.md");
    for line in [
        format!("| outside the catalogue | {n_outside} |"),
        format!("| ratings outside 2 to 5 | {n_low} |"),
        format!(
            "{n_outside} of {} records are of items that are not in the catalogue",
            records.len()
        ),
    ] {
        assert!(page.contains(&line), "no {line} in {page}");
    }
    for public in [run.stdout, run.stderr, sandbox.text("dp-model/report.md")] {
        assert!(
            !public.contains("outside the catalogue") && !public.contains("does not have"),
            "{public}"
        );
    }
}
