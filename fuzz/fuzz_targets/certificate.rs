//! Certificates from anybody: an error or a certificate, never a panic; and what verifies, holds.

#![no_main]

use dp_accounting::{Certificate, Error, PrivacyStatement};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(certificate) = Certificate::from_json(text) {
        if certificate.verify().is_ok() {
            // what holds is written as it was read
            let again = Certificate::from_json(&certificate.to_json());
            assert_eq!(again.ok(), Some(certificate));
        }
    }
    // past the digest, which no fuzzer guesses
    if let Ok(mut loose) = serde_json::from_str::<Certificate>(text) {
        loose.digest.clear();
        if let Err(Error::CertificateMismatch { recomputed, .. }) = loose.verify() {
            loose.digest = recomputed.trim_matches('"').to_owned();
            check_claims(&loose);
        }
    }
});

/// What verifies claims no less than was recomputed, and states that; what does not, states nothing.
fn check_claims(certificate: &Certificate) {
    let statement = PrivacyStatement::of(certificate);
    let Ok(verified) = certificate.verify() else {
        return assert!(statement.is_err());
    };
    assert_eq!(certificate.guarantee.is_some(), verified.guarantee.is_some());
    if let (Some(claimed), Some(found)) = (&certificate.guarantee, &verified.guarantee) {
        assert!(claimed.epsilon.is_finite() && found.epsilon >= 0.0);
        assert!(claimed.epsilon >= found.epsilon * (1.0 - 1e-8));
    }
    let statement = statement.expect("the statement of what verifies");
    let warned = statement.to_string().contains("NOT PRIVATE: ");
    assert!(warned || verified.guarantee.is_some());
    assert_eq!(statement.guarantee, verified.guarantee);
}
