//! Any text is a certificate or a typed error, never a panic; and what holds, holds.

use dp_accounting::{Certificate, Error, Plan, PlannedRelease};
use dp_core::{Adjacency, DpEvent};

use super::claims::{assert_claims_hold, assert_explained};
use super::support::{builder, fixture, records};
use crate::shared::draw::Draw;
use crate::shared::edits::edited;

/// Reads `text`, made of `original` by edits, as strictly as a file. A digest that fits is that of
/// the original, so whatever holds states the original's numbers.
fn holds(text: &str, original: Option<&Certificate>) -> bool {
    match Certificate::from_json(text).and_then(|c| c.verify().map(|_| c)) {
        Ok(certificate) => {
            assert_eq!(Some(&certificate), original);
            let written = certificate.to_json();
            assert_eq!(Certificate::from_json(&written).unwrap(), certificate);
            true
        }
        Err(refusal) => {
            assert_explained(&refusal, text);
            false
        }
    }
}

/// Reads `text` loosely, with a digest made to fit, so that an edit gets past the digest and into the
/// figures. Returns whether that verified.
fn holds_rehashed(text: &str) -> bool {
    let Ok(mut loose) = serde_json::from_str::<Certificate>(text) else {
        return false;
    };
    loose.digest.clear();
    match loose.verify() {
        Err(Error::CertificateMismatch {
            field, recomputed, ..
        }) => {
            assert_eq!(field, "digest");
            loose.digest = recomputed.trim_matches('"').to_owned();
            assert_claims_hold(&loose)
        }
        Err(Error::CertificateSchema { found, supported }) => {
            assert!(found == 0 || found > supported, "{found}");
            false
        }
        other => panic!("without a digest: {other:?}"),
    }
}

fn seeds() -> Vec<Certificate> {
    let nested = DpEvent::composed(vec![
        DpEvent::gaussian_psd(50.0).repeated(7),
        DpEvent::tree_aggregation(90.0, 1_000),
    ]);
    let release = PlannedRelease::new("nested", nested, 5);
    let plan = Plan::with_noise_multipliers(1e-5, Adjacency::AddRemoveUser, vec![release]).unwrap();
    let nested = Certificate::builder(&plan, "d").releases(records(&plan));
    let version_1 = Certificate::from_json(&fixture("certificate-v1.json"));
    vec![
        builder(Adjacency::AddRemoveUser).build().unwrap(),
        builder(Adjacency::ReplaceUser)
            .not_private("x")
            .build()
            .unwrap(),
        nested.build().unwrap(),
        version_1.unwrap(),
    ]
}

#[test]
fn mutated_certificates_are_errors_and_never_panics() {
    let mut draw = Draw(0x0123_4567_89ab_cdef);
    let seeds: Vec<(Certificate, String)> = seeds()
        .into_iter()
        .map(|c| (c.clone(), c.to_json()))
        .collect();
    let (mut held, mut rehashed) = (0, 0);
    for round in 0..24_000 {
        let (original, text) = &seeds[round % seeds.len()];
        let bytes = edited(&mut draw, text.as_bytes(), 6);
        let text = String::from_utf8_lossy(&bytes);
        held += usize::from(holds(&text, Some(original)));
        rehashed += usize::from(holds_rehashed(&text));
    }
    // edits of white space alone pass; hardly anything else can
    assert!(held < 600, "{held} mutations still hold");
    // names and labels may be anything, so a forger's digest lets some through to the checks of claims
    assert!(
        rehashed > 600,
        "{rehashed} mutations hold with a new digest"
    );
}

#[test]
fn random_bytes_and_deep_nesting_are_errors() {
    let mut draw = Draw(77);
    for _ in 0..5_000 {
        let bytes: Vec<u8> = (0..draw.below(300))
            .map(|_| draw.bits().to_le_bytes()[0])
            .collect();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!holds(&text, None) && !holds_rehashed(&text));
    }
    let honest = seeds().remove(0).to_json();
    let open = "{\"mechanism\":\"repeated\",\"count\":2,\"event\":";
    for depth in [10, 100, 1_000, 100_000] {
        let event = format!(
            "{}{}{}",
            open.repeat(depth),
            "{\"mechanism\":\"non-private\"}",
            "}".repeat(depth)
        );
        let start = honest.find("{\n        \"mechanism\"").unwrap();
        let end = start + honest[start..].find('}').unwrap() + 1;
        let text = format!("{}{event}{}", &honest[..start], &honest[end..]);
        assert!(!holds(&text, None) && !holds_rehashed(&text), "{depth}");
    }
}
