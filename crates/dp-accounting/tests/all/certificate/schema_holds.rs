//! Certificates written by this crate are valid under the JSON schema in `docs/`, and hardly
//! anything else is.

use dp_accounting::{Certificate, Making, ReleasedMetric};
use dp_core::{Adjacency, DpEvent, Relation, Stopping};
use serde_json::{Value, json};

use super::{builder, run};

/// The schema; `None` if this crate is tested outside its repository.
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

/// Members that are written only if they have a value.
const OPTIONAL: [&str; 7] = [
    "entry_hash",
    "metrics",
    "not_made",
    "made",
    "revision",
    "time",
    "release_list_sha256",
];

fn as_value(certificate: &Certificate) -> Value {
    serde_json::from_str(&certificate.to_json()).unwrap()
}

#[test]
fn what_is_written_is_valid_and_every_member_is_known_and_required() {
    let Some(root) = schema() else { return };
    for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceRecord] {
        let made = Making {
            time: Some(Making::now()),
            instructions: "portable".to_owned(),
            release_list_sha256: Some("0".repeat(64)),
        };
        let whole = builder(adjacency).build().unwrap();
        let whole = whole.with_artifact("m", b"x").with_making(made);
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
        .chain([
            "/releases/0/event",
            "/released/0",
            "/artifacts/0",
            "/assumptions/0",
            "/made",
        ]) {
            for member in members(object) {
                if OPTIONAL
                    .iter()
                    .any(|name| member.ends_with(&format!("/{name}")))
                {
                    continue;
                }
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
        let optional = |name: &String| OPTIONAL.contains(&name.as_str());
        let mut names = keys(&rule["properties"]);
        names.retain(|name| !optional(name));
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
fn metrics_are_valid_under_the_schema_and_belong_to_a_release_that_was_made() {
    let Some(root) = schema() else { return };
    let bare = builder(Adjacency::AddRemoveUser).build().unwrap();
    let metric = ReleasedMetric {
        release: bare.releases[0].label.clone(),
        metric: "RMSE".to_owned(),
        method: "model".to_owned(),
        value: 0.9,
        lower: 0.88,
        upper: 0.93,
        confidence: 0.95,
        clipped_to: [0.0, 2.0],
    };
    let with = |metric: &ReleasedMetric| bare.clone().with_metrics(vec![metric.clone()]);
    let whole = with(&metric);
    assert!(whole.verify().unwrap().is_private() && valid(&as_value(&whole), &root, &root));
    assert_eq!(Certificate::from_json(&whole.to_json()).unwrap(), whole);
    let wrong: [fn(&mut ReleasedMetric); 5] = [
        |metric| metric.release += "?",
        |metric| metric.value = 0.94,
        |metric| metric.upper = f64::INFINITY,
        |metric| metric.confidence = 1.0,
        |metric| metric.clipped_to = [2.0, 0.0],
    ];
    for edit in wrong {
        let mut metric = metric.clone();
        edit(&mut metric);
        assert!(with(&metric).verify().is_err(), "{metric:?}");
    }
}

#[test]
fn a_run_that_ended_early_is_valid_and_counts_what_it_did_not_make() {
    let Some(root) = schema() else { return };
    let (plan, mut made) = run(Adjacency::AddRemoveUser);
    let rest = made.split_off(1);
    made[0].entry_hash = Some("0".repeat(64));
    let early = Certificate::builder(&plan, "ratings").releases(made);
    assert!(early.clone().build().is_err(), "the rest is not there");
    let early = early.not_made(&plan.releases()[1..]).build().unwrap();
    assert!(!rest.is_empty() && valid(&as_value(&early), &root, &root));
    let whole = early.verify().unwrap().guarantee.unwrap();
    assert!((whole.epsilon - plan.guarantee().epsilon).abs() < 1e-9);
    let mut edited = early;
    edited.not_made.clear();
    assert!(edited.verify().is_err());
}

#[test]
fn every_event_is_in_the_schema() {
    let Some(root) = schema() else { return };
    let gaussian = DpEvent::gaussian(2.0);
    let relation = Relation::AddRemove;
    let best = |stopping| DpEvent::gaussian(2.0).best_of(stopping);
    let events = [
        gaussian.clone(),
        DpEvent::gaussian_psd(1.0),
        DpEvent::laplace(2.0),
        DpEvent::discrete_gaussian(2.0, 1),
        DpEvent::discrete_laplace(0.5, 1),
        DpEvent::randomized_response(0.5, 3),
        DpEvent::bounded_range(1.0, relation),
        DpEvent::approx_dp(1.0, 0.0, relation),
        DpEvent::zcdp(1.0, Relation::Replace),
        DpEvent::rdp(2.0, 1.0, relation),
        DpEvent::sampled_gaussian(1.0, 0.01),
        gaussian.clone().sampled_without_replacement(1, 10),
        DpEvent::random_allocation(1.0, 1, 9),
        DpEvent::mixture_of_gaussians(1.0, [0.0, 1.0], [0.5, 0.5]),
        DpEvent::tree_aggregation(1.0, 9),
        DpEvent::composed(vec![gaussian.clone()]),
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

/// Whether `value` is valid under `rule`; panics on unknown keywords.
pub(super) fn valid(value: &Value, rule: &Value, root: &Value) -> bool {
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
                    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
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
