//! The first releases of alternating rounds on ratings and on likes as integers.

use dp_core::Adjacency;
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    AmImplicitSspParams, AmResidualSspParams, FeaturePrior, Observed, PriorVariances,
};

use crate::first_release::{Release, Sums};
use crate::support::{N_ITEMS, features, look, observed, target};

/// Total weights and the first round, whose item vectors are public: neither depends on the other.
pub(crate) fn am_residual(adjacency: Adjacency) -> Release {
    let mut params = AmResidualSspParams::for_target(target());
    params.n_rounds = 1;
    params.user_step.label_center = 0.0;
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
    let features = features();
    let prior = FeaturePrior::new(&features, PriorVariances::for_features(&features)).unwrap();
    Release(Box::new(move |table| {
        let noise = &mut NoiseSource::insecure_seeded(5);
        let mut sums = Vec::new();
        observed(&fit.with(&prior), table, &plan, noise, |seen| {
            record("am-residual", seen, &mut sums);
        })
        .unwrap();
        sums
    }))
}

/// The same of likes.
pub(crate) fn am_implicit(adjacency: Adjacency) -> Release {
    let mut params = AmImplicitSspParams::for_target(target());
    params.n_rounds = 1;
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), adjacency).unwrap();
    let features = features();
    let prior = FeaturePrior::new(&features, PriorVariances::for_likes(&features)).unwrap();
    Release(Box::new(move |table| {
        let noise = &mut NoiseSource::insecure_seeded(5);
        let mut sums = Vec::new();
        observed(&fit.with(&prior), table, &plan, noise, |seen| {
            record("am-implicit", seen, &mut sums);
        })
        .unwrap();
        sums
    }))
}

fn record(fit: &str, observed: &Observed<'_>, sums: &mut Vec<Sums>) {
    sums.extend(look(observed).into_iter().map(|seen| Sums {
        name: format!("{fit}: {}", seen.label),
        steps: seen.integers.iter().map(|&z| z as f64).collect(),
        weights: vec![1; seen.integers.len()],
        l2_bound: seen.l2_bound,
    }));
}
