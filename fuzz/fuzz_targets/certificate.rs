//! Certificates from anybody: an error or a certificate, never a panic.

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
            if let Ok(statement) = PrivacyStatement::of(&loose) {
                let _ = statement.to_string();
            }
        }
    }
});
