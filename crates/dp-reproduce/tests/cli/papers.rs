//! `dp-reproduce`: rows match the documented schema, and the effect of adaptive weights at small
//! sizes.

use serde_json::Value;

use crate::support::{Run, Sandbox, words};

fn reproduce(args: &[&str]) -> Run {
    Sandbox::new().run(args)
}

fn mean(rows: &[Value], method: &str, a: f64, epsilon: Option<f64>, mu: Option<f64>) -> f64 {
    let row = rows.iter().find(|row| {
        row["method"] == method
            && row["params"]["a"].as_f64() == Some(a)
            && row["epsilon"].as_f64() == epsilon
            && row["params"]["mu"].as_f64() == mu
    });
    row.unwrap()["mean"].as_f64().unwrap()
}

#[test]
fn appendix_c_gives_every_cell_by_the_schema() {
    let args = words("krichene2023-appendix-c --seeds 2 --quick --json");
    let found = reproduce(&args).exits(0).json();
    assert_eq!(found["name"], "krichene2023-appendix-c");
    let rows = found["rows"].as_array().unwrap();
    // two skews of two baselines and 2 accountings x 3 epsilons x 3 methods x 4 exponents
    assert_eq!(rows.len(), 2 * (2 + 2 * 3 * 3 * 4));
    for row in rows {
        assert!(row["mean"].as_f64().unwrap() > 0.0 && row["se"].as_f64().unwrap() >= 0.0);
        assert_eq!(
            (&row["n_seeds"], &row["tuned_on_truth"]),
            (&2.into(), &false.into())
        );
    }
    for a in [1.0, 2.0] {
        let zero = mean(rows, "zero", a, None, None);
        assert!((zero - 0.45).abs() < 0.05, "{zero}");
        assert!(mean(rows, "non-private", a, None, None) < 0.01);
        let residual = mean(rows, "residual", a, Some(20.0), Some(0.5));
        assert!(residual < mean(rows, "ssp", a, Some(20.0), Some(0.5)));
        assert!(residual < 0.2 * zero, "{residual}");
    }
}

#[test]
fn figure_2_gives_every_cell_and_refinement_beats_the_paper() {
    let size = ["--size", "n_users=1500", "--size", "dim=6"];
    let mut args = vec!["jain2021-figure2", "--seeds", "1", "--quick", "--json"];
    args.extend(size);
    let found = reproduce(&args).exits(0).json();
    let rows = found["rows"].as_array().unwrap();
    // eight baselines, 3 accountings x 5 methods x 4 epsilons, four intermediate variants, four
    // additional cells of the best method, two selections
    assert_eq!(rows.len(), 8 + 3 * 5 * 4 + 4 + 4 + 2);
    let mean = |method: &str, epsilon: f64, accounting: &str| {
        let row = rows.iter().find(|row| {
            row["method"] == method
                && row["epsilon"].as_f64() == Some(epsilon)
                && row["params"]["accounting"] == accounting
        });
        row.unwrap()["mean"].as_f64().unwrap()
    };
    for accounting in ["closed-replace", "gdp-replace", "gdp-addremove"] {
        let best = mean("best", 10.0, accounting);
        assert!(
            best < 1e-4 && best < 0.1 * mean("paper", 10.0, accounting),
            "{best}"
        );
        assert!((mean("single-model", 10.0, accounting) - 2.0).abs() < 0.5);
    }
    // each row of a method has its own values: a very small budget gives a very large error
    assert!(mean("best", 0.05, "gdp-replace") > 10.0 * mean("best", 10.0, "gdp-replace"));
    assert!(mean("residual-1-step", 1.0, "gdp-replace") > 1e-4);
}

#[test]
fn groups_give_every_method_for_users_trained_on_and_held_out() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = (0..27).map(|at| format!("x{at}")).collect();
    let mut text = format!("user,target,{}\n", names.join(","));
    for user in 0..60_u32 {
        for row in 0..20_u32 {
            let x: Vec<u32> = (0..27_u32)
                .map(|c| (user * 7 + row * (2 * c + 3) + c * c) % 5 / 3)
                .collect();
            let y = 20 + user % 9 + (5 + user % 4) * x[7] + 3 * x[8];
            let x: Vec<String> = x.iter().map(ToString::to_string).collect();
            text.push_str(&format!("{user},{y},{}\n", x.join(",")));
        }
    }
    std::fs::create_dir(sandbox.path("school")).unwrap();
    sandbox.write("school/data.csv", text);
    let args = "jain2021-school --data . --seeds 2 --quick --json";
    let found = sandbox
        .run(&args.split(' ').collect::<Vec<_>>())
        .exits(0)
        .json();
    let rows = found["rows"].as_array().unwrap();
    // three ways to a subspace and one of classes, seven methods, two kinds of users
    assert_eq!(rows.len(), 4 * 7 * 2);
    for row in rows {
        assert!(
            row["mean"].as_f64().unwrap() > 0.0 && row["n_seeds"] == 2,
            "{row}"
        );
        let private = row["method"] == "private" || row["method"] == "single-model";
        assert_eq!(row["epsilon"].is_null(), !private);
    }
    for (args, code) in [
        ([].as_slice(), 2),
        (&["--data", "."], 4),
        (&["--size", "n_users=3"], 2),
    ] {
        let all = [&["jain2021-parkinsons"], args].concat();
        sandbox.run(&all).exits(code);
    }
}

#[test]
fn names_sizes_and_seeds_are_checked() {
    let listed = reproduce(&["--list"]).exits(0).stdout;
    assert!(listed.contains("krichene2023-appendix-c"));
    reproduce(&["jain2021-figure2", "--size", "rank=0"]).exits(2);
    reproduce(&[]).exits(2);
    reproduce(&["no-such-thing"])
        .exits(2)
        .says(&["krichene2023-appendix-c"]);
    let name = "krichene2023-appendix-c";
    reproduce(&[name, "--seeds", "0"]).exits(2);
    for size in [
        "n_users",
        "n_users=few",
        "n_users=0",
        "n_users=1.5",
        "color=3",
    ] {
        reproduce(&[name, "--size", size]).exits(2);
    }
}

/// Ratings of three groups of users, with this separator between user, item and stars and this
/// ending of lines.
fn ratings(header: &str, between: &str, end: &str) -> String {
    let mut text = header.to_owned();
    for user in 0..300_u32 {
        for n in 0..30_u32 {
            let item = (user * 7 + n * n + n) % 60;
            let likes = (item + user) % 3 == 0;
            let stars = 1 + 3 * u32::from(likes) + (user + n) % 2;
            text.push_str(&format!("{user}{between}{item}{between}{stars}{end}\n"));
        }
    }
    text
}

#[test]
fn ratings_give_every_method_by_the_schema() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings("user,item,rating\n", ",", ""));
    let args = words("krichene2023-ml1m --data . --seeds 2 --quick --json");
    let found = sandbox.run(&args).exits(0).json();
    let rows: Vec<&Value> = found["rows"].as_array().unwrap().iter().collect();
    let all: Vec<&&Value> = rows.iter().filter(|r| r["metric"] == "test RMSE").collect();
    // three baselines; at three epsilons: 2 samplings, 4 exponents, 2 of gradients by two accountings, 3 of ours
    assert_eq!(all.len(), 3 + 3 * (8 * 2 + 3));
    for row in &all {
        assert!(row["mean"].as_f64().unwrap() > 0.0, "{row}");
        let published = row["params"]["accounting"]
            .as_str()
            .is_some_and(|name| name.starts_with("as published"));
        if published {
            let (label, exact) = (&row["epsilon"], &row["params"]["true_epsilon"]);
            assert!(label.as_f64().unwrap() > exact.as_f64().unwrap());
            assert!(
                row["params"]["accounting"]
                    .to_string()
                    .contains("not private")
            );
        }
    }
    let of = |metric: &str| rows.iter().filter(|r| r["metric"] == metric).count();
    assert_eq!(of("test RMSE by popularity"), 5 * all.len());
    // two samplings or exponents with a separate matrix for each item, and ours with the pooled
    // one: the defaults, and the best; one without privacy
    assert_eq!(of("Recall@20"), 3 * 4 + 1);
    assert!(of("top-20 neighbour overlap") > 3 * 8 * 2);
    let constant = |method: &str| {
        let row = all.iter().find(|r| r["method"] == method).unwrap();
        row["mean"].as_f64().unwrap()
    };
    assert!(constant("non-private") < constant("constant"));
}

#[test]
fn files_of_every_movielens_release_are_found_and_read() {
    let layouts = [
        ("ratings.dat", "", "::", "::978300760"), // 1M and 10M
        ("u.data", "", "\t", "\t978300760"),      // 100K
        (
            "ratings.csv",
            "userId,movieId,rating,timestamp\n",
            ",",
            ",978300760",
        ), // 20M
    ];
    let mut found = Vec::new();
    for (name, header, between, end) in layouts {
        let sandbox = Sandbox::new();
        sandbox.write(name, ratings(header, between, end));
        let args = "krichene2023-ml100k --data . --seeds 1 --quick --json";
        let args: Vec<&str> = args.split(' ').collect();
        found.push(sandbox.run(&args).exits(0).json()["rows"].clone());
    }
    assert!(found[0] == found[1] && found[1] == found[2]);
}

#[test]
fn plays_of_songs_are_read_and_give_lists_only() {
    let sandbox = Sandbox::new();
    let plays = ratings("", "\t", "");
    sandbox.write("train_triplets.txt", plays);
    let run = |more: &[&str]| {
        let args = words("krichene2023-msd --data . --seeds 1 --quick --json");
        sandbox.run(&[&args, more].concat())
    };
    let few = ["--size", "min_item_users=2", "--size", "min_user_items=3"];
    let found = run(&few).exits(0).json();
    let rows = found["rows"].as_array().unwrap();
    let of = |metric: &str| rows.iter().filter(|row| row["metric"] == metric).count();
    assert_eq!((of("Recall@20"), of("test RMSE")), (3 * 4 + 1, 0));
    run(&["--size", "min_item_users=100000"])
        .exits(4)
        .says(&["train_triplets.txt", "--size"]);
    run(&["--size", "min_items=1"])
        .exits(2)
        .says(&["min_item_users"]);
}

#[test]
fn ratings_must_be_there() {
    let name = "krichene2023-ml1m";
    reproduce(&[name]).exits(2).says(&["--data"]);
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| sandbox.run(&[&[name], args].concat());
    run(&["--data", "."]).exits(4).says(&["ratings.csv"]);
    run(&["--data", ".", "--size", "n_users=3"]).exits(2);
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_figure_1a_gives_every_cell_and_noise_favours_learning_alone() {
    let mut rows = Vec::new();
    for noise in ["noise_multiplier=0", "noise_multiplier=10"] {
        let args = format!("bietti2022-figure1a --seeds 1 --quick --json --size {noise}");
        let args: Vec<&str> = args.split(' ').collect();
        let found = reproduce(&args).exits(0).json();
        rows.extend(found["rows"].as_array().unwrap().clone());
    }
    assert_eq!(rows.len(), 2 * 2 * 7);
    let row = |sigma: f64, rounds: u64, alpha: &str| {
        let same = |row: &&Value| {
            let params = &row["params"];
            params["sigma"].as_f64() == Some(sigma)
                && params["rounds"] == rounds
                && params["alpha_q"].to_string().trim_matches('"') == alpha
        };
        rows.iter().find(same).unwrap()
    };
    let risk = |sigma, rounds, alpha: &str| row(sigma, rounds, alpha)["mean"].as_f64().unwrap();
    for alpha in ["0.0", "0.1", "0.3", "1.0", "3.0", "10.0", "inf"] {
        assert_eq!(row(0.0, 100, alpha)["method"], "ppsgd");
        assert_eq!(row(0.0, 100, alpha)["tuned_on_truth"], true);
    }
    // early, the others help; with much noise and later, they do not
    assert!(risk(0.0, 20, "1.0") < 0.6 * risk(0.0, 20, "0.0"));
    assert!(risk(10.0, 100, "0.0") < 0.1 * risk(10.0, 100, "1.0"));
    assert!(risk(0.0, 100, "inf") < 0.1 * risk(10.0, 100, "inf"));
    assert!(row(10.0, 100, "0.0")["epsilon"].is_null());
    // mu is 1 and, replacing a user, 2: epsilon at delta 1e-4 by the Gaussian trade-off
    let private = row(10.0, 100, "1.0");
    assert!((private["epsilon"].as_f64().unwrap() - 3.81).abs() < 0.02);
    let replaced = private["params"]["epsilon_replace"].as_f64().unwrap();
    assert!((replaced - 8.88).abs() < 0.02, "{replaced}");
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_the_threshold_of_the_lemma_lies_near_the_measured_one() {
    let args = "bietti2022-threshold --seeds 4 --quick --json";
    let args: Vec<&str> = args.split(' ').collect();
    let found = reproduce(&args).exits(0).json();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 2 + 1);
    let last = &rows[6];
    let (measured, lemma) = (&last["mean"], &last["params"]["lemma"]);
    let ratio = measured.as_f64().unwrap() / lemma.as_f64().unwrap();
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
    reproduce(&["bietti2022-threshold", "--size", "dim=0"]).exits(2);
    let sandbox = Sandbox::new();
    sandbox.write("rows.json", found.to_string());
    let plot = "bietti2022-threshold --plot t.svg --rows rows.json";
    let plot: Vec<&str> = plot.split(' ').collect();
    sandbox.run(&plot).exits(0);
    let svg = sandbox.text("t.svg");
    assert!(svg.matches("<path class=\"line").count() == 2 && svg.contains(">alone</text>"));
    reproduce(&["jain2021-figure2", "--plot", "x.svg"]).exits(2);
    reproduce(&["bietti2022-figure1a", "--size", "n_users=0"]).exits(2);
}

#[test]
fn the_frontier_takes_the_data_sets_that_are_there() {
    let sandbox = Sandbox::new();
    let mut ratings = "user,item,rating\n".to_owned();
    for user in 0..60_u32 {
        for n in 0..12_u32 {
            let item = (user * 7 + n * n) % 30;
            ratings.push_str(&format!("{user},{item},{}\n", 1 + item % 3 + user % 3));
        }
    }
    let items: String = (0..30)
        .map(|i| format!("{i}\tFilm (19{})\tWar\n", 50 + i))
        .collect();
    std::fs::create_dir(sandbox.path("ml-1m")).unwrap();
    sandbox.write("ml-1m/ratings.csv", ratings);
    sandbox.write("ml-1m/items.tsv", format!("item\ttitle\tgenres\n{items}"));
    let args = "bietti2022-frontier --data . --seeds 2 --quick --json";
    let args: Vec<&str> = args.split(' ').collect();
    let found = sandbox.run(&args).exits(0).json();
    let rows = found["rows"].as_array().unwrap();
    // without noise and at one epsilon: seven alphas, the validated one, own choices; once the own
    // ridge
    assert_eq!(rows.len(), 2 * (7 + 2) + 1);
    for row in rows {
        assert_eq!(row["params"]["data"], "ml-1m");
        let mean = row["mean"].as_f64().unwrap();
        assert!(mean > 0.0 && mean < 3.0, "{row}");
    }
    reproduce(&["bietti2022-frontier"])
        .exits(2)
        .says(&["--data"]);
    let empty = Sandbox::new();
    empty.run(&args).exits(4).says(&["ratings.csv"]);
}
