//! What clients refuse, whatever a server requests.

use dp_core::ApproxDp;
use dp_fedsgd::{
    Client, ClientPolicy, ClientRecord, Error, HeldBatches, PpSgdParams, Rejection, Reply,
    RoundMessage, Run, Server, UpdateMessage,
};
use dp_mechanism::{Lifetime, Refusal};

use super::{poisson, seeded};
use crate::support::{ADD_REMOVE, paid, samples, squared};

/// A round as an honest server announces it.
fn round(number: u32) -> RoundMessage {
    RoundMessage {
        run: "a run".to_owned(),
        round: number,
        shared: vec![0.5; 3],
        clip_norm: 1.0,
        noise_multiplier: 2.0,
        local_rate: 0.1,
        sum_rows: false,
        everybody_trains: false,
        share_within: false,
        count_clients: false,
        extra_share: 0.1,
    }
}

/// Admits the request of [`round`], three times in a run and eight times in a lifetime: at noise
/// multiplier 2 under add/remove one answer costs `mu^2 = 1/4`.
fn policy() -> ClientPolicy {
    let target = ApproxDp {
        epsilon: dp_accounting::gdp::epsilon(2.0_f64.sqrt(), 1e-5) * (1.0 + 1e-9),
        delta: 1e-5,
    };
    ClientPolicy {
        least_noise_multiplier: 2.0,
        largest_clip_norm: 1.0,
        most_rounds: 3,
        most_runs: 4,
        allowed_runs: None,
        lifetime: Some(Lifetime {
            target,
            adjacency: ADD_REMOVE,
        }),
    }
}

fn refusal(reply: Result<Reply, Error>) -> Option<Refusal> {
    match reply {
        Err(Error::Mechanism(dp_mechanism::Error::Refused(refusal))) => Some(refusal),
        _ => None,
    }
}

#[test]
fn a_server_that_asks_for_more_than_the_policy_allows_gets_nothing() {
    let data = samples(2, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let record = ClientRecord::in_memory(policy()).unwrap();
    let mut client = Client::new(&model, &rows, 0, 0, record).unwrap();
    let less_noise = RoundMessage {
        noise_multiplier: 1.99,
        ..round(1)
    };
    let (found, least) = (1.99, 2.0);
    for asked in [false, true] {
        let refused = refusal(client.receive(&less_noise, asked));
        assert_eq!(refused, Some(Refusal::Noise { found, least }));
    }
    let larger_clip = RoundMessage {
        clip_norm: 1.01,
        ..round(1)
    };
    let (found, most) = (1.01, 1.0);
    let refused = refusal(client.receive(&larger_clip, true));
    assert_eq!(refused, Some(Refusal::ClipNorm { found, most }));
    assert!(client.local().iter().all(|&theta| theta == 0.0));

    for number in 1..=3 {
        let reply = client.receive(&round(number), true);
        assert!(matches!(reply, Ok(Reply::Update(_))), "{number}");
    }
    let (found, most) = (4, 3);
    let refused = refusal(client.receive(&round(4), true));
    assert_eq!(refused, Some(Refusal::Round { found, most }));
    // a lost answer is sent again; the same values on a finer grid are another answer
    assert!(matches!(
        client.receive(&round(3), true),
        Ok(Reply::Update(_))
    ));
    let finer = RoundMessage {
        noise_multiplier: 2.5,
        ..round(3)
    };
    let refused = refusal(client.receive(&finer, true));
    assert_eq!(refused, Some(Refusal::Answered));
    assert!((client.record().spent().unwrap().mu.powi(2) - 0.75).abs() < 1e-9);

    // the lifetime limit is eight answers, over any number of runs
    let of = |run: u32, number| RoundMessage {
        run: format!("run {run}"),
        ..round(number)
    };
    for (run, number) in [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)] {
        let reply = client.receive(&of(run, number), true);
        assert!(matches!(reply, Ok(Reply::Update(_))), "{run} {number}");
    }
    let refused = refusal(client.receive(&of(3, 3), true));
    assert_eq!(refused, Some(Refusal::Lifetime));
    assert!(client.receive(&of(4, 1), false).unwrap() == Reply::NotAsked);
    let refused = refusal(client.receive(&of(5, 1), false));
    assert_eq!(refused, Some(Refusal::Runs { most: 4 }));

    let named = ClientPolicy {
        allowed_runs: Some(vec!["a run".to_owned()]),
        ..policy()
    };
    let record = ClientRecord::in_memory(named).unwrap();
    let mut client = Client::new(&model, &rows, 0, 0, record).unwrap();
    assert_eq!(refusal(client.receive(&of(1, 1), true)), Some(Refusal::Run));
    assert!(matches!(
        client.receive(&round(1), true),
        Ok(Reply::Update(_))
    ));
}

/// A process that was restarted has lost its local parameters, but no record of answered rounds.
#[test]
fn a_run_that_is_replayed_after_a_restart_gets_nothing() {
    let data = samples(2, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let of = |run: &str, number| RoundMessage {
        run: run.to_owned(),
        ..round(number)
    };
    let record = ClientRecord::create(&path, policy()).unwrap();
    let mut client = Client::new(&model, &rows, 0, 0, record).unwrap();
    for (run, number) in [("left", 1), ("at hand", 1), ("at hand", 2)] {
        let reply = client.receive(&of(run, number), true);
        assert!(matches!(reply, Ok(Reply::Update(_))));
    }
    drop(client);

    let record = ClientRecord::open(&path, policy()).unwrap();
    let mut client = Client::new(&model, &rows, 0, 0, record).unwrap();
    for (run, number) in [("left", 1), ("left", 2), ("at hand", 1), ("at hand", 2)] {
        let reply = client.receive(&of(run, number), true).unwrap();
        assert!(reply == Reply::Late, "{run} {number}");
    }
    let spent = client.record().spent().unwrap();
    assert!((spent.mu.powi(2) - 0.75).abs() < 1e-9);
    let reply = client.receive(&of("at hand", 3), true);
    assert!(matches!(reply, Ok(Reply::Update(_))));
}

/// A client whose process ends after each round, and which keeps its state in a file, sends what a
/// client sends whose process goes on.
#[test]
fn a_client_that_keeps_its_state_goes_on_where_it_was() {
    let data = samples(2, 3, 4, 3);
    let (model, rows) = (squared(3), HeldBatches::new(&data, 2).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let of = |run: &str, number, asked: bool| {
        let message = RoundMessage {
            run: run.to_owned(),
            everybody_trains: true,
            ..round(number)
        };
        (message, asked)
    };
    drop(ClientRecord::create(&path, policy()).unwrap());
    let new = || {
        let record = ClientRecord::open(&path, policy()).unwrap();
        Client::new(&model, &rows, 0, 0, record).unwrap()
    };
    let mut kept: Option<Vec<u8>> = None;
    let record = ClientRecord::in_memory(policy()).unwrap();
    let mut whole = Client::new(&model, &rows, 0, 0, record).unwrap();
    let rounds = [
        of("a", 1, true),
        of("a", 1, true), // the answer was lost
        of("a", 2, false),
        of("a", 3, true),
        of("b", 1, true),
        of("b", 2, true),
    ];
    let mut states = Vec::new();
    for (message, asked) in &rounds {
        let mut client = new();
        if let Some(state) = &kept {
            client = client.resumed(serde_json::from_slice(state).unwrap());
        }
        let reply = client.receive(message, *asked).unwrap();
        assert!(
            reply == whole.receive(message, *asked).unwrap(),
            "{message:?}"
        );
        assert!(*asked == matches!(reply, Reply::Update(_)));
        assert_eq!(client.local(), whole.local());
        assert!(client.local().iter().any(|&theta| theta != 0.0));
        let state = serde_json::to_vec(client.state()).unwrap();
        states.push(state.clone());
        kept = Some(state);
    }
    assert!((new().record().spent().unwrap().mu.powi(2) - 1.0).abs() < 1e-9);

    // older states: what was answered since stays answered, and nothing of another run remains
    let resumed = |state: &[u8]| new().resumed(serde_json::from_slice(state).unwrap());
    let mut older = resumed(&states[4]);
    let (message, asked) = &rounds[5];
    assert!(older.receive(message, *asked).unwrap() == Reply::Late);
    drop(older);
    let mut other = resumed(&states[3]);
    let (message, _) = of("b", 3, false);
    other.receive(&message, false).unwrap();
    let mut fresh = Client::new(
        &model,
        &rows,
        0,
        0,
        ClientRecord::in_memory(policy()).unwrap(),
    );
    fresh.as_mut().unwrap().receive(&message, false).unwrap();
    assert_eq!(other.local(), fresh.unwrap().local());
    drop(other);

    let (wider, wide) = (squared(4), samples(2, 4, 4, 3));
    let wide = HeldBatches::new(&wide, 2).unwrap();
    let new = || {
        let record = ClientRecord::in_memory(policy()).unwrap();
        Client::new(&wider, &wide, 0, 0, record).unwrap()
    };
    let state = serde_json::from_slice(&states[0]).unwrap();
    let (mut message, _) = of("b", 3, false);
    message.shared = vec![0.1; 4];
    let [mut of_another, mut fresh] = [new().resumed(state), new()];
    for client in [&mut of_another, &mut fresh] {
        client.receive(&message, false).unwrap();
    }
    assert_eq!(of_another.local(), fresh.local());
}

/// The number of clients released by a round in which a client sends this value in the counting
/// coordinate, and the rejections.
fn counted(count: impl Fn(f64) -> f64) -> (bool, Vec<Rejection>) {
    let mut params = PpSgdParams::new(1.0, 1.0, 1.0, 1, 100.0).sampled(poisson(1.0));
    (params.minimum_clients, params.extra_share) = (Some(50.0), 0.1);
    let fit = params.check().unwrap();
    let plan = fit.plan_with_noise(3, 1.0, 1e-5, ADD_REMOVE).unwrap();
    let noise = &mut seeded();
    let run = Run::new(&plan, paid(&plan), noise).unwrap();
    let mut server = Server::new(fit, 3, run).unwrap();
    let open = server.open_round(10).unwrap().unwrap();
    let (message, grid) = (open.message().clone(), open.message().grid().unwrap());
    let size = message.extra_share * message.clip_norm;
    let updates = (0..10).map(|client| UpdateMessage {
        run: message.run.clone(),
        round: 1,
        client,
        integers: vec![0, 0, 0, grid.quantise(count(size))],
    });
    let mut rejected = Vec::new();
    let outcome = open.close(updates, &mut |one| rejected.push(one)).unwrap();
    (outcome == dp_fedsgd::RoundOutcome::Stepped, rejected)
}

/// Ten clients that each send ten times the value of one client, within the bound on the whole
/// message, do not count as the fifty that a round needs.
#[test]
fn a_client_counts_as_one_client() {
    assert_eq!(counted(|one| one), (false, Vec::new()));
    for (times, enough) in [(10.0, false), (1.0001, false), (-1.0, false)] {
        let (stepped, rejected) = counted(|one| times * one);
        assert_eq!(stepped, enough);
        let all: Vec<_> = (0..10).map(|client| Rejection::Extra { client }).collect();
        assert_eq!(rejected, all, "{times}");
    }
}
