//! Server and clients.

mod policy;

use std::ops::ControlFlow;

use dp_core::{Adjacency, UserSamples};
use dp_fedsgd::{
    AdditiveModel, Client, Error, HeldBatches, Observer, PpSgd, PpSgdParams, Progress, Rejection,
    Reply, RoundClients, RoundMessage, RoundOutcome, Run, Server, Trainer, UpdateMessage,
};
use dp_mechanism::{ClientSampling, FixedSizeSampling, NoiseSource, PoissonSampling};

use crate::support::{ADD_REMOVE, Numbers, paid, samples, squared, trusting};

fn poisson(q: f64) -> ClientSampling {
    PoissonSampling::new(q).unwrap().into()
}

fn seeded() -> NoiseSource {
    NoiseSource::insecure_seeded(7)
}

fn clients<'a>(
    model: &'a AdditiveModel,
    rows: &'a HeldBatches<'a>,
    n: usize,
) -> Vec<Client<'a, AdditiveModel, HeldBatches<'a>>> {
    (0..n)
        .map(|user| Client::new(model, rows, user, user, trusting()).unwrap())
        .collect()
}

/// Runs all rounds, applying a function to every client's message, and returns the final model.
fn federate(
    fit: PpSgd,
    data: &UserSamples,
    adjacency: Adjacency,
    meddle: &mut dyn FnMut(&RoundMessage, UpdateMessage) -> Vec<UpdateMessage>,
    rejected: &mut dyn FnMut(Rejection),
) -> (Vec<f64>, Vec<RoundOutcome>, Vec<Vec<f64>>) {
    let dim = data.n_features();
    let model = squared(dim);
    let rows = HeldBatches::new(data, 2).unwrap();
    let plan = fit.plan_with_noise(dim, 2.0, 1e-5, adjacency).unwrap();
    let mut noise = seeded();
    let run = Run::new(&plan, paid(&plan), &mut noise).unwrap();
    let mut server = Server::new(fit, dim, run).unwrap();
    let mut everybody = clients(&model, &rows, data.users().len());
    let mut outcomes = Vec::new();
    while let Some(round) = server.open_round(everybody.len()).unwrap() {
        // serialised and parsed again
        let text = serde_json::to_string(round.message()).unwrap();
        let message: RoundMessage = serde_json::from_str(&text).unwrap();
        assert_eq!(message, *round.message());
        let mut updates = Vec::new();
        for (number, client) in everybody.iter_mut().enumerate() {
            let asked = round.asked().binary_search(&number).is_ok();
            if let Some(update) = client.receive(&message, asked).unwrap().update() {
                updates.extend(meddle(&message, update));
            }
        }
        updates.reverse(); // order does not matter
        outcomes.push(round.close(updates, rejected).unwrap());
    }
    let served = server.finish().unwrap();
    assert!(!served.certificate.verify().unwrap().is_private()); // seeded
    let own = everybody.iter().map(|c| c.local().to_vec()).collect();
    (served.model.last().to_vec(), outcomes, own)
}

fn no_rejection(rejection: Rejection) {
    panic!("{rejection}");
}

/// The whole number, below 2^50, that a few rounding errors have changed.
fn whole(z: f64) -> i128 {
    assert!((z - z.round()).abs() < 0.1, "{z}");
    #[allow(clippy::cast_possible_truncation, reason = "whole numbers below 2^53")]
    let whole = z.round() as i128;
    whole
}

/// A message for the run that [`released`] fills in.
fn update(round: u32, client: usize, integers: &[i64]) -> UpdateMessage {
    UpdateMessage {
        run: String::new(),
        round,
        client,
        integers: integers.to_vec(),
    }
}

/// One round with three coordinates in which every client is asked: the model after it, given the
/// messages to the server.
fn released(updates: Vec<UpdateMessage>, rejected: &mut dyn FnMut(Rejection)) -> Vec<f64> {
    let fit = PpSgdParams::new(1.0, 1.0, 1.0, 1, 1.0)
        .sampled(poisson(1.0))
        .check()
        .unwrap();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut seeded();
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let mut server = Server::new(fit, 3, run).unwrap();
    let round = server.open_round(10).unwrap().unwrap();
    let run = round.message().run.clone();
    let updates = updates.into_iter().map(|update| UpdateMessage {
        run: run.clone(),
        ..update
    });
    round.close(updates, rejected).unwrap();
    server.shared().to_vec()
}

/// The integers by which a step differs from that of an empty round.
fn moved_by(updates: Vec<UpdateMessage>) -> Vec<i128> {
    let step = dp_mechanism::Grid::new(2.0, 1.0).unwrap().step();
    let empty = released(Vec::new(), &mut no_rejection);
    let found = released(updates, &mut |_| {});
    // the model moves by -values / 1
    let change = found.iter().zip(&empty).map(|(a, b)| (b - a) / step);
    change.map(whole).collect()
}

#[test]
fn a_message_counts_as_it_is_or_not_at_all() {
    let bound = i64::try_from(dp_mechanism::Grid::new(2.0, 1.0).unwrap().l2_bound()).unwrap();
    let good = [bound, 0, 0];
    assert_eq!(
        moved_by(vec![update(1, 4, &good)]),
        [i128::from(bound), 0, 0]
    );
    for bad in [
        update(2, 4, &good),
        update(0, 4, &good),
        update(1, 4, &[bound, 1, 0]),
        update(1, 4, &[bound + 1, 0, 0]),
        update(1, 4, &[i64::MIN; 3]),
        update(1, 4, &[i64::MAX, i64::MIN, 0]),
        update(1, 4, &[0, 0]),
        update(1, 4, &[0, 0, 0, 0]),
        update(1, 4, &[]),
        update(1, 10, &good), // not the number of any client
        update(1, usize::MAX, &good),
    ] {
        assert_eq!(moved_by(vec![bad]), [0, 0, 0]);
    }
    // the first message of a client counts, and one message of every client
    let twice = vec![
        update(1, 4, &good),
        update(1, 4, &[0, bound, 0]),
        update(1, 5, &[0, 0, -bound]),
    ];
    assert_eq!(moved_by(twice), [i128::from(bound), 0, -i128::from(bound)]);
}

#[test]
fn malformed_messages_are_named_and_the_round_goes_on() {
    let bound = i64::try_from(dp_mechanism::Grid::new(2.0, 1.0).unwrap().l2_bound()).unwrap();
    let mut seen = Vec::new();
    let updates = vec![
        update(3, 1, &[0; 3]),
        update(1, 2, &[0; 2]),
        update(1, 3, &[bound, bound, 0]),
        update(1, 4, &[1, 2, 3]),
    ];
    released(updates, &mut |rejection| seen.push(rejection));
    assert_eq!(
        seen,
        [
            Rejection::Round {
                client: 1,
                found: 3,
                expected: 1
            },
            Rejection::Length {
                client: 2,
                found: 2,
                expected: 3
            },
            Rejection::Norm { client: 3 },
        ]
    );
}

#[test]
fn ten_thousand_fuzzed_messages_move_the_sum_by_their_bound_at_most() {
    let mut numbers = Numbers(11);
    let bound = dp_mechanism::Grid::new(2.0, 1.0).unwrap().l2_bound();
    let honest = serde_json::to_string(&update(1, 4, &[5, -7, 9]));
    let honest = honest.unwrap().into_bytes();
    let (mut parsed, mut all) = (0, Vec::new());
    for _ in 0..10_000 {
        let mut bytes = honest.clone();
        for _ in 0..1 + numbers.word() % 4 {
            let at = usize::try_from(numbers.word() % bytes.len() as u64).unwrap();
            match numbers.word() % 4 {
                0 => bytes[at] = numbers.word().to_le_bytes()[0],
                1 => {
                    let marks = b"0123456789-,[]{}.e\"";
                    bytes[at] = marks[usize::try_from(numbers.word() % 19).unwrap()];
                }
                2 => bytes.insert(
                    at,
                    b"0123456789"[usize::try_from(numbers.word() % 10).unwrap()],
                ),
                _ => drop(bytes.remove(at)),
            }
        }
        if let Ok(update) = serde_json::from_slice::<UpdateMessage>(&bytes) {
            parsed += 1;
            all.push(update);
        }
        let wild = |numbers: &mut Numbers| match numbers.word() % 4 {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => (numbers.word() >> (numbers.word() % 64)).cast_signed(),
            _ => -((numbers.word() >> (20 + numbers.word() % 40)).cast_signed()),
        };
        let round = u32::try_from(numbers.word() % 3).unwrap();
        let client = usize::try_from(numbers.word() % 12).unwrap();
        let n = numbers.word() % 6;
        let integers: Vec<i64> = (0..n).map(|_| wild(&mut numbers)).collect();
        all.push(update(round, client, &integers));
    }
    assert!(parsed > 100, "{parsed}"); // some mutated bytes are still messages
    let n = all.len();
    let mut reasons = 0;
    released(all.clone(), &mut |_| reasons += 1);
    assert!(reasons > n / 4 && reasons < n);
    // all from one client: at most one vector within the bound is counted
    for update in &mut all {
        update.client = 4;
    }
    let square: i128 = moved_by(all).iter().map(|z| z * z).sum();
    assert!(square > 0 && square <= i128::from(bound).pow(2));
}

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

/// Clients in this process; the last one never answers.
struct Everybody<'a>(Vec<Client<'a, AdditiveModel, HeldBatches<'a>>>);

impl RoundClients for Everybody<'_> {
    fn n_clients(&self) -> usize {
        self.0.len()
    }

    fn round(
        &mut self,
        message: &RoundMessage,
        asked: &[usize],
    ) -> Result<Vec<UpdateMessage>, dp_mechanism::Error> {
        let last = self.0.len() - 1;
        let clients = self.0.iter_mut().enumerate();
        let updates = clients.filter_map(|(number, client)| {
            let is_asked = asked.binary_search(&number).is_ok();
            client.receive(message, is_asked).unwrap().update()
        });
        Ok(updates.filter(|update| update.client < last).collect())
    }
}

#[test]
fn a_run_that_has_begun_makes_the_rounds_of_a_server() {
    let data = samples(60, 3, 4, 3);
    let params = PpSgdParams::new(2.0, 0.3, 0.5, 6, 60.0).sampled(poisson(0.3));
    let fit = params.check().unwrap();
    let mut without_last = |_: &RoundMessage, update: UpdateMessage| {
        let arrived = update.client < 59;
        arrived.then_some(update).into_iter().collect()
    };
    let (shared, _, own) = federate(fit, &data, ADD_REMOVE, &mut without_last, &mut no_rejection);

    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let mut everybody = Everybody(clients(&model, &rows, 60));
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let mut noise = seeded();
    let mut run = Run::new(&plan, paid(&plan), &mut noise).unwrap();
    run.begin(&fit.requests(3).unwrap(), 1).unwrap();
    let model = fit.train_by_messages(3, &mut everybody, &mut run).unwrap();
    assert_eq!(model.shared.last(), shared);
    assert_eq!(model.local.expose().n_users(), 0);
    for (client, own) in everybody.0.iter().zip(own) {
        assert_eq!(client.local(), own);
    }
    let fitted = run.finish((), |certificate| certificate).unwrap();
    let said = fitted.certificate.to_json();
    assert!(said.contains("the server sees every update before noise is added"));

    let mut run_of_all = Run::new(&plan, paid(&plan), &mut noise).unwrap();
    let full = PpSgdParams::new(2.0, 0.3, 0.5, 6, 60.0).check().unwrap();
    let refused = full.train_by_messages(3, &mut everybody, &mut run_of_all);
    assert!(matches!(refused.err(), Some(Error::Param(_))));
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

    // the model after one round is linear in the sum: its integers can be recovered, each with the
    // half step by which floored noise is offset
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
    // the contribution of clients 10.. is the same with or without 0..10, and the noise is the same
    // in all cases
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
            // as they arrive: no message is stored
            let reply = everybody[number].receive(&message, true).unwrap();
            reply.update().unwrap()
        });
        let outcome = round.close(answers, &mut no_rejection).unwrap();
        assert_eq!(outcome, RoundOutcome::Stepped);
    }
    let served = server.finish().unwrap();
    let shared = served.model;
    assert!(served.certificate.verify().unwrap().is_private());
    // labels are 2 x_0 plus a small term: 8 steps of .4 along a slope of E x_0^2 = 1/3 leave less
    // than half of the error
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

/// An error between a release and the step that uses it leaves shared parameters that are not a
/// function of the list.
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
