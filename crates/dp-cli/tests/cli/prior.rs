//! `dp evidence`, and `dp train --prior`.

use std::fmt::Write as _;

use crate::support::Sandbox;

/// A sandbox with ratings, and with public ratings of the same items by other users.
fn with_public() -> Sandbox {
    let sandbox = Sandbox::with_ratings();
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
