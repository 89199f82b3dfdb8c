//! What an observer sees of sampled steps: every user's integers, in every step, within the bound.

use dp_core::{Adjacency, Interactions, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{DpSgdParams, Error, LinearEncoder, Observed, ObservedSums, PublicEncoder};

use crate::support::{
    ADD_REMOVE, DIM, N_ITEMS, features, observed, ridge, sampled, sgd, table, target,
};

/// Counts a step and checks that users with items add something, of norm at most the bound.
fn check(observed: &Observed<'_>, data: &Private<Interactions>, n_steps: &mut usize) {
    let ObservedSums::Vector { grid, one_user, .. } = observed.sums else {
        panic!("another release")
    };
    *n_steps += 1;
    for row in data.expose().users() {
        let integers = one_user(row).into_iter();
        let norm: u128 = integers
            .map(|(_, z)| u128::from(z.unsigned_abs()).pow(2))
            .sum();
        assert!(norm <= u128::from(grid.l2_bound()).pow(2));
        assert_eq!(norm > 0, !row.is_empty());
    }
}

#[test]
fn steps_on_samples_bound_every_user() {
    let (data, noise) = (table(40, None), &mut NoiseSource::insecure_seeded(8));
    let mut n_steps = 0;
    let fit = sampled();
    let plan = fit.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    observed(&fit.with(ridge()), &data, &plan, noise, |o| {
        check(o, &data, &mut n_steps);
    })
    .unwrap();
    assert_eq!(n_steps, 4);

    let fit = sgd();
    let encoder = LinearEncoder::zeros(features(), DIM).unwrap();
    let n_rows = encoder.parameters().len() / DIM;
    let plan = fit.plan(n_rows, target(), ADD_REMOVE).unwrap();
    observed(&fit.with(encoder), &data, &plan, noise, |o| {
        check(o, &data, &mut n_steps);
    })
    .unwrap();
    assert_eq!(n_steps, 8);
}

#[test]
fn observers_of_users_are_refused_where_records_are_units() {
    let (data, os) = (table(20, None), &mut NoiseSource::operating_system());
    let never = |_: &Observed<'_>| panic!("shown a release");
    let mut params = DpSgdParams {
        sampling_probability: 1.0,
        ..sgd().params().clone()
    };
    params.setup = params.setup.example_level();
    let fit = params.check().unwrap();
    let encoder = LinearEncoder::zeros(features(), DIM).unwrap();
    let n_rows = encoder.parameters().len() / DIM;
    let plan = fit.plan(n_rows, target(), Adjacency::ReplaceRecord);
    let plan = plan.unwrap();
    let refused = observed(&fit.with(encoder), &data, &plan, os, never);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));

    let mut params = sampled().params().clone();
    params.sampling_probability = 1.0;
    params.setup = params.setup.example_level();
    let fit = params.check().unwrap();
    let plan = fit.plan(N_ITEMS, target(), Adjacency::ReplaceRecord);
    let plan = plan.unwrap();
    let refused = observed(&fit.with(ridge()), &data, &plan, os, never);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
}
