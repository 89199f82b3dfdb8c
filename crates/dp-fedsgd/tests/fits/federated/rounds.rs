//! Whole runs by messages.

use std::ops::ControlFlow;

use dp_core::Adjacency;
use dp_fedsgd::{
    Client, Error, HeldBatches, Observer, PpSgdParams, Progress, Reply, RoundMessage, RoundOutcome,
    Run, Server, Trainer, UpdateMessage,
};
use dp_mechanism::{FixedSizeSampling, NoiseSource};

use super::{clients, federate, no_rejection, poisson, seeded, whole};
use crate::support::{ADD_REMOVE, paid, samples, squared, trusting};

#[test]
fn messages_make_the_same_model_as_a_fit_bit_for_bit() {
    let data = samples(60, 3, 4, 3);
    let fixed = FixedSizeSampling::new(12, 60).unwrap().into();
    for (sampling, adjacency) in [(poisson(0.3), ADD_REMOVE), (fixed, Adjacency::ReplaceUser)] {
        let mut params = PpSgdParams::new(2.0, 0.3, 0.5, 6, 60.0).sampled(sampling);
        params.minimum_clients = Some(0.5);
        let fit = params.check().unwrap();
        let pass = &mut |_: &RoundMessage, update| vec![update];
        let (shared, _, own) = federate(fit, &data, adjacency, pass, &mut no_rejection);
        let plan = fit.plan_with_noise(3, 2.0, 1e-5, adjacency).unwrap();
        let rows = HeldBatches::new(&data, 2).unwrap();
        let model = squared(3);
        let fitted = fit
            .with(&model)
            .fit(&rows, &plan, paid(&plan), &mut seeded())
            .unwrap();
        let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&shared), bits(fitted.model.shared.last()));
        for (user, own) in own.iter().enumerate() {
            assert_eq!(bits(own), bits(fitted.model.local.expose().last(user)));
        }
    }
}

#[test]
fn asking_everybody_costs_what_full_participation_costs() {
    let fit = PpSgdParams::new(1.0, 0.3, 0.5, 40, 60.0);
    let plan = |params: PpSgdParams| {
        let plan = params
            .check()
            .unwrap()
            .plan_with_noise(3, 5.0, 1e-5, ADD_REMOVE);
        plan.unwrap().guarantee().epsilon
    };
    let (full, all) = (plan(fit), plan(fit.sampled(poisson(1.0))));
    assert!((all / full - 1.0).abs() < 1e-6, "{all} {full}");
}

#[test]
fn drop_outs_change_neither_noise_nor_other_clients_and_few_clients_stop_the_model() {
    let data = samples(60, 3, 4, 3);
    let mut params = PpSgdParams::new(1.0, 0.3, 0.5, 4, 60.0).sampled(poisson(1.0));
    params.minimum_clients = Some(90.0); // noise on the count: standard deviation 20
    params.extra_share = 0.2;
    let fit = params.check().unwrap();
    let mut nobody = |_: &RoundMessage, _: UpdateMessage| Vec::new();
    let (shared, outcomes, _) = federate(fit, &data, ADD_REMOVE, &mut nobody, &mut no_rejection);
    assert_eq!(outcomes, [RoundOutcome::TooFewClients; 4]);
    assert_eq!(shared, [0.0; 3]);

    // the model of one round is linear in the sum: its integers come back, each with the half step that floored
    // noise is read with
    let one = PpSgdParams::new(1.0, 1.0, 0.5, 1, 64.0).sampled(poisson(1.0));
    let fit = one.check().unwrap();
    let step = dp_mechanism::Grid::new(2.0, 0.5).unwrap().step();
    let of = |kept: std::ops::Range<usize>| {
        let mut some = |_: &RoundMessage, update: UpdateMessage| {
            let kept = kept.contains(&update.client);
            kept.then_some(update).into_iter().collect()
        };
        let model = federate(fit, &data, ADD_REMOVE, &mut some, &mut no_rejection).0;
        model
            .into_iter()
            .map(|w| whole(-w * 64.0 / step - 0.5))
            .collect()
    };
    let difference =
        |a: &[i128], b: &[i128]| -> Vec<i128> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
    let (none, few, rest, all): (Vec<_>, Vec<_>, Vec<_>, Vec<_>) =
        (of(0..0), of(0..10), of(10..60), of(0..60));
    // what clients 10.. add is the same with 0..10 there or not, and the noise with any of them
    let added = difference(&rest, &none);
    assert_eq!(difference(&all, &few), added);
    assert!(added.iter().all(|&z| z != 0) && few != none);
}

#[test]
fn servers_want_a_sampling_scheme_and_something_to_release() {
    let full = PpSgdParams::new(1.0, 0.3, 0.5, 2, 60.0).check().unwrap();
    let plan = full.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut seeded();
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    assert!(Server::new(full, 3, run).is_err());
    let local = PpSgdParams::new(0.0, 0.3, 0.5, 2, 60.0)
        .sampled(poisson(0.5))
        .check()
        .unwrap();
    assert!(local.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).is_err());
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    assert!(Server::new(local, 3, run).is_err());
}

#[test]
fn clients_refuse_rounds_of_another_model() {
    let data = samples(2, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    assert!(Client::new(&model, &rows, 2, 0, trusting()).is_err());
    let mut client = Client::new(&model, &rows, 1, 0, trusting()).unwrap();
    let good = RoundMessage {
        run: "a run".to_owned(),
        round: 1,
        shared: vec![0.0; 3],
        clip_norm: 1.0,
        noise_multiplier: 1.0,
        local_rate: 0.1,
        sum_rows: false,
        everybody_trains: false,
        share_within: false,
        count_clients: false,
        extra_share: 0.1,
    };
    for bad in [
        RoundMessage {
            run: String::new(),
            ..good.clone()
        },
        RoundMessage {
            shared: vec![0.0; 2],
            ..good.clone()
        },
        RoundMessage {
            shared: vec![f64::NAN; 3],
            ..good.clone()
        },
        RoundMessage {
            clip_norm: 0.0,
            ..good.clone()
        },
        RoundMessage {
            noise_multiplier: f64::INFINITY,
            ..good.clone()
        },
        RoundMessage {
            noise_multiplier: 1e-20,
            ..good.clone()
        },
        RoundMessage {
            local_rate: -1.0,
            ..good.clone()
        },
        RoundMessage {
            round: 0,
            ..good.clone()
        },
    ] {
        assert!(client.receive(&bad, true).is_err(), "{bad:?}");
    }
    assert!(client.receive(&good, false).unwrap() == Reply::NotAsked);
    assert!(matches!(client.receive(&good, true), Ok(Reply::Update(_))));
}

#[test]
fn a_hundred_thousand_clients_make_rounds() {
    let n = 100_000;
    let data = samples(n, 4, 2, 9);
    let (model, rows) = (squared(4), HeldBatches::new(&data, 1).unwrap());
    let n = n as usize;
    let sampling = poisson(0.1);
    let fit = PpSgdParams::new(4.0, 0.4, 1.0, 8, n as f64)
        .sampled(sampling)
        .check()
        .unwrap();
    let plan = fit.plan_with_noise(4, 1.0, 1e-6, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let mut server = Server::new(fit, 4, run).unwrap();
    let mut everybody = clients(&model, &rows, n);
    while let Some(round) = server.open_round(n).unwrap() {
        let (asked, message) = (round.asked().to_vec(), round.message().clone());
        let answers = asked.iter().map(|&number| {
            // as they come: no message is kept
            let reply = everybody[number].receive(&message, true).unwrap();
            reply.update().unwrap()
        });
        let outcome = round.close(answers, &mut no_rejection).unwrap();
        assert_eq!(outcome, RoundOutcome::Stepped);
    }
    let served = server.finish().unwrap();
    let shared = served.model;
    assert!(served.certificate.verify().unwrap().is_private());
    // labels are 2 x_0 plus a little: 8 steps of .4 along a slope of E x_0^2 = 1/3 leave less than half of it to learn
    assert!(
        shared.last()[0] > 0.8 && shared.last()[1].abs() < 0.1,
        "{:?}",
        shared.last()
    );
}

/// Ends a run as soon as its first release is listed.
struct EndsAtOnce;

impl Observer for EndsAtOnce {
    fn reads_users(&self) -> bool {
        false
    }

    fn progress(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// An error between a release and the step on it leaves shared parameters that are no function of the list.
#[test]
fn a_server_that_is_behind_its_list_opens_no_round_and_makes_no_model() {
    let fit = PpSgdParams::new(1.0, 0.3, 0.5, 3, 60.0).sampled(poisson(0.5));
    let fit = fit.check().unwrap();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let (noise, observer) = (&mut seeded(), &mut EndsAtOnce);
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let mut server = Server::new(fit, 3, run.observed_by(observer)).unwrap();
    let round = server.open_round(60).unwrap().unwrap();
    let ended = round.close(Vec::new(), &mut no_rejection);
    let cancelled = dp_mechanism::Error::Cancelled.to_string();
    assert_eq!(ended.unwrap_err().to_string(), cancelled);
    assert!(server.shared().iter().all(|&w| w == 0.0));
    let behind = |error: Error| error.to_string().contains("go on from the list");
    assert!(behind(server.open_round(60).err().unwrap()));
    assert!(behind(server.finish().err().unwrap()));
}
