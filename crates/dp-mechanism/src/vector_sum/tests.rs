use dp_core::{ReplaceFactor, UserRow};

use super::bounded::square;
use super::*;
use crate::Error;
use crate::contribution::SparseBuffer;
use crate::test_support::{
    DRAWS_FOR_ONE_PERCENT, LEVEL_1E_9, Lcg, rebuilt, spends, table, variance_score, without_user,
};

/// Contributes the user's values, scaled up, without any clipping.
struct Unclipped(f64);

impl VectorContribution for Unclipped {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        for (item, value) in user.iter() {
            out.push(item, f64::from(value) * self.0);
        }
    }
}

/// Contributes extreme numbers, repeated and out-of-range coordinates, computed from the user's own
/// records.
struct Hostile;

impl VectorContribution for Hostile {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        let seed = user.iter().fold(1, |h, (item, value)| {
            (h ^ u64::from(item) ^ u64::from(value.to_bits())).wrapping_mul(0x100_0000_01b3)
        });
        let mut rng = Lcg(seed);
        for _ in 0..rng.below(8) {
            let index = u32::try_from(rng.below(12)).unwrap();
            let value = rng.hostile();
            out.push(index, value);
            if rng.below(3) == 0 {
                out.push(index, value);
            }
        }
    }
}

fn squared_norm(entries: &[(usize, i64)]) -> u128 {
    entries.iter().map(|&(_, z)| square(z)).sum()
}

#[test]
fn one_user_moves_the_sum_by_exactly_a_bounded_contribution() {
    let data = table(60, 40, 25, 3);
    let grid = Grid::new(3.0, 2.0).unwrap();
    let contribution = Unclipped(0.4);
    let whole = Private::new(data.clone());
    let all = VectorSum::accumulate(&whole, 40, grid, &contribution).unwrap();
    let mut n_rejected = 0;
    for user in 0..data.n_users() {
        let less = without_user(&data, user);
        let less = VectorSum::accumulate(&less, 40, grid, &contribution).unwrap();
        let mut difference = vec![0_i64; 40];
        for (d, (a, b)) in difference.iter_mut().zip(all.sums.iter().zip(&less.sums)) {
            *d = a.wrapping_sub(*b);
        }
        let mut expected = vec![0_i64; 40];
        let entries = vector_contribution(&grid, 40, &contribution, data.user(user));
        n_rejected += usize::from(entries.is_empty() && !data.user(user).is_empty());
        for (index, z) in entries {
            expected[index] = z;
        }
        assert_eq!(difference, expected);
        let moved: u128 = difference.iter().map(|&d| square(d)).sum();
        assert!(moved <= u128::from(grid.l2_bound()).pow(2));
    }
    assert!(
        n_rejected > 5 && n_rejected < 55,
        "the data should hold users on both sides of the clip: {n_rejected}"
    );
}

#[test]
fn hostile_users_never_exceed_the_bound() {
    check_hostile(100_000, 11);
}

#[test]
#[ignore = "long form: 1e7 hostile users, about a minute in release"]
fn long_hostile_users_never_exceed_the_bound() {
    check_hostile(10_000_000, 12);
}

fn check_hostile(n_users: u32, seed: u64) {
    let grid = Grid::new(1.3, 1.0).unwrap();
    let bound = u128::from(grid.l2_bound()).pow(2);
    let data = table(n_users.min(50_000), 6, 4, seed);
    let (mut n_kept, mut n_seen) = (0_u32, 0_u32);
    for round in 0.. {
        if n_seen >= n_users {
            break;
        }
        // another table each time the first one is used up
        let fresh = if round == 0 {
            None
        } else {
            Some(table(50_000, 6, 4, seed + round))
        };
        for row in fresh.as_ref().unwrap_or(&data).users() {
            let entries = vector_contribution(&grid, 8, &Hostile, row);
            assert!(squared_norm(&entries) <= bound);
            assert!(entries.windows(2).all(|w| w[0].0 < w[1].0));
            assert!(entries.iter().all(|&(index, _)| index < 8));
            n_kept += u32::from(squared_norm(&entries) > 0);
            n_seen += 1;
        }
    }
    assert!(
        n_kept > n_seen / 20,
        "hostile users were all rejected: the test shows nothing"
    );
}

#[test]
fn repeated_coordinates_count_as_one() {
    struct Twice;
    impl VectorContribution for Twice {
        type Scratch = ();
        fn scratch(&self) {}
        fn contribute(&self, _: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
            // 0.7 twice has norm 1.4 as one coordinate, but 0.99 if counted separately
            out.push(0, 0.7);
            out.push(1, 0.0);
            out.push(0, 0.7);
        }
    }
    let data = table(1, 2, 0, 1);
    let grid = Grid::new(1.0, 1.0).unwrap();
    assert!(vector_contribution(&grid, 2, &Twice, data.user(0)).is_empty());
}

#[test]
fn users_exactly_at_the_clip_are_counted() {
    struct Indicator;
    impl VectorContribution for Indicator {
        type Scratch = ();
        fn scratch(&self) {}
        fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
            for &item in user.items() {
                out.push(item, 1.0);
            }
        }
    }
    for k in [1_usize, 2, 3, 7, 100, 1000] {
        let mut builder = dp_core::InteractionsBuilder::new(k);
        for item in 0..k {
            builder.push(0, u32::try_from(item).unwrap(), 1.0).unwrap();
        }
        let data = builder.build().0;
        let grid = Grid::new(2.7, (k as f64).sqrt()).unwrap();
        assert_eq!(
            vector_contribution(&grid, k, &Indicator, data.user(0)).len(),
            k
        );
    }
}

#[test]
fn order_threads_and_shards_do_not_matter() {
    let data = table(5000, 50, 20, 5);
    let grid = Grid::new(2.0, 5.0).unwrap();
    let contribution = Unclipped(0.5);
    let reference = {
        let whole = Private::new(data.clone());
        VectorSum::accumulate(&whole, 50, grid, &contribution)
            .unwrap()
            .sums
    };
    let reversed = rebuilt(&data, (0..data.n_users()).rev());
    for n_threads in [1, 2, 3, 8] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build()
            .unwrap();
        let sums = pool.install(|| {
            VectorSum::accumulate(&reversed, 50, grid, &contribution)
                .unwrap()
                .sums
        });
        assert_eq!(sums, reference);
    }
    for n_shards in [2, 8, 64] {
        let mut total = VectorSum::empty(50, grid).unwrap();
        for shard in data.shards(n_shards) {
            let shard = Private::new(shard);
            total
                .merge(VectorSum::accumulate(&shard, 50, grid, &contribution).unwrap())
                .unwrap();
        }
        assert_eq!(total.sums, reference);
    }
}

#[test]
fn released_noise_has_the_scale_of_the_spend() {
    // white box, level 1e-9: a scale 1 percent too small is detected with probability 1 - 1e-6
    let n = DRAWS_FOR_ONE_PERCENT;
    let grid = Grid::new(5.0, 1.0).unwrap();
    let mut sum = VectorSum::empty(n, grid).unwrap();
    for (at, s) in sum.sums.iter_mut().enumerate() {
        *s = i64::try_from(at).unwrap() * 1_000_003 - (1 << 40);
    }
    let exact = sum.sums.clone();
    let spend = spends(&[(5.0, ReplaceFactor::Two, n as u64)]).remove(0);
    let released = sum
        .release(spend, &mut NoiseSource::operating_system())
        .unwrap();
    let score = variance_score(released.integers(), &exact, |_| grid.sigma() as f64);
    assert!(score.abs() < LEVEL_1E_9, "score {score}");
    assert!(!released.is_insecure());
}

#[test]
fn a_scale_one_percent_short_would_be_caught() {
    let n = DRAWS_FOR_ONE_PERCENT;
    let grid = Grid::new(5.0, 1.0).unwrap();
    let spend = spends(&[(5.0, ReplaceFactor::Two, n as u64)]).remove(0);
    let sum = VectorSum::empty(n, grid).unwrap();
    let released = sum
        .release(spend, &mut NoiseSource::insecure_seeded(3))
        .unwrap();
    let shrunk: Vec<i64> = released.integers().iter().map(|y| y / 100 * 99).collect();
    let score = variance_score(&shrunk, &vec![0; n], |_| grid.sigma() as f64);
    assert!(score < -LEVEL_1E_9, "score {score}");
    assert!(released.is_insecure());
}

#[test]
fn a_spend_that_does_not_pay_is_refused() {
    let grid = Grid::new(2.0, 1.0).unwrap();
    let release = |z: f64, factor, draws| {
        let spend = spends(&[(z, factor, draws)]).remove(0);
        VectorSum::empty(10, grid)
            .unwrap()
            .release(spend, &mut NoiseSource::insecure_seeded(0))
            .unwrap_err()
    };
    let more_noise = release(2.0_f64.next_up(), ReplaceFactor::Two, 10);
    assert!(matches!(more_noise, Error::SpendTooSmall { .. }));
    let psd_only = release(2.0, ReplaceFactor::SqrtTwo, 10);
    assert!(matches!(psd_only, Error::WrongSpend { .. }));
    let fewer = release(2.0, ReplaceFactor::Two, 9);
    assert!(matches!(
        fewer,
        Error::DrawCount {
            paid: 9,
            needed: 10,
            ..
        }
    ));
}

#[test]
fn shards_on_another_grid_are_refused() {
    let mut a = VectorSum::empty(3, Grid::new(2.0, 1.0).unwrap()).unwrap();
    assert!(
        a.merge(VectorSum::empty(3, Grid::new(2.5, 1.0).unwrap()).unwrap())
            .is_err()
    );
    assert!(
        a.merge(VectorSum::empty(4, Grid::new(2.0, 1.0).unwrap()).unwrap())
            .is_err()
    );
}

/// Contributes what it remembers about previous users.
struct Remembers;

impl VectorContribution for Remembers {
    type Scratch = f64;

    fn scratch(&self) -> f64 {
        1.0
    }

    fn contribute(&self, _: UserRow<'_>, seen: &mut f64, out: &mut SparseBuffer) {
        out.push(0, *seen / 1024.0);
        *seen += 1.0;
    }
}

#[test]
fn a_contribution_that_remembers_other_users_shows_where_tests_run() {
    let (data, grid) = (table(100, 5, 4, 1), Grid::new(2.0, 1.0).unwrap());
    let one = vector_contribution(&grid, 1, &Remembers, data.user(0))[0].1;
    let n = i64::try_from(data.n_users()).unwrap();
    let sum = VectorSum::accumulate(&Private::new(data), 1, grid, &Remembers).unwrap();
    assert_eq!(sum.sums[0] == n * one, cfg!(debug_assertions));
}
