//! The ledger decides: a run is charged before anything is drawn, or it does not happen.

use std::fs::{self, File};

use crate::support::{Sandbox, ratings, words};

fn n_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

#[test]
fn a_spent_ledger_stops_the_run_and_touches_nothing() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--ledger", "l.ledger", "--out", "first"])
        .exits(0);
    let spent = sandbox.read("l.ledger");
    let model = sandbox.read("first/item_factors.safetensors");

    let again = ["--ledger", "l.ledger", "--out", "second"];
    let run = sandbox.train(&again).exits(3).says(&[
        "the ledger l.ledger does not cover this run; nothing was released",
        "asked   epsilon 1, delta 1e-5",
        "left    epsilon 0, delta 1e-5",
        "budget  epsilon 1, delta 1e-5, for all runs on `ratings.csv`; 13 releases so far",
        "hint: ",
    ]);
    assert_eq!(run.stdout, "");
    sandbox
        .train(&["--ledger", "l.ledger", "--out", "first", "--force"])
        .exits(3);

    let ledger = ["l.ledger", "l.ledger.key", "l.ledger.users"];
    let names = [&["first", "first-internal"], &ledger[..], &["ratings.csv"]].concat();
    assert_eq!(sandbox.names(), names);
    assert_eq!(sandbox.read("l.ledger"), spent);
    assert_eq!(sandbox.read("first/item_factors.safetensors"), model);
    sandbox.dp(&["verify", "first"]).exits(0);
}

#[test]
fn a_spent_ledger_is_told_before_the_data_is_read() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--ledger", "l.ledger"]).exits(0);
    sandbox.write("ratings.csv", "no ratings at all");
    sandbox.train(&["--ledger", "l.ledger", "--force"]).exits(3);
}

#[test]
fn a_budget_covers_as_many_runs_as_the_accountant_says() {
    // mu(2, 1e-5)^2 / mu(1, 1e-5)^2 = 3.5
    let sandbox = Sandbox::with_ratings();
    let budget = ["--ledger", "l.ledger", "--force", "--ledger-epsilon", "2"];
    let run = sandbox.train(&budget).exits(0);
    run.prints(&["enough for 2 more runs like this"]);
    sandbox.train(&["--ledger", "l.ledger", "--force"]).exits(0);
    let run = sandbox.train(&budget).exits(0);
    run.prints(&["not enough for another run"]);
    sandbox
        .train(&budget)
        .exits(3)
        .says(&["39 releases so far"]);
}

#[test]
fn what_is_left_as_told_can_be_spent() {
    let sandbox = Sandbox::with_ratings();
    let args = ["--ledger", "l.ledger", "--force", "--ledger-epsilon", "1.2"];
    sandbox.train(&args).exits(0);
    let refused = sandbox.train(&args).exits(3);
    let (_, hint) = refused.stderr.split_once("--epsilon ").unwrap();
    let left = hint.split_whitespace().next().unwrap();
    let spend = |epsilon: &str| {
        let args = [
            "--delta",
            "1e-5",
            "--ledger",
            "l.ledger",
            "--force",
            "--epsilon",
            epsilon,
        ];
        sandbox.dp(&[&["train", "ratings.csv"], args.as_slice()].concat())
    };
    let more = format!("{}", left.parse::<f64>().unwrap() * 1.001);
    spend(&more).exits(3);
    spend(left).exits(0);
}

#[test]
fn a_new_ledger_must_cover_its_first_run() {
    let sandbox = Sandbox::with_ratings();
    let args = ["--ledger", "l.ledger", "--ledger-epsilon", "0.5"];
    sandbox
        .train(&args)
        .exits(3)
        .says(&["left    epsilon 0.50000"]);
    assert_eq!(
        sandbox.names(),
        ["ratings.csv"],
        "no ledger of a run that never was"
    );
}

#[test]
fn a_ledger_is_made_when_that_is_asked_for() {
    let sandbox = Sandbox::with_ratings();
    let train = |more: &[&str]| {
        let args = [
            "train",
            "ratings.csv",
            "--epsilon",
            "1",
            "--delta",
            "1e-5",
            "--force",
        ];
        sandbox.run(&[&args[..], more].concat())
    };
    let ledger = ["--ledger", "l.ledger"];
    for more in [&[][..], &["--ledger-delta", "1e-4"]] {
        train(&[&ledger[..], more].concat())
            .exits(5)
            .says(&["there is no ledger l.ledger", "hint: --new-ledger"]);
    }
    assert_eq!(sandbox.names(), ["ratings.csv"]);
    train(&["--new-ledger"]).exits(2).says(&["--ledger"]);
    train(&["--ledger", "l.ledger", "--new-ledger"]).exits(0);
    let before = sandbox.read("l.ledger");
    train(&["--ledger", "l.ledger", "--new-ledger"])
        .exits(5)
        .says(&["l.ledger exists already", "omit --new-ledger"]);
    assert_eq!(sandbox.read("l.ledger"), before);
    // the budget of --new-ledger alone is that of the run
    train(&ledger).exits(3);
}

#[test]
fn an_emptied_ledger_refunds_nothing() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--ledger", "l.ledger"]).exits(0);
    let whole = sandbox.read("l.ledger");
    for left in [&b""[..], &whole[..40]] {
        sandbox.write("l.ledger", left);
        for more in [&[][..], &["--ledger-epsilon", "1"]] {
            let args = [&["--ledger", "l.ledger", "--force"], more].concat();
            sandbox
                .train(&args)
                .exits(5)
                .says(&["l.ledger is empty or cut off", "restore it from a backup"]);
        }
        assert_eq!(sandbox.read("l.ledger"), left);
    }
}

#[test]
fn a_ledger_held_by_another_process_stops_the_run() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--ledger", "l.ledger", "--ledger-epsilon", "9"])
        .exits(0);
    let before = sandbox.read("l.ledger");
    let held = File::options()
        .append(true)
        .open(sandbox.path("l.ledger"))
        .unwrap();
    held.lock().unwrap();
    let run = sandbox.train(&["--ledger", "l.ledger", "--out", "second"]);
    run.exits(5).says(&["ledger l.ledger is in use", "hint: "]);
    assert!(!sandbox.exists("second"));
    held.unlock().unwrap();
    assert_eq!(sandbox.read("l.ledger"), before);
    sandbox
        .train(&["--ledger", "l.ledger", "--out", "second"])
        .exits(0);
}

#[test]
fn a_ledger_of_other_data_stops_the_run() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--ledger", "l.ledger", "--ledger-epsilon", "9"])
        .exits(0);
    let before = sandbox.read("l.ledger");
    sandbox.write("next-day.csv", ratings(41, 25, 10));
    let next_day = |more: &[&str]| {
        let args = words("train next-day.csv --epsilon 1 --delta 1e-5 --force");
        sandbox.dp(&[args.as_slice(), &["--ledger", "l.ledger"], more].concat())
    };
    next_day(&[]).exits(5).says(&[
        "was created with data set ratings.csv, and this run has next-day.csv",
        "hint: ",
        "--data-set 'ratings.csv'",
    ]);
    assert_eq!(sandbox.read("l.ledger"), before);
    next_day(&["--data-set", "ratings.csv"]).exits(0);
}

#[test]
fn a_missing_data_file_is_named_before_the_ledger_of_another_one() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--ledger", "l.ledger", "--new-ledger"])
        .exits(0);
    let run = sandbox.dp(&words(
        "train rating.csv --epsilon 1 --delta 1e-5 --ledger l.ledger --out other",
    ));
    run.exits(4).says(&["rating.csv: cannot be opened"]);
}

#[test]
fn a_ledger_may_be_named_like_the_file_without_its_extension() {
    let sandbox = Sandbox::with_ratings();
    for (name, code) in [("ratings", 0), ("rating", 5)] {
        let create = format!("ledger create {name}.l --data-set {name} --epsilon 1 --delta 1e-5");
        sandbox.dp(&words(&create)).exits(0);
        let ledger = format!("{name}.l");
        sandbox.train(&["--ledger", &ledger, "--force"]).exits(code);
    }
    sandbox
        .dp(&words("verify dp-model --ledger ratings.l"))
        .exits(0);
}

#[test]
fn the_budget_of_a_ledger_cannot_be_changed_by_flags() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--ledger", "l.ledger"]).exits(0);
    for (flag, value) in [("--ledger-epsilon", "50"), ("--ledger-delta", "0.5")] {
        let args = ["--ledger", "l.ledger", "--force", flag, value];
        sandbox
            .train(&args)
            .exits(5)
            .says(&["the budget was fixed", flag]);
    }
}

#[test]
fn a_damaged_ledger_stops_the_run() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--ledger", "l.ledger", "--ledger-epsilon", "9"])
        .exits(0);
    let mut bytes = sandbox.read("l.ledger");
    let second_line = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    bytes[second_line + 10] ^= 1;
    sandbox.write("l.ledger", &bytes);
    let run = sandbox.train(&["--ledger", "l.ledger", "--out", "second"]);
    run.exits(5).says(&[
        "ledger l.ledger is damaged at line 2",
        "restore it from a backup",
    ]);
    assert_eq!(sandbox.read("l.ledger"), bytes);
    assert!(!sandbox.exists("second"));
}

#[test]
fn somebody_elses_file_is_not_taken_for_a_ledger() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("notes.txt", "milk\nbread\n");
    sandbox
        .train(&["--ledger", "notes.txt"])
        .exits(5)
        .says(&["damaged at line 1"]);
    assert_eq!(sandbox.read("notes.txt"), b"milk\nbread\n");
    fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox
        .train(&["--ledger", "folder"])
        .exits(5)
        .says(&["folder: a folder, not a ledger"]);
}

#[test]
fn a_run_that_fails_on_its_input_spends_nothing() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--ledger", "l.ledger", "--ledger-epsilon", "9"])
        .exits(0);
    let before = sandbox.read("l.ledger");
    sandbox.write("ratings.csv", "user,item,rating\nann,item-1,many\n");
    sandbox.train(&["--ledger", "l.ledger", "--force"]).exits(4);
    assert_eq!(sandbox.read("l.ledger"), before);
}

#[test]
fn every_release_of_a_run_is_recorded_and_certified() {
    let sandbox = Sandbox::with_ratings();
    sandbox
        .train(&["--ledger", "l.ledger", "--steps", "3"])
        .exits(0);
    let recorded = sandbox.read("l.ledger");
    assert_eq!(
        n_lines(&recorded),
        1 + 1 + 3 + 2 * 2 + 1 + 1,
        "header, the key of the users, scale, counts, weights, two releases a round of statistics, one of residuals, votes"
    );
    let certificate = sandbox.value("dp-model/certificate.json");
    let recorded = String::from_utf8(recorded).unwrap();
    for release in certificate["releases"].as_array().unwrap() {
        let id = release["release_id"].as_str().unwrap();
        assert!(recorded.contains(id), "{id} was not paid for");
    }
    let assumptions = certificate["assumptions"].to_string();
    assert!(
        assumptions.contains("used the same ledger file"),
        "{assumptions}"
    );
}

#[test]
fn a_total_that_no_noise_is_exact_enough_for_is_refused_by_its_flag() {
    let sandbox = Sandbox::with_ratings();
    let args = ["--ledger", "l.ledger", "--ledger-epsilon", "60"];
    sandbox.train(&args).exits(2).says(&[
        "--ledger-epsilon 60 is too large",
        "choose a smaller --ledger-epsilon",
    ]);
    assert!(!sandbox.exists("l.ledger"));
}

#[test]
fn a_folder_is_no_ledger_and_the_hint_names_the_one_in_it() {
    let sandbox = Sandbox::with_ratings();
    std::fs::create_dir(sandbox.path("books")).unwrap();
    let show = || sandbox.dp(&["ledger", "show", "books"]);
    let folder = "books: a folder, not a ledger";
    show().exits(5).says(&[folder, "name the ledger's file"]);
    let budget = ["--ledger", "books/my.ledger", "--ledger-epsilon", "1"];
    sandbox.train(&budget).exits(0);
    let file = std::path::Path::new("books").join("my.ledger");
    let named = format!("the ledger in this folder is {}", file.display());
    show().exits(5).says(&[folder, &named]);
    sandbox
        .train(&["--ledger", "books", "--force"])
        .exits(5)
        .says(&[folder, &named]);
    // which of two is meant cannot be told
    sandbox.write("books/other.ledger", "");
    show().exits(5).says(&["name the ledger's file"]);
}

#[test]
fn what_was_noted_and_raised_is_shown() {
    let sandbox = Sandbox::with_ratings();
    let budget = ["--ledger", "l.ledger", "--ledger-epsilon", "1"];
    sandbox.train(&budget).exits(0);
    let shown = sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0);
    assert!(!shown.stdout.contains("noted"), "{}", shown.stdout);
    // spent as a whole, and no more than that
    let (_, spent) = shown.stdout.split_once("mu^2: ").unwrap();
    let (spent, rest) = spent.split_once(" of ").unwrap();
    assert!(rest.starts_with(&format!("{spent})")), "{}", shown.stdout);

    let as_json = || {
        sandbox
            .dp(&["ledger", "show", "l.ledger", "--json"])
            .exits(0)
            .json()
    };
    let made = as_json();
    assert!(made["rewritten"].is_null());
    let upgrade = ["ledger", "upgrade", "l.ledger", "--epsilon", "3"];
    let upgraded = sandbox.dp(&upgrade).exits(0).stdout;
    assert_eq!(as_json()["created"], made["created"]);
    assert!(as_json()["rewritten"].is_string() && upgraded.contains(", upgraded or merged "));
    let said = "epsilon 1, delta 1e-5 (gaussian) until then, epsilon 3, delta 1e-5 from then on; the old ledger is kept as ";
    assert!(upgraded.contains(said), "{upgraded}");
    let more = ["--ledger", "l.ledger", "--show-internal", "--force"];
    sandbox.train(&more).exits(0);
    let shown = sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0);
    shown.prints(&[
        "noted",
        said,
        "exploration",
        "figures that a run printed, run train ",
    ]);
    let json = sandbox
        .dp(&["ledger", "show", "l.ledger", "--json"])
        .exits(0)
        .json();
    let notes = json["notes"].as_array().unwrap();
    let about: Vec<_> = notes
        .iter()
        .map(|note| note["about"].as_str().unwrap())
        .collect();
    assert_eq!(about, ["budget", "exploration"]);
    assert!(notes.iter().all(|note| note["time"].is_string()));
}

#[test]
fn as_many_equal_runs_fit_as_their_epsilon_was_asked_for() {
    for kind in ["gaussian", "mixed"] {
        let sandbox = Sandbox::with_ratings();
        let line = format!(
            "ledger create l.ledger --data-set ratings.csv --epsilon 4 --delta 1e-5 --kind {kind} --runs 30 --json"
        );
        let made = sandbox.dp(&words(&line)).exits(0).json();
        let epsilon = made["left"]["epsilon_of_each"].as_f64().unwrap();
        assert!((0.5..0.62).contains(&epsilon), "{kind}: {epsilon}");
        let run = format!(
            "train ratings.csv --epsilon {epsilon} --delta 1e-5 --ledger l.ledger --method biases --no-split"
        );
        sandbox.dp(&words(&run)).exits(0);
        let shown = sandbox.dp(&words("ledger show l.ledger --runs 29 --json"));
        let shown = shown.exits(0).json();
        assert_eq!(shown["left"]["runs_like_the_last"], 29.0, "{kind}");
        let again = shown["left"]["epsilon_of_each"].as_f64().unwrap();
        assert!((again / epsilon - 1.0).abs() < 1e-3, "{kind}: {again}");
        let shown = sandbox
            .dp(&words("ledger show l.ledger --runs 29"))
            .exits(0);
        shown.prints(&["at delta 1e-5 for each of 29 equal runs"]);
    }
}

#[test]
fn a_total_that_promises_little_is_warned_of_when_it_is_set() {
    let sandbox = Sandbox::new();
    let warned = ["epsilon 100 is above 20", "delta 9e-1 is above 1e-3"];
    let create = words("ledger create l.ledger --data-set d --epsilon 100 --delta 0.9");
    sandbox.dp(&create).exits(0).says(&warned);
    let upgrade = words("ledger upgrade l.ledger --epsilon 101");
    sandbox
        .dp(&upgrade)
        .exits(0)
        .says(&["epsilon 101 is above 20"]);
}
