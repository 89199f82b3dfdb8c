//! Which layouts are read: files of versions 1 and 2 still hold, unknown ones are named.

use dp_accounting::{Certificate, Error, LedgerSummary, Making};
use dp_core::Adjacency;

use super::support::{builder, fixture};

#[test]
fn certificates_of_version_1_still_hold() {
    let text = fixture("certificate-v1.json");
    let certificate = Certificate::from_json(&text).unwrap();
    assert_eq!(certificate.to_json(), text);
    let guarantee = certificate.verify().unwrap().guarantee.unwrap();
    assert_eq!((guarantee.method, guarantee.epsilon_lower), (None, None));
    assert!((guarantee.epsilon - 0.5).abs() < 1e-9);
    certificate
        .verify_artifact("model.bin", b"factors")
        .unwrap();
    let seeded = Certificate::from_json(&fixture("certificate-v1-not-private.json")).unwrap();
    assert!(!seeded.verify().unwrap().is_private());
    // neither version passes for the other
    for (from, to) in [
        ("\": 1,", "\": 2,"),
        ("\"rho\"", "\"method\": \"gdp\", \"rho\""),
    ] {
        let changed = text.replacen(from, to, 1);
        let read = Certificate::from_json(&changed).and_then(|c| c.verify());
        assert!(read.is_err(), "{from}");
    }
}

/// A sampled plan of version 2, against the ledger that paid for it.
#[test]
fn certificates_of_version_2_still_hold() {
    let text = fixture("certificate-v2.json");
    let certificate = Certificate::from_json(&text).unwrap();
    assert_eq!(certificate.to_json(), text);
    let found = certificate.verify().unwrap().guarantee.unwrap();
    let claimed = certificate.guarantee.as_ref().unwrap();
    assert!((found.epsilon / claimed.epsilon - 1.0).abs() < 1e-8);
    assert!(certificate.verify_artifact("model.bin", b"factors").is_ok());
    let ledger = fixture("ledger-v2.jsonl");
    let summary = LedgerSummary::from_bytes(ledger.as_bytes()).unwrap();
    assert!(summary.covers(&certificate).is_ok());
    let first = ledger
        .lines()
        .take(2)
        .fold(String::new(), |all, line| all + line + "\n");
    let half = LedgerSummary::from_bytes(first.as_bytes()).unwrap();
    assert!(matches!(
        half.covers(&certificate),
        Err(Error::NotInLedger { .. })
    ));
}

/// Each version says what it says in its own way only.
#[test]
fn version_3_says_how_a_run_was_made_and_for_which_neighbours_it_assumes() {
    let made = Making {
        time: Some("2026-01-31T12:00:00Z".to_owned()),
        instructions: "avx2".to_owned(),
        release_list_sha256: Some("0".repeat(64)),
    };
    let certificate = builder(Adjacency::ReplaceUser)
        .assumption("one id each")
        .build()
        .unwrap();
    let certificate = certificate.with_making(made.clone());
    let read = Certificate::from_json(&certificate.to_json()).unwrap();
    assert_eq!(read, certificate);
    assert!(read.verify().unwrap().is_private());
    let said = read
        .assumptions
        .iter()
        .find(|said| ***said == *"one id each")
        .unwrap();
    assert_eq!(said.adjacency(), Some(Adjacency::ReplaceUser));
    assert_eq!(read.made, Some(made.clone()));

    let mut edited = certificate.clone();
    edited.made = None;
    assert!(edited.verify().is_err());
    let old = Certificate::from_json(&fixture("certificate-v2.json")).unwrap();
    let mut newer = old.clone();
    newer.schema_version = 3;
    // rehashed, so that the layout alone can object
    let newer = newer.with_not_covered("more");
    assert!(matches!(
        newer.verify(),
        Err(Error::CertificateMismatch {
            field: "assumptions",
            ..
        })
    ));
    let mut older = certificate;
    older.schema_version = 2;
    assert!(older.with_not_covered("more").verify().is_err());
    let same = old.clone().with_making(made);
    assert_eq!(same, old);
    let more = old.with_assumption("one more");
    assert!(more.verify().is_ok());
    assert_eq!(Certificate::from_json(&more.to_json()).unwrap(), more);
}

#[test]
fn unknown_layout_is_named() {
    let text = builder(Adjacency::AddRemoveUser).build().unwrap().to_json();
    let newer = text.replacen("\"schema_version\": 3", "\"schema_version\": 4", 1);
    assert!(matches!(
        Certificate::from_json(&newer),
        Err(Error::CertificateSchema {
            found: 4,
            supported: 3
        })
    ));
}
