//! A certificate that was edited does not pass, its digest mended or not.

use dp_accounting::{Certificate, Error, Method, Status};
use dp_core::{Adjacency, DpEvent};

use super::support::{Change, builder, claimed, mismatched_field, rehashed};

#[test]
fn every_changed_digit_is_rejected() {
    let text = builder(Adjacency::AddRemoveUser).build().unwrap().to_json();
    let accepted = |json: &str| {
        Certificate::from_json(json)
            .and_then(|c| c.verify())
            .is_ok()
    };
    assert!(accepted(&text));
    let mut n_changes = 0;
    for (at, digit) in text.bytes().enumerate().filter(|(_, b)| b.is_ascii_digit()) {
        for other in b'0'..=b'9' {
            if other == digit {
                continue;
            }
            let mut changed = text.clone().into_bytes();
            changed[at] = other;
            let changed = String::from_utf8(changed).unwrap();
            n_changes += 1;
            assert!(!accepted(&changed), "{}", &text[at.saturating_sub(40)..=at]);
        }
    }
    assert!(n_changes > 1_000, "only {n_changes} digits tried");
}

#[test]
fn space_between_members_is_free_but_nothing_else() {
    let certificate = builder(Adjacency::AddRemoveUser).build().unwrap();
    let text = certificate.to_json();
    let spread = text.replace(",\n", "\n\t ,\r\n");
    assert_eq!(Certificate::from_json(&spread).unwrap(), certificate);
    let edits = [
        text.replacen("\"unit\"", "\"extra\": 1,\n\"unit\"", 1),
        text.replacen("1234", "1234.0", 1),
        text.replacen("0.00001", "1e-5", 1),
        text.replacen("\"unit\": \"user\",", "", 1),
        format!("{text}x"),
        text[..text.len() / 2].to_owned(),
        "[]".to_owned(),
    ];
    for edited in edits {
        assert_ne!(edited, text);
        let error = Certificate::from_json(&edited).unwrap_err();
        assert!(
            matches!(
                error,
                Error::CertificateSyntax(_) | Error::CertificateEdited
            ),
            "{error}"
        );
    }
}

/// An honest certificate, changed and hashed again, does not verify; why not?
fn refusal(change: Change) -> Error {
    let mut certificate = builder(Adjacency::AddRemoveUser).build().unwrap();
    change(&mut certificate);
    rehashed(certificate).verify().unwrap_err()
}

#[test]
fn rehashed_lies_are_found_by_recomputing() {
    let lies: [(&str, Change); 20] = [
        ("epsilon", |c| claimed(c).epsilon *= 1.0 - 1e-9),
        ("delta", |c| claimed(c).delta *= 1.0 - 1e-9),
        ("gdp_mu", |c| {
            claimed(c).gdp_mu = claimed(c).gdp_mu.map(|mu| mu * (1.0 - 1e-9));
        }),
        ("rho", |c| {
            claimed(c).rho = claimed(c).rho.map(|rho| rho * (1.0 - 1e-9));
        }),
        ("gdp_mu", |c| claimed(c).gdp_mu = None),
        ("method", |c| claimed(c).method = Some(Method::Pld)),
        ("method", |c| claimed(c).method = None),
        ("epsilon_lower", |c| claimed(c).epsilon_lower = Some(0.9)),
        ("epsilon_lower", |c| claimed(c).epsilon_lower = None),
        ("epsilon_replace", |c| {
            claimed(c).epsilon_replace = Some(1.0);
        }),
        ("epsilon_replace", |c| claimed(c).epsilon_replace = None),
        ("epsilon_add_remove", |c| {
            claimed(c).epsilon_add_remove = None;
        }),
        ("statement", |c| claimed(c).statement.clear()),
        ("guarantee", |c| c.guarantee = None),
        ("target", |c| c.target.epsilon = 0.9),
        ("unit", |c| c.unit = "record".to_owned()),
        ("epsilon", |c| c.adjacency = Adjacency::ReplaceUser),
        ("epsilon", |c| drop(c.releases.pop())),
        ("epsilon", |c| c.releases[0].event = DpEvent::gaussian(1.0)),
        ("release_id", |c| {
            c.releases[1].release_id = c.releases[0].release_id.clone();
        }),
    ];
    for (expected, lie) in lies {
        let error = refusal(lie);
        assert!(
            matches!(error, Error::CertificateMismatch { field, .. } if field == expected),
            "{expected}: {error}"
        );
    }
}

#[test]
fn events_without_a_guarantee_are_refused() {
    assert!(matches!(
        refusal(|c| c.releases[0].event = DpEvent::NonPrivate),
        Error::NonPrivateEvent
    ));
    assert!(matches!(
        refusal(|c| c.releases[0].n_draws = u64::MAX),
        Error::SamplerAllowance { .. }
    ));
    assert!(matches!(
        refusal(|c| c.releases.clear()),
        Error::NothingReleased
    ));
}

#[test]
fn not_private_verifies_only_as_such() {
    let certificate = builder(Adjacency::AddRemoveUser)
        .not_private("seeded noise")
        .build()
        .unwrap();
    assert_eq!(certificate.guarantee, None);
    let read_back = Certificate::from_json(&certificate.to_json()).unwrap();
    let verified = read_back.verify().unwrap();
    assert!(!verified.is_private());
    let reason = "seeded noise".to_owned();
    assert_eq!(verified.status, Status::NotPrivate { reason });
    assert_eq!(verified.guarantee, None);
    // Neither a guarantee slipped in nor the status turned round gets through.
    let mut slipped = certificate.clone();
    slipped.guarantee = builder(Adjacency::AddRemoveUser).build().unwrap().guarantee;
    assert_eq!(mismatched_field(slipped), "guarantee");
    let mut turned = certificate;
    turned.status = Status::Private;
    assert_eq!(mismatched_field(turned), "guarantee");
}

#[test]
fn a_certificate_is_bound_to_its_files() {
    let certificate = builder(Adjacency::AddRemoveUser).build().unwrap();
    let certificate = certificate.with_artifact("model.bin", b"factors");
    assert!(certificate.verify().unwrap().is_private());
    assert!(certificate.verify_artifact("model.bin", b"factors").is_ok());
    for (name, bytes) in [("model.bin", &b"Factors"[..]), ("other.bin", b"factors")] {
        assert!(matches!(
            certificate.verify_artifact(name, bytes),
            Err(Error::CertificateMismatch {
                field: "artifact",
                ..
            })
        ));
    }
}

#[test]
fn who_looked_before_does_not_certify_that_nobody_did() {
    let claim = "settings were not chosen by looking at this data set (but for one)";
    let build = || {
        builder(Adjacency::AddRemoveUser)
            .assumption(claim)
            .assumption("another")
    };
    let plain = build().build().unwrap();
    assert_eq!(plain.clone().after_explorations(&[]), plain);
    let after = plain.after_explorations(&["evaluation", "several epsilons", "evaluation"]);
    assert!(after.verify().unwrap().is_private());
    assert!(!after.to_json().contains("not chosen by looking"));
    assert!(after.assumptions.iter().any(|said| &**said == "another"));
    let said = after.not_covered.last().unwrap();
    assert!(
        said.contains("3 times (evaluation; several epsilons)"),
        "{said}"
    );
}

#[test]
fn what_is_added_later_holds_and_cannot_be_taken_out_again() {
    let plain = builder(Adjacency::AddRemoveUser).build().unwrap();
    let certificate = plain
        .clone()
        .with_assumption("one ledger")
        .with_not_covered("internal report");
    assert!(certificate.verify().unwrap().is_private());
    for edit in [0, 1] {
        let mut edited = certificate.clone();
        match edit {
            0 => edited.assumptions.clone_from(&plain.assumptions),
            _ => edited.not_covered.clone_from(&plain.not_covered),
        }
        assert!(edited.verify().is_err());
    }
}
