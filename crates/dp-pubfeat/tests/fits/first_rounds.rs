//! The first releases of residual rounds on ratings as integers.

use dp_core::Adjacency;
use dp_mechanism::NoiseSource;
use dp_pubfeat::{AmResidualSspParams, FeaturePrior, PriorVariances};

use crate::first_release::{Release, Sums};
use crate::support::{N_ITEMS, features, look, pay, target};

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
        let (mut sums, noise) = (Vec::new(), &mut NoiseSource::insecure_seeded(5));
        fit.fit_watched(&prior, table, &plan, pay(&plan), noise, &mut |observed| {
            sums.extend(look(&observed).into_iter().map(|seen| Sums {
                name: format!("am-residual: {}", seen.label),
                steps: seen.integers.iter().map(|&z| z as f64).collect(),
                weights: vec![1; seen.integers.len()],
                l2_bound: seen.l2_bound,
            }));
        })
        .unwrap();
        sums
    }))
}
