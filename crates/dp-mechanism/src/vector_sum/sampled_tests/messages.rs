//! Messages that clients may send, and samples that were charged.

use super::*;

/// A message that a careless or malicious client might send.
fn hostile_message(rng: &mut Lcg, bound: i64) -> Vec<i64> {
    let len = match rng.below(8) {
        0 => usize::try_from(rng.below(10)).unwrap(),
        _ => 6,
    };
    let extremes = [i64::MIN, i64::MAX, i64::MIN + 1, bound, -bound, bound + 1];
    let style = rng.below(4);
    let entry = |rng: &mut Lcg| match style {
        0 => extremes[usize::try_from(rng.below(6)).unwrap()],
        1 => rng.next().cast_signed(),
        2 if rng.below(6) > 0 => 0,
        2 => extremes[usize::try_from(rng.below(6)).unwrap()],
        _ => rng.next().cast_signed() % bound / 2,
    };
    (0..len).map(|_| entry(rng)).collect()
}

/// Processes `n_messages` in rounds of fifty clients. Returns how many counted.
fn check_hostile(n_messages: u32, seed: u64) -> u32 {
    const CLIENTS: u32 = 50;
    let grid = Grid::new(1.3, 1.0).unwrap();
    let bound = grid.l2_bound().cast_signed();
    let square_bound = u128::from(grid.l2_bound()).pow(2);
    let norm = |message: &[i64]| {
        let squares = message.iter().map(|&z| square(z));
        squares.fold(0, u128::saturating_add)
    };
    let (mut rng, mut noise) = (Lcg(seed), seeded(seed));
    let (mut n_seen, mut n_counted) = (0, 0);
    while n_seen < n_messages {
        let sample = poisson(0.7).sample(CLIENTS as usize, &mut noise).unwrap();
        let drawn = sample.indices().to_vec();
        // sixty clients that send about 0 to 2 messages each, ten of which do not exist
        let messages: Vec<(usize, Vec<i64>)> = (0..CLIENTS + 20)
            .map(|_| {
                let client = usize::try_from(rng.below(u64::from(CLIENTS) + 10)).unwrap();
                (client, hostile_message(&mut rng, bound))
            })
            .collect();
        n_seen += u32::try_from(messages.len()).unwrap();
        let run = |sample, leave_out: Option<usize>| {
            let sent = messages
                .iter()
                .filter(|(client, _)| Some(*client) != leave_out);
            let sent = sent.map(|(client, message)| (*client, message));
            VectorSum::from_messages(paid_for(sample, 6), sent, 6, grid)
                .unwrap()
                .sum
                .sums
        };
        // the same sample twice: the effect of one client's messages
        let again = ClientSample::for_tests(poisson(0.7), drawn.clone());
        let gone = usize::try_from(rng.below(u64::from(CLIENTS) + 10)).unwrap();
        let (all, less) = (run(sample, None), run(again, Some(gone)));
        let change: Vec<i64> = all
            .iter()
            .zip(&less)
            .map(|(&a, &b)| a.wrapping_sub(b))
            .collect();
        assert!(
            norm(&change) <= square_bound,
            "client {gone} moved the sum too far"
        );
        assert!(drawn.contains(&gone) || change.iter().all(|&c| c == 0));
        // an independent computation of the expected sum
        let mut expected = [0_i64; 6];
        for client in drawn {
            let own = messages.iter().filter(|(sender, _)| *sender == client);
            let mut good = own.filter(|(_, m)| m.len() == 6 && norm(m) <= square_bound);
            if let Some((_, message)) = good.next() {
                n_counted += u32::from(norm(message) > 0);
                for (sum, &z) in expected.iter_mut().zip(message) {
                    *sum = sum.wrapping_add(z);
                }
            }
        }
        assert_eq!(all, expected);
    }
    n_counted
}

#[test]
fn hostile_messages_never_move_the_sum_beyond_the_bound() {
    let n_counted = check_hostile(120_000, 7);
    assert!(n_counted > 10_000, "nearly all were refused: {n_counted}");
}

#[test]
#[ignore = "long form: 1e7 hostile messages, about a minute"]
fn long_hostile_messages_never_move_the_sum_beyond_the_bound() {
    assert!(check_hostile(10_000_000, 8) > 800_000);
}

#[test]
fn a_message_exactly_at_the_bound_counts_and_one_beyond_does_not() {
    let grid = grid();
    let bound = grid.l2_bound().cast_signed();
    let send = |messages: &[(usize, Vec<i64>)]| {
        let sample = ClientSample::for_tests(poisson(1.0), vec![0, 3]);
        let sent = messages.iter().map(|(client, m)| (*client, m));
        VectorSum::from_messages(paid_for(sample, 2), sent, 2, grid)
            .unwrap()
            .sum
            .sums
    };
    assert_eq!(send(&[]), [0, 0]);
    assert_eq!(send(&[(0, vec![bound, 0])]), [bound, 0]);
    assert_eq!(send(&[(0, vec![bound, 1])]), [0, 0]);
    assert_eq!(send(&[(0, vec![5]), (3, vec![5, 0, 0])]), [0, 0]);
    assert_eq!(send(&[(1, vec![5, 0]), (usize::MAX, vec![5, 0])]), [0, 0]);
    // each client once, with its first valid message
    let twice = [
        (3, vec![bound + 1, 0]),
        (3, vec![7, 1]),
        (3, vec![8, 2]),
        (0, vec![1, 1]),
    ];
    assert_eq!(send(&twice), [8, 2]);
    let sample = ClientSample::for_tests(poisson(1.0), vec![0]);
    let none: [(usize, Vec<i64>); 0] = [];
    assert!(VectorSum::from_messages(paid_for(sample, 1), none, 0, grid).is_err());
}

/// The bound on the whole message allows one coordinate to use all of it.
#[test]
fn a_coordinate_with_a_range_of_its_own_moves_by_no_more() {
    let grid = grid();
    let bound = grid.l2_bound().cast_signed();
    let one = bound / 10;
    let send = |message: Vec<i64>| {
        let sample = ClientSample::for_tests(poisson(1.0), vec![0]);
        let (paid, sent) = (paid_for(sample, 3), vec![(0, message)]);
        let ranges = [(-one, one), (0, one)];
        let sum = VectorSum::from_messages_within(paid, sent, 3, grid, &ranges);
        sum.unwrap().sum.sums
    };
    for good in [[bound / 2, one, 0], [0, -one, one], [bound / 2, 0, one / 2]] {
        assert_eq!(send(good.to_vec()), good);
    }
    for bad in [
        [0, 0, 10 * one],
        [0, 0, one + 1],
        [0, 0, -1],
        [0, one + 1, 0],
        [0, -one - 1, 0],
        [0, i64::MIN, i64::MAX],
    ] {
        assert_eq!(send(bad.to_vec()), [0; 3], "{bad:?}");
    }
    assert_eq!(send(vec![0, one]), [0; 3]);
    let sample = ClientSample::for_tests(poisson(1.0), vec![0]);
    let none: [(usize, Vec<i64>); 0] = [];
    let more = VectorSum::from_messages_within(paid_for(sample, 1), none, 1, grid, &[(0, 1); 2]);
    assert!(more.is_err());
}

#[test]
fn a_sample_is_drawn_for_a_spend_of_its_own_scheme_and_releases_with_it() {
    let (draw, n) = (poisson(0.5), 12);
    let right = || step(draw.event(DpEvent::gaussian(2.0)), 12);
    let noise = &mut seeded(3);
    for wrong in [
        step(
            poisson(0.5_f64.next_down()).event(DpEvent::gaussian(2.0)),
            12,
        ),
        step(fixed(6, n).event(DpEvent::gaussian(2.0)), 12),
        step(draw.event(DpEvent::laplace(2.0)), 12),
        step(DpEvent::gaussian(2.0), 12),
    ] {
        let refused = draw.pay_and_sample(n, wrong, noise).map(|_| ());
        assert!(matches!(refused, Err(Error::WrongSpend { .. })));
    }
    let none: [(usize, Vec<i64>); 0] = [];
    let sample = draw.pay_and_sample(n, right(), noise).unwrap();
    assert!(sample.is_insecure());
    let sum = VectorSum::from_messages(sample, none.clone(), 12, grid()).unwrap();
    assert!(sum.release(noise).unwrap().is_insecure());
    // the spend of the sample is checked again
    let sample = draw.pay_and_sample(n, right(), noise).unwrap();
    let sum = VectorSum::from_messages(sample, none.clone(), 13, grid()).unwrap();
    assert!(matches!(sum.release(noise), Err(Error::DrawCount { .. })));
    let sample = draw.pay_and_sample(n, right(), noise).unwrap();
    let louder = Grid::new(1.9, 2.0).unwrap();
    let sum = VectorSum::from_messages(sample, none, 12, louder).unwrap();
    assert!(matches!(
        sum.release(noise),
        Err(Error::SpendTooSmall { .. })
    ));
}

#[test]
fn a_wrong_number_of_users_is_not_told() {
    let spend = || step(fixed(3, 9).event(DpEvent::gaussian(2.0)), 12);
    let noise = &mut seeded(3);
    for n in [7, 8, 11] {
        let data = Private::new(table(n, N_ITEMS, 4, 1));
        let refused =
            VectorSum::accumulate_sampled(fixed(3, 9), &data, N_ITEMS, grid(), &Votes, noise);
        assert!(matches!(refused, Err(Error::Population { expected: 9 })));
        let drawn = fixed(3, 9).pay_and_sample(data.expose().n_users(), spend(), noise);
        assert!(matches!(drawn, Err(Error::Population { expected: 9 })));
    }
}

/// A message that counts how often it is read.
struct Watched<'a>(&'a std::cell::Cell<u32>);

impl AsRef<[i64]> for Watched<'_> {
    fn as_ref(&self) -> &[i64] {
        self.0.set(self.0.get() + 1);
        &[1; 12]
    }
}

#[test]
fn messages_of_clients_that_were_not_drawn_are_read_all_the_same() {
    for (client, counts) in [(0, 1), (1, 0)] {
        let reads = std::cell::Cell::new(0);
        let sample = paid_for(ClientSample::for_tests(poisson(0.5), vec![0]), 1);
        let messages = [(client, Watched(&reads))];
        let sum = VectorSum::from_messages(sample, messages, 12, grid()).unwrap();
        assert_eq!((sum.sum.sums[0], reads.get()), (counts, 1));
    }
}
