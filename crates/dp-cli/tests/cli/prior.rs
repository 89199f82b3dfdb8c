//! `dp evidence`, and `dp train --prior`.

use std::fmt::Write as _;

use crate::support::{Sandbox, catalogue, words};

/// A sandbox with ratings, and with public ratings of the same items by other users.
fn with_public() -> Sandbox {
    let sandbox = Sandbox::with_ratings();
    sandbox.write("items.csv", catalogue(25));
    let mut public = "user,item,rating\n".to_owned();
    for user in 0..30 {
        for n in 0..8 {
            let item = (user * 5 + n * 3) % 25;
            writeln!(public, "p{user},item-{item},{}", 1 + (item + n) % 5).unwrap();
        }
    }
    sandbox.write("public.csv", public);
    sandbox
}

const MAKE: [&str; 5] = ["evidence", "ratings", "public.csv", "--out", "prior.csv"];

#[test]
fn public_ratings_become_a_prior_that_a_run_takes_and_its_model_follows_from() {
    let sandbox = with_public();
    sandbox.dp(&MAKE).exits(0);
    let header = sandbox.text("prior.csv");
    assert!(header.starts_with("item,bias,taste_1,"), "{header}");
    sandbox.dp(&MAKE).exits(7).says(&["prior.csv exists"]);

    sandbox
        .train(&["--prior", "prior.csv", "--insecure-seed", "1"])
        .exits(0);
    let with = sandbox.read("dp-model/item_factors.safetensors");
    let certificate = sandbox.text("dp-model/certificate.json");
    assert!(certificate.contains("was made from public data, not from these users"));
    sandbox
        .train(&["--insecure-seed", "1", "--out", "without"])
        .exits(0);
    assert_ne!(with, sandbox.read("without/item_factors.safetensors"));
}

#[test]
fn a_column_of_more_names_than_a_table_may_show_is_used_all_the_same() {
    let sandbox = with_public();
    let mut items = "item,genres,people\n".to_owned();
    for item in 0..25 {
        // 600 names, each of two items
        let people: Vec<String> = (0..600)
            .filter(|name| name % 25 == item || (name + 1) % 25 == item)
            .map(|name| format!("person {name}"))
            .collect();
        let genre = ["Drama", "War"][item % 2];
        writeln!(items, "item-{item},{genre},{}", people.join("|")).unwrap();
    }
    sandbox.write("described.csv", items);
    let table = |columns: &str, out: &str| {
        let run = ["evidence", "ratings", "public.csv", "--out", out];
        let more = ["--items", "described.csv", "--feature-cols", columns];
        sandbox.dp(&[&run[..], &more].concat()).exits(0);
        let text = sandbox.text(out);
        let header = text.lines().next().unwrap().to_owned();
        let cell = |line: &str| line.split(',').nth(1).unwrap().to_owned();
        let biases: Vec<String> = text.lines().skip(1).map(cell).collect();
        (header, biases)
    };
    let (header, without) = table("genres", "genres.csv");
    assert!(header.ends_with(",genres=Drama,genres=War"), "{header}");
    let (same, with) = table("people,genres", "both.csv");
    assert_eq!(same, header);
    assert_ne!(with, without);
}

/// Ratings of 200 users of whom half like even items and half odd ones, and two priors: one with
/// this taste, and one with another.
fn with_tastes() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut ratings = "user,item,rating\n".to_owned();
    for user in 0..200 {
        for n in 0..12 {
            let item = (5 * user + n) % 24;
            let rating = if (user + item) % 2 == 0 { 4 } else { 2 };
            writeln!(ratings, "u{user},i{item},{rating}").unwrap();
        }
    }
    sandbox.write("ratings.csv", ratings);
    for (name, width) in [("right.csv", 1), ("wrong.csv", 2)] {
        let rows = (0..24).map(|item| format!("i{item},0,{}\n", [0.5, -0.5][item / width % 2]));
        let rows: String = rows.collect();
        sandbox.write(name, format!("item,bias,taste_1\n{rows}"));
    }
    sandbox
}

#[test]
fn the_outcome_of_the_vote_on_a_prior_is_in_everything_that_is_published() {
    let sandbox = with_tastes();
    for (prior, is_kept) in [("right.csv", true), ("wrong.csv", false)] {
        let run = ["--epsilon", "10", "--delta", "1e-5", "--no-ledger"];
        let files = ["--prior", prior, "--item-ids-are-public", "--force"];
        let train = |more: &[&str]| {
            let command = ["train", "ratings.csv", "--out", "model"];
            let all = [&command[..], &run, &files, more].concat();
            sandbox.dp(&all).exits(0)
        };
        let json = train(&["--json"]).json();
        assert_eq!(json["prior_votes"]["kept"], is_kept, "{prior}");
        let summary = train(&[]);

        let released = sandbox.value("model/report.json");
        let votes = &released["prior_votes"];
        let of = |name: &str| votes[name].as_f64().unwrap();
        let (sum, noise, needed) = (of("sum"), of("noise_stddev"), of("needed"));
        assert!((needed - 8.0 * noise).abs() < 1e-9);
        let expected = if is_kept { 200.0 } else { -200.0 };
        assert!((sum - expected).abs() < 8.0 * noise, "{prior}: {votes}");
        assert_eq!(votes["kept"], is_kept);
        assert_eq!(
            &sandbox.value("model/model-card.json")["prior_votes"],
            votes
        );
        let outcome = match is_kept {
            true => "kept",
            false => "not kept, its columns inform item biases",
        };
        let said = format!(
            "users voted on its taste factors: {sum:.0} \u{b1} {noise:.0} ({outcome}; needs more than {needed:.0})"
        );
        summary.prints(&[&said]);
        for page in ["report.md", "model-card.md"] {
            let text = sandbox.text(&format!("model/{page}"));
            assert!(text.contains(&said), "{page}: {text}");
        }
        sandbox.dp(&["verify", "model"]).exits(0);
        sandbox.dp(&["report", "model"]).exits(0);
        assert!(sandbox.text("model/report.html").contains(&said));
    }
}

#[test]
fn columns_of_public_ratings_are_named_as_those_of_private_ones() {
    let sandbox = with_public();
    sandbox.dp(&MAKE).exits(0);
    let usual = sandbox.text("prior.csv");
    let rows = sandbox.text("public.csv");
    let rows = rows.split_once('\n').unwrap().1;
    sandbox.write("other.csv", format!("person,film,stars\n{rows}"));
    sandbox.write("bare.csv", rows);
    let make = |file: &str, flags: &[&str]| {
        let command = ["evidence", "ratings", file, "--out", "other-prior.csv"];
        let run = sandbox.dp(&[&command[..], flags].concat());
        let made = sandbox.exists("other-prior.csv");
        let made = made.then(|| {
            let text = sandbox.text("other-prior.csv");
            std::fs::remove_file(sandbox.path("other-prior.csv")).unwrap();
            text
        });
        (run, made)
    };
    let names = [
        "--user-col",
        "person",
        "--item-col",
        "film",
        "--rating-col",
        "stars",
    ];
    assert_eq!(make("other.csv", &names).1.as_ref(), Some(&usual));
    let header = ["--header", "user,item,rating"];
    assert_eq!(make("bare.csv", &header).1.as_ref(), Some(&usual));

    let (refused, made) = make("other.csv", &[]);
    refused
        .exits(4)
        .says(&["looked for user, userId, user_id", "--user-col"]);
    let (both, _) = make("other.csv", &["--user-col", "film", "--item-col", "film"]);
    both.exits(2).says(&["--user-col and --item-col"]);
    assert_eq!(made, None);
}

#[test]
fn a_model_with_a_prior_is_recomputed_from_its_folder_and_not_with_another_prior() {
    let sandbox = with_public();
    sandbox.dp(&MAKE).exits(0);
    let flags = ["--prior", "prior.csv", "--publish-releases"];
    sandbox.train(&flags).exits(0);
    let verify = ["verify", "dp-model", "--recompute"];
    sandbox.dp(&verify).exits(0);
    let table = sandbox.text("dp-model/prior.csv");
    let at = table.rfind(|c: char| c.is_ascii_digit()).unwrap();
    let mut other = table.into_bytes();
    other[at] = if other[at] == b'9' {
        b'8'
    } else {
        other[at] + 1
    };
    sandbox.write("dp-model/prior.csv", other);
    sandbox.dp(&verify).exits(6);
}

#[test]
fn a_prior_that_cannot_be_used_is_refused_before_anything_is_paid() {
    let sandbox = with_public();
    for (name, table, said) in [
        ("no-item.csv", "sku,x\nitem-1,2\n", "item"),
        ("no-number.csv", "item,x\nitem-1,many\n", "`x`"),
        ("none.csv", "item\nitem-1\n", "column"),
        ("twice.csv", "item,x\nitem-1,2\nitem-1,3\n", "item-1"),
        ("others.csv", "item,x\nelsewhere,2\n", "prior"),
    ] {
        sandbox.write(name, table);
        let ledger = [
            "--prior",
            name,
            "--ledger",
            "l.ledger",
            "--ledger-epsilon",
            "2",
        ];
        let run = sandbox.train(&ledger);
        assert!(
            run.code == 2 || run.code == 4 || run.code == 5,
            "{name}: {}",
            run.code
        );
        run.says(&[said]);
        assert!(!sandbox.exists("dp-model"), "{name}");
        if sandbox.exists("l.ledger") {
            let shown = sandbox
                .dp(&["ledger", "show", "l.ledger", "--json"])
                .exits(0);
            assert_eq!(shown.json()["n_releases"], 0, "{name}");
        }
    }
    sandbox
        .train(&["--prior", "public.csv", "--method", "adadpals"])
        .exits(2)
        .says(&["--prior"]);
}

#[test]
fn an_earlier_model_is_a_prior_if_the_ledger_paid_for_it_or_it_is_declared_public() {
    let sandbox = with_public();
    let ledger = ["--ledger", "l.ledger"];
    let make = ["--ledger-epsilon", "3", "--ledger-delta", "1e-4"];
    sandbox
        .train(
            &[
                &ledger[..],
                &make,
                &["--out", "first", "--items", "items.csv"],
            ]
            .concat(),
        )
        .exits(0);
    let after = [
        "--prior",
        "first",
        "--items",
        "items.csv",
        "--publish-releases",
    ];
    let second = [&ledger[..], &after, &["--out", "second"]].concat();
    sandbox.train(&second).exits(0);
    let certificate = sandbox.text("second/certificate.json");
    let digest = sandbox.value("first/certificate.json")["digest"].to_string();
    let said = format!(
        "is the model of certificate {}, whose",
        digest.trim_matches('"')
    );
    assert!(certificate.contains(&said), "{certificate}");
    let header = sandbox.text("second/prior.csv");
    assert!(header.starts_with("item,bias,standard_error\n"), "{header}");
    sandbox.dp(&["verify", "second", "--recompute"]).exits(0);

    // a ledger that did not pay for it, and none
    let elsewhere = [
        "--ledger",
        "other.ledger",
        "--ledger-epsilon",
        "3",
        "--ledger-delta",
        "1e-4",
    ];
    let other = [&elsewhere[..], &after, &["--out", "third"]].concat();
    sandbox
        .train(&[&elsewhere[..], &["--items", "items.csv"]].concat())
        .exits(0);
    sandbox
        .train(&other)
        .exits(2)
        .says(&["other.ledger did not pay", "--prior-is-public"]);
    let unpaid = [&["--no-ledger"][..], &after, &["--out", "third"]].concat();
    sandbox
        .train(&unpaid)
        .exits(2)
        .says(&["no ledger of this run paid"]);
    let seeded = [
        "--insecure-seed",
        "1",
        "--items",
        "items.csv",
        "--out",
        "seeded",
    ];
    sandbox.train(&seeded).exits(0);
    let of_seeded = [
        &ledger[..],
        &[
            "--prior",
            "seeded",
            "--items",
            "items.csv",
            "--out",
            "third",
        ],
    ]
    .concat();
    sandbox
        .train(&of_seeded)
        .exits(2)
        .says(&["promises no privacy"]);
    assert!(!sandbox.exists("third"));
    sandbox
        .train(&[&unpaid[..], &["--prior-is-public"]].concat())
        .exits(0);
    let certificate = sandbox.text("third/certificate.json");
    assert!(
        certificate.contains("is a model that is public, as the operator declares\""),
        "{certificate}"
    );
    // whoever declares a model public that never was private is quoted in full
    let declared =
        words("--no-ledger --prior seeded --items items.csv --prior-is-public --out fourth");
    sandbox.train(&declared).exits(0);
    let caveat = "as the operator declares, although its own noise was seeded";
    assert!(sandbox.text("fourth/certificate.json").contains(caveat));
    assert!(sandbox.text("fourth/model-card.md").contains(caveat));
}

#[test]
fn a_model_of_users_without_protection_is_no_prior_of_a_run_that_protects_them() {
    let sandbox = with_public();
    sandbox.write("opt-in.txt", "zqx-user-7\nzqx-user-1\n");
    let ledger = ["--ledger", "l.ledger"];
    let make = ["--ledger-epsilon", "3", "--ledger-delta", "1e-4"];
    let opted = ["--opt-in", "opt-in.txt", "--items", "items.csv"];
    let first = [&ledger[..], &make, &opted, &["--out", "first"]].concat();
    sandbox.train(&first).exits(0);
    let after = [
        "--prior",
        "first",
        "--items",
        "items.csv",
        "--out",
        "second",
    ];
    sandbox
        .train(&[&ledger[..], &after].concat())
        .exits(2)
        .says(&["listed users without protection"]);
    assert!(!sandbox.exists("second"));
}

#[test]
fn users_who_opt_in_are_no_part_of_the_private_data_and_become_evidence() {
    let sandbox = with_public();
    let is_listed = |line: &str| line.starts_with("zqx-user-1,") || line.starts_with("zqx-user-7,");
    let all = sandbox.text("ratings.csv");
    let header = all.lines().next().unwrap();
    let part = |listed: bool| {
        let lines = all.lines().skip(1).filter(|line| is_listed(line) == listed);
        lines.fold(header.to_owned() + "\n", |text, line| text + line + "\n")
    };
    sandbox.write("listed.csv", part(true));
    sandbox.write("others.csv", part(false));
    // an id that nobody has says nothing about anybody
    sandbox.write("opt-in.txt", "zqx-user-7\nzqx-user-1\n\nnobody\n");
    let run = [
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--items",
        "items.csv",
        "--insecure-seed",
        "1",
    ];
    let opted = [
        "train",
        "ratings.csv",
        "--opt-in",
        "opt-in.txt",
        "--out",
        "opted",
    ];
    sandbox.dp(&[&opted[..], &run].concat()).exits(0);
    let make = [
        "evidence",
        "ratings",
        "listed.csv",
        "--items",
        "items.csv",
        "--out",
        "prior.csv",
    ];
    sandbox.dp(&make).exits(0);
    let by_hand = [
        "train",
        "others.csv",
        "--prior",
        "prior.csv",
        "--out",
        "by-hand",
    ];
    sandbox.dp(&[&by_hand[..], &run].concat()).exits(0);
    let [opted, by_hand] = ["opted", "by-hand"]
        .map(|folder| sandbox.read(&format!("{folder}/item_factors.safetensors")));
    assert_eq!(opted, by_hand);
    let certificate = sandbox.text("opted/certificate.json");
    assert!(
        certificate.contains("3 listed users (SHA-256"),
        "{certificate}"
    );
    assert!(certificate.contains("agreed to contribute without protection"));

    // their ratings are not held out
    let evaluate = ["evaluate", "ratings.csv", "--model", "opted"];
    sandbox.dp(&evaluate).exits(2).says(&["--opt-in"]);
    sandbox
        .dp(&[&evaluate[..], &["--opt-in", "opt-in.txt"]].concat())
        .exits(0);

    sandbox.write("nobody.txt", "nobody\n");
    let none = [
        "train",
        "ratings.csv",
        "--opt-in",
        "nobody.txt",
        "--out",
        "none",
    ];
    sandbox
        .dp(&[&none[..], &run].concat())
        .exits(2)
        .says(&["none of the listed users"]);
    let both = [
        "train",
        "ratings.csv",
        "--opt-in",
        "opt-in.txt",
        "--prior",
        "prior.csv",
    ];
    sandbox
        .dp(&[&both[..], &run].concat())
        .exits(2)
        .says(&["--prior"]);
}

#[test]
fn a_run_with_a_prior_is_audited_as_one_without() {
    let sandbox = with_public();
    sandbox.dp(&MAKE).exits(0);
    let audit = [
        "--canaries",
        "20",
        "--runs",
        "2",
        "--epsilon",
        "1",
        "--delta",
        "1e-4",
    ];
    let with = ["audit", "ratings.csv", "--prior", "prior.csv"];
    let found = sandbox
        .dp(&[&with[..], &audit, &["--json"]].concat())
        .exits(0);
    assert_ne!(found.json()["verdict"], "violated");
    let generated = ["audit", "--prior", "prior.csv"];
    let refused = sandbox.dp(&[&generated[..], &audit].concat()).exits(2);
    refused.says(&["--prior needs RATINGS"]);
}

#[test]
fn a_command_that_takes_no_prior_refuses_one() {
    let sandbox = with_public();
    sandbox.dp(&MAKE).exits(0);
    let target = ["--epsilon", "1", "--delta", "1e-4", "--prior", "prior.csv"];
    let tune = [
        "tune",
        "ratings.csv",
        "--out",
        "tuned",
        "--no-ledger",
        "--try",
        "dim=1",
        "--try",
        "dim=2",
    ];
    for command in [
        &tune[..],
        &[
            "audit-tune",
            "ratings.csv",
            "--try",
            "dim=1",
            "--try",
            "dim=2",
        ],
    ] {
        let refused = sandbox.dp(&[command, &target].concat()).exits(2);
        refused.says(&["--prior"]);
    }
}
