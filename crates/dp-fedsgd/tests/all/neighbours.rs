//! Two data sets that differ in one user, with the same coins and the same noise: the released
//! integers of the first round, where all else is equal, differ by exactly that user's
//! contribution.

use dp_accounting::Plan;
use dp_core::{Adjacency, UserSamples, UserSamplesBuilder};
use dp_fedsgd::{ClipSchedule, HeldBatches, PpSgdParams, Run, Trainer};
use dp_mechanism::{ClientSampling, FixedSizeSampling, NoiseSource, PoissonSampling};

use crate::support::{ADD_REMOVE, Numbers, OnRelease, Release, paid, squared};

const N: u32 = 40;

/// Users `0..n`, with the labels of the last one multiplied by `scale`.
fn users(n: u32, scale: f32) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(3, 4).unwrap();
    for user in 0..n {
        let mut numbers = Numbers(u64::from(user) + 1);
        for _ in 0..4 {
            let x = [0; 3].map(|_| numbers.next());
            let y = numbers.next() * if user + 1 == N { scale } else { 1.0 };
            builder.push(user, &x, y).unwrap();
        }
    }
    builder.build().0
}

struct FirstRound {
    integers: Vec<i64>,
    of_last: Vec<i64>,
    bound: u128,
}

fn plan(params: PpSgdParams, adjacency: Adjacency) -> Plan {
    let fit = params.check().unwrap();
    fit.plan_with_noise(3, 2.0, 1e-5, adjacency).unwrap()
}

fn first_round(params: PpSgdParams, data: &UserSamples, plan: &Plan, seed: u64) -> FirstRound {
    let fit = params.check().unwrap();
    let rows = HeldBatches::new(data, 3).unwrap();
    let table = data.table().expose();
    let mut seen = None;
    let mut observer = OnRelease(|round: Release<'_>| {
        let mut of_last = vec![0; round.released.len()];
        for (at, z) in (round.one_user)(table.user(table.n_users() - 1)) {
            of_last[at] = z;
        }
        seen.get_or_insert(FirstRound {
            integers: round.released.integers().to_vec(),
            of_last,
            bound: u128::from(round.grid.l2_bound()),
        });
    });
    let noise = &mut NoiseSource::insecure_seeded(seed);
    let run = Run::new(plan, paid(plan), noise).unwrap();
    let run = run.observed_by(&mut observer);
    fit.with(&squared(3)).run(&rows, run).unwrap();
    seen.unwrap()
}

fn difference(a: &[i64], b: &[i64]) -> Vec<i64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn square(z: &[i64]) -> u128 {
    z.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum()
}

fn params(sampling: Option<ClientSampling>) -> PpSgdParams {
    let mut params = PpSgdParams::new(1.0, 0.3, 0.4, 1, f64::from(N));
    params.minimum_clients = Some(1.0);
    params.clip = ClipSchedule::Quantile {
        start: 0.4,
        quantile: 0.5,
        rate: 0.2,
        low: 0.1,
        high: 9.0,
    };
    sampling.map_or(params, |sampling| params.sampled(sampling))
}

#[test]
fn adding_a_user_moves_the_release_by_what_the_user_adds() {
    let half = PoissonSampling::new(0.5).unwrap().into();
    let (with, without) = (users(N, 1e6), users(N - 1, 1.0));
    for sampling in [None, Some(half)] {
        let plan = plan(params(sampling), ADD_REMOVE);
        let (mut in_it, mut out) = (0, 0);
        for seed in 0..8 {
            let a = first_round(params(sampling), &with, &plan, seed);
            let b = first_round(params(sampling), &without, &plan, seed);
            let moved = difference(&a.integers, &b.integers);
            if moved.iter().all(|&z| z == 0) {
                out += 1;
                continue;
            }
            in_it += 1;
            assert_eq!(moved, a.of_last);
            assert!(square(&moved) <= a.bound.pow(2));
            assert!(square(&moved) as f64 > 0.999 * (a.bound as f64).powi(2)); // at the clipping norm: the bound is attained
        }
        // under Poisson sampling the user is in about half of the samples (seeds are fixed)
        assert!(in_it > 0 && (out > 0) == sampling.is_some());
    }
}

#[test]
fn replacing_a_user_moves_the_release_by_two_bounds_at_most() {
    let fixed = FixedSizeSampling::new(20, N as usize).unwrap().into();
    let (one, other) = (users(N, 1e6), users(N, -1e6));
    for sampling in [None, Some(fixed)] {
        let plan = plan(params(sampling), Adjacency::ReplaceUser);
        let mut moves = 0;
        for seed in 0..8 {
            let a = first_round(params(sampling), &one, &plan, seed);
            let b = first_round(params(sampling), &other, &plan, seed);
            let moved = difference(&a.integers, &b.integers);
            if moved.iter().any(|&z| z != 0) {
                moves += 1;
                assert_eq!(moved, difference(&a.of_last, &b.of_last));
                assert!(square(&moved) <= 4 * a.bound.pow(2));
                assert!(square(&moved) > a.bound.pow(2)); // more than the cost under add/remove would cover
            }
        }
        assert!(moves > 0 && (moves < 8) == sampling.is_some());
    }
}
