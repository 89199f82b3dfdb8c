//! `dp-reproduce krichene2024-...`: rows match the documented schema, and expected properties hold
//! at small sizes.

use serde_json::Value;

use crate::support::Sandbox;

fn rows(sandbox: &Sandbox, args: &str) -> Vec<Value> {
    let all: Vec<&str> = args.split(' ').collect();
    let found = sandbox.run(&all).exits(0).json();
    assert!(args.starts_with(found["name"].as_str().unwrap()));
    assert!(found["seconds"].as_f64().unwrap() > 0.0);
    found["rows"].as_array().unwrap().clone()
}

/// The mean of the only row with these values of fields or, for other names, of settings.
fn mean(rows: &[Value], wanted: &[(&str, Value)]) -> f64 {
    let has = |row: &Value, (name, value): &(&str, Value)| match &row[*name] {
        Value::Null => &row["params"][*name] == value,
        field => field == value,
    };
    let found: Vec<&Value> = rows
        .iter()
        .filter(|row| wanted.iter().all(|pair| has(row, pair)))
        .collect();
    assert_eq!(found.len(), 1, "{wanted:?}");
    found[0]["mean"].as_f64().unwrap()
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_synthetic_gives_every_cell_and_residual_steps_beat_statistics() {
    let sandbox = Sandbox::new();
    let rows = rows(&sandbox, "krichene2024-synthetic --seeds 1 --quick --json");
    // two numbers of features with the zero model and six methods; two scales of logits with the
    // zero model and two methods
    assert_eq!(rows.len(), 2 * 7 + 2 * 3);
    for row in &rows {
        assert!(row["mean"].as_f64().unwrap() > 0.0 && row["n_seeds"] == 1);
        let zero = row["method"] == "zero";
        assert_eq!(row["epsilon"].is_null(), zero, "{row}");
        assert_eq!(row["tuned_on_truth"], !zero, "{row}");
        assert!(
            row["params"]["target"].is_null(),
            "known at full sizes only: {row}"
        );
    }
    for p in [200, 800] {
        let of = |method: &str| {
            let metric = ("metric", "excess risk per example".into());
            mean(
                &rows,
                &[("method", method.into()), ("n_features", p.into()), metric],
            )
        };
        for method in ["ssp-c", "ssp-i", "noisy-gd", "best"] {
            assert!(of(method) < of("zero"), "{method}");
        }
        assert!(of("best") < 0.5 * of("ssp-c"));
    }
}

/// Every cell at full size is below its reference value:
/// `cargo test -p dp-cli --test cli -- --ignored long_full_size`.
#[test]
#[ignore = "long form: a data set of full size"]
fn long_full_size_is_below_its_targets() {
    let sandbox = Sandbox::new();
    let args = "krichene2024-synthetic --seeds 1 --size n_features=2000 --size epsilon=20 --json";
    let rows = rows(&sandbox, args);
    for method in ["ssp-c", "noisy-gd", "best"] {
        let row = rows.iter().find(|row| row["method"] == method).unwrap();
        let target = row["params"]["target"].as_f64().unwrap();
        assert!(row["mean"].as_f64().unwrap() < target, "{row}");
    }
}

#[test]
fn more_releases_at_the_same_budget_are_worse() {
    let sandbox = Sandbox::new();
    let rows = rows(
        &sandbox,
        "krichene2024-resamples --seeds 3 --quick --size epsilon=20 --json",
    );
    assert_eq!(rows.len(), 5);
    let of = |n: u32| mean(&rows, &[("resamples", n.into())]);
    assert!(of(1) < of(4) && of(4) < of(16));
    assert_eq!(rows[0]["method"], "ssp-c");
    assert_eq!(rows[4]["method"], "ssp-i");
}

#[test]
fn costs_are_those_of_the_figures() {
    let sandbox = Sandbox::new();
    let rows = rows(&sandbox, "krichene2024-cost --json --plot cost.svg");
    // four distributions of counts by seven batches, and by two passes and four numbers of epochs
    assert_eq!(rows.len(), 4 * 7 + 4 * 7 * 2 * 4);
    let ratio = |pass: &str, epochs: f64, batch: f64| {
        let equal: (&str, Value) = ("exponent", "equal counts".into());
        let shape: [(&str, Value); 3] = [
            ("pass", pass.into()),
            ("epochs", epochs.into()),
            ("batch", batch.into()),
        ];
        mean(&rows, &[shape.as_slice(), &[equal]].concat())
    };
    // a hidden layer: two orders of magnitude for batches of 100 and 100 epochs, none for one epoch
    // with all examples in one batch
    assert!(ratio("d^2", 100.0, 100.0) < 0.015 && ratio("d^2", 1.0, 1e6) > 100.0);
    // without a hidden layer: much worse unless there are very many epochs
    assert!(ratio("d", 10.0, 1000.0) > 1.0 && ratio("d", 1000.0, 100.0) < 1.0);
    let text = std::fs::read_to_string(sandbox.path("cost.svg")).unwrap();
    assert!(text.contains("100 epochs, pass d^2") && !text.contains("NaN"));
}

/// Ratings by genre: each user likes one of three.
fn write_data(sandbox: &Sandbox) {
    let mut items = "item\tgenres\tyear\n".to_owned();
    for item in 0..60_u32 {
        items.push_str(&format!(
            "{item}\t{}\t{}\n",
            ["a", "b", "c"][(item % 3) as usize],
            1950 + item
        ));
    }
    let mut ratings = "user,item,rating\n".to_owned();
    for user in 0..300_u32 {
        for n in 0..30_u32 {
            let item = (user * 7 + n * n + n) % 60;
            let stars = 1 + 3 * u32::from((item + user) % 3 == 0) + (user + n) % 2;
            ratings.push_str(&format!("{user},{item},{stars}\n"));
        }
    }
    std::fs::create_dir(sandbox.path("ml-1m")).unwrap();
    sandbox.write("ml-1m/items.tsv", items);
    sandbox.write("ml-1m/ratings.csv", ratings);
}

#[test]
fn ratings_with_features_give_every_method_and_metric() {
    let sandbox = Sandbox::new();
    write_data(&sandbox);
    let args = "krichene2024-ml1m --data . --seeds 1 --quick --json --plot rmse.svg";
    let rows = rows(&sandbox, args);
    let of = |metric: &str| {
        let here = rows.iter().filter(|row| row["metric"] == metric);
        here.map(|row| row["method"].as_str().unwrap())
            .collect::<Vec<_>>()
    };
    let all = [
        "dpals",
        "adadpals",
        "pooled",
        "am-dpsgd-ids",
        "am-dpsgd",
        "am-ssp-ids",
        "am-ssp",
        "am-ssp-best-ids",
        "am-ssp-best",
        "dp-cmf",
    ];
    assert_eq!(of("test RMSE"), [&["user-mean"], all.as_slice()].concat());
    assert_eq!(
        of("test RMSE of new items"),
        ["user-mean", "am-dpsgd", "am-ssp", "am-ssp-best", "dp-cmf"]
    );
    for metric in ["Recall@20", "NDCG@20"] {
        assert_eq!(of(metric), [&["popularity"], all.as_slice()].concat());
    }
    assert_eq!(of("test RMSE by popularity").len(), 5 * 11);
    assert_eq!(of("seconds").len(), 2 + 2 + 2);
    assert_eq!(of("examples per second").len(), 2 + 2 + 2);
    for row in &rows {
        assert!(row["mean"].as_f64().unwrap().is_finite(), "{row}");
    }
    assert!(
        std::fs::read_to_string(sandbox.path("rmse.svg"))
            .unwrap()
            .contains("am-dpsgd-ids")
    );
}

#[test]
fn files_and_sizes_are_checked() {
    let sandbox = Sandbox::new();
    sandbox.run(&["krichene2024-ml1m"]).exits(2);
    for (name, size) in [
        ("krichene2024-synthetic", "n_users=0"),
        ("krichene2024-synthetic", "color=3"),
        ("krichene2024-resamples", "n_features=5"), // items have ten
        ("krichene2024-cost", "dim=0"),
        ("krichene2024-ml1m", "n_users=5"),
    ] {
        sandbox.run(&[name, "--size", size]).exits(2);
    }
}
