//! Certificates: what they say, and that nothing in them can be changed unnoticed.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use dp_accounting::{
    Budget, Certificate, CertificateBuilder, Error, Guarantee, Ledger, Method, Plan, ReleaseRecord,
    ReleaseRequest, Spend, Status,
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
    let budget = Budget::new(target, adjacency).unwrap();
    let mut ledger = Ledger::in_memory("ratings-2024", budget).unwrap();
    let records = ledger
        .reserve(&plan)
        .unwrap()
        .iter()
        .map(Spend::record)
        .collect();
    (plan, records)
}

fn builder(adjacency: Adjacency) -> CertificateBuilder {
    let (plan, records) = run(adjacency);
    Certificate::builder(&plan, "ratings-2024")
        .releases(records)
        .released_output("item factors, 32 numbers an item", "everyone")
        .assumption("item ids of the 2024 input are public")
        .not_covered("test RMSE in internal.md, 3 digits")
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

type Change = fn(&mut Certificate);

/// An honest certificate, changed and hashed again, does not verify; why not?
fn refusal(change: Change) -> Error {
    let mut certificate = builder(Adjacency::AddRemoveUser).build().unwrap();
    change(&mut certificate);
    rehashed(certificate).verify().unwrap_err()
}

/// The guarantee of a private certificate.
fn claimed(certificate: &mut Certificate) -> &mut Guarantee {
    certificate.guarantee.as_mut().unwrap()
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
    // independent route: the Gaussian profile at twice (root of 2 and 4 mixed) the mu, same delta
    let mut accountant = dp_accounting::GdpAccountant::new(Adjacency::ReplaceUser);
    for release in plan.releases() {
        accountant.compose(release.event(), 1).unwrap();
    }
    let without_sampler = accountant.epsilon(1e-5);
    assert!(replace >= without_sampler && replace < without_sampler * 1.001);
}

fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
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
fn the_bracket_of_gaussians_is_tight() {
    let guarantee = builder(Adjacency::ReplaceUser)
        .build()
        .unwrap()
        .guarantee
        .unwrap();
    let lower = guarantee.epsilon_lower.unwrap();
    assert_eq!(guarantee.method, Some(Method::Gdp));
    // apart only by the millionth of delta that the sampler may use either way
    assert!(lower < guarantee.epsilon && lower > guarantee.epsilon * (1.0 - 1e-6));
}

/// A plan of one sampled step, or nothing while no accountant answers for it.
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

mod schema {
    //! The JSON schema in `docs/`, checked with the few keywords that it uses.

    use dp_core::{Relation, Stopping};
    use serde_json::{Value, json};

    use super::*;

    /// The schema; nothing where this crate is tested away from its repository.
    fn schema() -> Option<Value> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/certificate.schema.json"
        );
        let Ok(text) = std::fs::read_to_string(path) else {
            eprintln!("SKIPPED: {path} is not here");
            return None;
        };
        Some(serde_json::from_str(&text).unwrap())
    }

    fn has_type(value: &Value, name: &str) -> bool {
        match name {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            other => panic!("type {other}"),
        }
    }

    /// Whether `value` is valid under `rule`; panics at a keyword that it does not know.
    fn valid(value: &Value, rule: &Value, root: &Value) -> bool {
        let number = value.as_f64().unwrap_or(f64::NAN);
        rule.as_object().unwrap().iter().all(|(keyword, with)| {
            let bound = with.as_f64().unwrap_or(f64::NAN);
            match keyword.as_str() {
                "$schema" | "title" | "description" | "$defs" => true,
                "$ref" => {
                    let pointer = with.as_str().unwrap().trim_start_matches('#');
                    valid(value, root.pointer(pointer).unwrap(), root)
                }
                "type" => match with {
                    Value::String(name) => has_type(value, name),
                    names => names
                        .as_array()
                        .unwrap()
                        .iter()
                        .any(|name| has_type(value, name.as_str().unwrap())),
                },
                "const" => value == with,
                "enum" => with.as_array().unwrap().contains(value),
                "oneOf" => {
                    let rules = with.as_array().unwrap();
                    rules.iter().filter(|r| valid(value, r, root)).count() == 1
                }
                "minimum" => value.is_null() || number >= bound,
                "maximum" => value.is_null() || number <= bound,
                "exclusiveMinimum" => number > bound,
                "exclusiveMaximum" => number < bound,
                "pattern" => {
                    assert_eq!(with, "^[0-9a-f]{64}$");
                    value.as_str().is_some_and(|text| {
                        text.len() == 64
                            && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                    })
                }
                "items" => value
                    .as_array()
                    .is_none_or(|all| all.iter().all(|one| valid(one, with, root))),
                "properties" => value.as_object().is_none_or(|object| {
                    let rules = with.as_object().unwrap();
                    rules
                        .iter()
                        .all(|(name, r)| object.get(name).is_none_or(|v| valid(v, r, root)))
                }),
                "required" => value.as_object().is_none_or(|object| {
                    let names = with.as_array().unwrap();
                    names
                        .iter()
                        .all(|n| object.contains_key(n.as_str().unwrap()))
                }),
                "additionalProperties" => {
                    assert_eq!(with, false);
                    let known = rule["properties"].as_object().unwrap();
                    value
                        .as_object()
                        .is_none_or(|object| object.keys().all(|key| known.contains_key(key)))
                }
                other => panic!("keyword {other}"),
            }
        })
    }

    fn as_value(certificate: &Certificate) -> Value {
        serde_json::from_str(&certificate.to_json()).unwrap()
    }

    #[test]
    fn what_is_written_is_valid_and_every_member_is_known_and_required() {
        let Some(root) = schema() else { return };
        for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceRecord] {
            let whole = builder(adjacency).build().unwrap().with_artifact("m", b"x");
            let seeded = builder(adjacency)
                .not_private("seeded noise")
                .build()
                .unwrap();
            assert!(valid(&as_value(&seeded), &root, &root));
            let whole = as_value(&whole);
            assert!(valid(&whole, &root, &root));
            let members = |pointer: &str| -> Vec<String> {
                let object = whole.pointer(pointer).unwrap().as_object().unwrap();
                object
                    .keys()
                    .map(|key| format!("{pointer}/{key}"))
                    .collect()
            };
            let mut n_members = 0;
            for object in [
                "",
                "/project",
                "/status",
                "/target",
                "/guarantee",
                "/releases/0",
            ]
            .into_iter()
            .chain(["/releases/0/event", "/released/0", "/artifacts/0"])
            {
                for member in members(object) {
                    let mut without = whole.clone();
                    let name = member.rsplit('/').next().unwrap();
                    let parent = without
                        .pointer_mut(object)
                        .unwrap()
                        .as_object_mut()
                        .unwrap();
                    parent.remove(name);
                    assert!(!valid(&without, &root, &root), "{member} is not required");
                    n_members += 1;
                }
                let mut extra = whole.clone();
                extra.pointer_mut(object).unwrap()["more"] = json!(1);
                assert!(!valid(&extra, &root, &root), "{object} takes anything");
            }
            assert!(n_members > 35, "{n_members}");
        }
    }

    #[test]
    fn names_in_the_schema_are_those_that_are_written() {
        let Some(root) = schema() else { return };
        let whole = as_value(&builder(Adjacency::AddRemoveUser).build().unwrap());
        let keys = |value: &Value| -> Vec<String> {
            let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys
        };
        for (written, rule) in [
            (&whole, &root),
            (&whole["guarantee"], &root["$defs"]["guarantee"]),
            (
                &whole["releases"][0],
                &root["properties"]["releases"]["items"],
            ),
        ] {
            let names = keys(&rule["properties"]);
            assert_eq!(keys(written), names);
            let mut required: Vec<_> = rule["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect();
            required.sort();
            assert_eq!(required, names);
        }
    }

    #[test]
    fn every_event_is_in_the_schema() {
        let Some(root) = schema() else { return };
        let gaussian = DpEvent::gaussian(2.0);
        let relation = Relation::AddRemove;
        let best = |stopping| DpEvent::RepeatAndSelect {
            event: Box::new(DpEvent::gaussian(2.0)),
            stopping,
        };
        let events = [
            gaussian.clone(),
            DpEvent::gaussian_psd(1.0),
            DpEvent::laplace(2.0),
            DpEvent::DiscreteGaussian {
                sigma: 2.0,
                sensitivity: 1,
            },
            DpEvent::DiscreteLaplace {
                rate: 0.5,
                sensitivity: 1,
            },
            DpEvent::RandomizedResponse {
                noise_probability: 0.5,
                buckets: 3,
            },
            DpEvent::BoundedRange {
                epsilon: 1.0,
                relation,
            },
            DpEvent::ApproxDp {
                epsilon: 1.0,
                delta: 0.0,
                relation,
            },
            DpEvent::Zcdp {
                rho: 1.0,
                relation: Relation::Replace,
            },
            DpEvent::Rdp {
                order: 2.0,
                epsilon: 1.0,
                relation,
            },
            DpEvent::sampled_gaussian(1.0, 0.01),
            DpEvent::SampledWithoutReplacement {
                sample_size: 1,
                population_size: 10,
                event: Box::new(gaussian.clone()),
            },
            DpEvent::RandomAllocation {
                noise_multiplier: 1.0,
                n_selected: 1,
                n_steps: 9,
            },
            DpEvent::MixtureOfGaussians {
                sigma: 1.0,
                sensitivities: vec![0.0, 1.0],
                probabilities: vec![0.5, 0.5],
            },
            DpEvent::TreeAggregation {
                noise_multiplier: 1.0,
                n_steps: 9,
            },
            DpEvent::Composed {
                events: vec![gaussian.clone()],
            },
            gaussian.clone().repeated(3),
            best(Stopping::Logarithmic {
                success_probability: 0.5,
            }),
            best(Stopping::Poisson { mean: 2.0 }),
            best(Stopping::TruncatedNegativeBinomial {
                shape: 0.0,
                success_probability: 0.5,
            }),
            DpEvent::NonPrivate,
        ];
        let rule = &root["$defs"]["event"];
        for event in &events {
            let value = serde_json::to_value(event).unwrap();
            assert!(valid(&value, rule, &root), "{value}");
            let mut extra = value.clone();
            extra["more"] = json!(1);
            assert!(!valid(&extra, rule, &root), "{value}");
        }
        let mut seen: Vec<String> = events
            .iter()
            .map(|e| serde_json::to_value(e).unwrap()["mechanism"].to_string())
            .collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), rule["oneOf"].as_array().unwrap().len());
    }
}

mod hostile {
    //! Readers of untrusted JSON: an error, never a panic.

    use super::*;

    /// Fixed pseudo-random numbers, so that a failure can be repeated.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from((self.0 >> 16) % n as u64).unwrap()
        }
    }

    const SNIPPETS: [&str; 20] = [
        "null",
        "-1",
        "0",
        "1e999",
        "-0.0",
        "1e308",
        "5e-324",
        "18446744073709551616",
        "\"",
        "{",
        "}",
        "[[[[",
        "]",
        ",",
        ":",
        "true",
        "\\u0000",
        "9007199254740993",
        "{\"mechanism\":",
        "é",
    ];

    /// `bytes` with up to six edits: a byte changed, a range removed or repeated, a snippet put in.
    fn mutated(bytes: &[u8], random: &mut Random) -> Vec<u8> {
        let mut out = bytes.to_vec();
        for _ in 0..=random.below(6) {
            let at = random
                .below(out.len().max(1))
                .min(out.len().saturating_sub(1));
            let end = (at + random.below(40)).min(out.len());
            match random.below(5) {
                0 => {
                    if let Some(byte) = out.get_mut(at) {
                        *byte = u8::try_from(random.below(256)).unwrap();
                    }
                }
                1 => drop(out.drain(at..end)),
                2 => {
                    let copy = out[at..end].to_vec();
                    out.splice(at..at, copy);
                }
                3 => {
                    let snippet = SNIPPETS[random.below(SNIPPETS.len())];
                    out.splice(at..end, snippet.bytes());
                }
                _ => {
                    // a number in place of a number
                    let snippet = SNIPPETS[random.below(8)];
                    let digit = |b: &u8| b.is_ascii_digit();
                    if let Some(start) = out[at..].iter().position(digit).map(|p| p + at) {
                        let run = out[start..].iter().take_while(|b| digit(b)).count();
                        out.splice(start..start + run, snippet.bytes());
                    }
                }
            }
        }
        out
    }

    /// Reads `text` as strictly as a file, and then loosely with a digest made to fit, so that the
    /// mutation gets past the digest and into the figures. What holds is written and read again.
    fn read(text: &str) -> bool {
        let strict = Certificate::from_json(text).and_then(|c| c.verify().map(|_| c));
        if let Ok(certificate) = &strict {
            assert_eq!(
                &Certificate::from_json(&certificate.to_json()).unwrap(),
                certificate
            );
        }
        if let Ok(mut loose) = serde_json::from_str::<Certificate>(text) {
            loose.digest.clear();
            if let Err(Error::CertificateMismatch { recomputed, .. }) = loose.verify() {
                loose.digest = recomputed.trim_matches('"').to_owned();
                let _ = loose.verify();
                let _ = loose.verify_artifact("model.bin", b"factors");
                let _ = dp_accounting::PrivacyStatement::of(&loose).map(|s| s.to_string());
            }
        }
        strict.is_ok()
    }

    fn seeds() -> Vec<Vec<u8>> {
        let nested = DpEvent::Composed {
            events: vec![
                DpEvent::gaussian_psd(50.0).repeated(7),
                DpEvent::TreeAggregation {
                    noise_multiplier: 90.0,
                    n_steps: 1_000,
                },
            ],
        };
        let release = dp_accounting::PlannedRelease::new("nested", nested, 5);
        let plan =
            Plan::with_noise_multipliers(1e-5, Adjacency::AddRemoveUser, vec![release]).unwrap();
        let budget = Budget::new(plan.target(), Adjacency::AddRemoveUser).unwrap();
        let mut ledger = Ledger::in_memory("d", budget).unwrap();
        let records = ledger
            .reserve(&plan)
            .unwrap()
            .iter()
            .map(Spend::record)
            .collect();
        let nested = Certificate::builder(&plan, "d")
            .releases(records)
            .build()
            .unwrap();
        [
            builder(Adjacency::AddRemoveUser).build().unwrap().to_json(),
            builder(Adjacency::ReplaceUser)
                .not_private("x")
                .build()
                .unwrap()
                .to_json(),
            nested.to_json(),
            fixture("certificate-v1.json"),
        ]
        .map(String::into_bytes)
        .to_vec()
    }

    #[test]
    fn mutated_certificates_are_errors_and_never_panics() {
        let mut random = Random(0x0123_4567_89ab_cdef);
        let seeds = seeds();
        let mut held = 0;
        for round in 0..24_000 {
            let bytes = mutated(&seeds[round % seeds.len()], &mut random);
            held += usize::from(read(&String::from_utf8_lossy(&bytes)));
        }
        // edits of white space alone pass; hardly anything else can
        assert!(held < 600, "{held} mutations still hold");
    }

    #[test]
    fn random_bytes_and_deep_nesting_are_errors() {
        let mut random = Random(77);
        for _ in 0..5_000 {
            let bytes: Vec<u8> = (0..random.below(300))
                .map(|_| u8::try_from(random.below(256)).unwrap())
                .collect();
            assert!(!read(&String::from_utf8_lossy(&bytes)));
        }
        let honest = String::from_utf8(seeds().remove(0)).unwrap();
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
            assert!(
                !read(&format!("{}{event}{}", &honest[..start], &honest[end..])),
                "{depth}"
            );
        }
    }
}
