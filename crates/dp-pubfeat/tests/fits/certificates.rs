//! Certificates say what the ledger paid for.

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, ApproxDp};
use dp_mechanism::NoiseSource;
use dp_pubfeat::{
    ConvexSspParams, DpSgdParams, ExampleWeights, FittedItems, ItemNumbers, LinearEncoder,
    Logistic, Optimiser, ProblemSetup, PublicEncoder, ResidualSspParams, SampledSspParams,
    SspParams,
};

use crate::support::{ADD_REMOVE, DIM, N_ITEMS, features, pay, ridge, setup, table, target};

/// A run in a ledger whose budget is spent by it, and its certificate.
fn check<L>(
    plan: &Plan,
    budget: Budget,
    fit: impl FnOnce(Vec<dp_accounting::Spend>) -> dp_pubfeat::Result<FittedItems<L>>,
) {
    let mut ledger = Ledger::in_memory("the data", budget).unwrap();
    let spends = ledger.reserve(plan).unwrap();
    let ids: Vec<String> = spends.iter().map(|s| s.release_id().to_owned()).collect();
    let certificate = fit(spends).unwrap().certificate;
    assert!(certificate.verify().unwrap().is_private());
    let listed: Vec<_> = certificate
        .releases
        .iter()
        .map(|r| r.release_id.clone())
        .collect();
    assert_eq!(listed, ids);
    let events = plan.releases().iter().zip(&certificate.releases);
    assert!({ events }.all(|(planned, listed)| *planned.event() == listed.event));
    let guarantee = certificate.guarantee.as_ref().unwrap();
    assert!((guarantee.epsilon - plan.guarantee().epsilon).abs() < 1e-9);
    assert!(guarantee.epsilon <= target().epsilon && guarantee.epsilon > 0.99 * target().epsilon);
    assert_eq!(certificate.data_set_id, "the data");
}

#[test]
fn every_fit_certifies_what_was_paid() {
    let (data, os) = (table(40, None), &mut NoiseSource::operating_system());
    let gaussian = || Budget::new(target(), ADD_REMOVE).unwrap();
    let schedule = || Budget::schedule(target(), ADD_REMOVE).unwrap();

    let mut params = SspParams::new(setup());
    params.n_resamples = 3;
    let ssp = params.check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    assert_eq!(plan.releases().len(), 6);
    check(&plan, gaussian(), |spends| {
        ssp.fit(ridge(), &data, &plan, spends, os)
    });

    let residual = ResidualSspParams::new(setup(), 3, 0.6, 0.2)
        .check()
        .unwrap();
    let plan = residual.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    check(&plan, gaussian(), |spends| {
        residual.fit(ridge(), &data, &plan, spends, os)
    });

    let convex = ConvexSspParams::new(setup(), 2).check().unwrap();
    let plan = convex.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    check(&plan, gaussian(), |spends| {
        convex.fit(&Logistic, ridge(), &data, &plan, spends, os)
    });

    let sampled = sampled();
    let plan = sampled.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    check(&plan, schedule(), |spends| {
        sampled.fit(ridge(), &data, &plan, spends, os)
    });

    let (sgd, encoder) = (sgd(), LinearEncoder::zeros(features(), DIM).unwrap());
    let plan = sgd
        .plan(encoder.parameters().len() / DIM, target(), ADD_REMOVE)
        .unwrap();
    check(&plan, schedule(), |spends| {
        sgd.fit(encoder, &data, &plan, spends, os)
    });
}

fn sampled() -> dp_pubfeat::SampledSsp {
    let params = SampledSspParams {
        setup: setup(),
        matrix_share: 0.4,
        n_steps: 4,
        sampling_probability: 0.25,
    };
    params.check().unwrap()
}

fn sgd() -> dp_pubfeat::DpSgd {
    let params = DpSgdParams {
        setup: setup(),
        n_steps: 4,
        sampling_probability: 0.25,
        gradient_norm: 0.5,
        optimiser: Optimiser::Adam { rate: 0.01 },
    };
    params.check().unwrap()
}

#[test]
fn sampling_is_paid_as_it_is_run() {
    let plan = sampled().plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    for release in plan.releases() {
        let dp_core::DpEvent::PoissonSampled {
            sampling_probability,
            ..
        } = release.event()
        else {
            panic!("not sampled");
        };
        assert_eq!(sampling_probability.to_bits(), 0.25_f64.to_bits());
        assert_eq!(release.n_draws(), (N_ITEMS * (6 + 3)) as u64);
    }
}

#[test]
fn users_and_examples_are_named_in_the_certificate() {
    let os = &mut NoiseSource::operating_system();
    for (setup, adjacency, unit) in [
        (setup(), ADD_REMOVE, "user"),
        (setup(), Adjacency::ReplaceUser, "user"),
        (setup().example_level(), Adjacency::ReplaceRecord, "record"),
    ] {
        let ssp = SspParams::new(setup).check().unwrap();
        let plan = ssp.plan(N_ITEMS, target(), adjacency).unwrap();
        let fitted = ssp
            .fit(ridge(), &table(40, None), &plan, pay(&plan), os)
            .unwrap();
        let certificate = fitted.certificate;
        assert!(certificate.verify().unwrap().is_private());
        assert_eq!(
            (certificate.unit.as_str(), certificate.adjacency),
            (unit, adjacency)
        );
        let says = |words: &str| certificate.assumptions.iter().any(|a| a.contains(words));
        assert_eq!(says("the unit is the record of one pair"), unit == "record");
        assert_eq!(says("at most one record in either"), unit == "record");
        assert_eq!(says("no part of the unit"), unit == "record");
        assert_eq!(
            says("made from that user's own data and from public"),
            unit == "user"
        );
    }
}

#[test]
fn a_certificate_says_where_the_numbers_behind_weights_come_from() {
    let values = vec![4.0; N_ITEMS];
    let release_id = "counts of last year".to_owned();
    let public = ItemNumbers::Public {
        values: values.clone(),
    };
    let released = ItemNumbers::Released { values, release_id };
    for (counts, words) in [
        (public, "public knowledge"),
        (released, "counts of last year"),
    ] {
        let weights = ExampleWeights::adaptive(counts, 0.25).unwrap();
        let setup = ProblemSetup { weights, ..setup() };
        let ssp = SspParams::new(setup).check().unwrap();
        let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
        let os = &mut NoiseSource::operating_system();
        let fitted = ssp
            .fit(ridge(), &table(40, None), &plan, pay(&plan), os)
            .unwrap();
        let said = fitted.certificate.assumptions;
        assert!(said.iter().any(|a| a.contains(words)), "{said:?}");
    }
}

#[test]
fn replacing_costs_twice_the_noise_and_resampling_its_root() {
    let plan = |resamples, adjacency| {
        let mut params = SspParams::new(setup());
        params.n_resamples = resamples;
        let ssp = params.check().unwrap();
        ssp.plan(N_ITEMS, ApproxDp::target(1.0, 1e-6).unwrap(), adjacency)
            .unwrap()
    };
    let noise = |plan: &Plan, k: usize| plan.releases()[k].noise_multiplier().unwrap();
    let (one, nine) = (plan(1, ADD_REMOVE), plan(9, ADD_REMOVE));
    assert!((noise(&nine, 0) / noise(&one, 0) - 3.0).abs() < 1e-9);
    let replace = plan(1, Adjacency::ReplaceUser);
    assert!((noise(&replace, 0) / noise(&one, 0) - 2.0_f64.sqrt()).abs() < 1e-9);
    assert!((noise(&replace, 1) / noise(&one, 1) - 2.0).abs() < 1e-9);
}

#[test]
fn samples_of_examples_are_paid_for_as_records() {
    let os = &mut NoiseSource::operating_system();
    let mut params = sampled().params().clone();
    params.setup = params.setup.example_level();
    let sampled = params.check().unwrap();
    let plan = sampled
        .plan(N_ITEMS, target(), Adjacency::ReplaceRecord)
        .unwrap();
    let data = table(40, None);
    let fitted = sampled.fit(ridge(), &data, &plan, pay(&plan), os).unwrap();
    assert!(fitted.certificate.verify().unwrap().is_private());
    assert_eq!(fitted.certificate.unit, "record");
    let mut params = sgd().params().clone();
    params.setup = params.setup.example_level();
    let sgd = params.check().unwrap();
    let encoder = LinearEncoder::zeros(features(), DIM).unwrap();
    let n_rows = encoder.parameters().len() / DIM;
    let plan = sgd
        .plan(n_rows, target(), Adjacency::ReplaceRecord)
        .unwrap();
    let fitted = sgd.fit(encoder, &data, &plan, pay(&plan), os).unwrap();
    assert_eq!(fitted.certificate.adjacency, Adjacency::ReplaceRecord);
}
