//! What follows from a certificate that verifies, whoever wrote it.

use dp_accounting::{
    Accountant, Certificate, Error, Guarantee, PrivacyStatement, Status, TightestAccountant,
};

use crate::shared::refusals::is_explained;

/// Relative difference that verification allows between figures.
const TOLERANCE: f64 = 1e-8;

/// The digest of `factors`.
const FACTORS: &str = "1e40954c019c3e5d5595eaf8fa339fee3062a07f1e8b206982a07600eccf7ac5";

/// Checks what `certificate` claims if it verifies, that it says why if not, and returns which.
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

/// The claim is not below what was recomputed, nor below what the events cost by themselves.
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

/// The statement repeats the recomputed guarantee, and says so where there is none.
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

/// A file is accepted exactly if its digest is in the certificate under its name.
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

/// An error that a certificate can be at fault for, and whose message says at what.
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
