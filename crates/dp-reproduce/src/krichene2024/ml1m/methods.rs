//! The methods of the table.

use dp_core::Adjacency;
use dp_mechanism::NoiseSource;
use dp_multitask::{FactorizationParams, RecordSampling, Trainer as _};

use super::super::super::calibration::pay;
use super::super::super::movielens::settings::{published_lists, published_ssp};
use super::alternating::{Steps, am_dp_sgd, am_ssp, dp_cmf};
use super::best::best;
use super::problem::{Feedback, Model, Problem};
use dp_personal::error::{Error, Result};

/// A row of the table. To add a method, add an entry to [`METHODS`].
pub(super) struct Method {
    pub(super) name: &'static str,
    /// Whether items have features, so that new ones have a vector too.
    pub(super) features: bool,
    pub(super) fit: fn(&Problem<'_>) -> Result<Box<dyn Model>>,
}

pub(super) const METHODS: [Method; 10] = [
    Method {
        name: "dpals",
        features: false,
        fit: |problem| factorization(problem, dpals(problem)?),
    },
    Method {
        name: "adadpals",
        features: false,
        fit: |problem| factorization(problem, adadpals(problem)?),
    },
    Method {
        name: "pooled",
        features: false,
        fit: |problem| factorization(problem, pooled(problem)),
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
    Method {
        name: "am-ssp-best-ids",
        features: false,
        fit: |problem| best(problem, false),
    },
    Method {
        name: "am-ssp-best",
        features: true,
        fit: |problem| best(problem, true),
    },
    Method {
        name: "dp-cmf",
        features: true,
        fit: |problem| Ok(Box::new(dp_cmf(problem)?)),
    },
];

/// As published: a separate matrix for each item and no biases.
fn published(problem: &Problem<'_>) -> Result<FactorizationParams> {
    let all = match problem.feedback {
        Feedback::Ratings => published_ssp(problem.target),
        Feedback::Likes => published_lists(problem.target),
    };
    let first = all.into_iter().next();
    let first = first.ok_or_else(|| Error::Usage("a method without settings".to_owned()))?;
    Ok(first.settings)
}

/// A uniform sample of each user's records, with equal weights.
fn dpals(problem: &Problem<'_>) -> Result<FactorizationParams> {
    Ok(FactorizationParams {
        record_sampling: RecordSampling::Uniform {
            records_per_user: 40,
            seed: 0,
        },
        weight_exponent: 0.0,
        ..published(problem)?
    })
}

/// Adaptive weights.
fn adadpals(problem: &Problem<'_>) -> Result<FactorizationParams> {
    match problem.feedback {
        Feedback::Ratings => Ok(FactorizationParams::adadpals_for_target(problem.target)),
        Feedback::Likes => published(problem),
    }
}

/// The best form of dp-multitask: one matrix for all items. Users of ratings have one set of
/// penalties, as in the other rows.
fn pooled(problem: &Problem<'_>) -> FactorizationParams {
    match problem.feedback {
        Feedback::Ratings => FactorizationParams::for_target(problem.target)
            .with_rating_range(1.0, 5.0)
            .with_common_fold_in(),
        Feedback::Likes => FactorizationParams::implicit_for_target(problem.target),
    }
}

/// Without features, from dp-multitask.
fn factorization(problem: &Problem<'_>, settings: FactorizationParams) -> Result<Box<dyn Model>> {
    let settings = FactorizationParams {
        init_seed: problem.seed,
        ..settings
    };
    let fit = settings.check()?;
    let n_items = problem.train.expose().n_items();
    let plan = fit.plan(n_items, problem.target, Adjacency::AddRemoveUser)?;
    let mut noise = NoiseSource::insecure_seeded(problem.seed);
    let spends = pay(&plan, "ratings")?;
    let fitted = fit.fit(problem.train, &plan, spends, &mut noise)?;
    Ok(Box::new(fitted.model))
}
