//! `dp nightly`: one payment, a model for every night, and nothing lost where a night is killed.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::personalize::samples;
use crate::support::{Run, Sandbox, USER, catalogue, names_in, ratings, words};

/// Ratings of 300 users for 25 items, and a state of nights.
fn begun() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ratings.csv", ratings(300, 25, 10));
    sandbox.write("items.csv", catalogue(25));
    init(&sandbox, "").exits(0);
    sandbox
}

fn init(sandbox: &Sandbox, more: &str) -> Run {
    let line = "nightly init state --items items.csv --lifetime-epsilon 4 --delta 1e-5 --horizon 30 --rating-range 1,5";
    sandbox.run(&words(&format!("{line} {more}")))
}

fn night(sandbox: &Sandbox, number: u32, more: &str) -> Run {
    sandbox.run(&words(&format!(
        "nightly run state ratings.csv --night {number} {more}"
    )))
}

fn status(sandbox: &Sandbox) -> Value {
    let found = sandbox.run(&words("nightly status state --json"));
    found.exits(0).json()
}

#[test]
fn a_lifetime_is_paid_for_once_and_every_night_has_a_model() {
    let sandbox = begun();
    for (number, n_nights) in [(0, 1), (1, 2), (4, 3)] {
        let made = night(&sandbox, number, "--json").exits(0).json();
        assert_eq!(made["made_now"], true);
        assert_eq!(made["n_nights"], n_nights);
        let model = sandbox.read("state/model/item_factors.safetensors");
        // the same night again: the same model, and nothing is paid
        let made = night(&sandbox, number, "--json").exits(0).json();
        assert_eq!(made["made_now"], false);
        assert_eq!(made["n_nights"], n_nights);
        assert_eq!(sandbox.read("state/model/item_factors.safetensors"), model);
        sandbox.dp(&["verify", "state/model"]).exits(0);
        let with_ledger = words("verify state/model --ledger state/ledger");
        sandbox.dp(&with_ledger).exits(0);
        let recomputed = words("verify state/model --recompute");
        sandbox.dp(&recomputed).exits(0);
    }
    states_a_lifetime(&sandbox);
    let guarantee = sandbox.value("state/model/certificate.json")["guarantee"].clone();
    let replaced = guarantee["epsilon_replace"].as_f64().unwrap();
    let replaced = dp_accounting::rounded_up(replaced);
    let replaced = format!("epsilon {replaced}, delta 1e-5, replace one user");
    night(&sandbox, 4, "").exits(0).prints(&[&replaced]);
    let line = "nightly init other --items items.csv --lifetime-epsilon 4 --delta 1e-5 --horizon 30 --rating-range 1,5";
    sandbox.run(&words(line)).exits(0).prints(&[&replaced]);
    let found = status(&sandbox);
    assert_eq!(found["n_paid"], 3);
    assert_eq!(found["last_night"], 4);
    let spent = found["epsilon_spent_by_the_first_users"].as_f64().unwrap();
    assert!(0.0 < spent && spent < 4.0);
    let ledger = sandbox.dp(&["ledger", "show", "state/ledger", "--json"]);
    let ledger = ledger.exits(0).json();
    assert_eq!(ledger["n_releases"], 1);
    assert_eq!(
        ledger["lifetimes"][0]["nights"],
        serde_json::json!([0, 1, 4])
    );
    assert_eq!(ledger["runs"][0]["command"], "nightly");
    // nothing but what the certificate covers is published, and it can be used
    let published = words("nightly publish state to-publish");
    sandbox.run(&published).exits(0);
    let names = names_in(&sandbox.path("to-publish"));
    assert!(
        !names
            .iter()
            .any(|name| name.contains("internal") || name.contains("first"))
    );
    sandbox.write("own.csv", "item,rating\nitem-1,5\nitem-3,1\n");
    let recommend = words("recommend --model to-publish --history own.csv -k 3");
    sandbox.run(&recommend).exits(0);
    // a model of an earlier night still follows from the list, which has more
    fs::rename(sandbox.path("to-publish"), sandbox.path("state/old")).unwrap();
    night(&sandbox, 6, "").exits(0);
    sandbox.dp(&words("verify state/old --recompute")).exits(0);
}

#[test]
fn what_is_private_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let mode = |name: &str| {
        let found = fs::metadata(sandbox.path(name)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode("state"), 0o700);
    for name in ["first-seen", "first-seen.key", "internal-nights.csv"] {
        assert_eq!(mode(&format!("state/{name}")), 0o600, "{name}");
    }
    let history = sandbox.text("state/internal-nights.csv");
    assert!(
        history.starts_with("night,metric,value,baseline,baseline_value\n0,RMSE"),
        "{history}"
    );
}

#[test]
fn items_are_added_behind_those_that_were_there() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    // the new ones come first and last in the order of ids
    sandbox.write("items.csv", catalogue(25) + "a-new-one,A\nz-new-one,Z\n");
    let mut text = ratings(300, 25, 10);
    for user in 0..50 {
        text.push_str(&format!("{USER}{user},a-new-one,{}\n", 1 + user % 5));
    }
    sandbox.write("ratings.csv", text);
    night(&sandbox, 1, "--items items.csv").exits(0);
    let items = sandbox.text("state/items.csv");
    assert!(items.ends_with("a-new-one,A\nz-new-one,Z\n"), "{items}");
    let model = sandbox.text("state/model/items.csv");
    assert!(model.starts_with("item,title\na-new-one"), "{model}");
    let kept = sandbox.read("state/model/item_factors.safetensors");
    sandbox
        .dp(&words("verify state/model --recompute"))
        .exits(0);
    // without the catalogue they stay; from the list alone the model is the same
    fs::remove_file(sandbox.path("state/nights.json")).unwrap();
    night(&sandbox, 1, "").exits(0);
    assert_eq!(sandbox.read("state/model/item_factors.safetensors"), kept);
}

#[test]
fn features_of_items_are_published_and_make_the_same_model_again() {
    let sandbox = begun();
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    let genre = |n: usize| ["Drama", "War|Drama", "War", "Musical"][n % 4];
    let described = |n: usize| -> String {
        let items = (0..n).map(|n| format!("item-{n},T,{},{}\n", genre(n), 1980 + 3 * (n % 9)));
        "item,title,genres,year\n".to_owned() + &items.collect::<String>()
    };
    sandbox.write("items.csv", described(25));
    init(&sandbox, "--feature-cols people").exits(4);
    let begun = init(&sandbox, "--feature-cols title").exits(0);
    begun.prints(&["1, of title"]);
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    init(&sandbox, "--feature-cols genres,year").exits(0);
    let head = sandbox.text("state/items.csv");
    let head = head.lines().next().unwrap();
    // decades of years
    assert_eq!(
        head,
        "item,title,genres=Drama,genres=Musical,genres=War,year=1980s,year=1990s,year=2000s"
    );
    night(&sandbox, 0, "").exits(0);
    // two more items, one of them with a name that no column is of
    sandbox.write(
        "items.csv",
        described(25) + "z1,Z,War|Western,1999\nz2,Z,,\n",
    );
    night(&sandbox, 1, "--items items.csv").exits(0);
    let items = sandbox.text("state/items.csv");
    assert!(
        items.ends_with("z1,Z,0,0,1,0,1,0\nz2,Z,0,0,0,0,0,0\n"),
        "{items}"
    );
    let kept = sandbox.read("state/model/item_factors.safetensors");
    fs::remove_file(sandbox.path("state/nights.json")).unwrap();
    night(&sandbox, 1, "").exits(0);
    assert_eq!(sandbox.read("state/model/item_factors.safetensors"), kept);
    sandbox.run(&words("nightly publish state public")).exits(0);
    let recompute = words("verify public --recompute --releases state/releases.list");
    sandbox.dp(&recompute).exits(0);
    let order = sandbox.text("public/item_order.csv");
    sandbox.write("public/item_order.csv", order.replacen(",1,", ",0,", 1));
    assert_ne!(sandbox.dp(&recompute).code, 0);
    // likes have none
    let likes = "nightly init likes --items items.csv --lifetime-epsilon 4 --delta 1e-5 --feedback implicit --feature-cols genres";
    sandbox.run(&words(likes)).exits(2);
    assert!(!sandbox.exists("likes") && !sandbox.exists(".likes.begun"));
}

#[test]
fn new_items_of_a_night_that_was_refused_can_be_corrected() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let state = || {
        let files = ["state/items.csv", "state/nightly.json"];
        files.map(|name| sandbox.read(name))
    };
    let before = state();
    let (items, ratings) = (sandbox.text("items.csv"), sandbox.text("ratings.csv"));
    sandbox.write("items.csv", items.clone() + "wrong,\n");
    sandbox.write("ratings.csv", ratings.clone() + "u1,item-1,many\n");
    night(&sandbox, 1, "--items items.csv").exits(4);
    assert_eq!(state(), before);
    sandbox.write("items.csv", items + "right,\n");
    sandbox.write("ratings.csv", ratings);
    night(&sandbox, 1, "--items items.csv").exits(0);
    let items = sandbox.text("state/items.csv");
    assert!(items.contains("right") && !items.contains("wrong"));
    assert!(!sandbox.path("state/items.next.csv").exists());
}

#[test]
fn items_that_were_edited_between_nights_are_refused_before_anything_is_paid() {
    let sandbox = begun();
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    let described = |n: usize| -> String {
        let items = (0..n).map(|n| format!("item-{n},T,{}\n", ["Drama", "War"][n % 2]));
        "item,title,genres\n".to_owned() + &items.collect::<String>()
    };
    sandbox.write("items.csv", described(25));
    init(&sandbox, "--feature-cols genres").exits(0);
    let mut number = 0;
    let mut accepts = |more: &str| {
        night(&sandbox, number, more).exits(0);
        number += 1;
    };
    let refuses = |edited: &str| {
        let (whole, ledger) = (
            sandbox.text("state/items.csv"),
            sandbox.read("state/ledger"),
        );
        assert_ne!(edited, whole);
        sandbox.write("state/items.csv", edited);
        let refused = night(&sandbox, 20, "").exits(4);
        refused.says(&["items.csv", "ids or features", "nothing was paid"]);
        assert_eq!(sandbox.read("state/ledger"), ledger);
        sandbox.write("state/items.csv", whole);
    };
    // what an earlier version made binds nothing until its next night
    let mut state: Value = serde_json::from_slice(&sandbox.read("state/nightly.json")).unwrap();
    assert_eq!(state["bound_items"]["n_items"], 25);
    let bound = state.as_object_mut().unwrap().remove("bound_items");
    state["schema"] = 1.into();
    sandbox.write("state/nightly.json", state.to_string());
    accepts("");
    let state: Value = serde_json::from_slice(&sandbox.read("state/nightly.json")).unwrap();
    assert_eq!(Some(&state["bound_items"]), bound.as_ref());
    let items = sandbox.text("state/items.csv");
    refuses(&items.replacen("item-7,", "item-x,", 1));
    refuses(&items.replacen(",1,0\n", ",0,1\n", 1));
    refuses(&items.replacen("genres=Drama", "genres=Musical", 1));
    let last = items.trim_end().rfind('\n').unwrap();
    refuses(&items[..=last]);
    // titles may be corrected, and the catalogue may grow
    sandbox.write(
        "state/items.csv",
        items.replacen("item-3,T,", "item-3,Third,", 1),
    );
    accepts("");
    sandbox.write("items.csv", described(26));
    accepts("--items items.csv");
    let items = sandbox.text("state/items.csv");
    refuses(&items.replacen("item-25,", "item-x,", 1));
    accepts("");
    sandbox
        .dp(&words("verify state/model --recompute"))
        .exits(0);
    // a state that binds nothing is not one of this version
    let mut state: Value = serde_json::from_slice(&sandbox.read("state/nightly.json")).unwrap();
    state.as_object_mut().unwrap().remove("bound_items");
    sandbox.write("state/nightly.json", state.to_string());
    night(&sandbox, 20, "").exits(4).says(&["bound_items"]);
}

#[test]
fn features_that_are_user_ids_are_refused_whatever_their_column_is_called() {
    for column in ["owner", "owner=first"] {
        let sandbox = Sandbox::new();
        sandbox.write("ratings.csv", ratings(300, 25, 10));
        let rows = (0..24).map(|item| format!("item-{item},{USER}{}\n", item / 2));
        let items = format!("item,{column}\n{}", rows.collect::<String>());
        sandbox.write("items.csv", items);
        init(&sandbox, &format!("--feature-cols {column}")).exits(0);
        let before = sandbox.read("state/ledger");
        night(&sandbox, 0, "")
            .exits(4)
            .says(&["titles or feature values are ids of users"]);
        assert_eq!(sandbox.read("state/ledger"), before);
    }
}

#[test]
fn a_store_that_is_older_missing_or_changed_is_refused_and_costs_nothing() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let older = sandbox.read("state/first-seen");
    night(&sandbox, 1, "").exits(0);
    let newest = sandbox.read("state/first-seen");
    let mut changed = newest.clone();
    if let Some(byte) = changed.last_mut() {
        *byte ^= 1;
    }
    let refuse = || {
        let before = sandbox.read("state/ledger");
        night(&sandbox, 2, "").exits(5);
        assert_eq!(sandbox.read("state/ledger"), before);
    };
    for bad in [older, changed] {
        sandbox.write("state/first-seen", bad);
        refuse();
    }
    fs::remove_file(sandbox.path("state/first-seen")).unwrap();
    refuse();
    sandbox.write("state/first-seen", newest);
    night(&sandbox, 2, "").exits(0);
}

#[test]
fn other_users_and_bad_arguments_are_refused_before_anything_is_paid() {
    let sandbox = begun();
    for (more, says) in [("", "exists already"), ("--min-rating 3", "exists already")] {
        init(&sandbox, more).exits(2).says(&[says]);
    }
    let others = [
        "nightly",
        "init",
        "other",
        "--items",
        "items.csv",
        "--delta",
        "1e-5",
    ];
    for (more, says) in [
        (&["--lifetime-epsilon", "1"][..], "rating_range"),
        (
            &["--lifetime-epsilon", "0", "--rating-range", "1,5"],
            "epsilon",
        ),
        (
            &["--lifetime-epsilon", "1", "--rating-range", "5,1"],
            "rating",
        ),
        (
            &[
                "--lifetime-epsilon",
                "1",
                "--rating-range",
                "1,5",
                "--most-items",
                "3",
            ],
            "25 items",
        ),
        (
            &[
                "--lifetime-epsilon",
                "1",
                "--rating-range",
                "1,5",
                "--feedback",
                "implicit",
            ],
            "no meaning",
        ),
    ] {
        let run = sandbox.run(&[&others[..], more].concat()).exits(2);
        let said = run.stderr.replace("--rating-range", "rating_range");
        assert!(said.contains(says), "{said}");
        assert!(!sandbox.exists("other"));
    }
    night(&sandbox, 0, "").exits(0);
    let before = ["state/ledger", "state/ledger.users"].map(|name| sandbox.read(name));
    let users = ratings(300, 25, 10).replace(USER, "somebody-else-");
    sandbox.write("other.csv", users);
    let other = words("nightly run state other.csv --night 1");
    let run = sandbox.run(&other).exits(5).says(&["keep their ids"]);
    assert!(!run.stderr.contains("--same-data-set"), "{}", run.stderr);
    // nor are they recorded as people whom the ledger has paid for
    let after = ["state/ledger", "state/ledger.users"].map(|name| sandbox.read(name));
    assert_eq!(after, before);
    // without the files that name its users the ledger pays for nothing, and no flag of nights changes that
    fs::rename(sandbox.path("state/ledger.key"), sandbox.path("key")).unwrap();
    let run = night(&sandbox, 1, "").exits(5).says(&["restore both"]);
    assert!(!run.stderr.contains("--same-data-set"), "{}", run.stderr);
    fs::rename(sandbox.path("key"), sandbox.path("state/ledger.key")).unwrap();
    let missing = words("nightly run elsewhere ratings.csv");
    sandbox.run(&missing).exits(2).says(&["dp nightly init"]);
}

/// A ledger that already pays for other runs pays for a lifetime as far as it has room.
#[test]
fn a_lifetime_may_be_paid_from_a_ledger_that_is_there() {
    let sandbox = begun();
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    let create = words("ledger create all.ledger --data-set d --epsilon 5 --delta 1e-5");
    sandbox.run(&create).exits(0);
    let train = "train ratings.csv --epsilon 2 --delta 1e-5 --items items.csv --ledger all.ledger --data-set d";
    let train = || {
        let mut command = sandbox.command();
        command
            .env_remove("DP_ITEM_IDS_ARE_PUBLIC")
            .args(words(train));
        Run::from(command.arg("--force").output().unwrap())
    };
    train().exits(0);
    init(&sandbox, "--ledger all.ledger --data-set d").exits(0);
    night(&sandbox, 0, "").exits(0);
    night(&sandbox, 1, "").exits(0);
    // what is left of 5 after 2 and 4
    train().exits(3);
    fs::rename(sandbox.path("state"), sandbox.path("first")).unwrap();
    init(&sandbox, "--ledger all.ledger --data-set d").exits(3);
    assert!(!sandbox.exists("state"));
}

/// What is there after a kill between any two steps of `dp nightly init`.
#[test]
fn an_interrupted_beginning_goes_on_with_what_was_paid_for() {
    let hidden = ".state.begun";
    let n_paid = |sandbox: &Sandbox, ledger: &str| {
        let shown = sandbox.dp(&["ledger", "show", ledger, "--json"]);
        shown.exits(0).json()["n_releases"].as_u64()
    };
    for n in 0..=7 {
        let sandbox = begun();
        let of = |name: &str| sandbox.read(&format!("state/{name}"));
        let whole = of("nightly.json");
        let mut unpaid: Value = serde_json::from_slice(&whole).unwrap();
        unpaid["release_id"] = "".into();
        let ledger = of("ledger");
        let end_of_head = ledger.iter().position(|&byte| byte == b'\n').unwrap();
        // the ledger is made, then its line pays
        let steps = [
            ("items.csv", of("items.csv")),
            ("nightly.json", unpaid.to_string().into_bytes()),
            ("ledger", ledger[..=end_of_head].to_vec()),
            ("first-seen.key", of("first-seen.key")),
            ("first-seen", of("first-seen")),
            ("ledger", ledger.clone()),
            ("nightly.json", whole),
        ];
        fs::remove_dir_all(sandbox.path("state")).unwrap();
        fs::create_dir(sandbox.path(hidden)).unwrap();
        for (name, bytes) in &steps[..n] {
            sandbox.write(&format!("{hidden}/{name}"), bytes);
        }
        night(&sandbox, 0, "").exits(2).says(&["dp nightly init"]);
        if n >= 2 {
            for more in ["--pace 0.3", "--tastes 2", "--data-set other"] {
                init(&sandbox, more).exits(2).says(&["interrupted", hidden]);
            }
            sandbox.write("items.csv", catalogue(24));
            init(&sandbox, "").exits(2).says(&["its items differ"]);
            sandbox.write("items.csv", catalogue(25));
        }
        init(&sandbox, "").exits(0);
        assert!(!sandbox.exists(hidden) && !sandbox.exists("state/.lock"));
        assert_eq!(n_paid(&sandbox, "state/ledger"), Some(1), "{n} steps");
        night(&sandbox, 0, "").exits(0);
        let verify = words("verify state/model --ledger state/ledger --recompute");
        sandbox.dp(&verify).exits(0);
    }
    // the same from a ledger that has no room for a second lifetime, killed before the folder got its name
    let sandbox = begun();
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    let create = words("ledger create all.ledger --data-set d --epsilon 5 --delta 1e-5");
    sandbox.run(&create).exits(0);
    let begin = || init(&sandbox, "--ledger all.ledger --data-set d");
    begin().exits(0);
    fs::rename(sandbox.path("state"), sandbox.path(hidden)).unwrap();
    begin().exits(0);
    assert_eq!(n_paid(&sandbox, "all.ledger"), Some(1));
    night(&sandbox, 0, "").exits(0);
}

#[test]
fn of_two_beginnings_at_once_one_pays_and_the_other_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("items.csv", catalogue(25));
    let create = words("ledger create all.ledger --data-set d --epsilon 9 --delta 1e-5");
    for _ in 0..8 {
        for name in ["all.ledger", "all.ledger.key", "all.ledger.users"] {
            fs::remove_file(sandbox.path(name)).ok();
        }
        sandbox.run(&create).exits(0);
        let begin = |_| {
            let line = "nightly init state --items items.csv --lifetime-epsilon 4 --delta 1e-5 --horizon 30 --rating-range 1,5 --ledger all.ledger --data-set d";
            let mut command = sandbox.command();
            let command = command.args(words(line));
            let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let both = [0, 1].map(begin);
        let both = both.map(|child| Run::from(child.wait_with_output().unwrap()));
        let n_begun = both.iter().filter(|run| run.code == 0).count();
        let said = both.each_ref().map(|run| &run.stderr);
        assert_eq!(n_begun, 1, "{said:?}");
        // the folder is being made, or was made a moment ago
        let refused = both.into_iter().find(|run| run.code != 0).unwrap();
        assert!([2, 7].contains(&refused.code), "{}", refused.stderr);
        let shown = sandbox.dp(&["ledger", "show", "all.ledger", "--json"]);
        assert_eq!(shown.exits(0).json()["n_releases"], 1);
        assert!(!sandbox.exists(".state.begun") && !sandbox.exists("state/.lock"));
        fs::remove_dir_all(sandbox.path("state")).unwrap();
    }
}

#[test]
fn a_night_that_is_killed_is_made_or_lost_and_never_made_twice() {
    let sandbox = begun();
    let mut number = 0;
    for wait in (0..240).step_by(12) {
        let mut command = sandbox.command();
        let line = format!("nightly run state ratings.csv --night {number} --quiet");
        let mut child = command
            .args(words(&line))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().ok();
        child.wait().unwrap();
        number += 1;
    }
    let last = night(&sandbox, number, "--json").exits(0).json();
    assert_eq!(last["made_now"], true);
    let found = status(&sandbox);
    let (listed, paid) = (&found["n_listed"], &found["n_paid"]);
    assert!(listed.as_u64() <= paid.as_u64(), "{found}");
    let ledger = sandbox.dp(&["ledger", "show", "state/ledger", "--json"]);
    let nights = ledger.exits(0).json()["lifetimes"][0]["nights"].clone();
    let nights: Vec<u64> = serde_json::from_value(nights).unwrap();
    assert_eq!(nights.iter().collect::<BTreeSet<_>>().len(), nights.len());
    assert!(nights.is_sorted() && nights.last() == Some(&number.into()));
    sandbox
        .dp(&words("verify state/model --recompute"))
        .exits(0);
    let with_ledger = words("verify state/model --ledger state/ledger");
    sandbox.dp(&with_ledger).exits(0);
}

/// Entries of the store of first nights: 20 bytes each behind a head.
fn n_seen(sandbox: &Sandbox) -> usize {
    let head = sandbox.read("state/first-seen").len() % 20;
    (sandbox.read("state/first-seen").len() - head) / 20
}

#[test]
fn users_are_known_by_their_ids_wherever_their_rows_are() {
    let sandbox = begun();
    let empty = n_seen(&sandbox);
    night(&sandbox, 0, "").exits(0);
    assert_eq!(n_seen(&sandbox) - empty, 300);
    // the same users from last to first, without the first 100 and with 40 new ones before all others
    let text = ratings(340, 25, 10);
    let of = |line: &str| -> usize {
        let id = line.split(',').next().unwrap();
        id.strip_prefix(USER).unwrap().parse().unwrap()
    };
    let mut lines: Vec<&str> = text
        .lines()
        .skip(1)
        .filter(|line| of(line) >= 100)
        .collect();
    lines.reverse();
    sandbox.write(
        "ratings.csv",
        format!("user,item,rating\n{}\n", lines.join("\n")),
    );
    night(&sandbox, 1, "").exits(0);
    assert_eq!(n_seen(&sandbox) - empty, 340);
    // all of them, in their first order
    sandbox.write("ratings.csv", ratings(340, 25, 10));
    night(&sandbox, 2, "").exits(0);
    assert_eq!(n_seen(&sandbox) - empty, 340);
}

/// With the same noise in nobody's reach, what is left of an erased user is told by the store: it has as many entries as before.
#[test]
fn whoever_is_erased_stays_in_the_store_and_the_nights_go_on() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let before = sandbox.read("state/first-seen");
    let user = format!("{USER}7");
    let erase = || sandbox.run(&["nightly", "erase", "state", &user, "--json"]);
    let erased = erase().exits(0).json();
    assert_eq!(erased["n_erased"], 1);
    // when and how many, without an id, for the owner alone
    let time = erased["time"].as_str().unwrap();
    let evidence = format!("time,n_ids\n{time},1\n");
    assert_eq!(sandbox.text("state/internal-erasures.csv"), evidence);
    sandbox.run(&words("nightly erase state")).exits(2);
    let after = sandbox.read("state/first-seen");
    assert_ne!(after, before);
    // the same length again: the user's entry became a tombstone
    assert_eq!(after.len(), before.len());
    // an erased user is not measured either, although the file still has the ratings
    let is_measured = || {
        let table = sandbox.text("state/model-internal/internal-users.csv");
        (table.lines()).any(|line| line.split(',').next() == Some(user.as_str()))
    };
    assert!(is_measured());
    night(&sandbox, 1, "").exits(0);
    assert!(!is_measured());
    assert_eq!(sandbox.read("state/first-seen").len(), after.len());
    // a list keeps ids off the command line
    sandbox.write("gone.csv", format!("{USER}8\n{USER}9\n"));
    let listed = words("nightly erase state --list gone.csv --json");
    assert_eq!(sandbox.run(&listed).exits(0).json()["n_erased"], 2);
    let evidence = sandbox.text("state/internal-erasures.csv");
    assert!(
        evidence.lines().count() == 3 && evidence.ends_with(",2\n") && !evidence.contains(USER)
    );
    assert_eq!(status(&sandbox)["internal_erasures"], serde_json::json!([]));
    let shown = sandbox.run(&words("nightly status state --show-internal"));
    shown.exits(0).prints(&["ids erased", "1 on 2", "2 on 2"]);
    night(&sandbox, 2, "").exits(0);
    let table = sandbox.text("state/model-internal/internal-users.csv");
    assert!(!table.contains(&format!("{USER}8,")), "{table}");
    // the store before that is not taken
    sandbox.write("state/first-seen", before);
    night(&sandbox, 3, "").exits(5);
}

#[test]
fn a_file_that_is_no_table_is_refused_before_there_is_a_night() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let rows = ratings(300, 25, 10);
    let rows = rows.split_once('\n').unwrap().1;
    for (text, said) in [("", "at least one record"), (rows, "--header")] {
        sandbox.write("ratings.csv", text);
        night(&sandbox, 1, "").exits(4).says(&[said]);
    }
    let found = status(&sandbox);
    assert_eq!(
        (&found["n_paid"], &found["n_listed"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn columns_are_named_once_for_all_nights() {
    let sandbox = begun();
    let text = sandbox.text("ratings.csv");
    let rows = text.split_once('\n').unwrap().1;
    let with_header = |names: &str| format!("{names}\n{rows}");
    sandbox.write("ratings.csv", with_header("person,film,stars"));
    let named = "--user-col person --item-col film --rating-col stars";
    let line =
        "nightly init named --items items.csv --lifetime-epsilon 4 --delta 1e-5 --rating-range 1,5";
    // a column with two meanings is refused before anything is paid
    let twice = sandbox.run(&words(&format!("{line} --user-col film --item-col film")));
    twice.exits(2).says(&["--user-col and --item-col"]);
    for (columns, says) in [
        (
            "--user-col ITEM",
            "usual name of the item column: give --item-col",
        ),
        (
            "--item-col rating",
            "usual name of the rating column: give --rating-col",
        ),
        (
            "--rating-col user_id",
            "usual name of the user column: give --user-col",
        ),
    ] {
        let run = sandbox.run(&words(&format!("{line} {columns}")));
        run.exits(2).says(&[says]);
    }
    assert!(!sandbox.exists("named"));
    sandbox.run(&words(&format!("{line} {named}"))).exits(0);
    let night = |number: u32, more: &str| {
        let line = format!("nightly run named ratings.csv --night {number} {more}");
        sandbox.run(&words(&line))
    };
    night(0, "").exits(0);
    let certificate = sandbox.text("named/model/certificate.json");
    assert!(certificate.contains("the column `person`"), "{certificate}");
    // a night may name another one
    sandbox.write("ratings.csv", with_header("somebody,film,stars"));
    night(1, "").exits(4).says(&["looked for person"]);
    // and a lifetime protects the users of one column
    night(1, "--user-col somebody")
        .exits(2)
        .says(&["`person`", "now it would be `somebody`"]);
    sandbox.write("ratings.csv", with_header("user,item,rating"));
    night(2, "").exits(4);
    // a file without a header and without records makes a night too
    sandbox.write("ratings.csv", "");
    night(2, "--header person,film,stars").exits(0);
    sandbox.write("ratings.csv", with_header("user,item,rating"));
    // a catalogue whose ids come from another column than those of the nights
    let items = sandbox.text("items.csv").replacen("item,", "film,item,", 1);
    sandbox.write(
        "others.csv",
        items.replace('\n', "\n0,").trim_end_matches("0,"),
    );
    let other = line.replace("named --items items", "other --items others");
    sandbox
        .run(&words(&format!("{other} --item-col film")))
        .exits(4);
    assert!(!sandbox.exists("other"));
    // a state without named columns stores none and looks for the usual ones
    let settings = sandbox.value("state/nightly.json");
    assert!(settings.get("columns").is_none(), "{settings}");
    self::night(&sandbox, 0, "").exits(0);
}

#[test]
fn columns_of_nights_of_rows_are_named_once() {
    let sandbox = Sandbox::new();
    let text = samples(40).replacen("user,", "clinic,", 1);
    let (header, rows) = text.split_once('\n').unwrap();
    sandbox.write("rows.csv", &text);
    sandbox.write("bare.csv", rows);
    let init = |state: &str, more: &str| {
        let line = format!(
            "nightly init-rows {state} --rank 1 --target-col target --feature-cols a,b --lifetime-epsilon 8 --delta 1e-5 {more}"
        );
        sandbox.run(&words(&line)).exits(0)
    };
    init("named", "--user-col clinic").prints(&["3 columns have none", "--bounds"]);
    let bare = "--user-col clinic --feature-range -9,9 --target-range -9,9";
    let ranged = init("bare", bare);
    assert!(!ranged.stdout.contains("have none"), "{}", ranged.stdout);
    let bare = format!("bare.csv --header {header}");
    for (state, file) in [("named", "rows.csv"), ("bare", &bare)] {
        let line = format!("nightly run-rows {state} {file} --night 0");
        sandbox.run(&words(&line)).exits(0);
    }
    sandbox
        .run(&words("nightly run-rows named bare.csv --night 1"))
        .exits(4);
}

#[test]
fn mistaken_arguments_of_nights_are_named() {
    let sandbox = begun();
    let epsilon = "nightly init other --items items.csv --epsilon 4 --delta 1e-5";
    sandbox
        .run(&words(epsilon))
        .exits(2)
        .says(&["--lifetime-epsilon is the epsilon of all nights"]);
    let hint = "--lifetime-epsilon is";
    let other = sandbox.run(&words("nightly status state --epsilon 4"));
    assert!(!other.exits(2).stderr.contains(hint));
    let swapped = "STATE and RATINGS are swapped: state is the folder of a nightly state";
    sandbox
        .run(&words("nightly run ratings.csv state"))
        .exits(2)
        .says(&[swapped]);
    sandbox
        .run(&words("nightly run-rows ratings.csv state"))
        .exits(2)
        .says(&["STATE and ROWS are swapped"]);
    sandbox
        .run(&words("nightly run ratings.csv items.csv"))
        .exits(2)
        .says(&["ratings.csv is not the folder of a nightly state"]);
}

#[test]
fn a_list_of_users_to_erase_may_have_a_header_with_a_usual_name() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let erase = |text: &str| {
        sandbox.write("list.csv", text);
        sandbox.run(&words("nightly erase state --list list.csv"))
    };
    let first = "the first line of the list is one of them";
    for header in ["user", "userId", "user_id"] {
        let done = erase(&format!("{header}\n{USER}8\n")).exits(0);
        done.prints(&["marked as erased: 1 (", "is its header"]);
    }
    let done = erase(&format!("person\n{USER}8\n")).exits(0);
    done.prints(&["marked as erased: 2 (", first]);
    erase(&format!("user,since\n{USER}8,2020\n"))
        .exits(4)
        .says(&["it has 2 columns; expected one id on each line"]);
}

/// Everybody sees whether there is a night, so it must not follow from how many users are new, or from how few there are.
#[test]
fn nights_are_made_whoever_comes() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    // 7 known users among 3,000 new ones
    let text = ratings(3000, 25, 10).replace(USER, "new-");
    let known: String = ratings(7, 25, 10)
        .lines()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect();
    sandbox.write("ratings.csv", text + &known);
    night(&sandbox, 1, "").exits(0);
    let internal = sandbox.text("state/model-internal/internal.json");
    assert!(internal.contains("known from earlier nights"), "{internal}");
    // one user with one rating, and nobody at all
    sandbox.write(
        "ratings.csv",
        format!("user,item,rating\n{USER}1,item-1,4\n"),
    );
    night(&sandbox, 2, "").exits(0);
    sandbox.write("ratings.csv", "user,item,rating\n");
    night(&sandbox, 3, "").exits(0);
    assert_eq!(status(&sandbox)["n_listed"], 4);
    // which the owner is told, and nobody else
    let said = "no records of the file could be used";
    let internal = sandbox.run(&words("nightly status state --show-internal"));
    internal.exits(0).prints(&[said]);
    let public = sandbox.run(&words("nightly status state")).exits(0);
    assert!(!public.stdout.contains(said), "{}", public.stdout);
    let report = sandbox.text("state/model/report.json");
    assert!(!report.contains(said), "{report}");
    sandbox
        .dp(&words("verify state/model --recompute"))
        .exits(0);
}

#[test]
fn the_status_shows_errors_by_night_to_the_owner() {
    let sandbox = begun();
    for number in [0, 1] {
        night(&sandbox, number, "").exits(0);
        // a file of an earlier version has no baselines
        if number == 0 {
            let old = "night,metric,value\n0,RMSE test,0.75\n";
            sandbox.write("state/internal-nights.csv", old);
        }
    }
    assert_eq!(status(&sandbox)["internal_by_night"], serde_json::json!([]));
    let hidden = sandbox
        .run(&words("nightly status state"))
        .exits(0)
        .stdout
        .clone();
    assert!(
        hidden.contains("internal-nights.csv") && !hidden.contains("RMSE"),
        "{hidden}"
    );
    let noted = || {
        let ledger = sandbox.dp(&["ledger", "show", "state/ledger"]);
        ledger
            .exits(0)
            .stdout
            .contains("errors by night shown by dp nightly status")
    };
    assert!(!noted());
    let found = sandbox.run(&words("nightly status state --show-internal --json"));
    let found = found.exits(0).json();
    assert!(noted());
    let figures = found["internal_by_night"].as_array().unwrap();
    assert_eq!(figures.len(), 2);
    assert_eq!(
        (&figures[0]["value"], &figures[0]["baseline"]),
        (&0.75.into(), &serde_json::Value::Null)
    );
    assert_eq!(figures[1]["night"], 1);
    let metrics = &sandbox.value("state/model-internal/internal.json")["metrics"];
    let metrics = metrics.as_array().unwrap();
    let baseline = figures[1]["baseline"].as_str().unwrap();
    let of_baseline = |metric: &&serde_json::Value| metric[0].as_str().unwrap().ends_with(baseline);
    let expected = metrics.iter().find(of_baseline).unwrap()[1]
        .as_f64()
        .unwrap();
    let value = figures[1]["baseline_value"].as_f64().unwrap();
    assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    assert!(figures[1]["value"].as_f64().unwrap() > 0.0);
    let shown = sandbox
        .run(&words("nightly status state --show-internal"))
        .exits(0)
        .stdout
        .clone();
    let said = format!("; {baseline} {value:.4} (internal: not to be published)");
    assert!(shown.contains(&said), "{shown}");
    assert!(shown.contains("RMSE test 0.7500 (internal"), "{shown}");
    night(&sandbox, 2, "").exits(0);
}

#[test]
fn the_status_tells_the_model_of_the_last_night_from_what_the_next_one_learns() {
    let sandbox = begun();
    let before = sandbox.run(&words("nightly status state")).exits(0);
    before.prints(&["none yet", "learns item biases alone"]);
    let made = night(&sandbox, 0, "--json").exits(0).json();
    // the state of nights whose sums were clear enough for tastes to begin
    let mut kept = sandbox.value("state/nights.json");
    kept["n_tastes"] = 8.into();
    sandbox.write("state/nights.json", kept.to_string());
    let status = sandbox.run(&words("nightly status state --json")).exits(0);
    assert_eq!(status.json()["model"], made["model"]);
    let shown = sandbox.run(&words("nightly status state")).exits(0);
    shown.prints(&[
        "(item bias and 2 global effects)",
        "learns item biases and 8 tastes",
    ]);
}

#[test]
fn a_state_that_was_put_back_goes_on_above_all_nights_that_were_made() {
    let sandbox = begun();
    sandbox
        .run(&words("nightly publish state to-publish"))
        .exits(2)
        .says(&["no model to publish yet", "dp nightly run"]);
    sandbox
        .run(&words("nightly publish state state/to-publish"))
        .exits(2)
        .says(&["contains the other"]);
    night(&sandbox, 0, "").exits(0);
    // with an older ledger and store, the list has a night that was not paid for
    let older = [
        "ledger",
        "first-seen",
        "first-seen.key",
        "releases.list",
        "ledger.users",
    ];
    let older = older.map(|name| {
        let name = format!("state/{name}");
        let bytes = sandbox.read(&name);
        (name, bytes)
    });
    night(&sandbox, 2, "").exits(0);
    let newer = older.each_ref().map(|(name, _)| sandbox.read(name));
    // the newest file of users records how many nights there were
    for (name, bytes) in &older[..4] {
        sandbox.write(name, bytes);
    }
    night(&sandbox, 3, "--restored")
        .exits(5)
        .says(&["older copy", "all files of one copy"]);
    for (name, bytes) in &older {
        sandbox.write(name, bytes);
    }
    // what was kept of night 2 shows that they were restored
    night(&sandbox, 3, "")
        .exits(5)
        .says(&["older than nights.json", "restored"]);
    sandbox.write("state/releases.list", &newer[3]);
    night(&sandbox, 3, "--restored")
        .exits(5)
        .says(&["did not pay for night 2", "from the same copy"]);
    fs::remove_file(sandbox.path("state/releases.list")).unwrap();
    for ((name, _), bytes) in older.iter().zip(&newer).take(3) {
        sandbox.write(name, bytes);
    }
    night(&sandbox, 3, "")
        .exits(5)
        .says(&["releases.list lacks"]);
    // an older list alone lacks night 2
    let (list, bytes) = &older[3];
    sandbox.write(list, bytes);
    night(&sandbox, 3, "")
        .exits(5)
        .says(&["lacks nights that nights.json has"]);
    for ((name, _), bytes) in older.iter().zip(newer) {
        sandbox.write(name, bytes);
    }
    night(&sandbox, 2, "--restored")
        .exits(2)
        .says(&["night 2 was made already"]);
    night(&sandbox, 3, "--restored").exits(0);
    let run = sandbox.run(&words("nightly run state ratings.csv --restored"));
    run.exits(2).says(&["night"]);
}

/// What the next night is refused for is refused by the status too, in the same words.
#[test]
fn the_status_of_a_state_fails_as_its_next_night_does() {
    let sandbox = begun();
    let names = [
        "first-seen",
        "items.csv",
        "ledger",
        "ledger.key",
        "ledger.users",
        "nights.json",
        "releases.list",
    ];
    let copy = || names.map(|name| sandbox.read(&format!("state/{name}")));
    let restore = |copy: &[Vec<u8>]| {
        for (name, bytes) in names.iter().zip(copy) {
            sandbox.write(&format!("state/{name}"), bytes);
        }
    };
    night(&sandbox, 0, "").exits(0);
    let older = copy();
    night(&sandbox, 1, "").exits(0);
    let newest = copy();
    let older_files = |which: &[&str]| {
        restore(&newest);
        for (name, bytes) in names.iter().zip(&older) {
            if which.contains(name) {
                sandbox.write(&format!("state/{name}"), bytes);
            }
        }
    };
    let refused_alike = |what: &str| {
        let run = night(&sandbox, 2, "");
        let shown = sandbox.run(&words("nightly status state"));
        assert_ne!(run.code, 0, "{what}");
        assert_eq!(
            (shown.code, &shown.stderr),
            (run.code, &run.stderr),
            "{what}"
        );
        shown.prints(&["noise draws"]);
        let found = sandbox.run(&words("nightly status state --json"));
        let found = found.exits(run.code).json();
        let refused = found["refused"].as_str().unwrap();
        assert!(!refused.is_empty(), "{what}: {found}");
    };
    for which in [
        &["first-seen"][..],
        &["releases.list"],
        &["ledger"],
        &["ledger", "first-seen"],
        &["ledger", "ledger.users", "first-seen"],
    ] {
        older_files(which);
        refused_alike(&which.join(" "));
    }
    for name in [
        "first-seen",
        "releases.list",
        "ledger.key",
        "ledger.users",
        "items.csv",
    ] {
        restore(&newest);
        fs::remove_file(sandbox.path(&format!("state/{name}"))).unwrap();
        refused_alike(name);
    }
    restore(&newest);
    let items = sandbox.text("state/items.csv");
    sandbox.write("state/items.csv", items.replacen("item-7,", "item-x,", 1));
    refused_alike("another item");
    // a list with nights that the ledger did not pay for
    restore(&older);
    sandbox.write("state/releases.list", &newest[6]);
    night(&sandbox, 2, "").exits(5).says(&["older copy"]);
    let shown = sandbox.run(&words("nightly status state")).exits(5);
    shown.says(&["releases.list has nights that the ledger did not pay for"]);
    restore(&newest);
    assert_eq!(status(&sandbox)["refused"], Value::Null);
    night(&sandbox, 2, "").exits(0);
}

#[test]
fn the_status_names_a_damaged_report_and_tells_the_rest() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    for name in ["model/report.json", "model-internal/internal.json"] {
        sandbox.write(&format!("state/{name}"), "{");
    }
    let shown = sandbox.run(&words("nightly status state --show-internal"));
    shown.exits(0).prints(&[
        "1 in the list, 1 paid for",
        "report.json",
        "internal.json",
        "damaged",
    ]);
    assert_eq!(status(&sandbox)["model"], Value::Null);
    night(&sandbox, 0, "").exits(0);
    assert_ne!(status(&sandbox)["model"], Value::Null);
}

#[test]
fn likes_have_nights_too() {
    let sandbox = begun();
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    let line = "nightly init state --items items.csv --lifetime-epsilon 10 --delta 1e-5 --horizon 30 --feedback implicit --min-rating 3";
    sandbox.run(&words(line)).exits(0);
    for number in 0..4 {
        night(&sandbox, number, "").exits(0);
        sandbox
            .dp(&words("verify state/model --recompute"))
            .exits(0);
    }
    sandbox.write("own.csv", "item,rating\nitem-1,5\nitem-3,5\n");
    sandbox
        .run(&words("nightly publish state to-publish"))
        .exits(0);
    let recommend = words("recommend --model to-publish --history own.csv -k 3");
    sandbox.run(&recommend).exits(0);
}

#[test]
fn ratings_that_likes_leave_unread_are_told_on_the_first_night_only() {
    let sandbox = begun();
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    let line = "nightly init state --items items.csv --lifetime-epsilon 10 --delta 1e-5 --horizon 30 --feedback implicit";
    sandbox.run(&words(line)).exits(0);
    let told = [0, 1].map(|number| {
        let run = night(&sandbox, number, "").exits(0);
        run.stderr.contains("looks like ratings")
    });
    assert_eq!(told, [true, false]);
}

#[test]
fn a_number_below_the_last_night_is_refused_and_the_last_one_is_not_made_again() {
    let sandbox = begun();
    night(&sandbox, 3, "").exits(0);
    let ledger = sandbox.read("state/ledger");
    night(&sandbox, 2, "").exits(2).says(&[
        "night 2",
        "night 3 was made already",
        "a number above 3",
    ]);
    assert_eq!(
        night(&sandbox, 3, "--json").exits(0).json()["made_now"],
        false
    );
    assert_eq!(sandbox.read("state/ledger"), ledger);
    // nor is a date: it would take everybody's lifetime
    let before = sandbox.read("state/ledger");
    night(&sandbox, 20_261_127, "")
        .exits(2)
        .says(&["counts days"]);
    assert_eq!(sandbox.read("state/ledger"), before);
}

#[test]
fn catalogues_that_are_none_or_of_other_items_are_refused() {
    let sandbox = begun();
    sandbox
        .dp(&words(
            "nightly init other --items ratings.csv --rating-range 1,5 --lifetime-epsilon 4 --delta 1e-5",
        ))
        .exits(4)
        .says(&["a column of users"]);
    assert!(!sandbox.path("other").exists());
    night(&sandbox, 0, "--items items.csv").exits(0);
    let others = catalogue(25).replace("Title", "Book");
    sandbox.write("items.csv", others);
    night(&sandbox, 1, "--items items.csv")
        .exits(2)
        .says(&["25 of the 25 items", "other titles"]);
}

#[test]
fn the_last_night_is_written_again_also_where_the_catalogue_has_grown() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let before = sandbox.read("state/nights.json");
    sandbox.write("more.csv", catalogue(26));
    for _ in 0..2 {
        let made = night(&sandbox, 0, "--items more.csv --json")
            .exits(0)
            .json();
        assert_eq!(made["made_now"], false);
        assert_eq!(sandbox.read("state/nights.json"), before);
    }
    let verify = "verify state/model --recompute";
    sandbox.dp(&words(verify)).exits(0);
    night(&sandbox, 1, "").exits(0);
}

/// A state of nights of labelled rows, on one budget.
fn begun_with_rows(n_users: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("rows.csv", samples(n_users));
    let line = "nightly init-rows state --rank 1 --target-col target --feature-cols a,b,c,d,e,f --lifetime-epsilon 8 --delta 1e-5 --horizon 30";
    sandbox.run(&words(line)).exits(0);
    sandbox
}

#[test]
fn a_shared_subspace_is_paid_for_once_and_every_night_has_one() {
    let sandbox = begun_with_rows(400);
    let night = |number: u32, rows: &str| {
        let line = format!("nightly run-rows state {rows} --night {number} --json");
        sandbox.run(&words(&line))
    };
    let verify = words("verify state/model --ledger state/ledger --recompute");
    for (number, n_nights) in [(0, 1), (1, 2), (4, 3)] {
        let made = night(number, "rows.csv").exits(0).json();
        assert_eq!(
            (&made["made_now"], &made["n_nights"]),
            (&true.into(), &n_nights.into())
        );
        let model = sandbox.read("state/model/subspace.safetensors");
        // the same night again: the same subspace, and nothing is paid, also from the list alone
        fs::remove_file(sandbox.path("state/nights.json")).unwrap();
        assert_eq!(night(number, "rows.csv").exits(0).json()["made_now"], false);
        assert_eq!(sandbox.read("state/model/subspace.safetensors"), model);
        sandbox.dp(&verify).exits(0).prints(&["bit for bit"]);
    }
    states_a_lifetime(&sandbox);
    let status = sandbox.run(&words("nightly status state --json --show-internal"));
    let status = status.exits(0).json();
    assert_eq!(
        (&status["n_listed"], &status["n_paid"]),
        (&3.into(), &3.into())
    );
    assert_eq!(status["internal_by_night"].as_array().unwrap().len(), 3);
    // another number of rows for a user, and users from last to first
    let text = samples(400);
    let mut lines: Vec<&str> = text.lines().skip(3).collect();
    lines.reverse();
    sandbox.write(
        "other.csv",
        format!("user,target,a,b,c,d,e,f\n{}\n", lines.join("\n")),
    );
    night(5, "other.csv").exits(0);
    let empty = n_seen(&begun());
    assert_eq!(n_seen(&sandbox) - empty, 400);
    // what is published can be used
    sandbox.run(&words("nightly publish state public")).exits(0);
    let own: Vec<String> = samples(1)
        .lines()
        .map(|row| row.split_once(',').unwrap().1.to_owned())
        .collect();
    sandbox.write("me.csv", own.join("\n"));
    sandbox
        .run(&words("predict --model public --history me.csv"))
        .exits(0);
    sandbox
        .run(&["nightly", "erase", "state", &format!("{USER}7")])
        .exits(0);
    night(6, "rows.csv").exits(0);
    sandbox.dp(&verify).exits(0);
}

#[test]
fn nights_of_rows_and_of_ratings_are_not_mixed_up() {
    let sandbox = begun_with_rows(40);
    sandbox.write("ratings.csv", ratings(30, 25, 10));
    let ledger = sandbox.read("state/ledger");
    night(&sandbox, 0, "").exits(2).says(&["run-rows"]);
    // a night with other columns is refused before it is paid
    let text = samples(40).replacen("a,b,c", "a,b,x", 1);
    sandbox.write("other.csv", text);
    let run = sandbox.run(&words("nightly run-rows state other.csv --night 0"));
    let run = run.exits(4).says(&[
        "feature column not found",
        "init-rows",
        "under the same names",
    ]);
    for other in ["--feature-cols", "item-features.csv", "user,item,rating"] {
        assert!(!run.stderr.contains(other), "{}", run.stderr);
    }
    assert_eq!(sandbox.read("state/ledger"), ledger);
    let of_ratings = begun();
    of_ratings.write("rows.csv", samples(40));
    of_ratings
        .run(&words("nightly run-rows state rows.csv --night 0"))
        .exits(2)
        .says(&["dp nightly run"]);
    for (more, said) in [
        (
            "--rank 7 --lifetime-epsilon 1",
            "--rank is 7, and there are 2 features",
        ),
        ("--rank 1 --lifetime-epsilon 0", "--lifetime-epsilon is 0"),
    ] {
        let line = format!(
            "nightly init-rows other --target-col target --feature-cols a,b --delta 1e-5 {more}"
        );
        sandbox.run(&words(&line)).exits(2).says(&[said]);
        assert!(!sandbox.exists("other") && !sandbox.exists(".other.begun"));
    }
}

#[test]
fn the_owner_is_told_of_ratings_outside_the_range_and_of_what_item_biases_alone_reach() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    let internal = || sandbox.text("state/model-internal/internal.md");
    let outside = "are outside 1 to 3, the range that the settings state";
    let biases = "item biases (of this model, without the rest)";
    assert!(!internal().contains(outside) && internal().contains(biases));
    fs::remove_dir_all(sandbox.path("state")).unwrap();
    let line =
        "nightly init state --items items.csv --lifetime-epsilon 4 --delta 1e-5 --rating-range 1,3";
    sandbox.run(&words(line)).exits(0);
    let run = night(&sandbox, 0, "").exits(0);
    assert!(internal().contains(outside), "{}", internal());
    assert!(!run.stdout.contains("outside") && run.stderr.is_empty());
    let shown = sandbox.run(&words("nightly status state --show-internal"));
    shown.exits(0).prints(&[outside, "create a new state"]);
}

#[test]
fn a_night_says_whose_horizon_has_passed() {
    let sandbox = begun();
    let said =
        "users first seen on night 0 or before, if any, have used their budget for 30 nights";
    let before = night(&sandbox, 0, "").exits(0).stdout;
    assert!(!before.contains("have used their budget"), "{before}");
    let told = night(&sandbox, 30, "").exits(0);
    told.prints(&[said, "only users who came later"]);
    let status = sandbox.run(&words("nightly status state")).exits(0);
    status.prints(&["users first seen on night 1 or before"]);
}

#[test]
fn the_header_of_a_list_of_erased_users_may_be_the_column_of_the_state() {
    let sandbox = begun();
    let text = ratings(300, 25, 10).replacen("user", "Kunde", 1);
    sandbox.write("ratings.csv", text);
    night(&sandbox, 0, "--user-col Kunde").exits(0);
    sandbox.write("list.csv", format!("Kunde\n{USER}8\n"));
    let erase = sandbox.run(&words("nightly erase state --list list.csv"));
    erase
        .exits(0)
        .prints(&["marked as erased: 1 (", "is its header"]);
}

#[test]
fn a_ledger_that_lacks_nights_of_a_model_did_not_pay_for_it() {
    let sandbox = begun();
    night(&sandbox, 0, "").exits(0);
    night(&sandbox, 1, "").exits(0);
    let ledger = sandbox.text("state/ledger");
    for (n_nights, code) in [(0, 6), (1, 6), (2, 0)] {
        let mut left = n_nights + 1;
        let lines = ledger.split_inclusive('\n').take_while(|line| {
            left -= usize::from(line.starts_with("{\"night\""));
            left > 0
        });
        sandbox.write("cut.ledger", lines.collect::<String>());
        let verify = words("verify state/model --ledger cut.ledger");
        let found = sandbox.dp(&verify).exits(code);
        if code == 6 {
            let said = format!("made of 2 nights, and the ledger has {n_nights} of its lifetime");
            found.says(&[&said]);
        }
    }
}

#[test]
fn certificates_of_nights_name_what_was_looked_at_before_their_lifetime_began() {
    let sandbox = begun();
    let claim = "not chosen by looking";
    let ledger = "--ledger l.ledger --data-set d";
    let train = format!("train ratings.csv --epsilon 1 --delta 1e-5 {ledger} --ledger-epsilon 9");
    let certificate = || sandbox.text("state/model/certificate.json");
    for (look, is_claimed) in [("", true), ("--show-internal", false)] {
        fs::remove_dir_all(sandbox.path("state")).unwrap();
        let line = format!("{train} --force {look}");
        sandbox.run(&words(&line)).exits(0);
        init(&sandbox, ledger).exits(0);
        night(&sandbox, 0, "").exits(0);
        assert_eq!(certificate().contains(claim), is_claimed);
        let is_named = certificate().contains("figures that a run printed");
        assert_eq!(is_named, !is_claimed);
        // the settings of all nights were chosen before this look
        let line = format!("{train} --force --show-internal");
        sandbox.run(&words(&line)).exits(0);
        night(&sandbox, 1, "").exits(0);
        assert_eq!(certificate().contains(claim), is_claimed);
        for name in ["l.ledger", "l.ledger.key", "l.ledger.users"] {
            fs::remove_file(sandbox.path(name)).unwrap();
        }
    }
}

/// The statements that certificates of all nights have.
fn states_a_lifetime(sandbox: &Sandbox) {
    let verified = sandbox.dp(&["verify", "state/model"]).exits(0);
    verified.prints(&[
        "all nights of a user's lifetime together",
        "it is the 30 nights from the first on which a user is seen",
        "on which days there was a night, and when",
        "internal report: ",
        "a person keeps one user id for the lifetime",
    ]);
}
