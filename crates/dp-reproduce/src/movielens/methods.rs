//! The methods of the table, and the candidate settings of each.

use dp_core::ApproxDp;
use dp_multitask::{FactorizationParams, RecordSampling};
use serde_json::{Map, Value, json};

use super::settings::{Published, best_residual, published_lists, published_ssp, published_steps};

/// A row of the table: one method, and candidate settings from which the validation part selects.
pub(super) struct Method {
    /// `ssp`, `noisy-gd`, `adadpals`, `residual`, `pooled`, `best`.
    pub(super) name: &'static str,
    pub(super) params: Map<String, Value>,
    /// Whether the paper contains it, so that it gets a row with the noise as published.
    pub(super) published: bool,
    pub(super) candidates: Box<dyn Fn(ApproxDp) -> Vec<Candidate>>,
}

/// One setting and its name in the table.
pub(super) struct Candidate {
    pub(super) label: String,
    pub(super) settings: FactorizationParams,
}

/// Number of records per user that sampling keeps.
const KEPT: [usize; 2] = [40, 100];
const EXPONENTS: [f64; 4] = [0.0, 0.25, 0.5, 1.0];

/// For predicted ratings.
pub(super) fn of_ratings() -> Vec<Method> {
    let mut methods = vec![sampled("uniform"), sampled("tail")];
    methods.extend(EXPONENTS.map(|mu| {
        let of = move |target| each(published_ssp(target), |p| weighted(p, mu));
        published("ssp", &[("mu", json!(mu))], of)
    }));
    methods.extend([0.0, 0.25].map(|mu| {
        let of = move |target| each(published_steps(target), |p| weighted(p, mu));
        published("noisy-gd", &[("mu", json!(mu))], of)
    }));
    methods.push(ours("adadpals", |target| {
        vec![Candidate {
            label: "its defaults".to_owned(),
            settings: FactorizationParams::adadpals_for_target(target),
        }]
    }));
    methods.push(ours("residual", best_residual));
    methods.push(ours("best", |target| {
        vec![Candidate {
            label: "defaults".to_owned(),
            settings: FactorizationParams::for_target(target)
                .with_rating_range(1.0, 5.0)
                .with_common_fold_in(),
        }]
    }));
    methods
}

fn published(
    name: &'static str,
    params: &[(&str, Value)],
    candidates: impl Fn(ApproxDp) -> Vec<Candidate> + 'static,
) -> Method {
    let params = params.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
    Method {
        name,
        params: params.collect(),
        published: true,
        candidates: Box::new(candidates),
    }
}

fn ours(name: &'static str, candidates: impl Fn(ApproxDp) -> Vec<Candidate> + 'static) -> Method {
    Method {
        published: false,
        ..published(name, &[], candidates)
    }
}

/// For lists, from implicit feedback: with a separate matrix for each item, and ours with the
/// pooled Gramian.
pub(super) fn of_lists() -> Vec<Method> {
    let own = |name, key: &str, value, candidates: fn(ApproxDp) -> Vec<Candidate>| Method {
        published: false, // one accounting is enough to show it
        ..published(name, &[(key, value)], candidates)
    };
    vec![
        own("ssp", "sampling", json!("uniform"), |target| {
            on_samples(published_lists(target), "uniform")
        }),
        own("ssp", "mu", json!(0.25), |target| {
            each(published_lists(target), |p| weighted(p, 0.25))
        }),
        ours("pooled", |target| vec![with_biases(target)]),
        ours("best", |target| {
            let without = Candidate {
                label: "defaults without biases".to_owned(),
                settings: FactorizationParams::implicit_plain_for_target(target),
            };
            vec![without, with_biases(target)]
        }),
    ]
}

fn with_biases(target: ApproxDp) -> Candidate {
    Candidate {
        label: "defaults".to_owned(),
        settings: FactorizationParams::implicit_for_target(target),
    }
}

/// DPALS on a sample of each user's records, all with equal weights.
fn sampled(kind: &'static str) -> Method {
    published("ssp", &[("sampling", json!(kind))], move |target| {
        on_samples(published_ssp(target), kind)
    })
}

fn on_samples(all: Vec<Published>, kind: &str) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for Published { label, settings } in all {
        for records_per_user in KEPT {
            let sampling = match kind {
                "tail" => RecordSampling::Tail { records_per_user },
                _ => RecordSampling::Uniform {
                    records_per_user,
                    seed: 0,
                },
            };
            candidates.push(Candidate {
                label: format!("{records_per_user} records, {label}"),
                settings: FactorizationParams {
                    record_sampling: sampling,
                    weight_exponent: 0.0,
                    ..settings.clone()
                },
            });
        }
    }
    candidates
}

fn weighted(Published { label, settings }: Published, mu: f64) -> Candidate {
    Candidate {
        label,
        settings: FactorizationParams {
            weight_exponent: mu,
            ..settings
        },
    }
}

fn each(all: Vec<Published>, change: impl Fn(Published) -> Candidate) -> Vec<Candidate> {
    all.into_iter().map(change).collect()
}
