//! Certificates: their contents, and that no change to them goes unnoticed.

mod hostile_text;
mod schema_holds;

use dp_accounting::{
    Budget, Certificate, CertificateBuilder, Error, Guarantee, Ledger, LedgerSummary, Making,
    Method, Plan, ReleaseRecord, ReleaseRequest, Spend, Status,
};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};

const TARGET: ApproxDp = ApproxDp {
    epsilon: 1.0,
    delta: 1e-5,
};

fn run(adjacency: Adjacency) -> (Plan, Vec<ReleaseRecord>) {
    let requests = [
        ReleaseRequest::new("counts-0", 1.0, ReplaceFactor::Two, 17),
        ReleaseRequest::new("gramians-1", 7.3, ReplaceFactor::SqrtTwo, 1_234),
    ];
    paid(TARGET, adjacency, &requests)
}

fn paid(
    target: ApproxDp,
    adjacency: Adjacency,
    requests: &[ReleaseRequest],
) -> (Plan, Vec<ReleaseRecord>) {
    let plan = Plan::calibrate(target, adjacency, requests).unwrap();
    let records = records(&plan);
    (plan, records)
}

/// The releases of `plan`, reserved from a ledger whose budget is just sufficient.
fn records(plan: &Plan) -> Vec<ReleaseRecord> {
    let budget = Budget::new(plan.target(), plan.adjacency()).unwrap();
    let mut ledger = Ledger::in_memory("ratings-2024", budget).unwrap();
    let spends = ledger.reserve(plan).unwrap();
    spends.iter().map(Spend::record).collect()
}

fn builder(adjacency: Adjacency) -> CertificateBuilder {
    let (plan, records) = run(adjacency);
    Certificate::builder(&plan, "ratings-2024")
        .releases(records)
        .released_output("item factors, 32 numbers an item", "everyone")
        .assumption("item ids of the 2024 input are public")
        .not_covered("test RMSE in internal.md, 3 digits")
}

fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

type Change = fn(&mut Certificate);

/// The guarantee of a private certificate.
fn claimed(certificate: &mut Certificate) -> &mut Guarantee {
    certificate.guarantee.as_mut().unwrap()
}

/// `certificate` with a matching digest, as a careful forger would write it.
fn rehashed(mut certificate: Certificate) -> Certificate {
    certificate.digest.clear();
    let Err(Error::CertificateMismatch { recomputed, .. }) = certificate.verify() else {
        panic!("an empty digest passed");
    };
    certificate.digest = recomputed.trim_matches('"').to_owned();
    certificate
}

fn mismatched_field(certificate: Certificate) -> &'static str {
    match rehashed(certificate).verify() {
        Err(Error::CertificateMismatch { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[test]
fn builder_insists_on_the_plans_releases() {
    let (plan, records) = run(Adjacency::AddRemoveUser);
    let build = |made| Certificate::builder(&plan, "d").releases(made).build();
    assert!(build(records.clone()).is_ok());
    let mut fewer_draws = records.clone();
    fewer_draws[1].n_draws -= 1;
    let swapped = records.iter().rev().cloned().collect();
    for wrong in [vec![], records[..1].to_vec(), fewer_draws, swapped] {
        assert!(matches!(
            build(wrong),
            Err(Error::CertificateMismatch {
                field: "releases",
                ..
            })
        ));
    }
}

#[test]
fn run_without_releases_cannot_be_called_private() {
    let empty = Plan::calibrate(TARGET, Adjacency::AddRemoveUser, &[]).unwrap();
    let private = Certificate::builder(&empty, "d").build();
    assert!(matches!(private, Err(Error::NothingReleased)));
    let baseline = Certificate::builder(&empty, "d")
        .not_private("no noise")
        .build();
    assert!(!baseline.unwrap().verify().unwrap().is_private());
}

#[test]
fn two_runs_never_share_a_payment() {
    let adjacency = Adjacency::AddRemoveUser;
    let (first, second) = (builder(adjacency).build(), builder(adjacency).build());
    for (a, b) in first
        .unwrap()
        .releases
        .iter()
        .zip(&second.unwrap().releases)
    {
        assert_eq!(a.event, b.event);
        assert_ne!(a.release_id, b.release_id);
    }
}

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
        text.replacen(": 1234", ": 1234.0", 1),
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

/// Changes a valid certificate, recomputes its digest, and returns the error of its verification.
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
    // Neither an inserted guarantee nor a changed status is accepted.
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

#[test]
fn says_the_plans_guarantee_under_both_neighbours() {
    let (plan, _) = run(Adjacency::AddRemoveUser);
    let certificate = builder(Adjacency::AddRemoveUser).build().unwrap();
    let guarantee = certificate.guarantee.as_ref().unwrap();
    assert_eq!(Some(guarantee.epsilon), Some(plan.guarantee().epsilon));
    assert_eq!(
        (guarantee.gdp_mu, guarantee.rho),
        (Some(plan.gdp().unwrap().mu), Some(plan.zcdp().unwrap().rho))
    );
    assert_eq!(guarantee.epsilon_add_remove, Some(guarantee.epsilon));
    // Replacement costs 4 x the counts and 2 x the gramians: (4 + 2 * 7.3) / 8.3 of mu^2.
    let mu = guarantee.gdp_mu.unwrap() * ((4.0 + 2.0 * 7.3) / 8.3_f64).sqrt();
    let expected = dp_accounting::gdp::epsilon(mu, TARGET.delta);
    assert!((guarantee.epsilon_replace.unwrap() / expected - 1.0).abs() < 1e-6);

    let replaced = builder(Adjacency::ReplaceUser)
        .build()
        .unwrap()
        .guarantee
        .unwrap();
    assert_eq!(replaced.epsilon_replace, Some(replaced.epsilon));
    assert!(replaced.epsilon_add_remove.unwrap() < 0.75 * replaced.epsilon);
}

#[test]
fn the_bracket_of_gaussians_is_tight() {
    let guarantee = builder(Adjacency::ReplaceUser)
        .build()
        .unwrap()
        .guarantee
        .unwrap();
    let lower = guarantee.epsilon_lower.unwrap();
    assert_eq!(guarantee.method, Some(Method::Gdp));
    // they differ only by the millionth of delta that the sampler may use in either direction
    assert!(lower < guarantee.epsilon && lower > guarantee.epsilon * (1.0 - 1e-6));
}

#[test]
fn replacement_is_certified_where_the_usual_reserve_is_too_small() {
    // epsilon 20 under add/remove is about 48 under replacement: e^48 times millions of draws
    let target = ApproxDp::target(20.0, 1e-5).unwrap();
    let requests = [
        ReleaseRequest::new("matrices", 1.0, ReplaceFactor::SqrtTwo, 3_000_000),
        ReleaseRequest::new("sides", 4.0, ReplaceFactor::Two, 300_000),
    ];
    let (plan, records) = paid(target, Adjacency::AddRemoveUser, &requests);
    let certificate = Certificate::builder(&plan, "ratings")
        .releases(records)
        .build()
        .unwrap();
    let replace = certificate.guarantee.unwrap().epsilon_replace.unwrap();
    // independent computation: the Gaussian profile with sensitivities doubled (or multiplied by
    // sqrt 2), at the same delta
    let mut accountant = dp_accounting::GdpAccountant::new(Adjacency::ReplaceUser);
    for release in plan.releases() {
        accountant.compose(release.event(), 1).unwrap();
    }
    let without_sampler = accountant.epsilon(1e-5);
    assert!(replace >= without_sampler && replace < without_sampler * 1.001);
}

/// A plan of one sampled step; `None` if no accountant supports it.
fn sampled_plan(adjacency: Adjacency) -> Option<Plan> {
    let event = DpEvent::sampled_gaussian(1.0, 0.01).repeated(1_000);
    let release = dp_accounting::PlannedRelease::new("sgd", event, 10);
    match Plan::with_noise_multipliers(1e-5, adjacency, vec![release]) {
        Ok(plan) => Some(plan),
        Err(Error::NotCertified { .. }) => {
            eprintln!("SKIPPED: no accountant for sampled events");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn sampled_runs_carry_a_bracket_and_no_gaussian_figures() {
    let adjacency = Adjacency::AddRemoveUser;
    let Some(plan) = sampled_plan(adjacency) else {
        return;
    };
    assert!(matches!(plan.gdp(), Err(Error::NotGaussian { .. })));
    let budget = Budget::schedule(plan.target(), adjacency).unwrap();
    let mut ledger = Ledger::in_memory("d", budget).unwrap();
    let spends = ledger.reserve(&plan).unwrap();
    assert!(spends[0].noise_multiplier().is_err());
    let certificate = Certificate::builder(&plan, "d")
        .releases(spends.iter().map(Spend::record).collect())
        .build()
        .unwrap();
    let guarantee = certificate.verify().unwrap().guarantee.unwrap();
    assert_eq!((guarantee.gdp_mu, guarantee.rho), (None, None));
    assert!(guarantee.epsilon_lower.unwrap() <= guarantee.epsilon);
    // 1.82823667 at delta without the sampler's reserve
    assert!(
        guarantee.epsilon > 1.828_236 && guarantee.epsilon < 1.828_238,
        "{guarantee:?}"
    );
    let lies: [(&str, Change); 3] = [
        ("epsilon", |c| claimed(c).epsilon *= 1.0 - 1e-6),
        ("gdp_mu", |c| claimed(c).gdp_mu = Some(0.1)),
        ("epsilon_lower", |c| claimed(c).epsilon_lower = Some(1e9)),
    ];
    for (field, lie) in lies {
        let mut forged = certificate.clone();
        lie(&mut forged);
        assert_eq!(mismatched_field(forged), field);
    }
}

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
    // neither version is accepted as the other
    for (from, to) in [
        ("\": 1,", "\": 2,"),
        ("\"rho\"", "\"method\": \"gdp\", \"rho\""),
    ] {
        let changed = text.replacen(from, to, 1);
        let read = Certificate::from_json(&changed).and_then(|c| c.verify());
        assert!(read.is_err(), "{from}");
    }
}

/// Verifies a sampled plan of version 2 against the ledger that was charged for it.
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
    // rehashed, so that only the layout can be rejected
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
