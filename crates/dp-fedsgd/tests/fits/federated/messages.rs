//! Messages: what counts, what is refused, what a message moves at most.

use dp_fedsgd::{PpSgdParams, Rejection, Run, Server, UpdateMessage};

use super::{no_rejection, poisson, seeded, whole};
use crate::support::{ADD_REMOVE, Numbers, paid};

/// A message of a run that [`released`] fills in.
fn update(round: u32, client: usize, integers: &[i64]) -> UpdateMessage {
    UpdateMessage {
        run: String::new(),
        round,
        client,
        integers: integers.to_vec(),
    }
}

/// One round of three coordinates in which everybody is asked: the model after it, given what goes to the server.
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
        update(1, 10, &good), // nobody's number
        update(1, usize::MAX, &good),
    ] {
        assert_eq!(moved_by(vec![bad]), [0, 0, 0]);
    }
    // the first message counts, and every client's own
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
    assert!(parsed > 100, "{parsed}"); // some bytes are still messages
    let n = all.len();
    let mut reasons = 0;
    released(all.clone(), &mut |_| reasons += 1);
    assert!(reasons > n / 4 && reasons < n);
    // all of one client: whatever counts is one vector within the bound
    for update in &mut all {
        update.client = 4;
    }
    let square: i128 = moved_by(all).iter().map(|z| z * z).sum();
    assert!(square > 0 && square <= i128::from(bound).pow(2));
}
