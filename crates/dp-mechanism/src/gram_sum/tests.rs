use dp_core::{InteractionsBuilder, ReplaceFactor, UserRow};
use dp_linalg::packed_index;

use super::*;
use crate::Error;
use crate::contribution::FactorBuffer;
use crate::test_support::{
    DRAWS_FOR_ONE_PERCENT, LEVEL_1E_9, Lcg, rebuilt, spends, table, variance_score, without_user,
};

/// Factors, weights and labels drawn from the user's own records; `hostile` without any clipping.
struct Drawn {
    dim: usize,
    scale: f64,
    hostile: bool,
}

impl FactorContribution for Drawn {
    type Scratch = ();

    fn scratch(&self) {}

    fn dim(&self) -> usize {
        self.dim
    }

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
        let seed = user.iter().fold(7, |h, (item, value)| {
            (h ^ u64::from(item) ^ u64::from(value.to_bits())).wrapping_mul(0x100_0000_01b3)
        });
        let mut rng = Lcg(seed);
        let draw = |rng: &mut Lcg| {
            if self.hostile {
                rng.hostile()
            } else {
                rng.signed()
            }
        };
        for v in &mut out.factor {
            *v = draw(&mut rng) * self.scale;
        }
        for (w, y) in out.weights.iter_mut().zip(&mut out.labels) {
            *w = draw(&mut rng).abs();
            *y = draw(&mut rng);
        }
    }
}

fn grids() -> GramGrids {
    GramGrids::new(3.0, 1.0, 2.0, 0.7).unwrap()
}

fn pooled_grids() -> GramGrids {
    GramGrids::pooled(3.0, 1.0, 2.0, 0.7).unwrap()
}

/// The sums of one contribution, computed with plain integer arithmetic.
fn add_by_hand(sums: &mut GramSums, one: &GramContribution, sign: i64) {
    let dim = sums.dim;
    let pooled = sums.grids.layout() == GramLayout::Pooled;
    for (record, &item) in one.items.iter().enumerate() {
        let x = &one.factors[record * dim..][..dim];
        let place = if pooled { 0 } else { item as usize };
        let matrix = &mut sums.matrices[place * packed_len(dim)..][..packed_len(dim)];
        for a in 0..dim {
            for b in a..dim {
                if record == 0 || !pooled {
                    matrix[packed_index(dim, a, b)] += sign * x[a] * x[b];
                }
            }
            sums.rhs[item as usize * dim + a] += sign * one.labels[record] * x[a];
        }
    }
}

/// Squared norms of a contribution to matrices (Frobenius) and right-hand sides, exactly.
fn squared_norms(one: &GramContribution, dim: usize, layout: GramLayout) -> (u128, u128) {
    let (mut matrix, mut rhs) = (0, 0);
    let records = one.factors.chunks_exact(dim).zip(&one.labels);
    for (record, (x, l)) in records.enumerate() {
        let mut frobenius = 0_u128;
        let mut norm = 0_u128;
        for a in x {
            norm += u128::from(a.unsigned_abs()).pow(2);
            for b in x {
                frobenius += u128::from((a * b).unsigned_abs()).pow(2);
            }
        }
        if record == 0 || layout == GramLayout::PerItem {
            matrix += frobenius;
        }
        rhs += u128::from(l.unsigned_abs()).pow(2) * norm;
    }
    (matrix, rhs)
}

#[test]
fn sums_equal_plain_integer_sums_of_the_contributions() {
    for grids in [grids(), pooled_grids()] {
        sums_are_exact(grids);
    }
}

fn sums_are_exact(grids: GramGrids) {
    for dim in [1, 2, 5, 8, 17] {
        for scale in [0.1, 0.6] {
            let data = table(700, 30, 20, 9 + dim as u64);
            let contribution = Drawn {
                dim,
                scale,
                hostile: false,
            };
            let mut by_hand = GramSums::zero(30, dim, grids);
            for row in data.users() {
                let one = gram_contribution(&grids, &contribution, row).unwrap();
                add_by_hand(&mut by_hand, &one, 1);
            }
            let sums = GramSums::accumulate(&Private::new(data), grids, &contribution).unwrap();
            assert!(sums.matrices.iter().any(|&s| s != 0));
            assert_eq!(sums.matrices, by_hand.matrices);
            assert_eq!(sums.rhs, by_hand.rhs);
        }
    }
}

#[test]
fn every_user_is_in_one_block_and_blocks_are_small() {
    // user 3 alone has more records than a block
    let mut builder = InteractionsBuilder::new(5_000);
    for user in 0..300 {
        for item in 0..if user == 3 { 5_000 } else { user % 40 } {
            builder.push(user, item, 1.0).unwrap();
        }
    }
    builder.ensure_users(310);
    let data = builder.build().0;
    let blocks: Vec<_> = factors::blocks(&data).collect();
    let mut next = 0;
    for users in &blocks {
        assert!(users.start == next && users.end > next);
        let n: usize = users.clone().map(|user| data.user(user).len()).sum();
        assert!(n <= 1 << 10 || users.len() == 1, "{n} records of {users:?}");
        next = users.end;
    }
    assert_eq!(next, 310);
    assert!((8..16).contains(&blocks.len()), "{}", blocks.len());
    let nobody = InteractionsBuilder::new(1).build().0;
    assert_eq!(factors::blocks(&nobody).count(), 0);
}

#[test]
fn runs_longer_than_the_exact_range_are_spilled() {
    // one item with 20,000 users at their bound: sums of squares pass 2^53
    let mut builder = InteractionsBuilder::new(1);
    for user in 0_u16..20_000 {
        builder.push(user.into(), 0, user.into()).unwrap();
    }
    struct AtTheBound;
    impl FactorContribution for AtTheBound {
        type Scratch = ();
        fn scratch(&self) {}
        fn dim(&self) -> usize {
            2
        }
        fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
            let angle = f64::from(user.values()[0]);
            out.factor.copy_from_slice(&[angle.cos(), angle.sin()]);
            out.weights[0] = 1.0;
            out.labels[0] = 1.0;
        }
    }
    let data = builder.build().0;
    for grids in [GramGrids::new, GramGrids::pooled] {
        let grids = grids(0.5, 1.0, 0.5, 1.0).unwrap();
        let mut by_hand = GramSums::zero(1, 2, grids);
        for row in data.users() {
            let one = gram_contribution(&grids, &AtTheBound, row).unwrap();
            add_by_hand(&mut by_hand, &one, 1);
        }
        assert!(by_hand.matrices[0] + by_hand.matrices[2] > 1 << 53);
        let sums = GramSums::accumulate(&Private::new(data.clone()), grids, &AtTheBound).unwrap();
        assert_eq!(sums.matrices, by_hand.matrices);
        assert_eq!(sums.rhs, by_hand.rhs);
    }
}

#[test]
fn one_user_moves_the_sums_by_exactly_a_bounded_contribution() {
    let data = table(80, 12, 9, 21);
    let dim = 3;
    for (hostile, grids) in [false, true]
        .into_iter()
        .flat_map(|h| [(h, grids()), (h, pooled_grids())])
    {
        let contribution = Drawn {
            dim,
            scale: 0.7,
            hostile,
        };
        let all = GramSums::accumulate(&Private::new(data.clone()), grids, &contribution).unwrap();
        for user in 0..data.n_users() {
            let less = without_user(&data, user);
            let mut less = GramSums::accumulate(&less, grids, &contribution).unwrap();
            let one = gram_contribution(&grids, &contribution, data.user(user)).unwrap();
            add_by_hand(&mut less, &one, 1);
            assert_eq!(all.matrices, less.matrices);
            assert_eq!(all.rhs, less.rhs);
        }
    }
}

#[test]
fn hostile_users_never_exceed_the_bounds() {
    check_hostile(100_000, 1);
}

#[test]
#[ignore = "long form: 1e7 hostile users, about a minute in release"]
fn long_hostile_users_never_exceed_the_bounds() {
    check_hostile(10_000_000, 1_000);
}

fn check_hostile(n_users: usize, seed: u64) {
    let dim = 3;
    let bound = |grid: &crate::Grid| u128::from(grid.l2_bound()).pow(2);
    let (mut n_seen, mut n_kept, mut n_rejected) = (0, 0, 0);
    for round in 0.. {
        if n_seen >= n_users {
            break;
        }
        let data = table(20_000, 9, 5, seed + round);
        for row in data.users() {
            let contribution = Drawn {
                dim,
                scale: [0.2, 1.0, 30.0][n_seen % 3],
                hostile: n_seen % 2 == 0,
            };
            let grids = if n_seen % 4 < 2 {
                grids()
            } else {
                pooled_grids()
            };
            let one = gram_contribution(&grids, &contribution, row).unwrap();
            let (matrix, rhs) = squared_norms(&one, dim, grids.layout());
            assert!(matrix <= bound(grids.matrix()) && rhs <= bound(grids.rhs()));
            n_seen += 1;
            n_kept += usize::from(matrix > 0);
            n_rejected += usize::from(matrix == 0 && !row.is_empty());
        }
    }
    assert!(n_kept > n_seen / 20 && n_rejected > n_seen / 20);
}

#[test]
fn a_user_exactly_at_both_bounds_is_kept() {
    struct AtTheClip {
        n: usize,
        dim: usize,
    }
    impl FactorContribution for AtTheClip {
        type Scratch = ();
        fn scratch(&self) {}
        fn dim(&self) -> usize {
            self.dim
        }
        fn contribute(&self, _: UserRow<'_>, (): &mut (), out: &mut FactorBuffer) {
            out.factor.fill((1.0 / self.dim as f64).sqrt());
            out.weights.fill((1.0 / self.n as f64).sqrt());
            out.labels.fill(-0.7);
        }
    }
    // without the grid's margin, rounding to f32 pushes some of these over the bound
    let mut builder = InteractionsBuilder::new(1);
    builder.push(0, 0, 1.0).unwrap();
    let lone = builder.build().0;
    for step in 0..2000 {
        let z = 1.0 + f64::from(step) * 0.003;
        let grids = GramGrids::new(z, 1.0, z, 0.7).unwrap();
        let contribution = AtTheClip { n: 1, dim: 1 };
        let one = gram_contribution(&grids, &contribution, lone.user(0)).unwrap();
        assert_ne!(one.factors, [0], "rejected at noise multiplier {z}");
    }
    for n in [1_u32, 2, 3, 50, 999] {
        let mut builder = InteractionsBuilder::new(n as usize);
        for item in 0..n {
            builder.push(0, item, 1.0).unwrap();
        }
        let data = builder.build().0;
        for dim in [1, 7, 64, 256] {
            let contribution = AtTheClip { n: n as usize, dim };
            let one = gram_contribution(&grids(), &contribution, data.user(0)).unwrap();
            let (matrix, rhs) = squared_norms(&one, dim, GramLayout::PerItem);
            let share =
                |square: u128, grid: &crate::Grid| (square as f64).sqrt() / grid.l2_bound() as f64;
            assert!(share(matrix, grids().matrix()) > 0.999);
            assert!(share(rhs, grids().rhs()) > 0.999);
        }
    }
}

#[test]
fn order_threads_and_shards_do_not_matter() {
    for grids in [grids(), pooled_grids()] {
        check_order(grids);
    }
}

fn check_order(grids: GramGrids) {
    let data = table(3000, 40, 15, 8);
    let contribution = Drawn {
        dim: 6,
        scale: 0.4,
        hostile: false,
    };
    let reference =
        GramSums::accumulate(&Private::new(data.clone()), grids, &contribution).unwrap();
    let shuffled = rebuilt(
        &data,
        (0..data.n_users()).map(|u| (u * 1201) % data.n_users()),
    );
    for n_threads in [1, 2, 8] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build()
            .unwrap();
        let sums = pool.install(|| GramSums::accumulate(&shuffled, grids, &contribution).unwrap());
        assert_eq!(sums.matrices, reference.matrices);
        assert_eq!(sums.rhs, reference.rhs);
    }
    for n_shards in [3, 64] {
        let mut total = GramSums::zero(40, 6, grids);
        for shard in data.shards(n_shards) {
            let shard = Private::new(shard);
            let part = GramSums::accumulate(&shard, grids, &contribution).unwrap();
            total.merge(part).unwrap();
        }
        assert_eq!(total.matrices, reference.matrices);
        assert_eq!(total.rhs, reference.rhs);
    }
}

#[test]
fn released_noise_has_the_scale_of_each_part() {
    // white box, level 1e-9 each: diagonal, off-diagonal and right-hand side separately
    let dim = 3;
    let n_items = DRAWS_FOR_ONE_PERCENT.div_ceil(dim);
    let grids = grids();
    let mut sums = GramSums::zero(n_items, dim, grids);
    for (at, s) in sums.matrices.iter_mut().chain(&mut sums.rhs).enumerate() {
        *s = (i64::try_from(at).unwrap() * 7_919) << 20;
    }
    let (matrices, rhs) = (sums.matrices.clone(), sums.rhs.clone());
    let mut spends = spends(&[
        (
            3.0,
            ReplaceFactor::SqrtTwo,
            GramSums::matrix_draws(n_items, dim),
        ),
        (2.0, ReplaceFactor::Two, GramSums::rhs_draws(n_items, dim)),
    ]);
    let (rhs_spend, matrix_spend) = (spends.remove(1), spends.remove(0));
    let released = sums
        .release(
            matrix_spend,
            rhs_spend,
            &mut NoiseSource::operating_system(),
        )
        .unwrap();
    let sigma = grids.matrix().sigma() as f64;
    let half = sigma / 2.0_f64.sqrt();
    for (diagonal, scale) in [(true, sigma), (false, half)] {
        let pick = |values: &[i64]| -> Vec<i64> {
            let picked = values.iter().enumerate().filter(|(at, _)| {
                // rows of the packed 3 x 3 triangle: 00 01 02 11 12 22
                matches!(at % 6, 0 | 3 | 5) == diagonal
            });
            picked.map(|(_, &v)| v).collect()
        };
        let score = variance_score(&pick(released.matrix_integers()), &pick(&matrices), |_| {
            scale
        });
        assert!(
            score.abs() < LEVEL_1E_9,
            "diagonal {diagonal}: score {score}"
        );
    }
    let score = variance_score(released.rhs_integers(), &rhs, |_| {
        grids.rhs().sigma() as f64
    });
    assert!(score.abs() < LEVEL_1E_9, "right-hand side: score {score}");
}

#[test]
fn spends_for_the_wrong_part_are_refused() {
    let release = |first: (f64, ReplaceFactor, u64), second: (f64, ReplaceFactor, u64)| {
        let mut spends = spends(&[first, second]);
        let (b, a) = (spends.remove(1), spends.remove(0));
        GramSums::zero(2, 2, grids()).release(a, b, &mut NoiseSource::insecure_seeded(0))
    };
    let (psd, two) = (ReplaceFactor::SqrtTwo, ReplaceFactor::Two);
    assert!(release((3.0, psd, 6), (2.0, two, 4)).is_ok());
    assert!(matches!(
        release((3.0, psd, 6), (2.0, psd, 4)),
        Err(Error::WrongSpend { .. })
    ));
    assert!(matches!(
        release((3.1, psd, 6), (2.0, two, 4)),
        Err(Error::SpendTooSmall { .. })
    ));
    assert!(matches!(
        release((3.0, psd, 5), (2.0, two, 4)),
        Err(Error::DrawCount { .. })
    ));
}

#[test]
fn a_pooled_release_has_one_matrix_and_is_paid_for_as_one() {
    let (dim, n_items) = (3, 5);
    let data = Private::new(table(400, n_items, 4, 5));
    let contribution = Drawn {
        dim,
        scale: 0.5,
        hostile: false,
    };
    let release = |matrix_draws| {
        let sums = GramSums::accumulate(&data, pooled_grids(), &contribution).unwrap();
        let matrix = (3.0, ReplaceFactor::SqrtTwo, matrix_draws);
        let mut spends = spends(&[matrix, (2.0, ReplaceFactor::Two, 15)]);
        let (b, a) = (spends.remove(1), spends.remove(0));
        sums.release(a, b, &mut NoiseSource::insecure_seeded(3))
    };
    assert!(matches!(release(5), Err(Error::DrawCount { .. })));
    let released = release(GramSums::pooled_matrix_draws(dim)).unwrap();
    assert_eq!(released.matrix_integers().len(), 6);
    assert_eq!((released.n_items(), released.rhs_integers().len()), (5, 15));
    let (mut first, mut last) = ([0.0; 9], [0.0; 9]);
    released.write_item(0, &mut first, &mut [0.0; 3]);
    released.write_item(4, &mut last, &mut [0.0; 3]);
    assert_eq!(first.map(f64::to_bits), last.map(f64::to_bits));
    assert!(first[0] > 1.0);
}

#[test]
fn a_pooled_matrix_gets_the_noise_of_its_grid() {
    // 32,640 draws off the diagonal: noise that is 2.4 percent too small is detected, level 1e-9
    let dim = GramGrids::MAX_DIM;
    let sums = GramSums::zero(1, dim, pooled_grids());
    let zeros = vec![0; packed_len(dim)];
    let draws = GramSums::pooled_matrix_draws(dim);
    let mut spends = spends(&[
        (3.0, ReplaceFactor::SqrtTwo, draws),
        (2.0, ReplaceFactor::Two, dim as u64),
    ]);
    let (rhs, matrix) = (spends.remove(1), spends.remove(0));
    let noise = &mut NoiseSource::operating_system();
    let released = sums.release(matrix, rhs, noise).unwrap();
    let diagonal: Vec<usize> = (0..dim).map(|a| packed_index(dim, a, a)).collect();
    let off = |values: &[i64]| -> Vec<i64> {
        let places = values.iter().enumerate();
        let picked = places.filter(|(at, _)| diagonal.binary_search(at).is_err());
        picked.map(|(_, &v)| v).collect()
    };
    let scale = pooled_grids().matrix().sigma() as f64 / 2.0_f64.sqrt();
    let score = variance_score(&off(released.matrix_integers()), &off(&zeros), |_| scale);
    assert!(score.abs() < LEVEL_1E_9, "{score}");
    let short = variance_score(&off(released.matrix_integers()), &off(&zeros), |_| {
        1.05 * scale
    });
    assert!(short.abs() > LEVEL_1E_9, "five percent would not show");
}

#[test]
fn sums_of_other_matrices_are_not_merged() {
    let mut one = GramSums::zero(1, 2, grids());
    assert!(one.merge(GramSums::zero(1, 2, pooled_grids())).is_err());
}

#[test]
fn dimensions_outside_the_range_are_refused() {
    let data = Private::new(table(3, 3, 2, 1));
    for dim in [0, 257] {
        let contribution = Drawn {
            dim,
            scale: 1.0,
            hostile: false,
        };
        assert!(GramSums::accumulate(&data, grids(), &contribution).is_err());
    }
}
