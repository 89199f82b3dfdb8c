//! What a run leaves behind, and what it costs.

use serde_json::Value;

use super::{N_USERS, SHARED, csv, federate, federate_file, rows, sandbox};
use crate::support::{USER, names_in, words};

/// The files of a run that are not to be published.
pub(crate) const INTERNAL: [&str; 5] = [
    "internal-releases.list",
    "internal-users.csv",
    "internal.json",
    "internal.md",
    "internal.svg",
];

#[test]
fn every_alpha_has_an_interval() {
    let sandbox = sandbox();
    let shown = ["--show-internal", "--json"];
    let json = federate(&sandbox, &shown).exits(0).json();
    let all = json["internal"]["by_alpha"].as_array().unwrap();
    assert_eq!(all.len(), 3);
    for alpha in all {
        let of = &alpha["private"];
        let [low, high] = [0, 1].map(|end| of["interval"][end].as_f64().unwrap());
        let value = of["over_rows"].as_f64().unwrap();
        assert!(low < value && value < high, "{alpha}");
    }
    let page = sandbox.text("dp-model-internal/internal.md");
    for alpha in ["alpha 0", "alpha 1", "alpha inf"] {
        let name = format!("| RMSE | {alpha}");
        let row = page.lines().find(|line| line.starts_with(&name));
        assert!(
            row.is_some_and(|row| row.contains(" to ")),
            "{alpha}: {page}"
        );
    }
    let run = federate(&sandbox, &["--force", "--show-internal"]).exits(0);
    run.prints(&["95 % interval, private"]);
}

#[test]
fn a_run_leaves_model_certificate_and_reports_and_pays_once() {
    let sandbox = sandbox();
    let ledger = ["--ledger", "l.ledger"];
    let run = federate(&sandbox, &ledger).exits(0);
    let head = "private     epsilon 8.0000, delta 1e-5, add or remove one user";
    run.prints(&[head]);
    run.prints(&["internal    dp-model-internal/internal.md: "]);
    assert!(!run.stdout.contains("RMSE"), "{}", run.stdout);
    let files = [
        "certificate.json",
        "coefficients.svg",
        "manifest.json",
        "model-card.json",
        "model-card.md",
        "report.json",
        "report.md",
        "shared.safetensors",
    ];
    assert_eq!(names_in(&sandbox.path("dp-model")), files);
    assert_eq!(names_in(&sandbox.path("dp-model-internal")), INTERNAL);
    let verified = sandbox.dp(&["verify", "dp-model", "--ledger", "l.ledger", "--json"]);
    let verified = verified.exits(0).json();
    assert_eq!(verified["files_compared"], true);
    // number of users, two runs of 30 rounds, the choice, users' votes on the prior of their fits
    let text = sandbox.text("dp-model/certificate.json");
    let certificate: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        certificate["releases"].as_array().unwrap().len(),
        1 + 2 * 30 + 1 + 1
    );
    assert!(text.contains("prior of personal fits"));
    assert_eq!(certificate["tuning_included"], true);
    assert!(text.contains("\"noisy number of users\""));
    federate(&sandbox, &["--ledger", "l.ledger", "--out", "more"]).exits(3);
    assert!(!sandbox.exists("more"));
    let mut bytes = sandbox.read(SHARED);
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    sandbox.write(SHARED, bytes);
    let changed = sandbox.dp(&["verify", "dp-model"]).exits(6);
    changed.says(&["shared.safetensors"]);
}

#[test]
fn one_alpha_is_gaussian_and_its_ledger_adds_up() {
    let sandbox = sandbox();
    let one = words("--alpha-grid 1 --n-users 240 --ledger l.ledger");
    federate(&sandbox, &[&one[..], &["--ledger-epsilon", "14"]].concat()).exits(0);
    let text = sandbox.text("dp-model/certificate.json");
    let certificate: Value = serde_json::from_str(&text).unwrap();
    let releases = certificate["releases"].as_array().unwrap();
    assert_eq!(releases.len(), 31);
    assert_eq!(releases[30]["label"], "users' votes on the prior");
    assert!(!text.contains("noisy number of users"));
    assert!(certificate["guarantee"]["gdp_mu"].as_f64().unwrap() > 1.0);
    let again = [&one[..], &["--out", "again"]].concat();
    federate(&sandbox, &again).exits(0);
    let third = [&one[..], &["--out", "third"]].concat();
    federate(&sandbox, &third).exits(3);
    sandbox
        .dp(&["verify", "again", "--ledger", "l.ledger"])
        .exits(0);
    // a choice is not Gaussian: that ledger cannot count it
    federate(&sandbox, &["--ledger", "l.ledger", "--out", "mixed"]).exits(5);
    assert!(!sandbox.exists("third") && !sandbox.exists("mixed"));
}

#[test]
fn several_epsilons_explore_and_release_nothing() {
    let sandbox = sandbox();
    let args = ["--epsilon", "0.3,40", "--insecure-seed", "1"];
    let run = federate(&sandbox, &args).exits(0);
    let note = "exploration: not covered by one certificate";
    assert!(run.stdout.starts_with(note), "{}", run.stdout);
    let files = [
        "internal-frontier.csv",
        "internal-frontier.svg",
        "internal.md",
    ];
    assert!(!sandbox.exists("dp-model"));
    assert_eq!(names_in(&sandbox.path("dp-model-internal")), files);
    assert!(!run.stdout.contains("RMSE"), "{}", run.stdout);
    for file in ["internal.md", "internal-frontier.svg"] {
        let text = sandbox.text(&format!("dp-model-internal/{file}"));
        assert!(text.contains(note), "{file}");
    }
    let json = [&args[..], &["--force", "--json", "--show-internal"]].concat();
    let json = federate(&sandbox, &json).exits(0).json();
    assert!(json["released"].is_null());
    let internal = &json["internal"];
    // alone once, two alphas at two epsilons and without noise
    assert_eq!(
        internal["frontier"].as_array().unwrap().len(),
        1 + 2 * 2 + 2
    );
    let winners = internal["winners"].as_array().unwrap();
    let best: Vec<String> = winners.iter().map(|w| w["alpha"].to_string()).collect();
    assert_eq!(best, ["0.0", "1.0", "1.0"]);
    assert_eq!(winners[0]["epsilon"], 0.3);
    let refused = federate(&sandbox, &["--epsilon", "1,2", "--ledger", "l.ledger"]);
    refused.exits(2).says(&["--new-ledger"]); // an exploration makes none
    assert!(!sandbox.exists("l.ledger"));
}

#[test]
fn released_files_name_no_user_and_internal_ones_are_for_their_owner() {
    let sandbox = sandbox();
    federate(&sandbox, &[]).exits(0);
    for folder in ["dp-model", "dp-model-internal"] {
        for file in names_in(&sandbox.path(folder)) {
            let path = format!("{folder}/{file}");
            let bytes = sandbox.read(&path);
            let named = bytes.windows(USER.len()).any(|at| at == USER.as_bytes());
            assert_eq!(named, file == "internal-users.csv", "{file}");
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                let mode = std::fs::metadata(sandbox.path(&path))
                    .unwrap()
                    .permissions();
                assert_eq!(mode.mode() & 0o077 == 0, folder != "dp-model", "{file}");
            }
        }
    }
}

#[test]
fn seeds_repeat_and_the_order_of_users_does_not_show() {
    let sandbox = sandbox();
    federate(&sandbox, &["--insecure-seed", "7"]).exits(0);
    let first = sandbox.read(SHARED);
    sandbox.dp(&["verify", "dp-model"]).exits(6);
    let users = rows(N_USERS);
    let turned = users.iter().enumerate().rev();
    sandbox.write("turned.csv", csv(turned));
    let args = words("--insecure-seed 7 --out b --data-set data.csv");
    federate_file(&sandbox, "turned.csv", &args).exits(0);
    assert!(first == sandbox.read("b/shared.safetensors"));
    federate(&sandbox, &["--insecure-seed", "8", "--out", "c"]).exits(0);
    assert!(first != sandbox.read("c/shared.safetensors"));
}

#[test]
fn a_grid_that_released_metrics_do_not_speak_for_is_told() {
    let sandbox = sandbox();
    let run = |grid| {
        let line = format!(
            "--epsilon 0.3 --release-metrics 0.2 --metric-bound 2 --force --alpha-grid {grid}"
        );
        federate(&sandbox, &words(&line)).exits(0).stdout
    };
    let many = run("0,1,10,inf");
    let told = [
        "divided among 3 runs",
        "a single alpha has the whole budget",
    ];
    assert!(told.iter().all(|part| many.contains(part)), "{many}");
    assert!(!run("inf").contains("divided among"));
}
