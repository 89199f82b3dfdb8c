//! Warnings about settings are public; warnings about records are internal.

use std::fs;

use serde_json::Value;

use crate::personalize::samples;
use crate::support::{Run, Sandbox, catalogue, ratings, words};

/// Texts of everything that anybody may read, including the screen output.
fn open_to_all(sandbox: &Sandbox, run: &Run) -> String {
    let mut all = run.stderr.clone();
    for entry in fs::read_dir(sandbox.path("dp-model")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") || name.ends_with(".json") {
            all += &sandbox.text(&format!("dp-model/{name}"));
        }
    }
    all
}

#[test]
fn targets_that_protect_hardly_anybody_are_told_on_the_screen_and_in_the_report() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("rows.csv", samples(60));
    for (line, said) in [
        (
            "train ratings.csv --epsilon 1 --delta 0.002",
            "delta 2e-3 is above 1e-3",
        ),
        (
            "train ratings.csv --epsilon 25 --delta 1e-5",
            "epsilon 25 is above 20",
        ),
        (
            "tune ratings.csv --epsilon 25 --delta 1e-5 --try dim=2 --try dim=3",
            "epsilon 25 is above 20",
        ),
        (
            "personalize rows.csv --epsilon 21 --delta 1e-5 --rank 1",
            "epsilon 21 is above 20",
        ),
        (
            "federate rows.csv --epsilon 1 --delta 1e-3 --n-users 2000 --rounds 2 --alpha-grid 1",
            "delta 1e-3 is above one over the declared number of users, 2000",
        ),
    ] {
        let run = sandbox
            .dp(&[words(line), vec!["--force"]].concat())
            .exits(0);
        assert!(run.stderr.contains(said), "{line}: {}", run.stderr);
        let report = sandbox.value("dp-model/report.json");
        assert!(
            report["warnings"][0].as_str().unwrap().contains(said),
            "{line}"
        );
        let mut page = sandbox.text("dp-model/report.md");
        page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&said[1..]), "{line}: {page}");
    }
    let run = sandbox
        .dp(&words(
            "train ratings.csv --epsilon 20 --delta 1e-3 --force",
        ))
        .exits(0);
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    // a warning about released counts, which depends on their noise, may be there
    let warned = sandbox.value("dp-model/report.json")["warnings"].to_string();
    assert!(!warned.contains("is above"), "{warned}");
}

#[test]
fn what_records_say_of_their_users_and_columns_is_internal() {
    let sandbox = Sandbox::new();
    // visits as users, two of which belong to the same person
    let visits = (0..40)
        .map(|n| format!("v{n},item-{},3\n", n % 7))
        .collect::<String>();
    let text = format!("user,item,rating\nAnn,item-1,3\nann,item-2,4\n{visits}");
    sandbox.write("ratings.csv", text);
    let run = sandbox.train(&[]).exits(0);
    let open = open_to_all(&sandbox, &run);
    let internal = sandbox.value("dp-model-internal/internal.json")["warnings"].to_string();
    let page = sandbox.text("dp-model-internal/internal.md");
    for said in [
        "2 user ids differ from another id only in case",
        "42 of 42 users have a single record",
    ] {
        assert!(internal.contains(said) && page.contains(said), "{internal}");
        assert!(!open.contains(said) && !run.stdout.contains(said));
    }

    // an item column that contains the number of the item's ratings
    let text = ratings(40, 25, 10);
    sandbox.write("ratings.csv", &text);
    let mut items = "item,genre,seen\n".to_owned();
    for item in 0..25 {
        let n = text.matches(&format!(",item-{item},")).count();
        items.push_str(&format!("item-{item},g{},{}\n", item % 3, 2 * n));
    }
    sandbox.write("items.csv", items);
    let featured = [
        "--force",
        "--method",
        "am-ssp",
        "--items",
        "items.csv",
        "--feature-cols",
        "genre,seen",
    ];
    let run = sandbox.train(&featured).exits(0);
    let said = "column seen is almost perfectly correlated with the number of ratings of an item";
    assert!(
        sandbox.value("dp-model-internal/internal.json")["warnings"]
            .to_string()
            .contains(said)
    );
    assert!(!open_to_all(&sandbox, &run).contains(said));

    // and a row column that contains the number of the user's rows
    let all = samples(40);
    let rows = all.lines().enumerate().map(|(at, line)| match at {
        0 => format!("{line},visits\n"),
        _ => {
            let user: usize = line
                .split(',')
                .next()
                .unwrap()
                .rsplit('-')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            // users have between one and all of their rows
            if (at - 1) % 12 <= user % 12 {
                format!("{line},{}\n", user % 12 + 1)
            } else {
                String::new()
            }
        }
    });
    sandbox.write("rows.csv", rows.collect::<String>());
    for command in [
        "personalize rows.csv --rank 1",
        "federate rows.csv --rounds 2 --alpha-grid 1",
    ] {
        let line = format!("{command} --epsilon 1 --delta 1e-5 --force");
        let run = sandbox.dp(&words(&line)).exits(0);
        let said = "column visits is almost perfectly correlated with the number of rows of a user";
        assert!(
            sandbox.value("dp-model-internal/internal.json")["warnings"]
                .to_string()
                .contains(said),
            "{command}"
        );
        assert!(!open_to_all(&sandbox, &run).contains(said) && !run.stdout.contains(said));
    }
}

#[test]
fn a_certificate_says_when_on_what_and_from_which_list() {
    let sandbox = Sandbox::with_ratings();
    sandbox.train(&["--publish-releases"]).exits(0);
    let certificate = sandbox.value("dp-model/certificate.json");
    let made = &certificate["made"];
    let time = made["time"].as_str().unwrap();
    assert!(
        time.starts_with("20") && time.ends_with('Z') && time.len() == 20,
        "{time}"
    );
    assert!(!made["instructions"].as_str().unwrap().is_empty());
    let artifacts = certificate["artifacts"].as_array().unwrap();
    let list = artifacts
        .iter()
        .find(|file| file["name"] == "releases.list")
        .unwrap();
    assert_eq!(made["release_list_sha256"], list["sha256"]);
    for assumption in certificate["assumptions"].as_array().unwrap() {
        assert_eq!(assumption["adjacency"], "add-remove-user", "{assumption}");
    }
    // repeating the run prints the same warnings
    sandbox.train(&["--force", "--insecure-seed", "1"]).exits(0);
    let seeded = sandbox.value("dp-model/certificate.json");
    assert_eq!(seeded["made"]["time"], Value::Null);
    // the hash of the last release covers an internal list, and is on its last line of text
    assert_eq!(seeded["made"]["release_list_sha256"], Value::Null);
    let releases = seeded["releases"].as_array().unwrap();
    let last = releases.last().unwrap()["entry_hash"].as_str().unwrap();
    let list = sandbox.read("dp-model-internal/internal-releases.list");
    assert_eq!(last.len(), 64);
    assert!(String::from_utf8_lossy(&list).contains(&format!("\t{last}\n")));
}

#[test]
fn a_run_that_counts_its_users_does_not_say_that_somebody_else_paid() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(60));
    let assumed = |more: &str| {
        let line = format!(
            "federate rows.csv --epsilon 1 --delta 1e-5 --rounds 2 --alpha-grid 1 --force {more}"
        );
        sandbox.dp(&words(&line)).exits(0);
        sandbox.value("dp-model/certificate.json")["assumptions"].to_string()
    };
    let counted = assumed("");
    assert!(
        !counted.contains("elsewhere") && !counted.contains("number of users"),
        "{counted}"
    );
    let declared = assumed("--n-users 60");
    assert!(!declared.contains("elsewhere"), "{declared}");
    assert!(
        declared.contains("the declared number of users is public"),
        "{declared}"
    );
}

/// Targets beyond their range are clipped; how many there are is private.
#[test]
fn clipped_targets_are_told_to_the_operator() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(60));
    let line =
        "personalize rows.csv --rank 1 --epsilon 1 --delta 1e-5 --no-ledger --target-range 100,200";
    let run = sandbox.dp(&words(line)).exits(0);
    let told = "targets lie outside the range 100 to 200 and are clipped";
    let internal = sandbox.text("dp-model-internal/internal.md");
    assert!(internal.replace('\n', " ").contains(told), "{internal}");
    assert!(!open_to_all(&sandbox, &run).contains(told));
}

/// Whether items match is private, and what was released may be looked at.
#[test]
fn a_catalogue_of_other_items_is_told_by_what_was_released_and_first_on_the_internal_page() {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(900, 25, 10));
    sandbox.write("items.csv", catalogue(25));
    sandbox.write("others.csv", catalogue(25).replace("item-", "film-"));
    let says = "do not stand out from their noise";
    for (items, is_told) in [("items.csv", false), ("others.csv", true)] {
        let run = sandbox.train(&["--items", items, "--force", "--insecure-seed", "1"]);
        let run = run.exits(0);
        assert_eq!(run.stdout.contains(says), is_told, "{}", run.stdout);
        assert!(!run.stderr.contains(says), "{}", run.stderr);
        for name in ["report.json", "report.md", "model-card.md"] {
            let text = sandbox.text(&format!("dp-model/{name}"));
            assert_eq!(text.contains(says), is_told, "{name}: {text}");
        }
    }
    let internal = sandbox.text("dp-model-internal/internal.md");
    let first = internal.split("\n## ").nth(1).unwrap();
    let found = "Warnings\n\n**9000 of 9000 records are of items that are not in the catalogue";
    assert!(first.starts_with(found), "{internal}");
}
