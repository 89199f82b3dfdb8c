//! Integer checks of messages, and a run by messages compared with one on the table.

use dp_accounting::Plan;
use dp_core::{ApproxDp, InteractionsBuilder};
use dp_mechanism::{ClientPolicy, ClientRecord, NoiseSource, Refusal};
use dp_pubfeat::federated::{
    Aggregator, Client, ExamplesMessage, Invitation, Rejection, Server, StatisticsMessage,
};
use dp_pubfeat::{
    Error, ProtectedUnit, Provenance, Run, Ssp, SspParams, StatisticsLearner, Trainer,
};

use crate::support::{ADD_REMOVE, DIM, N_ITEMS, pay, ridge, setup, table, target, trusting};

const N: u32 = 40;

fn ssp() -> Ssp {
    SspParams::new(setup()).check().unwrap()
}

fn plan() -> Plan {
    ssp().plan(N_ITEMS, target(), ADD_REMOVE).unwrap()
}

/// A message serialised and parsed again.
fn sent(message: &ExamplesMessage) -> ExamplesMessage {
    serde_json::from_str(&serde_json::to_string(message).unwrap()).unwrap()
}

fn messages(aggregator: &Aggregator) -> Vec<ExamplesMessage> {
    let data = table(N, None);
    let answers = (0..N).map(|n| {
        let client = Client::new(&data, n as usize, n).unwrap();
        sent(
            &client
                .answer(aggregator.invitation(), &mut trusting())
                .unwrap(),
        )
    });
    answers.collect()
}

#[test]
fn a_run_by_messages_is_the_run_on_their_table_bit_for_bit() {
    let (ssp, plan) = (ssp(), plan());
    let mut aggregator = Aggregator::new(&ssp, (N_ITEMS, N), "run", &plan).unwrap();
    let mut builder = InteractionsBuilder::new(N_ITEMS).with_feature_dim(DIM);
    let mut all = messages(&aggregator);
    all.reverse(); // the order of arrival does not matter
    for message in &all {
        aggregator.receive(message).unwrap();
        let unit = f64::from(1 << 20);
        let vector: Vec<f32> = message
            .vector
            .iter()
            .map(|&x| (f64::from(x) / unit) as f32)
            .collect();
        builder.set_features(message.client, &vector).unwrap();
        for (&item, &l) in message.items.iter().zip(&message.labels) {
            builder
                .push(message.client, item, (f64::from(l) / unit) as f32)
                .unwrap();
        }
    }
    let noise = &mut NoiseSource::insecure_seeded(9);
    let run = Run::new(&plan, pay(&plan), noise).unwrap();
    let released = aggregator.close(run).unwrap();
    assert!(!released.certificate.verify().unwrap().is_private());
    assert_eq!(released.provenance, Provenance::SeededNoise);
    assert!(
        released
            .certificate
            .assumptions
            .iter()
            .any(|a| a.contains("aggregator"))
    );
    let mut server = Server::new("run", ridge());
    server.receive(&released.model).unwrap();

    let data = dp_core::Private::new(builder.build().0);
    let noise = &mut NoiseSource::insecure_seeded(9);
    let central = ssp
        .with(ridge())
        .fit(&data, &plan, pay(&plan), noise)
        .unwrap();
    let vectors = server.into_learner().item_vectors().unwrap();
    assert_eq!(vectors, central.model.item_vectors().unwrap());

    // and within quantisation of the run on the users' own numbers
    let noise = &mut NoiseSource::insecure_seeded(9);
    let exact = ssp
        .with(ridge())
        .fit(&table(N, None), &plan, pay(&plan), noise)
        .unwrap();
    for (a, b) in vectors.iter().zip(exact.model.item_vectors().unwrap()) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
}

#[test]
fn messages_that_break_a_rule_count_for_nothing() {
    let mut aggregator = Aggregator::new(&ssp(), (N_ITEMS, N), "run", &plan()).unwrap();
    let good = messages(&aggregator).remove(5);
    let client = good.client;
    let edit = |change: &dyn Fn(&mut ExamplesMessage)| {
        let mut message = good.clone();
        change(&mut message);
        message
    };
    let (unknown, last) = (Rejection::Unknown { client: N }, u32::MAX);
    let bad: [(ExamplesMessage, Rejection); 11] = [
        (edit(&|m| m.client = N), unknown),
        (
            edit(&|m| m.client = last),
            Rejection::Unknown { client: last },
        ),
        (edit(&|m| m.run.push('x')), Rejection::Run { client }),
        (
            edit(&|m| m.vector.truncate(2)),
            Rejection::Length { client },
        ),
        (
            edit(&|m| m.labels.truncate(2)),
            Rejection::Length { client },
        ),
        (edit(&|m| m.items.swap(0, 1)), Rejection::Items { client }),
        (
            edit(&|m| m.items[1] = m.items[0]),
            Rejection::Items { client },
        ),
        (
            edit(&|m| *m.items.last_mut().unwrap() = N_ITEMS as u32),
            Rejection::Items { client },
        ),
        (
            edit(&|m| m.vector = vec![1 << 20, 1, 0]),
            Rejection::Bound { client },
        ),
        (
            edit(&|m| m.vector = vec![i32::MIN; 3]),
            Rejection::Bound { client },
        ),
        (
            edit(&|m| m.labels[0] = (1 << 20) + 1),
            Rejection::Bound { client },
        ),
    ];
    for (message, rejection) in bad {
        assert_eq!(aggregator.receive(&message), Err(rejection));
    }
    aggregator.receive(&good).unwrap();
    assert_eq!(
        aggregator.receive(&good),
        Err(Rejection::Repeated { client })
    );
    // exactly at the bound is within it
    let at_bound = edit(&|m| {
        m.client = N - 1;
        m.vector = vec![0, -(1 << 20), 0];
        m.labels[0] = -(1 << 20);
    });
    aggregator.receive(&at_bound).unwrap();
}

#[test]
fn hostile_users_make_messages_within_the_bounds() {
    let aggregator = Aggregator::new(&ssp(), (N_ITEMS, N), "run", &plan()).unwrap();
    for message in messages(&aggregator) {
        assert_eq!(message.check(aggregator.invitation()), Ok(()));
    }
}

#[test]
fn other_runs_and_more_releases_are_refused() {
    let paid = plan();
    let mut params = SspParams::new(setup());
    params.n_resamples = 2;
    let twice = params.check().unwrap();
    assert!(Aggregator::new(&twice, (N_ITEMS, N), "run", &plan()).is_err());
    assert!(Aggregator::new(&ssp(), (N_ITEMS, 0), "run", &plan()).is_err());
    assert!(Aggregator::new(&ssp(), (0, N), "run", &plan()).is_err());
    assert!(Aggregator::new(&ssp(), (N_ITEMS, N), "", &plan()).is_err());
    let os = &mut NoiseSource::operating_system();
    // a plan for another catalogue pays for nothing in this one
    let more = Aggregator::new(&ssp(), (N_ITEMS + 1, N), "run", &plan()).unwrap();
    let refused = more.close(Run::new(&paid, pay(&paid), os).unwrap());
    let of_another_plan = |refused: Result<_, Error>| {
        let error = refused
            .map(|_: dp_pubfeat::Fitted<StatisticsMessage>| ())
            .unwrap_err();
        matches!(error, Error::Mechanism(dp_mechanism::Error::Plan { .. }))
    };
    assert!(of_another_plan(refused));
    // and neither does a plan with less noise than clients were told
    let louder = ApproxDp::target(4.0, 1e-5).unwrap();
    let less = ssp().plan(N_ITEMS, louder, ADD_REMOVE).unwrap();
    let told = Aggregator::new(&ssp(), (N_ITEMS, N), "run", &paid).unwrap();
    assert!(of_another_plan(
        told.close(Run::new(&less, pay(&less), os).unwrap())
    ));
    let aggregator = Aggregator::new(&ssp(), (N_ITEMS, N), "run", &plan()).unwrap();
    let released = aggregator.close(Run::new(&paid, pay(&paid), os).unwrap());
    let statistics = released.unwrap().model;
    assert!(
        Server::new("another run", ridge())
            .receive(&statistics)
            .is_err()
    );
    let mut broken = statistics.clone();
    let text = serde_json::to_string(&statistics).unwrap();
    assert_eq!(
        serde_json::from_str::<StatisticsMessage>(&text).unwrap(),
        statistics
    );
    for (from, to) in [
        ("\"dim\":3", "\"dim\":0"),
        ("\"rhs\":[", "\"rhs\":[1.0,"),
        ("\"run\"", "\"x\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        assert!(
            serde_json::from_str::<StatisticsMessage>(&changed).is_err(),
            "{to}"
        );
    }
    broken.run = "run 2".to_owned();
    let mut server = Server::new("run 2", ridge());
    server.receive(&broken).unwrap();
}

/// A device answers a run once, and only what its policy admits.
#[test]
fn a_device_refuses_what_its_policy_does_not_admit_and_a_run_that_it_has_answered() {
    let aggregator = Aggregator::new(&ssp(), (N_ITEMS, N), "run", &plan()).unwrap();
    let honest = aggregator.invitation();
    let data = table(N, None);
    let [matrix, rhs] = honest.noise_multipliers;
    let least = matrix.min(rhs);
    let policy = ClientPolicy {
        least_noise_multiplier: least,
        largest_clip_norm: honest.setup.user_norm.max(honest.setup.label_bound),
        most_runs: 1,
        ..ClientPolicy::trusting()
    };
    let mut record = ClientRecord::in_memory(policy).unwrap();
    let mut answer = |change: &dyn Fn(&mut Invitation)| {
        let mut invitation = honest.clone();
        change(&mut invitation);
        let client = Client::new(&data, 4, 4).unwrap();
        match client.answer(&invitation, &mut record) {
            Ok(_) => None,
            Err(Error::Mechanism(dp_mechanism::Error::Refused(refusal))) => Some(refusal),
            Err(error) => panic!("{error}"),
        }
    };
    let less_noise = answer(&|i| i.noise_multipliers[1] = 0.99 * least);
    assert!(matches!(less_noise, Some(Refusal::Noise { .. })));
    let larger = answer(&|i| i.setup.user_norm *= 1.1);
    assert!(matches!(larger, Some(Refusal::ClipNorm { .. })));
    assert_eq!(answer(&|_| ()), None);
    assert_eq!(answer(&|_| ()), Some(Refusal::Answered));
    let another = answer(&|i| i.run.push('2'));
    assert_eq!(another, Some(Refusal::Runs { most: 1 }));
    // each example would add as much as the account counts for all of them
    let mut of_examples = honest.clone();
    of_examples.setup.unit = ProtectedUnit::Example;
    let client = Client::new(&data, 4, 4).unwrap();
    let refused = client.answer(&of_examples, &mut trusting());
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
}
