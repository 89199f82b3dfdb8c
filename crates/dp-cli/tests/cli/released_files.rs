//! What may be published holds nothing private; what is private says so.

use crate::support::{Run, Sandbox, USER, catalogue, ratings, states_number, words};

const RELEASED: [&str; 8] = [
    "dp-model/certificate.json",
    "dp-model/item_factors.safetensors",
    "dp-model/items.csv",
    "dp-model/manifest.json",
    "dp-model/model-card.json",
    "dp-model/model-card.md",
    "dp-model/report.json",
    "dp-model/report.md",
];
const N_USERS: usize = 1_009;
const N_RATINGS: usize = 10_090;

fn trained() -> (Sandbox, Run) {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(N_USERS, 25, 10));
    sandbox.write("items.csv", catalogue(25));
    let run = sandbox.train(&["--items", "items.csv"]).exits(0);
    (sandbox, run)
}

fn holds(bytes: &[u8], part: &str) -> bool {
    bytes
        .windows(part.len())
        .any(|window| window == part.as_bytes())
}

#[test]
fn released_files_name_no_user_and_no_accuracy() {
    let (sandbox, run) = trained();
    for file in RELEASED {
        let bytes = sandbox.read(file);
        for word in [
            USER,
            "n_users",
            "n_ratings",
            "users |",
            "rmse",
            "RMSE",
            "valid_",
            "seconds",
        ] {
            assert!(!holds(&bytes, word), "`{word}` in {file}");
        }
    }
    assert!(!run.stdout.contains(USER) && !run.stderr.contains(USER));
    assert!(!holds(&sandbox.read("dp-model-internal/internal.md"), USER));
}

#[test]
fn released_files_hold_no_count_of_users_or_ratings() {
    let (sandbox, _) = trained();
    for file in RELEASED {
        let bytes = sandbox.read(file);
        let text = String::from_utf8_lossy(&bytes);
        for count in [N_USERS, N_RATINGS] {
            assert!(!states_number(&text, count), "{count} in {file}");
        }
    }
    let internal = sandbox.text("dp-model-internal/internal.md");
    assert!(internal.contains("| users | 1009 |") && internal.contains("| ratings kept | 10090 |"));
}

#[test]
fn the_model_card_says_what_is_published_and_what_is_not() {
    let (sandbox, _) = trained();
    let card = sandbox.value("dp-model/model-card.json");
    let certificate = sandbox.value("dp-model/certificate.json");
    assert_eq!(card["certificate"], certificate["digest"]);
    assert_eq!(card["privacy"]["guarantee"], certificate["guarantee"]);
    assert_eq!(card["files"], certificate["artifacts"]);
    assert_eq!(card["metrics"], serde_json::json!([]));
    let page = sandbox.text("dp-model/model-card.md");
    for part in [
        "# Model card: Private item factors",
        "* trained on: ratings.csv",
        "| epsilon, add or remove one user | 1.0000 |",
        "one person has one user id",
        "No accuracy is published",
        "item\\_factors.safetensors",
    ] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    let paid = words("--items items.csv --force --release-metrics 0.3 --rating-range 1,5");
    sandbox.train(&paid).exits(0);
    let page = sandbox.text("dp-model/model-card.md");
    assert!(
        page.contains("## Accuracy") && page.contains("| RMSE | model |"),
        "{page}"
    );
    assert!(!page.contains("No accuracy is published"));
    let seeded = words("--items items.csv --force --insecure-seed 3");
    sandbox.train(&seeded).exits(0);
    let card = sandbox.value("dp-model/model-card.json");
    assert_eq!(card["privacy"]["private"], false);
    assert!(
        sandbox
            .text("dp-model/model-card.md")
            .contains("**NOT PRIVATE")
    );
}

#[test]
fn the_internal_report_is_headed_as_such_and_printed_only_when_asked() {
    let (sandbox, run) = trained();
    let internal = sandbox.text("dp-model-internal/internal.md");
    assert!(internal.starts_with("# Internal: not covered by the guarantee\n"));
    for row in [
        "RMSE test |",
        "user mean",
        "constant",
        "NaN or infinite",
        "repeated pairs",
    ] {
        assert!(internal.contains(row), "no `{row}` in {internal}");
    }
    for word in ["RMSE", "user mean", "seconds"] {
        assert!(!run.stdout.contains(word), "{word} in {}", run.stdout);
    }
    run.prints(&["internal    dp-model-internal/internal.md: "]);
    let items = words("--items items.csv --force --show-internal");
    let shown = sandbox.train(&items).exits(0).stdout;
    let (released, internal) = shown.split_once("internal, not covered").unwrap();
    assert!(!released.contains("RMSE") && internal.contains("user mean"));
}

#[test]
fn the_released_report_states_the_guarantee_and_what_it_rests_on() {
    let (sandbox, _) = trained();
    let report = sandbox.text("dp-model/report.md");
    for part in [
        "# Private item factors",
        "| add or remove one user | 1.0000 |",
        "| replace one user | 2.1538 |",
        "true-positive rate of at most 8.5 %",
        "Of 100 users who took part, the best attacker described above finds at most 8.5; random guessing finds 5.",
        "| round 2: item right-hand sides |",
        "| round 7: item residuals |",
        "Assumed:",
        "one person has one user id",
        "Not covered:",
        "\"label_bound\": 1.0",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    assert!(
        !report.contains("item ids of the input are public"),
        "the catalogue was declared"
    );
}

#[test]
fn the_catalogue_is_released_in_the_order_of_the_factors_with_hostile_ids_intact() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "items.tsv",
        "item\ttitle\nplain\tA, with comma\nwith,comma\tB \"quoted\"\n\"q\"\t\nünï\tC\n",
    );
    sandbox.write(
        "ratings.csv",
        "user\titem\trating\nann\twith,comma\t5\nbob\t\"q\"\t1\n",
    );
    sandbox.train(&["--items", "items.tsv"]).exits(0);
    sandbox.write("me.tsv", "item\trating\nplain\t4\n");
    let args = words("recommend --model dp-model --history me.tsv --json");
    let run = sandbox.dp(&args).exits(0);
    let json = run.json();
    let rows = json["recommendations"].as_array().unwrap();
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| (row["item"].as_str().unwrap(), row["title"].as_str()))
        .collect();
    found.sort_unstable();
    let expected = [
        ("\"q\"", None),
        ("with,comma", Some("B \"quoted\"")),
        ("ünï", Some("C")),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_a_run_does_not_use_of_a_public_file_changes_nothing_that_is_released() {
    let sandbox = Sandbox::with_ratings();
    let train = "train ratings.csv --epsilon 1 --delta 1e-5 --items items.csv --insecure-seed 1";
    let federate = "federate ratings.csv --epsilon 4 --delta 1e-5 --rounds 2 --alpha-grid 1 \
                    --items items.csv --insecure-seed 1";
    for (at, command) in [
        train.to_owned(),
        format!("{train} --method am-ssp --feature-cols genres"),
        federate.to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let released = [3, 4].map(|count| {
            let items = (0..25).map(|item| {
                let (genre, count) = (item % 3, item * count);
                format!("item-{item},Title {item},g{genre},{count}\n")
            });
            let items = "item,title,genres,count\n".to_owned() + &items.collect::<String>();
            sandbox.write("items.csv", items);
            let out = format!("out-{at}-{count}");
            let args = format!("{command} --out {out}");
            sandbox.dp(&words(&args)).exits(0);
            // the certificate has random names of releases
            sandbox.text(&format!("{out}/report.json"))
        });
        assert_eq!(released[0], released[1], "{command}");
    }
}
