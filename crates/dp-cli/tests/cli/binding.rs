//! The operator chooses the ledger that counts a run, and a ledger belongs to one data set,
//! identified by its users.

use std::fs;

use crate::support::{Run, Sandbox, USER, catalogue, ratings, words};

/// The program without the environment of the other tests: no ledger is chosen yet.
fn unsaid(sandbox: &Sandbox, args: &[&str]) -> Run {
    let mut command = sandbox.program(crate::BINARY);
    command.args(args).output().unwrap().into()
}

const TARGET: [&str; 4] = ["--epsilon", "1", "--delta", "1e-5"];

#[test]
fn every_command_that_spends_asks_what_counts_the_run() {
    let sandbox = Sandbox::with_ratings();
    let commands: [&[&str]; 5] = [
        &["train", "ratings.csv"],
        &[
            "train",
            "ratings.csv",
            "--method",
            "am-ssp",
            "--items",
            "i.csv",
        ],
        &["tune", "ratings.csv", "--try", "dim=2", "--try", "dim=3"],
        &["personalize", "ratings.csv", "--rank", "1"],
        &["federate", "ratings.csv"],
    ];
    for command in commands {
        let args = [command, &TARGET].concat();
        unsaid(&sandbox, &args)
            .exits(2)
            .says(&["--ledger <FILE>", "--no-ledger"]);
        let both = [&args[..], &["--ledger", "l.ledger", "--no-ledger"]].concat();
        unsaid(&sandbox, &both).exits(2).says(&[
            "--ledger <FILE>",
            "cannot be used with",
            "--no-ledger",
        ]);
    }
    assert_eq!(sandbox.names(), ["ratings.csv"]);
}

#[test]
fn a_file_of_settings_may_say_it_and_flags_override_it() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("s.toml", "[train]\nno-ledger = true\n");
    let args = [&["train", "ratings.csv", "--config", "s.toml"], &TARGET[..]].concat();
    unsaid(&sandbox, &args).exits(0);
    let counted = ["--ledger", "l.ledger", "--ledger-epsilon", "2", "--force"];
    unsaid(&sandbox, &[&args[..], &counted].concat()).exits(0);
    assert!(sandbox.exists("l.ledger"));
}

#[test]
fn a_run_without_a_ledger_says_so_beside_epsilon_and_in_its_certificate() {
    let sandbox = Sandbox::with_ratings();
    let args = [&["train", "ratings.csv", "--no-ledger"], &TARGET[..]].concat();
    let said = unsaid(&sandbox, &args).exits(0).stdout;
    let alone =
        "epsilon 1.0000 for this run alone; no ledger: nothing adds it to other runs on these data";
    assert!(said.contains(alone), "{said}");
    let certificate = String::from_utf8(sandbox.read("dp-model/certificate.json")).unwrap();
    assert!(
        certificate.contains("no ledger: the guarantee is that of this run alone"),
        "{certificate}"
    );
    sandbox.dp(&["verify", "dp-model"]).exits(0);
}

/// Trains on a file with the ledger `l.ledger`, which has room for many runs.
fn counted(sandbox: &Sandbox, data: &str, more: &[&str]) -> Run {
    let args = ["--ledger", "l.ledger", "--ledger-epsilon", "20", "--force"];
    sandbox.dp(&[&["train", data], &TARGET[..], &args, more].concat())
}

#[test]
fn two_files_of_one_name_are_not_charged_to_one_ledger() {
    let sandbox = Sandbox::with_ratings();
    fs::create_dir(sandbox.path("other")).unwrap();
    let others = ratings(40, 25, 10).replace(USER, "somebody-else-");
    sandbox.write("other/ratings.csv", &others);
    counted(&sandbox, "ratings.csv", &["--out", "first"]).exits(0);
    let (spent, users) = (sandbox.read("l.ledger"), sandbox.read("l.ledger.users"));
    let refused = counted(&sandbox, "other/ratings.csv", &[]).exits(5).says(&[
        "fewer than half of the users match those that the ledger l.ledger was charged for",
        "nothing was paid or released",
        "--same-data-set",
    ]);
    assert_eq!(refused.stdout, "");
    // nothing is spent or remembered either, and no file mentions it
    assert_eq!(sandbox.read("l.ledger"), spent);
    assert_eq!(sandbox.read("l.ledger.users"), users);
    let names = [
        "first",
        "first-internal",
        "l.ledger",
        "l.ledger.key",
        "l.ledger.users",
        "other",
        "ratings.csv",
    ];
    assert_eq!(sandbox.names(), names);

    counted(&sandbox, "other/ratings.csv", &["--same-data-set"]).exits(0);
    counted(&sandbox, "other/ratings.csv", &[]).exits(0);
    counted(&sandbox, "ratings.csv", &[]).exits(0);
}

/// Whose data they are does not depend on the catalogue, which may be a wrong one.
#[test]
fn a_run_that_left_all_records_out_binds_its_ledger_to_their_users() {
    let common = "ratings.csv --epsilon 1 --delta 1e-5 --ledger l.ledger --ledger-epsilon 20 --force --data-set all";
    for command in ["train --items", "federate --no-split --items"] {
        let sandbox = Sandbox::with_ratings();
        sandbox.write("wrong.csv", "item,genres\n0,A\n1,B\n2,A\n");
        sandbox.write("items.csv", catalogue(25));
        let run = |line: String| {
            let line = format!("{line} {common}");
            sandbox.run_with(&words(&line), &[("DP_ITEM_IDS_ARE_PUBLIC", "0")])
        };
        run(format!("{command} wrong.csv")).exits(0);
        run("train --items items.csv".to_owned()).exits(0);
        let strangers = ratings(40, 25, 10).replace(USER, "somebody-else-");
        sandbox.write("ratings.csv", strangers);
        run(format!("{command} wrong.csv")).exits(5);
    }
}

#[test]
fn data_that_grow_stay_the_data_of_their_ledger() {
    let sandbox = Sandbox::with_ratings();
    for n_users in [40, 60, 100, 180] {
        sandbox.write("ratings.csv", ratings(n_users, 25, 10));
        counted(&sandbox, "ratings.csv", &[]).exits(0);
    }
    // a part of the users as well
    sandbox.write("ratings.csv", ratings(40, 25, 10));
    counted(&sandbox, "ratings.csv", &[]).exits(0);
}

#[test]
fn commands_know_each_others_users() {
    let sandbox = Sandbox::with_ratings();
    counted(&sandbox, "ratings.csv", &[]).exits(0);
    let rows = [
        "--user-col",
        "user",
        "--target-col",
        "rating",
        "--feature-cols",
        "x",
        "--rank",
        "1",
    ];
    let personalize = |users: &str| {
        let mut text = "user,x,rating\n".to_owned();
        for at in 0..120 {
            text.push_str(&format!("{users}{},{},{}\n", at / 3, at % 7, at % 5));
        }
        sandbox.write("rows.csv", text);
        let ledger = [
            "--ledger",
            "l.ledger",
            "--data-set",
            "ratings.csv",
            "--force",
        ];
        sandbox.dp(&[&["personalize", "rows.csv"], &TARGET[..], &rows, &ledger].concat())
    };
    personalize("stranger-")
        .exits(5)
        .says(&["fewer than half of the users"]);
    personalize(USER).exits(0);
}

#[test]
fn a_binding_that_is_lost_is_refused_until_the_operator_says_so() {
    let sandbox = Sandbox::with_ratings();
    counted(&sandbox, "ratings.csv", &[]).exits(0);
    for name in ["l.ledger.key", "l.ledger.users"] {
        let bytes = sandbox.read(name);
        fs::remove_file(sandbox.path(name)).unwrap();
        counted(&sandbox, "ratings.csv", &[]).exits(5).says(&[
            &format!("{name} is missing"),
            "restore it from a backup",
            "--same-data-set",
        ]);
        counted(&sandbox, "ratings.csv", &["--same-data-set"]).exits(0);
        assert_ne!(sandbox.read(name), bytes);
        counted(&sandbox, "ratings.csv", &[]).exits(0);
    }
    fs::remove_file(sandbox.path("l.ledger")).unwrap();
    counted(&sandbox, "ratings.csv", &[])
        .exits(5)
        .says(&["there is no ledger l.ledger", "restore the ledger"]);
    assert!(!sandbox.exists("l.ledger"));
}

#[test]
#[cfg(unix)]
fn the_key_and_the_users_are_for_their_owner_alone_and_in_no_release() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::with_ratings();
    counted(&sandbox, "ratings.csv", &[]).exits(0);
    for name in ["l.ledger.key", "l.ledger.users"] {
        let mode = fs::metadata(sandbox.path(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let text = String::from_utf8(sandbox.read(name)).unwrap();
        assert!(!text.contains(USER));
        let secrets = text.split('"').filter(|word| word.len() >= 32);
        for secret in secrets {
            for released in crate::support::names_in(&sandbox.path("dp-model")) {
                let found = String::from_utf8_lossy(&sandbox.read(&format!("dp-model/{released}")))
                    .into_owned();
                assert!(!found.contains(secret), "{released} has a part of {name}");
            }
        }
    }
}

#[test]
fn nothing_is_paid_before_the_users_are_remembered() {
    let sandbox = Sandbox::with_ratings();
    let made = ["ledger", "create", "l.ledger", "--data-set", "ratings.csv"];
    let budget = ["--epsilon", "20", "--delta", "1e-5"];
    sandbox.dp(&[&made[..], &budget].concat()).exits(0);
    // a folder in place of the key cannot be replaced by a file
    fs::create_dir(sandbox.path("l.ledger.key")).unwrap();
    sandbox.write("l.ledger.key/x", "");
    counted(&sandbox, "ratings.csv", &[]).exits(7);
    let lines = String::from_utf8(sandbox.read("l.ledger")).unwrap();
    assert_eq!(lines.lines().count(), 1, "the ledger has paid: {lines}");
    assert!(!sandbox.exists("l.ledger.users") && !sandbox.exists("dp-model"));
    fs::remove_dir_all(sandbox.path("l.ledger.key")).unwrap();
    counted(&sandbox, "ratings.csv", &[]).exits(0);
}

#[test]
fn a_ledger_that_was_cut_refunds_nothing_and_its_users_stay_remembered() {
    let sandbox = Sandbox::with_ratings();
    counted(&sandbox, "ratings.csv", &["--out", "first"]).exits(0);
    counted(&sandbox, "ratings.csv", &["--out", "second"]).exits(0);
    let other = ["ledger", "create", "m.ledger", "--data-set", "ratings.csv"];
    let budget = ["--epsilon", "20", "--delta", "1e-5"];
    sandbox.dp(&[&other[..], &budget].concat()).exits(0);
    let files = ["l.ledger.key", "l.ledger.users"].map(|name| (name, sandbox.read(name)));
    let whole = sandbox.read("l.ledger");
    let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    // truncated to the header, to the key, inside the first release, after the first run
    let cuts = [
        ends[0],
        ends[1],
        ends[1] + 30,
        ends[2] - 70,
        ends[ends.len() - 15],
    ];
    for cut in cuts {
        sandbox.write("l.ledger", &whole[..cut]);
        for more in [&[][..], &["--same-data-set"]] {
            counted(&sandbox, "ratings.csv", more).exits(5).says(&[
                "the ledger l.ledger was truncated or is an older copy",
                "`dp ledger accept-rollback`",
            ]);
        }
        let shown = sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0);
        assert!(shown.stderr.contains("older copy"), "{}", shown.stderr);
        assert!(shown.stdout.contains("missing"), "{}", shown.stdout);
        sandbox
            .dp(&["verify", "first", "--ledger", "l.ledger"])
            .exits(5)
            .says(&["the ledger l.ledger was truncated or is an older copy"]);
        let merge = ["ledger", "merge", "l.ledger", "m.ledger", "--out", "both"];
        sandbox
            .dp(&merge)
            .exits(5)
            .says(&["the ledger l.ledger was truncated or is an older copy"]);
        for (name, bytes) in &files {
            assert_eq!(&sandbox.read(name), bytes, "{name} after a cut at {cut}");
        }
    }
    sandbox.write("l.ledger", &whole);
    counted(&sandbox, "ratings.csv", &[]).exits(0);
    assert_ne!(sandbox.read("l.ledger.users"), files[1].1);
    let shown = sandbox.dp(&["ledger", "show", "l.ledger"]).exits(0);
    assert!(!shown.stderr.contains("older copy"), "{}", shown.stderr);
    // a key alone is also evidence of a ledger that was lost
    fs::remove_file(sandbox.path("l.ledger")).unwrap();
    fs::remove_file(sandbox.path("l.ledger.users")).unwrap();
    counted(&sandbox, "ratings.csv", &[])
        .exits(5)
        .says(&["l.ledger.key"]);
}

#[test]
fn a_rollback_that_the_operator_accepts_is_in_the_ledger_and_in_later_certificates() {
    let sandbox = Sandbox::with_ratings();
    let accept = || sandbox.dp(&["ledger", "accept-rollback", "l.ledger"]);
    counted(&sandbox, "ratings.csv", &["--out", "first"]).exits(0);
    let older = sandbox.read("l.ledger");
    accept().exits(2).says(&["there is nothing to accept"]);
    assert_eq!(sandbox.read("l.ledger"), older);
    counted(&sandbox, "ratings.csv", &["--out", "second"]).exits(0);
    let certificate =
        |of: &str| String::from_utf8(sandbox.read(&format!("{of}/certificate.json"))).unwrap();
    let what = "payments are missing from the ledger and may not be counted";
    assert!(!certificate("second").contains(what));

    // the copy may be restored again, which takes the note back too
    for _ in 0..2 {
        sandbox.write("l.ledger", &older);
        counted(&sandbox, "ratings.csv", &[]).exits(5);
        let shown = accept().exits(0).stdout;
        assert!(shown.contains(what), "{shown}");
        accept().exits(2);
    }
    // later runs are possible, only with the users of before, and repeat it
    sandbox.write(
        "other.csv",
        ratings(40, 25, 10).replace(USER, "somebody-else-"),
    );
    counted(&sandbox, "other.csv", &["--data-set", "ratings.csv"])
        .exits(5)
        .says(&["fewer than half of the users"]);
    counted(&sandbox, "ratings.csv", &["--out", "third"]).exits(0);
    assert!(certificate("third").contains(what));
    let verify = |of: &str| sandbox.dp(&["verify", of, "--ledger", "l.ledger"]);
    assert!(verify("third").exits(0).stdout.contains(what));
    verify("second").exits(6);
    // a lifetime would need to know what was spent
    let nights = "nightly init state --items items.csv --lifetime-epsilon 1 --delta 1e-5 --rating-range 1,5 --data-set ratings.csv --ledger l.ledger";
    sandbox.write("items.csv", catalogue(25));
    sandbox
        .dp(&nights.split(' ').collect::<Vec<_>>())
        .exits(2)
        .says(&[what]);
}

#[test]
fn an_older_copy_is_found_without_its_key_and_wherever_something_is_paid() {
    let sandbox = Sandbox::with_ratings();
    counted(&sandbox, "ratings.csv", &["--out", "first"]).exits(0);
    let older = sandbox.read("l.ledger");
    counted(&sandbox, "ratings.csv", &["--out", "second"]).exits(0);
    let header = older.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let key = sandbox.read("l.ledger.key");
    let nights = "nightly init state --items items.csv --lifetime-epsilon 1 --delta 1e-5 --rating-range 1,5 --data-set ratings.csv --ledger l.ledger";
    let nights: Vec<&str> = nights.split(' ').collect();
    sandbox.write("items.csv", catalogue(25));
    for cut in [&older[..], &older[..header]] {
        sandbox.write("l.ledger", cut);
        for has_key in [true, false] {
            match has_key {
                true => sandbox.write("l.ledger.key", &key),
                false => fs::remove_file(sandbox.path("l.ledger.key")).unwrap(),
            }
            for more in [&[][..], &["--same-data-set"]] {
                counted(&sandbox, "ratings.csv", more)
                    .exits(5)
                    .says(&["older copy"]);
            }
            sandbox.dp(&nights).exits(5).says(&["older copy"]);
            let raised = ["ledger", "upgrade", "l.ledger", "--epsilon", "30"];
            sandbox.dp(&raised).exits(5).says(&["older copy"]);
            assert_eq!(sandbox.read("l.ledger"), cut);
        }
    }
    // a file that cannot be read shows nothing, and says so
    sandbox.write("l.ledger.users", "{");
    let shown = sandbox
        .dp(&["ledger", "show", "l.ledger", "--json"])
        .exits(0);
    assert!(
        shown.stderr.contains("nothing shows whether"),
        "{}",
        shown.stderr
    );
    assert!(shown.json()["is_older_copy"].is_null());
}

#[test]
fn a_ledger_that_was_merged_stays_closed_when_its_copy_is_restored() {
    let sandbox = Sandbox::with_ratings();
    counted(&sandbox, "ratings.csv", &["--out", "first"]).exits(0);
    let other = "ledger create m.ledger --data-set ratings.csv --epsilon 20 --delta 1e-5";
    sandbox.dp(&other.split(' ').collect::<Vec<_>>()).exits(0);
    let open = sandbox.read("l.ledger");
    let merge = "ledger merge l.ledger m.ledger --out both.ledger";
    sandbox.dp(&merge.split(' ').collect::<Vec<_>>()).exits(0);
    sandbox.write("l.ledger", &open);
    counted(&sandbox, "ratings.csv", &["--out", "second"])
        .exits(5)
        .says(&["older copy"]);
    sandbox
        .dp(&["ledger", "accept-rollback", "l.ledger"])
        .exits(2)
        .says(&["was merged into another ledger"]);
}

#[test]
fn whatever_is_paid_or_noted_is_recorded_beside_the_ledger() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", catalogue(25));
    counted(&sandbox, "ratings.csv", &["--out", "first"]).exits(0);
    let run = |command: &str| sandbox.dp(&command.split(' ').collect::<Vec<_>>());
    // a lifetime, a look at figures, a larger total
    let changes = [
        "nightly init state --items items.csv --lifetime-epsilon 1 --delta 1e-5 --rating-range 1,5 --data-set ratings.csv --ledger l.ledger",
        "evaluate ratings.csv --model first --show-internal --ledger l.ledger",
        "ledger upgrade l.ledger --epsilon 30",
    ];
    for command in changes {
        let before = sandbox.read("l.ledger");
        run(command).exits(0);
        let after = sandbox.read("l.ledger");
        assert_ne!(before, after, "{command}");
        sandbox.write("l.ledger", before);
        for refused in [
            "train ratings.csv --item-ids-are-public --epsilon 1 --delta 1e-5 --ledger l.ledger --out second",
            // which would add a note in place of the one that is missing
            "evaluate ratings.csv --model first --show-internal --ledger l.ledger",
        ] {
            run(refused).exits(5).says(&["older copy"]);
        }
        sandbox.write("l.ledger", after);
    }
    // nor is a lost ledger replaced by a new lifetime
    fs::remove_file(sandbox.path("l.ledger")).unwrap();
    let other = changes[0].replace(" state ", " other ");
    sandbox
        .run(&other.split(' ').collect::<Vec<_>>())
        .exits(5)
        .says(&["restore the ledger"]);
    assert!(!sandbox.exists("l.ledger"));
}

#[test]
fn a_ledger_without_its_users_file_is_not_taken_for_the_newest() {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", catalogue(25));
    counted(&sandbox, "ratings.csv", &["--out", "first"]).exits(0);
    fs::create_dir(sandbox.path("sent")).unwrap();
    sandbox.write("sent/l.ledger", sandbox.read("l.ledger"));
    let run = |command: &str| sandbox.run(&command.split(' ').collect::<Vec<_>>());
    // a reader is told
    let unknown = "l.ledger.users is not next to it, so nothing shows whether";
    run("verify first --ledger sent/l.ledger")
        .exits(0)
        .says(&[unknown]);
    let shown = run("ledger show sent/l.ledger --json").exits(0);
    assert!(shown.stderr.contains(unknown), "{}", shown.stderr);
    assert!(shown.json()["is_older_copy"].is_null());
    run("ledger show sent/l.ledger")
        .exits(0)
        .prints(&["unknown   whether it is an older copy"]);
    assert_eq!(
        run("ledger show l.ledger --json").exits(0).json()["is_older_copy"],
        false
    );
    // nights do not put their users in the place of those that the ledger knows
    run("nightly init state --items items.csv --lifetime-epsilon 1 --delta 1e-5 --rating-range 1,5 --data-set ratings.csv --ledger sent/l.ledger").exits(0);
    run("nightly run state ratings.csv --night 0")
        .exits(5)
        .says(&[".key or .users file"]);
    // a run that does is noted, and says so in its certificate and in later ones
    let line = "train ratings.csv --items items.csv --epsilon 1 --delta 1e-5 --ledger sent/l.ledger --out second --force";
    run(line).exits(5);
    run(&format!("{line} --same-data-set")).exits(0);
    for _ in 0..2 {
        let certificate = sandbox.text("second/certificate.json");
        assert!(
            certificate.contains("users were recorded anew"),
            "{certificate}"
        );
        run(line).exits(0);
    }
    run("ledger show sent/l.ledger")
        .exits(0)
        .prints(&["users were recorded anew"]);
    let certificate = sandbox.text("first/certificate.json");
    assert!(!certificate.contains("recorded anew"), "{certificate}");
}
