//! Certificates match what the ledger paid for.

use dp_accounting::{Budget, Certificate, Ledger, Plan};
use dp_core::{Adjacency, Interactions, Private};
use dp_mechanism::NoiseSource;
use dp_pubfeat::federated::{Aggregator, Client};
use dp_pubfeat::{
    ConvexSspParams, Error, ExampleWeights, Fitted, ItemNumbers, LinearEncoder, Logistic,
    ProblemSetup, ResidualSspParams, Run, SspParams, Trainer,
};

use crate::first_release::multiplier;
use crate::support::{
    ADD_REMOVE, DIM, N_ITEMS, am_ssp, features, fit, ridge, sampled, setup, sgd, table, target,
    trusting,
};

/// Runs `trainer` with a ledger whose budget the run spends completely, and returns its
/// certificate.
fn check<T>(trainer: &T) -> Certificate
where
    T: Trainer<Data = Private<Interactions>, Error = Error>,
{
    let data = table(40, None);
    let width = trainer.width(&data);
    let plan = trainer.plan(width, target(), ADD_REMOVE).unwrap();
    let os = &mut NoiseSource::operating_system();
    check_paid(&plan, |spends| trainer.fit(&data, &plan, spends, os))
}

fn check_paid<L>(
    plan: &Plan,
    fit: impl FnOnce(Vec<dp_accounting::Spend>) -> dp_pubfeat::Result<Fitted<L>>,
) -> Certificate {
    let budget = match plan.mu_squared() {
        Ok(_) => Budget::new(target(), ADD_REMOVE),
        Err(_) => Budget::schedule(target(), ADD_REMOVE),
    };
    let mut ledger = Ledger::in_memory("the data", budget.unwrap()).unwrap();
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
    certificate
}

#[test]
fn every_fit_certifies_what_was_paid() {
    let mut params = SspParams::new(setup());
    params.n_resamples = 3;
    let ssp = params.check().unwrap();
    assert_eq!(check(&ssp.with(ridge())).releases.len(), 6);
    let residual = ResidualSspParams::new(setup(), 3, 0.6, 0.2);
    check(&residual.check().unwrap().with(ridge()));
    let convex = ConvexSspParams::new(setup(), 2).check().unwrap();
    check(&convex.with(Logistic, ridge()));
    check(&sampled().with(ridge()));
    check(&sgd().with(LinearEncoder::zeros(features(), DIM).unwrap()));
}

#[test]
fn fits_on_ratings_and_by_messages_certify_what_was_paid() {
    let given = "each user's vector was made from";
    let says =
        |certificate: &Certificate| certificate.assumptions.iter().any(|a| a.contains(given));
    let am = am_ssp(setup(), 2);
    assert!(!says(&check(&am.with(ridge()))));
    let encoder = LinearEncoder::zeros(features(), DIM).unwrap();
    let step = am.params().user_step;
    assert!(!says(&check(&sgd().alternating(encoder, step, 2).unwrap())));

    let (data, os) = (table(40, None), &mut NoiseSource::operating_system());
    let ssp = SspParams::new(setup()).check().unwrap();
    let plan = ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap();
    let certificate = check_paid(&plan, |spends| {
        let mut aggregator = Aggregator::new(&ssp, (N_ITEMS, 40), "run", &plan)?;
        for number in 0..40 {
            let client = Client::new(&data, number as usize, number)?;
            let message = client.answer(aggregator.invitation(), &mut trusting())?;
            aggregator.receive(&message).unwrap();
        }
        aggregator.close(Run::new(&plan, spends, os)?)
    });
    assert!(says(&certificate));
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
    for (setup, adjacency, unit) in [
        (setup(), ADD_REMOVE, "user"),
        (setup(), Adjacency::ReplaceUser, "user"),
        (setup().example_level(), Adjacency::ReplaceRecord, "record"),
    ] {
        let ssp = SspParams::new(setup).check().unwrap();
        let fitted = fit(&ssp.with(ridge()), &table(40, None), adjacency);
        let certificate = fitted.unwrap().certificate;
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
        let fitted = fit(&ssp.with(ridge()), &table(40, None), ADD_REMOVE);
        let said = fitted.unwrap().certificate.assumptions;
        assert!(said.iter().any(|a| a.contains(words)), "{said:?}");
    }
}

/// Noise multipliers of a plan.
fn noise(plan: &Plan) -> Vec<f64> {
    let releases = plan.releases().iter();
    { releases }
        .map(|release| multiplier(release.event()))
        .collect()
}

#[test]
fn resampling_costs_its_root() {
    let of = |n_resamples| {
        let params = SspParams {
            n_resamples,
            ..SspParams::new(setup())
        };
        let ssp = params.check().unwrap();
        noise(&ssp.plan(N_ITEMS, target(), ADD_REMOVE).unwrap())
    };
    assert!((of(9)[0] / of(1)[0] - 3.0).abs() < 1e-9);
}

#[test]
fn replacing_costs_twice_the_noise_and_for_matrices_its_root() {
    let root = 2.0_f64.sqrt();
    let (t, m) = (target(), N_ITEMS);
    let ssp = SspParams::new(setup()).check().unwrap();
    let residual = ResidualSspParams::new(setup(), 2, 0.6, 0.2)
        .check()
        .unwrap();
    let convex = ConvexSspParams::new(setup(), 1).check().unwrap();
    let am = am_ssp(setup(), 1);
    type Planned<'a> = Box<dyn Fn(Adjacency) -> Plan + 'a>;
    let exact: [(Planned<'_>, &[f64]); 4] = [
        (Box::new(|a| ssp.plan(m, t, a).unwrap()), &[root, 2.0]),
        (Box::new(|a| convex.plan(m, t, a).unwrap()), &[root, 2.0]),
        (Box::new(|a| am.plan(m, t, a).unwrap()), &[root, 2.0]),
        (
            Box::new(|a| residual.plan(m, t, a).unwrap()),
            &[2.0, root, 2.0, 2.0],
        ),
    ];
    for (plan, factors) in exact {
        let (one, other) = (
            noise(&plan(ADD_REMOVE)),
            noise(&plan(Adjacency::ReplaceUser)),
        );
        assert_eq!(one.len(), factors.len());
        for ((one, other), factor) in one.iter().zip(other).zip(factors) {
            assert!(
                (other / one - factor).abs() < 1e-9,
                "{other} {one} {factor}"
            );
        }
    }
}

#[test]
fn replacing_costs_samples_more_noise_up_to_twice() {
    // q = 1 samples every unit: twice. At q = 1/4 by numpy, convolving the losses of (1 - q) N(0,
    // z^2) + q N(+-1, z^2) four times: both noises have delta 1.0e-5 at epsilon 3
    for (q, factors) in [(1.0, 1.999..2.001), (0.25, 1.2194..1.2196)] {
        let mut params = sampled().params().clone();
        params.sampling_probability = q;
        let sampled = params.check().unwrap();
        let mut params = sgd().params().clone();
        params.sampling_probability = q;
        let sgd = params.check().unwrap();
        let of = |adjacency| {
            let one = sampled.plan(N_ITEMS, target(), adjacency).unwrap();
            let other = sgd.plan(10, target(), adjacency).unwrap();
            [noise(&one)[0], noise(&other)[0]]
        };
        let (add_remove, replace) = (of(ADD_REMOVE), of(Adjacency::ReplaceUser));
        for (one, other) in add_remove.iter().zip(replace) {
            assert!(factors.contains(&(other / one)), "{q}: {one} {other}");
        }
    }
}

#[test]
fn samples_of_examples_are_paid_for_as_records() {
    let (data, records) = (table(40, None), Adjacency::ReplaceRecord);
    let mut params = sampled().params().clone();
    params.setup = params.setup.example_level();
    let sampled = params.check().unwrap();
    let certificate = fit(&sampled.with(ridge()), &data, records)
        .unwrap()
        .certificate;
    assert!(certificate.verify().unwrap().is_private());
    assert_eq!(certificate.unit, "record");
    let mut params = sgd().params().clone();
    params.setup = params.setup.example_level();
    let encoder = LinearEncoder::zeros(features(), DIM).unwrap();
    let fitted = fit(&params.check().unwrap().with(encoder), &data, records).unwrap();
    assert_eq!(fitted.certificate.adjacency, records);
}
