//! Any text is either a valid certificate or a typed error, never a panic; and the claims of valid
//! certificates are true.

use dp_accounting::{
    Accountant, Certificate, Error, Guarantee, Plan, PlannedRelease, PrivacyStatement, Status,
    TightestAccountant,
};
use dp_core::{Adjacency, DpEvent};

use super::{builder, fixture, records};
use crate::shared::draw::Draw;
use crate::shared::edits::edited;
use crate::shared::refusals::is_explained;

/// Reads `text`, which was edited from `original`, as strictly as a file. If the digest matches, it
/// is that of the original, so a certificate that verifies states the original's numbers.
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

/// Reads `text` leniently, with a matching digest, so that an edit gets past the digest check to
/// the values. Returns whether it verified.
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

fn mutated_certificates(n: usize) {
    let mut draw = Draw(0x0123_4567_89ab_cdef);
    let seeds: Vec<(Certificate, String)> = seeds()
        .into_iter()
        .map(|c| (c.clone(), c.to_json()))
        .collect();
    let (mut held, mut rehashed) = (0, 0);
    for round in 0..n {
        let (original, text) = &seeds[round % seeds.len()];
        let bytes = edited(&mut draw, text.as_bytes(), 6);
        let text = String::from_utf8_lossy(&bytes);
        held += usize::from(holds(&text, Some(original)));
        rehashed += usize::from(holds_rehashed(&text));
    }
    // edits of white space alone are accepted; hardly any others can be
    assert!(held < n / 40, "{held} mutations still hold");
    // names and labels may be anything, so with a matching digest some edits reach the checks of
    // claims
    assert!(
        rehashed > n / 40,
        "{rehashed} mutations hold with a new digest"
    );
}

#[test]
fn mutated_certificates_are_errors_and_never_panics() {
    mutated_certificates(4_000);
}

#[test]
#[ignore = "long form: a minute"]
fn long_mutated_certificates_are_errors_and_never_panics() {
    mutated_certificates(100_000);
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

/// Relative difference that verification allows between values.
const TOLERANCE: f64 = 1e-8;

/// The digest of `factors`.
const FACTORS: &str = "1e40954c019c3e5d5595eaf8fa339fee3062a07f1e8b206982a07600eccf7ac5";

/// Checks the claims of `certificate` if it verifies, and otherwise that the error is explained.
/// Returns which.
pub(super) fn assert_claims_hold(certificate: &Certificate) -> bool {
    assert_bound_to_its_file(certificate);
    match certificate.verify() {
        Ok(verified) => {
            assert_eq!(verified.status, certificate.status);
            let private = certificate.status == Status::Private;
            assert_eq!(certificate.guarantee.is_some(), private);
            assert_eq!(verified.guarantee.is_some(), private);
            if let (Some(claimed), Some(found)) = (&certificate.guarantee, &verified.guarantee) {
                assert_no_less_than_true(claimed, found, certificate);
            }
            assert_stated(certificate, verified.guarantee.as_ref());
            true
        }
        Err(refusal) => {
            assert_explained(&refusal, "verify");
            assert!(PrivacyStatement::of(certificate).is_err());
            false
        }
    }
}

/// The claim is not below the recomputed value, nor below the cost of the events computed directly.
fn assert_no_less_than_true(claimed: &Guarantee, found: &Guarantee, certificate: &Certificate) {
    let finite = claimed.epsilon.is_finite() && claimed.epsilon >= 0.0;
    assert!(
        finite && 0.0 < found.delta && found.delta < 1.0,
        "{claimed:?}"
    );
    assert!(claimed.epsilon >= found.epsilon * (1.0 - TOLERANCE));
    assert!(found.epsilon <= certificate.target.epsilon * (1.0 + TOLERANCE));
    assert!((claimed.delta - certificate.target.delta).abs() <= TOLERANCE * found.delta);
    assert!(
        claimed
            .epsilon_lower
            .is_none_or(|lower| lower <= claimed.epsilon * (1.0 + TOLERANCE))
    );
    let mut accountant = TightestAccountant::new(certificate.adjacency);
    for release in &certificate.releases {
        accountant.compose(&release.event, 1).unwrap();
    }
    let exact = accountant.epsilon(found.delta).unwrap();
    assert!(
        claimed.epsilon >= exact.lower * (1.0 - TOLERANCE),
        "{claimed:?} below {exact:?}"
    );
}

/// The statement repeats the recomputed guarantee, or says that there is none.
fn assert_stated(certificate: &Certificate, guarantee: Option<&Guarantee>) {
    let statement = PrivacyStatement::of(certificate).unwrap();
    assert_eq!(statement.guarantee.as_ref(), guarantee);
    let warned = statement.to_string().contains("NOT PRIVATE: ");
    assert_eq!(warned, guarantee.is_none());
    assert_eq!(statement.attacker.is_some(), guarantee.is_some());
    if let (Some(guarantee), Some(attacker)) = (guarantee, statement.attacker) {
        let rate = attacker.true_positive_rate;
        assert!(
            (attacker.false_positive_rate..=1.0).contains(&rate),
            "{attacker:?}"
        );
        assert!(statement.likelihood_factor.unwrap() >= guarantee.epsilon.exp() * (1.0 - 1e-15));
    }
}

/// A file is accepted if and only if the certificate contains its digest under its name.
fn assert_bound_to_its_file(certificate: &Certificate) {
    let named = certificate.artifacts.iter().find(|a| a.name == "model.bin");
    let expected = named.is_some_and(|artifact| artifact.sha256 == FACTORS);
    match certificate.verify_artifact("model.bin", b"factors") {
        Ok(()) => assert!(expected),
        Err(Error::CertificateMismatch { field, .. }) => {
            assert!(field == "artifact" && !expected);
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Checks that the error can be caused by a certificate and that its message names the cause.
#[track_caller]
pub(super) fn assert_explained(refusal: &Error, what: &str) {
    let message = refusal.to_string();
    let explained = match refusal {
        Error::CertificateMismatch { field, .. } => !field.is_empty() && message.contains(field),
        Error::CertificateSchema { found, .. } => message.contains(&found.to_string()),
        Error::SamplerAllowance { n_draws, allowed } => n_draws > allowed,
        Error::CertificateSyntax(_) | Error::CertificateEdited | Error::NothingReleased => {
            !message.is_empty()
        }
        other => is_explained(other),
    };
    assert!(explained, "{refusal:?} for {what}");
}
