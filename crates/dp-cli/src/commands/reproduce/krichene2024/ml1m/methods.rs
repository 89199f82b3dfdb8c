//! The methods of the table.

use dp_core::Adjacency;
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, RecordSampling};

use super::super::super::calibration::pay;
use super::super::super::movielens::settings::{published_lists, published_ssp};
use super::alternating::{Steps, am_dp_sgd, am_ssp};
use super::problem::{Feedback, Model, Problem};
use crate::error::{Error, Result};

/// A row of the table. Another method is another entry of [`METHODS`].
pub(super) struct Method {
    pub(super) name: &'static str,
    /// Whether items have features, so that new ones have a vector too.
    pub(super) features: bool,
    pub(super) fit: fn(&Problem<'_>) -> Result<Box<dyn Model>>,
}

pub(super) const METHODS: [Method; 6] = [
    Method {
        name: "dpals",
        features: false,
        fit: |problem| factorization(problem, false),
    },
    Method {
        name: "adadpals",
        features: false,
        fit: |problem| factorization(problem, true),
    },
    Method {
        name: "am-dpsgd-ids",
        features: false,
        fit: |problem| Ok(Box::new(am_dp_sgd(problem, false, &Steps::of(problem))?)),
    },
    Method {
        name: "am-dpsgd",
        features: true,
        fit: |problem| Ok(Box::new(am_dp_sgd(problem, true, &Steps::of(problem))?)),
    },
    Method {
        name: "am-ssp-ids",
        features: false,
        fit: |problem| Ok(Box::new(am_ssp(problem, false)?)),
    },
    Method {
        name: "am-ssp",
        features: true,
        fit: |problem| Ok(Box::new(am_ssp(problem, true)?)),
    },
];

/// Without features, from dp-multitask: each item's own matrix; adaptive weights, or a uniform sample of each user's records.
fn factorization(problem: &Problem<'_>, adaptive: bool) -> Result<Box<dyn Model>> {
    let target = problem.target;
    let published = match problem.feedback {
        Feedback::Ratings => published_ssp(target),
        Feedback::Likes => published_lists(target),
    };
    let first = published.into_iter().next();
    let first = first.ok_or_else(|| Error::Usage("a method without settings".to_owned()))?;
    let settings = match (adaptive, problem.feedback) {
        (true, Feedback::Ratings) => FactorizationParams::adadpals_for_target(target),
        (true, Feedback::Likes) => first.settings,
        (false, _) => FactorizationParams {
            record_sampling: RecordSampling::Uniform {
                records_per_user: 40,
                seed: 0,
            },
            weight_exponent: 0.0,
            ..first.settings
        },
    };
    let settings = FactorizationParams {
        init_seed: problem.seed,
        ..settings
    };
    let fit = settings.check()?;
    let n_items = problem.train.expose().n_items();
    let plan = fit.plan(n_items, target, Adjacency::AddRemoveUser)?;
    let mut noise = NoiseSource::insecure_seeded(problem.seed);
    let spends = pay(&plan, "ratings")?;
    let fitted = fit.fit(problem.train, &plan, spends, &mut noise, &mut |_| {})?;
    Ok(Box::new(fitted.model))
}
