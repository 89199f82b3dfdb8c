//! L4, round by round: exact sums with equal seeds, and exact sensitivity on neighbouring data.

use dp_accounting::{Budget, Ledger};
use dp_audit::SgdRun;
use dp_core::{Adjacency, UserRow, UserSamples};
use dp_fedsgd::{ClipSchedule, Participation, PpSgdParams};
use dp_mechanism::{
    ClientSampling, FixedSizeSampling, NoiseSource, PoissonSampling, SparseBuffer,
    VectorContribution, VectorSum,
};

use super::{Audited, COMMON, DELTA, N_ORDINARY, Rows, audited, built, ordinary, plan, run};

const N_ROUNDS: usize = 5;
const SEED: u64 = 8;

fn base(participation: Option<ClientSampling>) -> PpSgdParams {
    let mut params = PpSgdParams::new(2.0, 0.1, 0.7, N_ROUNDS, N_ORDINARY as f64);
    params.minimum_clients = Some(1.0);
    params.clip = ClipSchedule::Quantile {
        start: 0.7,
        quantile: 0.5,
        rate: 0.2,
        low: 0.05,
        high: 9.0,
    };
    participation.map_or(params, |sampling| params.sampled(sampling))
}

fn poisson() -> ClientSampling {
    PoissonSampling::new(0.4).unwrap().into()
}

fn fixed() -> ClientSampling {
    FixedSizeSampling::new(8, N_ORDINARY).unwrap().into()
}

fn schemes() -> [(PpSgdParams, Adjacency); 5] {
    let (add_remove, replace) = (Adjacency::AddRemoveUser, Adjacency::ReplaceUser);
    [
        (base(None), add_remove),
        (base(None), replace),
        (base(Some(poisson())), add_remove),
        (base(Some(poisson())), replace),
        (base(Some(fixed())), replace),
    ]
}

fn trainer(params: PpSgdParams, adjacency: Adjacency) -> Audited {
    audited(params, COMMON, plan(params, COMMON, 2.0, DELTA, adjacency))
}

fn everybody() -> Vec<Rows> {
    (0..N_ORDINARY).map(|user| ordinary(COMMON, user)).collect()
}

fn table(users: &[Rows]) -> UserSamples {
    built(COMMON, users.iter().cloned())
}

struct Nothing;

impl VectorContribution for Nothing {
    type Scratch = ();
    fn scratch(&self) {}
    fn contribute(&self, _: UserRow<'_>, (): &mut (), _: &mut SparseBuffer) {}
}

/// The noise of each round of a run with this seed, and who is drawn: the same keys in the same
/// order, with no contributions.
fn coins_and_noise(
    trainer: &Audited,
    run: &SgdRun,
    data: &UserSamples,
    params: PpSgdParams,
) -> Vec<(Vec<usize>, Vec<i64>)> {
    let budget = Budget::schedule(trainer.plan().target(), trainer.plan().adjacency()).unwrap();
    let mut ledger = Ledger::in_memory("twin", budget).unwrap();
    let spends = ledger.reserve(trainer.plan()).unwrap();
    let (twin, coins) = (
        &mut NoiseSource::insecure_seeded(SEED),
        &mut NoiseSource::insecure_seeded(SEED),
    );
    let n_users = data.users().len();
    let rounds = run.rounds.iter().zip(spends).map(|(round, spend)| {
        let (n, grid) = (round.view.integers.len(), round.message.grid().unwrap());
        let (drawn, sum) = match params.participation {
            Participation::Full => (
                (0..n_users).collect(),
                VectorSum::accumulate(data.table(), n, grid, &Nothing),
            ),
            Participation::Sampled(sampling) => {
                let sample = sampling.sample(n_users, coins).unwrap();
                sampling.sample(n_users, coins).unwrap(); // instead of the noise
                (
                    sample.indices().to_vec(),
                    VectorSum::accumulate_sampled(sampling, data.table(), n, grid, &Nothing, twin),
                )
            }
        };
        let noise = sum.unwrap().release(spend, twin).unwrap();
        (drawn, noise.integers().to_vec())
    });
    rounds.collect()
}

/// The release of every round minus its noise is the sum of the answers of the users in the sample
/// to the released values, exact to the last integer.
#[test]
fn every_round_releases_the_sum_of_what_its_users_answer() {
    for (params, adjacency) in schemes() {
        let (trainer, data) = (trainer(params, adjacency), table(&everybody()));
        let noise = &mut NoiseSource::insecure_seeded(SEED);
        let run = run(&trainer, &data, noise);
        let known = coins_and_noise(&trainer, &run, &data, params);
        let mut sums: Vec<Vec<i64>> = known.iter().map(|(_, noise)| noise.clone()).collect();
        for user in 0..N_ORDINARY {
            let asked = |round: usize| known[round].0.contains(&user);
            let each = trainer
                .oracle()
                .contributions(&run, &data, user, &asked)
                .unwrap();
            for (sum, entries) in sums.iter_mut().zip(each) {
                entries.iter().for_each(|&(at, z)| sum[at] += z);
            }
        }
        for (round, sum) in run.rounds.iter().zip(&sums) {
            let found = &round.view.integers;
            assert_eq!(found, sum, "{params:?} {}", round.message.round);
        }
        let all = known.iter().all(|(drawn, _)| drawn.len() == N_ORDINARY);
        assert_eq!(all, params.participation == Participation::Full);
    }
}

/// Users who try to count for more than one.
fn hostile() -> Vec<Rows> {
    let row = |value: f32, label: f32| (vec![value; COMMON], label);
    vec![
        Vec::new(),
        vec![row(1.0, 1e6); 4],
        vec![row(1.0, -1e6); 4],
        vec![row(1e30, -1e30); 4],
        vec![row(f32::MAX, f32::MAX); 4],
        vec![row(f32::MIN_POSITIVE, f32::MAX); 4],
        vec![row(1e-30, 1.0), row(1e19, 1.0), row(-1e19, 1.0)],
        ordinary(COMMON, 77),
    ]
}

/// Users whose contributions are compared, by their numbers in the first table: whoever is changed, and some of those who are not.
const COMPARED: usize = 8;

/// Sums of all rounds over the first users, who are asked according to a fixed pattern of their numbers in the first table; `gone`
/// is the number that is missing in the second one.
fn sums(trainer: &Audited, run: &SgdRun, users: &[Rows], gone: Option<usize>) -> Vec<Vec<i64>> {
    let data = table(users);
    let mut sums = vec![vec![0_i64; run.rounds[0].view.integers.len()]; N_ROUNDS];
    for user in 0..COMPARED - usize::from(gone.is_some()) {
        let number = user + usize::from(gone.is_some_and(|gone| user >= gone));
        let asked = |round: usize| (number * 7 + round * 3) % 5 < 3;
        let each = trainer
            .oracle()
            .contributions(run, &data, user, &asked)
            .unwrap();
        for (sum, entries) in sums.iter_mut().zip(each) {
            entries.iter().for_each(|&(at, z)| sum[at] += z);
        }
    }
    sums
}

/// In exact integers: given the releases and all coins, the sum of no round over the compared users changes by more than `D` when a
/// user is added or removed, nor by more than `2 D` when one is replaced; and some user reaches this.
#[test]
fn no_round_moves_further_than_paid_for_on_neighbouring_data() {
    const CHANGED: usize = 3; // asked in rounds 1, 2 and 4
    for (params, adjacency) in schemes() {
        let trainer = trainer(params, adjacency);
        let mut worst = [0.0_f64; N_ROUNDS];
        for user in hostile() {
            let mut with = everybody();
            with[CHANGED] = user;
            let data = table(&with);
            let run = run(&trainer, &data, &mut NoiseSource::operating_system());
            let here = sums(&trainer, &run, &with, None);
            let neighbours: Vec<_> = if adjacency.is_replace() {
                let with = |user| {
                    let mut users = everybody();
                    users[CHANGED] = user;
                    (users, None)
                };
                hostile().into_iter().map(with).collect()
            } else {
                let mut users = everybody();
                users.remove(CHANGED);
                vec![(users, Some(CHANGED))]
            };
            for (users, gone) in neighbours {
                let there = sums(&trainer, &run, &users, gone);
                for (at, round) in run.rounds.iter().enumerate() {
                    let moved = here[at]
                        .iter()
                        .zip(&there[at])
                        .map(|(a, b)| a.wrapping_sub(*b));
                    let moved = round.view.squared_norm(&moved.collect::<Vec<_>>());
                    let bound = u128::from(round.view.allowed_norm());
                    let factor = if adjacency.is_replace() { 2 } else { 1 };
                    assert!(moved <= (factor * bound).pow(2), "{params:?}, round {at}");
                    worst[at] = worst[at].max((moved as f64).sqrt() / (factor * bound) as f64);
                }
            }
        }
        // two users have the same signs of the extra coordinates and differ only in the gradient
        let least = if adjacency.is_replace() { 0.97 } else { 0.999 };
        let reached = worst.iter().filter(|&&share| share > least).count();
        assert!(reached >= 3, "{params:?}: {worst:?}");
    }
}

/// Squares of the first two rows overflow; the two after them are ordinary, far beyond the clip.
#[test]
fn numbers_that_overflow_cost_a_user_one_round_and_no_more() {
    let row = |value: f32, label: f32| (vec![value; COMMON], label);
    let mut users = everybody();
    users[0] = vec![
        row(f32::MAX, 1.0),
        row(f32::MAX, 1.0),
        row(1.0, 1e6),
        row(1.0, 1e6),
    ];
    let trainer = trainer(base(None), Adjacency::AddRemoveUser);
    let data = table(&users);
    let run = run(&trainer, &data, &mut NoiseSource::operating_system());
    let each = trainer
        .oracle()
        .contributions(&run, &data, 0, &|_| true)
        .unwrap();
    for (at, entries) in each.iter().enumerate() {
        let of_gradient = entries.iter().filter(|&&(at, _)| at < COMMON).count();
        let expected = if at % 2 == 0 { 0 } else { COMMON };
        assert_eq!(of_gradient, expected, "round {at}");
    }
}
