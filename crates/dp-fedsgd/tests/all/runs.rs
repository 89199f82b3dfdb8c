//! Clients in several runs, and clients in different groups of users.

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
use dp_core::{Adjacency, DpEvent, UserSamples, UserSamplesBuilder};
use dp_fedsgd::{
    AdditiveModel, Client, ClipSchedule, HeldBatches, LocalTraining, PpSgdParams, Rejection, Reply,
    RoundMessage, Run, Server, Trainer, UpdateMessage,
};
use dp_mechanism::{ClientSampling, FixedSizeSampling, NoiseSource, PoissonSampling};

use crate::support::{ADD_REMOVE, Numbers, bits, paid, samples, squared, trusting};

type Held<'a> = Client<'a, AdditiveModel, HeldBatches<'a>>;

fn seeded() -> NoiseSource {
    NoiseSource::insecure_seeded(7)
}

/// A round's message, the clients that were asked, and their answers.
type Heard = (RoundMessage, Vec<usize>, Vec<UpdateMessage>);

/// A run of these clients, client `k` with number `k`.
fn run(params: PpSgdParams, adjacency: Adjacency, clients: &mut [Held<'_>]) -> Vec<Heard> {
    let fit = params.check().unwrap();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, adjacency).unwrap();
    let (noise, mut heard) = (&mut seeded(), Vec::new());
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let mut server = Server::new(fit, 3, run).unwrap();
    while let Some(round) = server.open_round(clients.len()).unwrap() {
        let (message, asked) = (round.message().clone(), round.asked().to_vec());
        let mut updates = Vec::new();
        for (number, client) in clients.iter_mut().enumerate() {
            let asked = asked.contains(&number);
            updates.extend(client.receive(&message, asked).unwrap().update());
        }
        let no_rejection = &mut |rejection| panic!("{rejection}");
        round.close(updates.clone(), no_rejection).unwrap();
        heard.push((message, asked, updates));
    }
    heard
}

fn everybody_asked(clip_norm: f64, n_rounds: usize) -> PpSgdParams {
    let all = PoissonSampling::new(1.0).unwrap().into();
    PpSgdParams::new(1.0, 0.3, clip_norm, n_rounds, 8.0).sampled(all)
}

#[test]
fn a_client_that_was_in_another_run_is_as_good_as_new() {
    let data = samples(8, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let fresh = || -> Vec<Held<'_>> {
        let each = (0..8).map(|user| Client::new(&model, &rows, user, user, trusting()).unwrap());
        each.collect()
    };
    let (mut new, second) = (fresh(), everybody_asked(0.7, 2));
    let expected = run(second, ADD_REMOVE, &mut new);
    for rounds_before in [1, 3] {
        let mut used = fresh();
        run(everybody_asked(0.5, rounds_before), ADD_REMOVE, &mut used);
        let found = run(second, ADD_REMOVE, &mut used);
        for (found, expected) in found.iter().zip(&expected) {
            let pairs = found.2.iter().zip(&expected.2);
            assert!(pairs.into_iter().all(|(a, b)| a.integers == b.integers));
        }
        for (used, new) in used.iter().zip(&new) {
            assert_eq!(used.local(), new.local());
        }
    }
}

#[test]
fn messages_of_another_run_count_for_nothing() {
    let data = samples(8, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let mut clients = [Client::new(&model, &rows, 0, 0, trusting()).unwrap()];
    let stale = run(everybody_asked(0.5, 1), ADD_REMOVE, &mut clients).remove(0);
    let fit = everybody_asked(0.5, 1).check().unwrap();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let shared_after = |updates: Vec<UpdateMessage>, seen: &mut Vec<Rejection>| {
        let noise = &mut seeded();
        let run = Run::new(&plan, paid(&plan), noise).unwrap();
        let mut server = Server::new(fit, 3, run).unwrap();
        let round = server.open_round(1).unwrap().unwrap();
        assert!(round.message().run.len() == 64 && round.message().run != stale.0.run);
        let rejected = &mut |rejection| seen.push(rejection);
        round.close(updates, rejected).unwrap();
        server.shared().to_vec()
    };
    let mut seen = Vec::new();
    let found = shared_after(stale.2.clone(), &mut seen);
    assert_eq!(seen, [Rejection::Run { client: 0 }]);
    assert_eq!(found, shared_after(Vec::new(), &mut seen));
}

/// A late message, of a run that was left or of an earlier round, neither resets a client nor makes
/// it train again.
#[test]
fn messages_that_come_late_are_passed_over() {
    let data = samples(8, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let fresh = || Client::new(&model, &rows, 0, 0, trusting()).unwrap();
    let rounds = |n| run(everybody_asked(0.5, n), ADD_REMOVE, &mut [fresh()]);
    let (old, new) = (rounds(2), rounds(3));
    let (mut disturbed, mut alone) = (fresh(), fresh());
    assert!(matches!(
        disturbed.receive(&old[0].0, true),
        Ok(Reply::Update(_))
    ));
    for (at, (message, ..)) in new.iter().enumerate() {
        let expected = alone.receive(message, true).unwrap();
        assert!(disturbed.receive(message, true).unwrap() == expected);
        let earlier = new[..at].iter().map(|heard| &heard.0);
        for late in old.iter().map(|heard| &heard.0).chain(earlier) {
            assert!(disturbed.receive(late, true).unwrap() == Reply::Late);
        }
        // the current round may be requested again, with the same answer
        assert!(disturbed.receive(message, true).unwrap() == expected);
        assert_eq!(disturbed.local(), alone.local());
        assert!(alone.local().iter().any(|&theta| theta != 0.0));
    }
    // a round of the current run in which no client was asked is recorded too
    let mut unasked = fresh();
    assert!(unasked.receive(&new[1].0, false).unwrap() == Reply::NotAsked);
    assert!(unasked.receive(&new[0].0, true).unwrap() == Reply::Late);
    assert!(unasked.local().iter().all(|&theta| theta == 0.0));
}

/// However many runs followed.
#[test]
fn late_messages_of_every_run_that_was_left_are_told() {
    let data = samples(2, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let mut client = Client::new(&model, &rows, 0, 0, trusting()).unwrap();
    let first = run(
        everybody_asked(0.5, 1),
        ADD_REMOVE,
        &mut [Client::new(&model, &rows, 0, 0, trusting()).unwrap()],
    );
    let of = |run: usize| RoundMessage {
        run: format!("run {run}"),
        ..first[0].0.clone()
    };
    for run in 0..10 {
        assert!(client.receive(&of(run), false).unwrap() == Reply::NotAsked);
    }
    for run in 0..9 {
        assert!(
            client.receive(&of(run), true).unwrap() == Reply::Late,
            "{run}"
        );
    }
    assert!(client.receive(&of(9), false).unwrap() == Reply::NotAsked);
}

#[test]
fn rounds_that_cannot_be_opened_cost_nothing_and_one_that_is_dropped_is_passed_over() {
    let fit = everybody_asked(0.5, 2).check().unwrap();
    let good = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let beyond_the_grid = good.releases().iter().map(|round| {
        let event = DpEvent::sampled_gaussian(1e10, 1.0);
        PlannedRelease::new(round.label(), event, round.n_draws())
    });
    let plan = Plan::with_noise_multipliers(1e-5, ADD_REMOVE, beyond_the_grid.collect()).unwrap();
    let budget = Budget::schedule(plan.target(), plan.adjacency()).unwrap();
    let mut ledger = Ledger::in_memory("test", budget).unwrap();
    let noise = &mut seeded();
    let run = Run::paying(&plan, &mut ledger, noise).unwrap();
    assert!(Server::new(fit, 3, run).is_err());
    assert_eq!(ledger.n_releases(), 0);

    let run = Run::new(&good, paid(&good), noise).unwrap();
    let mut server = Server::new(fit, 3, run).unwrap();
    for number in 1..=2 {
        let round = server.open_round(8).unwrap().unwrap();
        assert_eq!(round.message().round, number);
    }
    assert!(server.open_round(8).unwrap().is_none());
    assert_eq!(server.finish().unwrap().certificate.releases.len(), 2);
}

const N: u32 = 12;
const CHANGED: u32 = 5;

/// Users `0..N` with separate seeds; `other` is the seed of the changed user, who is left out if it
/// is none.
fn users(other: Option<u64>) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(3, 4).unwrap();
    for user in 0..N {
        let seed = if user == CHANGED {
            other
        } else {
            Some(u64::from(user))
        };
        let Some(seed) = seed else { continue };
        let mut numbers = Numbers(seed);
        for _ in 0..4 {
            let x = [0; 3].map(|_| numbers.next());
            builder.push(user, &x, 9.0 * numbers.next()).unwrap();
        }
    }
    builder.build().0
}

/// Given the releases and their own coins, no user's messages depend on another user, however long
/// local parameters are kept.
#[test]
fn given_the_releases_others_send_the_same_whoever_is_beside_them() {
    let poisson: ClientSampling = PoissonSampling::new(0.5).unwrap().into();
    let fixed = FixedSizeSampling::new(6, N as usize).unwrap().into();
    let settings = [
        (poisson, ADD_REMOVE, None),
        (poisson, Adjacency::ReplaceUser, Some(99)),
        (fixed, Adjacency::ReplaceUser, Some(99)),
    ];
    let (with, model) = (users(Some(u64::from(CHANGED))), squared(3));
    let rows = HeldBatches::new(&with, 2).unwrap();
    for (sampling, adjacency, other) in settings {
        let params = PpSgdParams::new(1.0, 0.3, 0.5, 6, f64::from(N)).sampled(sampling);
        let each =
            (0..N as usize).map(|user| Client::new(&model, &rows, user, user, trusting()).unwrap());
        let mut clients: Vec<Held<'_>> = each.collect();
        let heard = run(params, adjacency, &mut clients);
        let sent_by_changed = heard
            .iter()
            .filter(|(_, asked, _)| asked.contains(&5))
            .count();
        assert!(sent_by_changed > 1, "{sent_by_changed}"); // otherwise the test shows nothing; seeds are fixed

        let neighbour = users(other);
        let beside = HeldBatches::new(&neighbour, 2).unwrap();
        for number in (0..N as usize).filter(|&number| number != CHANGED as usize) {
            let gone = usize::from(other.is_none() && number > CHANGED as usize);
            let mut client =
                Client::new(&model, &beside, number - gone, number, trusting()).unwrap();
            for (message, asked, updates) in &heard {
                let found = client
                    .receive(message, asked.contains(&number))
                    .unwrap()
                    .update();
                let expected = updates.iter().find(|update| update.client == number);
                assert!(found.as_ref() == expected, "{number} {}", message.round);
            }
            assert_eq!(client.local(), clients[number].local());
        }
    }
}

const MANY: usize = 70;

/// Bits of the shared model and of every user's local parameters.
fn bits_on(params: PpSgdParams, n_threads: usize) -> Vec<u64> {
    let data = samples(u32::try_from(MANY).unwrap(), 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let fit = params.check().unwrap();
    let plan = fit.plan_with_noise(3, 2.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(5);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
    let run = || fit.with(&model).fit(&rows, &plan, paid(&plan), noise);
    let fitted = pool.build().unwrap().install(run);
    bits(&fitted.unwrap().model, MANY)
}

#[test]
fn a_run_has_the_same_bits_on_any_number_of_threads() {
    let everybody = PpSgdParams::new(2.0, 0.3, 0.5, 4, MANY as f64);
    let mut quantile = everybody;
    quantile.clip = ClipSchedule::Quantile {
        start: 0.5,
        quantile: 0.6,
        rate: 0.2,
        low: 0.1,
        high: 2.0,
    };
    let when_asked = everybody.sampled(PoissonSampling::new(0.3).unwrap().into());
    let mut every_round = when_asked;
    every_round.local_training = LocalTraining::EveryRound;
    for params in [everybody, quantile, when_asked, every_round] {
        let one = bits_on(params, 1);
        for n_threads in [2, 3] {
            assert!(bits_on(params, n_threads) == one, "{params:?}");
        }
    }
    assert!(bits_on(when_asked, 1) != bits_on(every_round, 1));
}
