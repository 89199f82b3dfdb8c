//! Which layouts are read: version 1 still holds, unknown ones are named.

use dp_accounting::{Certificate, Error};
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

#[test]
fn unknown_layout_is_named() {
    let text = builder(Adjacency::AddRemoveUser).build().unwrap().to_json();
    let newer = text.replacen("\"schema_version\": 2", "\"schema_version\": 3", 1);
    assert!(matches!(
        Certificate::from_json(&newer),
        Err(Error::CertificateSchema {
            found: 3,
            supported: 2
        })
    ));
}
