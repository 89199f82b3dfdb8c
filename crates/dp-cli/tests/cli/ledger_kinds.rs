//! `dp ledger`, and ledgers shared by runs of different commands.

use std::fs::File;

use serde_json::Value;

use crate::personalize::samples;
use crate::support::{Run, Sandbox};

/// Rows of 120 users, and a ledger of this kind and epsilon for them.
fn sandbox(kind: &str, epsilon: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(120));
    let budget = ["--epsilon", epsilon, "--delta", "1e-5", "--kind", kind];
    let made = ["ledger", "create", "l.ledger", "--data-set", "rows.csv"];
    sandbox.dp(&[&made[..], &budget].concat()).exits(0);
    sandbox
}

const COUNTED: [&str; 5] = ["--delta", "1e-5", "--ledger", "l.ledger", "--force"];

/// A run with only Gaussian releases.
fn personalize(sandbox: &Sandbox, epsilon: &str) -> Run {
    let args = [
        "personalize",
        "rows.csv",
        "--rank",
        "1",
        "--epsilon",
        epsilon,
    ];
    sandbox.dp(&[&args[..], &COUNTED].concat())
}

/// A run of another kind: one of three alphas is chosen, or users are sampled.
fn federate(sandbox: &Sandbox, epsilon: &str, more: &[&str]) -> Run {
    let args = [
        "federate",
        "rows.csv",
        "--rounds",
        "12",
        "--epsilon",
        epsilon,
    ];
    sandbox.dp(&[&args[..], &COUNTED, more].concat())
}

const CHOICE: [&str; 2] = ["--alpha-grid", "0,1,inf"];
const SAMPLED: [&str; 4] = ["--alpha-grid", "1", "--sampling-probability", "0.2"];

fn show(sandbox: &Sandbox) -> Value {
    let shown = sandbox.dp(&["ledger", "show", "l.ledger", "--json"]);
    shown.exits(0).json()
}

#[test]
fn one_mixed_ledger_pays_for_runs_of_every_kind() {
    let sandbox = sandbox("mixed", "8");
    personalize(&sandbox, "1").exits(0);
    federate(&sandbox, "1", &CHOICE).exits(0);
    let said = federate(&sandbox, "1", &SAMPLED).exits(0).stdout;
    assert!(
        said.contains("more run") && said.contains("of 8 left"),
        "{said}"
    );
    let certificate = sandbox.read("dp-model/certificate.json");
    let certificate = String::from_utf8(certificate).unwrap();
    assert!(certificate.contains("every run on this data set used the same ledger file"));
    sandbox
        .dp(&["verify", "dp-model", "--ledger", "l.ledger"])
        .exits(0);

    let shown = show(&sandbox);
    let runs = shown["runs"].as_array().unwrap();
    assert_eq!((shown["kind"].as_str(), runs.len()), (Some("mixed"), 3));
    let shares = runs.iter().map(|run| run["share"].as_f64().unwrap());
    let spent = shown["balance"]["spent"].as_f64().unwrap();
    let budget = shown["balance"]["budget"].as_f64().unwrap();
    assert!((shares.sum::<f64>() - spent / budget).abs() < 1e-9);
    // together they cost less than the sum of their epsilons, and a run of Gaussian releases fits
    // as stated
    let left = shown["left"]["epsilon"].as_f64().unwrap();
    assert!(left > 8.0 - 3.0, "{left}");
    personalize(&sandbox, &format!("{}", left * 1.001)).exits(3);
    personalize(&sandbox, &format!("{}", left * 0.9999)).exits(0);
    federate(&sandbox, "1", &SAMPLED)
        .exits(3)
        .says(&["in Gaussian releases", "a mixed ledger with epsilon"]);
}

#[test]
fn the_epsilon_that_a_refusal_names_is_enough() {
    let sandbox = sandbox("mixed", "0.9");
    let refused = federate(&sandbox, "1", &CHOICE).exits(3);
    let (_, needed) = refused
        .stderr
        .split_once("a mixed ledger with epsilon ")
        .unwrap();
    let needed = needed.split_whitespace().next().unwrap().to_owned();
    assert!(needed.parse::<f64>().unwrap() > 1.0, "{needed}");
    // the order is different there, and the best for this run
    std::fs::remove_file(sandbox.path("l.ledger")).unwrap();
    let made = ["--ledger-epsilon", &needed];
    federate(&sandbox, "1", &[&CHOICE[..], &made].concat()).exits(0);
    assert_eq!(show(&sandbox)["kind"], "mixed");
    // and the run makes use of what it was given
    let certificate = sandbox.value("dp-model/certificate.json");
    let epsilon = certificate["guarantee"]["epsilon"].as_f64().unwrap();
    assert!((0.999..=1.0).contains(&epsilon), "{epsilon}");
}

#[test]
fn a_gaussian_ledger_refuses_other_releases_and_says_how_to_go_on() {
    let sandbox = sandbox("gaussian", "4");
    personalize(&sandbox, "1").exits(0);
    let before = sandbox.read("l.ledger");
    for other in [&CHOICE[..], &SAMPLED] {
        federate(&sandbox, "1", other).exits(5).says(&[
            "l.ledger counts only Gaussian releases",
            "dp ledger upgrade l.ledger",
        ]);
    }
    assert_eq!(sandbox.read("l.ledger"), before);
    // with one alpha and without sampling, all releases are Gaussian
    federate(&sandbox, "1", &["--alpha-grid", "1"]).exits(0);
    assert_eq!(show(&sandbox)["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn the_kind_of_a_new_ledger_follows_from_the_run_unless_it_is_said() {
    for (run, more, kind) in [
        (
            &["--alpha-grid", "1"][..],
            &["--new-ledger"][..],
            "gaussian",
        ),
        (
            &["--alpha-grid", "1"],
            &["--ledger-epsilon", "4", "--ledger-kind", "mixed"],
            "mixed",
        ),
        (&CHOICE, &["--ledger-epsilon", "4"], "mixed"),
        (&CHOICE, &["--new-ledger"], "one run"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("rows.csv", samples(120));
        federate(&sandbox, "1", &[run, more].concat()).exits(0);
        assert_eq!(show(&sandbox)["kind"], kind, "{run:?} {more:?}");
    }
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(120));
    let gaussian = ["--ledger-epsilon", "4", "--ledger-kind", "gaussian"];
    federate(&sandbox, "1", &[&CHOICE[..], &gaussian].concat())
        .exits(5)
        .says(&["--ledger-kind mixed"]);
    assert_eq!(sandbox.names(), ["rows.csv"]);
    // and an existing ledger keeps its kind
    federate(
        &sandbox,
        "1",
        &[&CHOICE[..], &["--ledger-epsilon", "4"]].concat(),
    )
    .exits(0);
    federate(
        &sandbox,
        "1",
        &[&["--alpha-grid", "1"][..], &gaussian].concat(),
    )
    .exits(5)
    .says(&["kind"]);
}

#[test]
fn a_ledger_is_made_before_its_first_run_and_never_over_another() {
    let sandbox = sandbox("gaussian", "2");
    let made = ["ledger", "create", "l.ledger", "--data-set", "rows.csv"];
    let again = [&made[..], &["--epsilon", "9", "--delta", "1e-5"]].concat();
    sandbox.dp(&again).exits(5).says(&["exists already"]);
    assert_eq!(show(&sandbox)["epsilon"], 2.0);
    personalize(&sandbox, "1").exits(0);
    std::fs::remove_file(sandbox.path("l.ledger")).unwrap();
    sandbox.dp(&again).exits(5).says(&["restore the ledger"]);
    sandbox
        .dp(&["ledger", "show", "l.ledger"])
        .exits(5)
        .says(&["l.ledger"]);
}

#[test]
fn what_is_shown_is_what_was_spent_and_what_is_left() {
    let sandbox = sandbox("gaussian", "2");
    let empty = sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0).stdout;
    for part in ["rows.csv", "epsilon 2, delta 1e-5", "nothing", "not bound"] {
        assert!(empty.contains(part), "{part}: {empty}");
    }
    let said = personalize(&sandbox, "1").exits(0).stdout;
    let (_, told) = said.split_once("l.ledger: epsilon ").unwrap();
    let told: f64 = told.split_whitespace().next().unwrap().parse().unwrap();
    let shown = show(&sandbox);
    let left = &shown["left"];
    assert!((left["epsilon"].as_f64().unwrap() - told).abs() < 1e-4);
    // mu(2, 1e-5)^2 / mu(1, 1e-5)^2 = 3.5
    assert_eq!(left["runs_like_the_last"], 2.0);
    let run = &shown["runs"][0];
    assert!(
        (run["epsilon"].as_f64().unwrap() - 1.0).abs() < 1e-3,
        "{run}"
    );
    assert_eq!(shown["runs"].as_array().unwrap().len(), 1);
    assert!(run["time"].as_str().unwrap().ends_with('Z'));
    assert_eq!(shown["bound"], true);
    let after = left["epsilon_after_one"].as_f64().unwrap();
    personalize(&sandbox, "1").exits(0);
    let shown = show(&sandbox);
    assert!((shown["left"]["epsilon"].as_f64().unwrap() - after).abs() < 1e-9);
    assert_eq!(shown["runs"].as_array().unwrap().len(), 2);
    personalize(&sandbox, "1").exits(0);
    let text = sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0).stdout;
    assert!(
        text.contains("another run like the last does not fit"),
        "{text}"
    );
}

#[test]
fn a_ledger_is_shown_while_a_run_writes_to_it_and_is_not_touched() {
    let sandbox = sandbox("gaussian", "4");
    personalize(&sandbox, "1").exits(0);
    let held = File::options().append(true).open(sandbox.path("l.ledger"));
    let held = held.unwrap();
    held.lock().unwrap();
    let before = sandbox.read("l.ledger");
    sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0);
    held.unlock().unwrap();
    assert_eq!(sandbox.read("l.ledger"), before);
}

#[test]
fn a_gaussian_ledger_becomes_a_mixed_one_and_keeps_what_was_spent() {
    let sandbox = sandbox("gaussian", "2");
    personalize(&sandbox, "1").exits(0);
    let before = show(&sandbox);
    let verify = ["verify", "dp-model", "--ledger", "l.ledger"];
    sandbox.dp(&verify).exits(0);
    let upgrade = ["ledger", "upgrade", "l.ledger", "--kind", "mixed"];
    sandbox.dp(&upgrade).exits(2).says(&["--delta", "1e-5"]);
    let total = ["--epsilon", "6", "--delta", "2e-5"];
    let said = sandbox.dp(&[&upgrade[..], &total].concat()).exits(0).stdout;
    assert!(said.contains("l.ledger.bak-1"), "{said}");
    let after = show(&sandbox);
    assert_eq!(
        (after["kind"].as_str(), &after["bound"]),
        (Some("mixed"), &true.into())
    );
    assert_eq!(after["n_releases"], before["n_releases"]);
    assert!(after["balance"]["spent"].as_f64().unwrap() > 0.0);
    // models that were made before were charged to this ledger
    sandbox.dp(&verify).exits(0);
    federate(&sandbox, "1", &CHOICE).exits(0);
    // the old file accepts no more charges
    let old = ["--ledger", "l.ledger.bak-1", "--delta", "1e-5", "--force"];
    let args = ["personalize", "rows.csv", "--rank", "1", "--epsilon", "0.1"];
    sandbox
        .dp(&[&args[..], &old].concat())
        .exits(5)
        .says(&["is closed", "l.ledger"]);
}

#[test]
fn two_ledgers_of_one_data_set_are_added_up() {
    let sandbox = sandbox("gaussian", "2");
    let made = ["ledger", "create", "m.ledger", "--data-set", "rows.csv"];
    let made = [&made[..], &["--epsilon", "2", "--delta", "1e-5"]].concat();
    sandbox.dp(&made).exits(0);
    let args = ["personalize", "rows.csv", "--rank", "1", "--epsilon", "1"];
    let run = |ledger: &str| {
        let rest = ["--delta", "1e-5", "--force", "--ledger", ledger];
        sandbox.dp(&[&args[..], &rest].concat())
    };
    run("l.ledger").exits(0);
    run("m.ledger").exits(0);
    let (one, spent) = (show(&sandbox), |of: &Value| {
        of["balance"]["spent"].as_f64().unwrap()
    });
    sandbox
        .dp(&["ledger", "merge", "l.ledger", "--out", "both.ledger"])
        .exits(2)
        .says(&["two or more ledgers"]);
    let merge = [
        "ledger",
        "merge",
        "l.ledger",
        "m.ledger",
        "--out",
        "both.ledger",
        "--json",
    ];
    let both = sandbox.dp(&merge).exits(0).json();
    assert_eq!(
        (both["epsilon"].as_f64(), both["kind"].as_str()),
        (Some(4.0), Some("gaussian"))
    );
    assert_eq!(
        both["n_releases"].as_u64(),
        one["n_releases"].as_u64().map(|n| 2 * n)
    );
    assert!((spent(&both) / spent(&one) - 2.0).abs() < 1e-9);
    for closed in ["l.ledger", "m.ledger"] {
        run(closed).exits(5).says(&["is closed", "both.ledger"]);
    }
    // it remembers the users of the last one
    assert_eq!(both["bound"], true);
    assert_eq!(
        sandbox.read("both.ledger.key"),
        sandbox.read("m.ledger.key")
    );
    run("both.ledger").exits(0);
    // ledgers of different data sets are not merged
    let other = ["ledger", "create", "o.ledger", "--data-set", "other.csv"];
    sandbox
        .dp(&[&other[..], &["--epsilon", "2", "--delta", "1e-5"]].concat())
        .exits(0);
    sandbox
        .dp(&[
            "ledger",
            "merge",
            "both.ledger",
            "o.ledger",
            "--out",
            "all.ledger",
        ])
        .exits(5)
        .says(&["data set"]);
    assert!(!sandbox.exists("all.ledger"));
}

#[test]
fn the_total_of_a_merger_is_one_that_fits_or_is_asked_for() {
    let sandbox = Sandbox::new();
    let create = |name: &str, kind: &str, epsilon: &str| {
        let made = [
            "ledger",
            "create",
            name,
            "--data-set",
            "d",
            "--delta",
            "1e-6",
        ];
        let budget = ["--kind", kind, "--epsilon", epsilon];
        sandbox.dp(&[&made[..], &budget].concat()).exits(0);
    };
    create("a", "mixed", "0.1");
    create("b", "mixed", "0.2");
    create("c", "gaussian", "0.1");
    create("d", "gaussian", "0.2");
    let merge = |files: [&str; 2], more: &[&str]| {
        let args = [
            &["ledger", "merge"],
            &files[..],
            &["--out", "out", "--json"],
            more,
        ];
        sandbox.dp(&args.concat())
    };
    merge(["a", "b"], &[]).exits(2).says(&["--delta", "2e-6"]);
    // 0.1 + 0.2 rounds up to an upper bound on the sum of the two
    merge(["a", "b"], &["--delta", "3e-6"]).exits(0);
    std::fs::remove_file(sandbox.path("out")).unwrap();
    let sum = merge(["c", "d"], &[]).exits(0).json();
    assert!(sum["epsilon"].as_f64().unwrap() >= 0.3 && sum["delta"].as_f64().unwrap() >= 2e-6);
}

#[test]
fn what_a_crash_left_of_a_run_is_shown_as_spent() {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(120));
    let run = || {
        let args = [
            "federate",
            "rows.csv",
            "--rounds",
            "4",
            "--epsilon",
            "1",
            "--new-ledger",
        ];
        sandbox.dp(&[&args[..], &SAMPLED, &COUNTED].concat())
    };
    run().exits(0);
    let whole = sandbox.read("l.ledger");
    let lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
    // the header, the key of the users, most of a release
    let left = lines[..3].concat();
    sandbox.write("l.ledger", &left[..left.len() - 70]);
    let shown = sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0).stdout;
    assert!(
        shown.contains("100.0 % by the remains of an interrupted line"),
        "{shown}"
    );
    assert!(
        shown.contains("nothing: it was made for one run"),
        "{shown}"
    );
}

/// Two ledgers of the same rows to which one run each was charged.
fn two_ledgers() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(120));
    for ledger in ["l.ledger", "m.ledger"] {
        let rest = ["--ledger", ledger, "--ledger-epsilon", "2", "--force"];
        pays(&sandbox, &rest).exits(0);
    }
    sandbox
}

fn pays(sandbox: &Sandbox, more: &[&str]) -> Run {
    let args = ["personalize", "rows.csv", "--rank", "1", "--delta", "1e-5"];
    sandbox.dp(&[&args[..], &["--epsilon", "1"], more].concat())
}

fn merge(sandbox: &Sandbox, files: [&str; 2]) -> Run {
    let args = [&["ledger", "merge"][..], &files, &["--out", "both.ledger"]].concat();
    sandbox.dp(&args)
}

#[test]
#[cfg(unix)]
fn a_ledger_is_not_added_to_itself() {
    let sandbox = two_ledgers();
    let before = sandbox.read("l.ledger");
    std::os::unix::fs::symlink("l.ledger", sandbox.path("link.ledger")).unwrap();
    for again in ["l.ledger", "./l.ledger", "link.ledger"] {
        merge(&sandbox, ["l.ledger", again])
            .exits(2)
            .says(&[&format!("{again} is named twice")]);
    }
    std::fs::copy(sandbox.path("l.ledger"), sandbox.path("copy.ledger")).unwrap();
    merge(&sandbox, ["l.ledger", "copy.ledger"])
        .exits(2)
        .says(&["a copy of the other"]);
    assert_eq!(sandbox.read("l.ledger"), before);
    assert!(!sandbox.exists("both.ledger"));
}

#[test]
fn ledgers_in_use_are_not_merged_and_none_is_closed() {
    let sandbox = two_ledgers();
    let before = ["l.ledger", "m.ledger"].map(|name| sandbox.read(name));
    for held in ["l.ledger", "m.ledger"] {
        let file = File::options().append(true).open(sandbox.path(held));
        let file = file.unwrap();
        file.lock().unwrap();
        merge(&sandbox, ["l.ledger", "m.ledger"])
            .exits(5)
            .says(&[held]);
        file.unlock().unwrap();
    }
    assert_eq!(
        ["l.ledger", "m.ledger"].map(|name| sandbox.read(name)),
        before
    );
    let left_over = |name: &String| name.contains("both") || name.contains("pending");
    assert!(!sandbox.names().iter().any(left_over));
    merge(&sandbox, ["l.ledger", "m.ledger"]).exits(0);
}

#[test]
fn a_merged_ledger_without_the_key_of_its_users_says_so_and_pays_for_nothing_until_told() {
    for damage in ["missing", "damaged", "of another ledger"] {
        let sandbox = two_ledgers();
        let key = sandbox.path("m.ledger.key");
        let good = sandbox.read("m.ledger.key");
        match damage {
            "missing" => std::fs::remove_file(key).unwrap(),
            "damaged" => sandbox.write("m.ledger.key", "{}"),
            _ => drop(std::fs::copy(sandbox.path("l.ledger.key"), key).unwrap()),
        }
        let said = merge(&sandbox, ["l.ledger", "m.ledger"]).exits(0);
        let said = said.says(&[
            "is missing or damaged",
            "restore both and run the same merge again",
            "--same-data-set",
        ]);
        // every spend is counted, whether or not users are known
        assert!(said.stdout.contains("runs are refused until"), "{damage}");
        let before = sandbox.read("both.ledger");
        let on_both = ["--ledger", "both.ledger", "--force"];
        pays(&sandbox, &on_both)
            .exits(5)
            .says(&["both.ledger.key is missing"]);
        assert_eq!(sandbox.read("both.ledger"), before, "{damage}");
        if damage == "missing" {
            sandbox.write("m.ledger.key", good);
            merge(&sandbox, ["l.ledger", "m.ledger"]).exits(0);
            pays(&sandbox, &on_both).exits(0);
            continue;
        }
        // once the operator vouches for the data, they are remembered again
        let same = [&on_both[..], &["--same-data-set"]].concat();
        pays(&sandbox, &same).exits(0);
        pays(&sandbox, &on_both).exits(0);
        let shown = sandbox.dp(&["ledger", "show", "both.ledger"]).exits(0);
        assert!(shown.stdout.contains("bound to its users: back up"));
    }
}
