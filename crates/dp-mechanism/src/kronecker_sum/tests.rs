use dp_core::ReplaceFactor;

use super::*;
use crate::test_support::{
    DRAWS_FOR_ONE_PERCENT, LEVEL_1E_9, Lcg, rebuilt, spends, table, variance_score, without_user,
};

/// Up to a given number of rows and a vector drawn from the user's own records: `tr` of the matrix
/// is at most `clip`, or extreme numbers without any clipping.
struct Drawn {
    shape: (usize, usize),
    clip: f64,
    hostile: bool,
    most_rows: usize,
}

impl KroneckerContribution for Drawn {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    #[allow(clippy::cast_possible_truncation, reason = "rows are f32")]
    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut RowsBuffer) {
        let seed = user.iter().fold(7, |h, (item, value)| {
            (h ^ u64::from(item) ^ u64::from(value.to_bits())).wrapping_mul(0x100_0000_01b3)
        });
        let mut rng = Lcg(seed);
        let hostile = self.hostile;
        let mut draw = || {
            if hostile { rng.hostile() } else { rng.signed() }
        };
        out.vector.iter_mut().for_each(|v| *v = draw());
        let length = out.vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        let n_rows = user.len().min(self.most_rows);
        for _ in 0..n_rows {
            let row: Vec<f32> = (0..self.shape.0).map(|_| draw() as f32).collect();
            let norm = row
                .iter()
                .map(|&x| f64::from(x).powi(2))
                .sum::<f64>()
                .sqrt();
            let fitting = (self.clip / n_rows as f64).sqrt() / (norm * length);
            out.push(&row, if hostile { draw() } else { fitting });
        }
    }
}

fn drawn(dim: usize, rank: usize, hostile: bool) -> Drawn {
    Drawn {
        shape: (dim, rank),
        clip: 0.7,
        hostile,
        most_rows: 3,
    }
}

fn grid() -> KroneckerGrid {
    KroneckerGrid::new(3.0, 0.7).unwrap()
}

/// Exact squared Frobenius norm of a matrix given by the indices and values of its upper triangle.
fn squared_norm(side: usize, entries: &[(usize, i64)]) -> u128 {
    let mut diagonal = vec![false; packed_len(side)];
    (0..side).for_each(|a| diagonal[dp_linalg::packed_index(side, a, a)] = true);
    let square = |&(at, z): &(usize, i64)| {
        u128::from(z.unsigned_abs()).pow(2) * if diagonal[at] { 1 } else { 2 }
    };
    entries.iter().map(square).sum()
}

#[test]
fn a_contribution_is_the_matrix_of_the_definition() {
    let contribution = drawn(4, 3, false);
    let data = table(40, 9, 6, 5);
    let step = grid().grid().step();
    for user in data.users() {
        let mut out = RowsBuffer::default();
        out.vector.resize(3, 0.0);
        contribution.contribute(user, &mut (), &mut out);
        let entries = kronecker_contribution(&grid(), &contribution, user).unwrap();
        let mut found = vec![0; packed_len(12)];
        entries.iter().for_each(|&(at, z)| found[at] = z);
        // the same in plain floats; rows of norm sqrt(clip / 3) and less have 22 bits
        let c = |a: usize, b: usize| -> f64 {
            let rows = out.rows.chunks_exact(4).zip(&out.scales);
            rows.map(|(x, s)| s * s * f64::from(x[a]) * f64::from(x[b]))
                .sum()
        };
        for i in 0..12 {
            for j in i..12 {
                let wide = c(i / 3, j / 3) * out.vector[i % 3] * out.vector[j % 3];
                let narrow = found[dp_linalg::packed_index(12, i, j)] as f64 * step;
                assert!((wide - narrow).abs() < 2e-6, "{i} {j}: {wide} {narrow}");
            }
        }
    }
}

#[test]
fn sums_are_those_of_the_users_one_by_one_in_any_order() {
    for (dim, rank, n_users) in [(5, 2, 300), (1, 1, 5000), (9, 1, 100), (2, 3, 4500)] {
        let data = table(n_users, 20, 9, u64::from(n_users));
        let contribution = drawn(dim, rank, false);
        let mut expected = vec![0_i64; packed_len(dim * rank)];
        for user in data.users() {
            for (at, z) in kronecker_contribution(&grid(), &contribution, user).unwrap() {
                expected[at] += z;
            }
        }
        let order: Vec<usize> = (0..data.n_users()).rev().collect();
        for data in [rebuilt(&data, order), Private::new(data)] {
            let sum = KroneckerSum::accumulate(&data, grid(), &contribution).unwrap();
            assert!(sum.sums() == expected, "{dim} {rank}");
        }
    }
}

/// Honest and hostile users, depending on the number of their records.
struct Mixed {
    honest: Drawn,
    hostile: Drawn,
}

impl KroneckerContribution for Mixed {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> (usize, usize) {
        self.honest.shape
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut (), out: &mut RowsBuffer) {
        let drawn = match user.len() % 3 {
            0 => &self.hostile,
            _ => &self.honest,
        };
        drawn.contribute(user, scratch, out);
    }
}

#[test]
fn users_who_share_a_sweep_are_summed_apart() {
    // up to 60 rows per user: both more and fewer than are batched
    let data = table(3_000, 200, 60, 11);
    for (dim, rank) in [(5, 2), (8, 1), (1, 3)] {
        let many = |hostile| Drawn {
            most_rows: 60,
            ..drawn(dim, rank, hostile)
        };
        let (honest, hostile) = (many(false), many(true));
        let contribution = Mixed { honest, hostile };
        let mut expected = vec![0_i64; packed_len(dim * rank)];
        let mut left_out = [0; 2];
        let mut lengths = std::collections::BTreeSet::new();
        for user in data.users() {
            let one = kronecker_contribution(&grid(), &contribution, user).unwrap();
            left_out[usize::from(user.len() % 3 == 0)] += usize::from(one.is_empty());
            lengths.insert(user.len());
            for (at, z) in one {
                expected[at] += z;
            }
        }
        assert!(left_out[0] == 0 && left_out[1] > 500, "{left_out:?}");
        assert!(lengths.len() > 30 && lengths.last() > Some(&40));
        let sum = KroneckerSum::accumulate(&Private::new(data.clone()), grid(), &contribution);
        assert!(sum.unwrap().sums() == expected, "{dim} {rank}");
    }
}

#[test]
fn nobody_exceeds_the_bound_and_honest_users_reach_it() {
    let bound = u128::from(grid().grid().l2_bound()).pow(2);
    for hostile in [false, true] {
        let (mut n_admitted, mut largest) = (0, 0);
        for (dim, rank) in [(1, 1), (4, 2), (7, 3)] {
            let contribution = drawn(dim, rank, hostile);
            for user in table(2_000, 20, 3, 8).users() {
                let one = kronecker_contribution(&grid(), &contribution, user).unwrap();
                let norm = squared_norm(dim * rank, &one);
                assert!(norm <= bound, "{dim} {rank}");
                largest = largest.max(norm);
                n_admitted += usize::from(!one.is_empty());
                assert!(
                    hostile || user.is_empty() || !one.is_empty(),
                    "honest, and left out"
                );
            }
        }
        assert!(n_admitted > if hostile { 5 } else { 1_000 }, "{n_admitted}");
        if !hostile {
            assert!(
                largest as f64 > 0.99999 * bound as f64,
                "{largest} of {bound}"
            );
        }
    }
}

/// Traces just below and just above the bound, to the last unit.
#[test]
fn the_check_is_exact_to_the_last_unit() {
    let d = u128::from(grid().grid().l2_bound());
    let shift = 43 + 48 - grid().grid().l2_bound().ilog2();
    let most = u64::try_from((d << shift) >> 48).unwrap();
    for side in [1_usize, 100, 1024] {
        // N + side 2^s <= D 2^s
        let rounding = u64::try_from(((side as u128) << shift) >> 48).unwrap();
        let admits = |norm| grid().admits(norm, 1 << 48, side);
        assert!(admits(most - rounding) && !admits(most - rounding + 1) && !admits(u64::MAX));
    }
}

#[test]
fn users_at_the_bound_are_kept_on_coarse_grids() {
    let contribution = drawn(256, 4, false);
    for multiplier in [1e3, 1e6, 3e7, 1e9] {
        let grid = KroneckerGrid::new(multiplier, 0.7).unwrap();
        let bound = u128::from(grid.grid().l2_bound()).pow(2);
        for user in table(50, 20, 3, 8).users().filter(|u| !u.is_empty()) {
            let one = kronecker_contribution(&grid, &contribution, user).unwrap();
            let norm = squared_norm(1024, &one);
            assert!(norm > 0 && norm <= bound, "{multiplier}");
        }
    }
}

#[test]
fn releases_of_neighbours_differ_by_one_contribution() {
    let data = table(50, 20, 3, 3);
    let contribution = drawn(3, 2, false);
    let release = |data: &Private<Interactions>| {
        let spend = spends(&[(3.0, ReplaceFactor::Two, 21)]).remove(0);
        let sum = KroneckerSum::accumulate(data, grid(), &contribution).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(2);
        sum.release(OffDiagonalNoise::Isometric, spend, noise)
            .unwrap()
    };
    let whole = release(&Private::new(data.clone()));
    assert!(whole.is_insecure());
    for gone in [0, 7, 49] {
        let part = release(&without_user(&data, gone));
        let change = whole.integers().iter().zip(part.integers());
        let change: Vec<_> = (change.map(|(a, b)| a.wrapping_sub(*b)).enumerate())
            .filter(|&(_, z)| z != 0)
            .collect();
        let one = kronecker_contribution(&grid(), &contribution, data.user(gone)).unwrap();
        assert!(change == one);
    }
}

#[test]
fn both_kinds_of_noise_have_their_scale() {
    let data = Private::new(table(3, 5, 2, 1));
    let contribution = drawn(107, 1, false); // 107 * 108 / 2 coordinates
    let n_runs = DRAWS_FOR_ONE_PERCENT.div_ceil(5_778);
    let sigma = grid().grid().sigma() as f64;
    let root = std::f64::consts::SQRT_2;
    for (kind, off) in [
        (OffDiagonalNoise::Isometric, sigma / root),
        (OffDiagonalNoise::Full, sigma),
    ] {
        let (mut released, mut exact) = (Vec::new(), Vec::new());
        for _ in 0..n_runs {
            let spend = spends(&[(3.0, ReplaceFactor::Two, 5_778)]).remove(0);
            let sum = KroneckerSum::accumulate(&data, grid(), &contribution).unwrap();
            exact.extend_from_slice(sum.sums());
            let noise = &mut NoiseSource::operating_system();
            released.extend_from_slice(sum.release(kind, spend, noise).unwrap().integers());
        }
        let mut scales = vec![off; 5_778];
        (0..107).for_each(|a| scales[dp_linalg::packed_index(107, a, a)] = sigma);
        let score = variance_score(&released, &exact, |at| scales[at % 5_778]);
        assert!(score.abs() < LEVEL_1E_9, "{kind:?}: {score}");
    }
}

#[test]
fn spends_and_shapes_are_checked() {
    let data = Private::new(table(3, 5, 2, 1));
    let pay = |z, factor, draws| spends(&[(z, factor, draws)]).remove(0);
    for (spend, fine) in [
        (pay(3.0, ReplaceFactor::Two, 21), true),
        (pay(3.0, ReplaceFactor::Two, 20), false),
        (pay(3.1, ReplaceFactor::Two, 21), false),
        (pay(3.0, ReplaceFactor::SqrtTwo, 21), false),
    ] {
        let sum = KroneckerSum::accumulate(&data, grid(), &drawn(3, 2, false)).unwrap();
        let noise = &mut NoiseSource::operating_system();
        let released = sum.release(OffDiagonalNoise::Full, spend, noise);
        assert_eq!(released.is_ok(), fine);
    }
    for (dim, rank) in [(0, 1), (1, 0), (513, 2)] {
        assert!(KroneckerSum::accumulate(&data, grid(), &drawn(dim, rank, false)).is_err());
    }
    assert!(KroneckerGrid::new(0.0, 1.0).is_err() && KroneckerGrid::new(1.0, f64::NAN).is_err());
}
