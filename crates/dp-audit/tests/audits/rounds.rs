//! Sums over samples: which spends cover them, what clients may send, which sums can be merged.

use dp_accounting::Spend;
use dp_audit::testing::Payer;
use dp_core::{Adjacency, DpEvent, Private};
use dp_mechanism::{
    ClientSampling, FixedSizeSampling, Grid, NoiseSource, PoissonSampling, VectorSum,
};

use crate::support::{Halves, table};

const N_CLIENTS: usize = 6;

fn grid() -> Grid {
    Grid::new(1.0, 1.0).unwrap()
}

fn users() -> Vec<Vec<(u32, f32)>> {
    (0..6).map(|user| vec![(user % 2, 1.0)]).collect()
}

fn poisson(q: f64) -> ClientSampling {
    PoissonSampling::new(q).unwrap().into()
}

fn paid(sampling: ClientSampling) -> Spend {
    let adjacency = match sampling {
        ClientSampling::Poisson(_) => Adjacency::AddRemoveUser,
        ClientSampling::FixedSize(_) => Adjacency::ReplaceUser,
    };
    let event = sampling.event(DpEvent::gaussian(1.0));
    let payer = Payer::new(event, 2, adjacency).unwrap();
    payer.spend().unwrap()
}

#[test]
fn a_sample_is_drawn_and_released_for_its_own_event_only() {
    let noise = &mut NoiseSource::operating_system();
    let data = Private::new(table(2, &users()));
    let fixed = |m, n| ClientSampling::from(FixedSizeSampling::new(m, n).unwrap());
    let schemes = [poisson(0.5), poisson(0.25), fixed(3, 6), fixed(2, 6)];
    for drawn in schemes {
        for accounted in schemes {
            let right = drawn == accounted;
            let sample = drawn.pay_and_sample(N_CLIENTS, paid(accounted), noise);
            assert_eq!(sample.is_ok(), right, "{drawn:?} for {accounted:?}");
            let ClientSampling::Poisson(_) = drawn else {
                continue;
            };
            let sum = VectorSum::accumulate_sampled(drawn, &data, 2, grid(), &Halves, noise);
            let released = sum.unwrap().release(paid(accounted), noise);
            assert_eq!(released.is_ok(), right, "{drawn:?} for {accounted:?}");
        }
    }
}

/// All clients are drawn and the noise is one bound: a client that counts twice, or beyond the
/// bound, changes the release by at least 50 standard deviations; 9 have probability 1e-18.
#[test]
fn what_clients_send_moves_a_round_by_one_bounded_message_each() {
    let noise = &mut NoiseSource::operating_system();
    let bound = grid().l2_bound().cast_signed();
    let mut round = |messages: Vec<(usize, Vec<i64>)>| -> f64 {
        let sample = poisson(1.0).pay_and_sample(N_CLIENTS, paid(poisson(1.0)), noise);
        let sum = VectorSum::from_messages(sample.unwrap(), messages, 2, grid()).unwrap();
        sum.release(noise).unwrap().integers()[0] as f64 / bound as f64
    };
    let near = |found: f64, expected: f64| (found - expected).abs() < 9.0;
    assert!(
        near(round(vec![(0, vec![bound, 0]); 60]), 1.0),
        "sent again"
    );
    assert!(near(round(vec![(1, vec![60 * bound, 0])]), 0.0), "too long");
    assert!(near(round(vec![(9, vec![bound, 0]); 60]), 0.0), "not drawn");
    let all = (0..N_CLIENTS).map(|client| (client, vec![bound, 0]));
    assert!(near(round(all.collect()), N_CLIENTS as f64), "in order");
}

#[test]
fn sums_that_share_users_or_make_no_sample_do_not_add_up() {
    let noise = &mut NoiseSource::operating_system();
    let data = table(2, &users());
    let n = data.n_users();
    let mut sum = |data: &dp_core::Interactions, scheme| {
        let data = Private::new(data.clone());
        let sum = match scheme {
            None => VectorSum::accumulate(&data, 2, grid(), &Halves),
            Some(s) => VectorSum::accumulate_sampled(s, &data, 2, grid(), &Halves, noise),
        };
        sum.unwrap()
    };
    let halves = data.shards(2);
    for scheme in [None, Some(poisson(0.5))] {
        let mut whole = sum(&halves[0], scheme);
        assert!(whole.merge(sum(&halves[1], scheme)).is_ok());
        for again in [&data, &halves[0], &halves[1]] {
            assert!(whole.merge(sum(again, scheme)).is_err(), "{scheme:?}");
        }
    }
    let other = table(2, &users());
    let fixed = ClientSampling::from(FixedSizeSampling::new(1, n).unwrap());
    for (a, b) in [
        (Some(fixed), Some(fixed)),
        (Some(poisson(0.5)), Some(poisson(0.25))),
        (Some(poisson(0.5)), None),
        (None, Some(poisson(0.5))),
    ] {
        assert!(sum(&data, a).merge(sum(&other, b)).is_err(), "{a:?}, {b:?}");
    }
}
