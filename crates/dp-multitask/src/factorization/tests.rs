//! The privacy argument of the item step, tested on the statistics that training sums.
#![allow(clippy::disallowed_types, reason = "tests pay for single releases")]

use chacha20::ChaCha20Rng;
use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{
    Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private, ReplaceFactor, UserRow,
};
use dp_mechanism::{
    GramContribution, GramGrids, GramSums, Grid, NoiseSource, VectorContribution, VectorSum,
    gram_contribution, vector_contribution,
};
use rand::{RngExt, SeedableRng};

use super::fit::initial_factors;
use super::item_update::ItemStatistics;
use super::*;
use crate::{CountContribution, NoisyCounts, TaskWeights};

pub(super) const N_ITEMS: usize = 60;
const ITEMS: std::ops::Range<u32> = 0..60;

pub(super) fn params(epsilon: f64) -> FactorizationParams {
    FactorizationParams::adadpals_for_target(ApproxDp::target(epsilon, 1e-5).unwrap())
}

/// Ordinary users, and users who behave adversarially in every way.
pub(super) fn users_of_all_kinds(seed: u64) -> Interactions {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut builder = InteractionsBuilder::new(N_ITEMS);
    for user in 0..200_u32 {
        for _ in 0..rng.random_range(1..40) {
            let item = rng.random_range(ITEMS);
            let stars = [1.0, 2.0, 3.0, 4.0, 5.0][rng.random_range(0..5)];
            builder.push(user, item, stars).unwrap();
        }
    }
    let everything = [
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NAN,
        1e-45,
        0.0,
        -7.5,
        3e30,
    ];
    for (user, value) in (200..).zip(everything) {
        for item in ITEMS {
            builder.push(user, item, value).unwrap(); // one value for all items
        }
        builder.push(user + 20, user % 7, value).unwrap(); // a single rating
        for item in ITEMS {
            let value = everything[(user + item) as usize % everything.len()];
            builder.push(user + 40, item, value).unwrap(); // a mixture
        }
    }
    builder.ensure_users(260);
    builder.build().0
}

fn spends(adjacency: Adjacency, releases: Vec<PlannedRelease>) -> Vec<Spend> {
    let plan = Plan::with_noise_multipliers(1e-5, adjacency, releases).unwrap();
    let mut target = plan.target();
    target.epsilon += 1.0;
    let budget = Budget::new(target, adjacency).unwrap();
    Ledger::in_memory("test", budget)
        .unwrap()
        .reserve(&plan)
        .unwrap()
}

pub(super) fn noisy_counts(data: &Private<Interactions>) -> NoisyCounts {
    let release =
        PlannedRelease::gaussian("counts", 20.0, ReplaceFactor::Two, N_ITEMS as u64).unwrap();
    let spend = spends(Adjacency::AddRemoveUser, vec![release]).remove(0);
    let (grid, votes) = (
        Grid::new(20.0, 10.0).unwrap(),
        CountContribution::new(10.0).unwrap(),
    );
    let sum = VectorSum::accumulate(data, N_ITEMS, grid, &votes).unwrap();
    let released = sum.release(spend, &mut NoiseSource::insecure_seeded(1));
    NoisyCounts::of(&released.unwrap())
}

/// Exact squared norms of what one user adds to matrices and right-hand sides.
pub(super) fn squared_norms(one: &GramContribution, dim: usize) -> (u128, u128) {
    let mut norms = (0, 0);
    for (x, l) in one.factors.chunks_exact(dim).zip(&one.labels) {
        let square: u128 = x.iter().map(|a| u128::from(a.unsigned_abs()).pow(2)).sum();
        norms.0 += square * square;
        norms.1 += u128::from(l.unsigned_abs()).pow(2) * square;
    }
    norms
}

pub(super) fn share_of(square: u128, grid: &Grid) -> f64 {
    (square as f64).sqrt() / grid.l2_bound() as f64
}

/// Every (dim, weights, label bound, grids) that the tests below use.
fn for_each_setting(
    data: &Private<Interactions>,
    mut check: impl FnMut(&ItemStatistics<'_>, &GramGrids, usize),
) {
    let counts = noisy_counts(data);
    for dim in [1, 3, 6] {
        for (exponent, label_bound, scale) in [(0.0, 1.0, 0.3), (0.25, 0.5, 0.3), (1.0, 2.0, 1e6)] {
            let mut params = params(1.0);
            params.label_bound = label_bound;
            let weights = TaskWeights::from_counts(&counts, exponent, 5.0).unwrap();
            let factors = initial_factors(N_ITEMS, dim, scale, 3).unwrap();
            let fit = params.check().unwrap();
            let statistics = fit.statistics(dim, &factors, &weights).unwrap();
            let grids = fit.grids(11.0, 5.5).unwrap();
            check(&statistics, &grids, dim);
        }
    }
}

#[test]
fn no_user_moves_the_statistics_by_more_than_the_bound() {
    let data = Private::new(users_of_all_kinds(5));
    for_each_setting(&data, |statistics, grids, dim| {
        for row in data.expose().users() {
            let one = gram_contribution(grids, statistics, row).unwrap();
            let (matrix, rhs) = squared_norms(&one, dim);
            assert!(matrix <= u128::from(grids.matrix().l2_bound()).pow(2));
            assert!(rhs <= u128::from(grids.rhs().l2_bound()).pow(2));
        }
    });
}

#[test]
fn every_user_uses_the_whole_matrix_budget_and_none_is_rejected() {
    let data = Private::new(users_of_all_kinds(6));
    for_each_setting(&data, |statistics, grids, dim| {
        for row in data.expose().users().filter(|row| !row.is_empty()) {
            let one = gram_contribution(grids, statistics, row).unwrap();
            let share = share_of(squared_norms(&one, dim).0, grids.matrix());
            // a user whose taste vector is zero has only the constant coordinate
            assert!(
                share > 0.95 || (share - 0.0975).abs() < 0.001,
                "share {share}"
            );
        }
    });
}

#[test]
fn the_released_difference_of_neighbours_is_one_users_contribution() {
    let table = users_of_all_kinds(7);
    let data = Private::new(table.clone());
    let counts = noisy_counts(&data);
    let weights = TaskWeights::from_counts(&counts, 0.25, 5.0).unwrap();
    let dim = 3;
    let params = params(1.0);
    let factors = initial_factors(N_ITEMS, dim, 0.3, 3).unwrap();
    let fit = params.check().unwrap();
    let statistics = fit.statistics(dim, &factors, &weights).unwrap();
    let grids = fit.grids(11.0, 5.5).unwrap();
    let release = |data: &Private<Interactions>| {
        let matrix = PlannedRelease::gaussian(
            "matrices",
            11.0,
            ReplaceFactor::SqrtTwo,
            GramSums::matrix_draws(N_ITEMS, dim),
        );
        let draws = GramSums::rhs_draws(N_ITEMS, dim);
        let rhs = PlannedRelease::gaussian("rhs", 5.5, ReplaceFactor::Two, draws);
        let releases = vec![matrix.unwrap(), rhs.unwrap()];
        let mut spends = spends(Adjacency::AddRemoveUser, releases);
        let (rhs, matrix) = (spends.remove(1), spends.remove(0));
        GramSums::accumulate(data, grids, &statistics)
            .unwrap()
            .release(matrix, rhs, &mut NoiseSource::insecure_seeded(9))
            .unwrap()
    };
    let with = release(&data);
    for gone in [0, 17, 200, 201, 204, 220, 240, 247, 259] {
        let mut builder = InteractionsBuilder::new(N_ITEMS);
        for (user, row) in (0..).zip(table.users()) {
            for (item, value) in row.iter().filter(|_| user != gone) {
                builder.push(user, item, value).unwrap();
            }
        }
        let without = release(&Private::new(builder.build().0));
        // equal noise cancels: the difference is S - S', exactly
        let moved = |a: &[i64], b: &[i64]| -> Vec<i64> {
            a.iter().zip(b).map(|(a, b)| a.wrapping_sub(*b)).collect()
        };
        let matrix = moved(with.matrix_integers(), without.matrix_integers());
        let rhs = moved(with.rhs_integers(), without.rhs_integers());
        let mut frobenius = 0_u128;
        for packed in matrix.chunks_exact(6) {
            for (at, entry) in packed.iter().enumerate() {
                let twice = if matches!(at, 0 | 3 | 5) { 1 } else { 2 };
                frobenius += twice * u128::from(entry.unsigned_abs()).pow(2);
            }
        }
        let squared: u128 = rhs
            .iter()
            .map(|b| u128::from(b.unsigned_abs()).pow(2))
            .sum();
        let one = gram_contribution(&grids, &statistics, table.user(gone as usize)).unwrap();
        assert_eq!((frobenius, squared), squared_norms(&one, dim));
        assert!(frobenius <= u128::from(grids.matrix().l2_bound()).pow(2));
        assert!(squared <= u128::from(grids.rhs().l2_bound()).pow(2));
    }
}

#[test]
fn a_users_contribution_ignores_all_other_users() {
    let table = users_of_all_kinds(8);
    let alone = table
        .partition(1, |user, _, _| usize::from(user != 3))
        .unwrap()
        .remove(0);
    let data = Private::new(table.clone());
    for_each_setting(&data, |statistics, grids, _| {
        let among_others = gram_contribution(grids, statistics, table.user(3)).unwrap();
        let by_itself = gram_contribution(grids, statistics, alone.user(3)).unwrap();
        assert!(among_others == by_itself);
    });
}

/// Exact squared norm of one user's contribution to a vector sum.
pub(super) fn squared_norm<C: VectorContribution>(
    grid: &Grid,
    n: usize,
    sum: &C,
    user: UserRow<'_>,
) -> u128 {
    let entries = vector_contribution(grid, n, sum, user);
    let squares = entries
        .iter()
        .map(|&(_, z)| u128::from(z.unsigned_abs()).pow(2));
    squares.sum()
}

/// Releases a vector sum with the same noise every time.
pub(super) fn release_vector(sum: VectorSum, n: usize) -> dp_mechanism::ReleasedVector {
    let planned = PlannedRelease::gaussian("sum", 7.0, ReplaceFactor::Two, n as u64);
    let spend = spends(Adjacency::AddRemoveUser, vec![planned.unwrap()]).remove(0);
    sum.release(spend, &mut NoiseSource::insecure_seeded(9))
        .unwrap()
}

fn implicit_params() -> FactorizationParams {
    FactorizationParams::implicit_for_target(ApproxDp::target(1.0, 1e-5).unwrap())
}

#[test]
fn no_user_moves_the_implicit_sums_by_more_than_one_and_none_is_rejected() {
    let table = users_of_all_kinds(9);
    let counts = noisy_counts(&Private::new(table.clone()));
    let grid = Grid::new(7.0, 1.0).unwrap();
    let bound = u128::from(grid.l2_bound()).pow(2);
    for (dim, exponent, scale) in [(1, 0.0, 0.3), (4, 0.25, 0.3), (7, 1.0, 1e6)] {
        let weights = TaskWeights::from_counts(&counts, exponent, 5.0).unwrap();
        let factors = initial_factors(N_ITEMS, dim, scale, 3).unwrap();
        let fit = implicit_params().check().unwrap();
        let statistics = fit.statistics(dim, &factors, &weights).unwrap();
        let (packed, all) = (dim * (dim + 1) / 2, dim * N_ITEMS);
        for row in table.users() {
            let gramian = squared_norm(&grid, packed, &UserGramian(&statistics), row);
            let sums = squared_norm(&grid, all, &ImplicitSums(&statistics), row);
            assert!(gramian <= bound && sums <= bound);
            for squared in [gramian, sums] {
                // the full bound, or only that of the constant coordinate if the taste vector is
                // zero
                let share = share_of(squared, &grid);
                let least = 0.0975 - 0.001;
                assert!(row.is_empty() == (squared == 0) && (row.is_empty() || share > least));
            }
        }
    }
}

#[test]
fn without_biases_the_implicit_sums_are_bounded_by_the_clip_norm_and_reach_it() {
    let table = users_of_all_kinds(12);
    let mut params = implicit_params();
    params.score_model = ScoreModel::Plain;
    (params.dim, params.clip_norm) = (Some(4), 0.3);
    if let Feedback::Implicit(implicit) = &mut params.feedback {
        implicit.item_gramian = ItemGramian::PerItem;
    }
    let fit = params.check().unwrap();
    let weights = TaskWeights::uniform(N_ITEMS);
    let factors = initial_factors(N_ITEMS, 4, 0.3, 3).unwrap();
    let statistics = fit.statistics(4, &factors, &weights).unwrap();
    let grids = fit.grids(7.0, 7.0).unwrap();
    let of_gramian = Grid::new(7.0, 0.09).unwrap();
    let mut most = [0.0_f64; 3];
    for row in table.users() {
        let (matrix, rhs) = squared_norms(&gram_contribution(&grids, &statistics, row).unwrap(), 3);
        let gramian = squared_norm(&of_gramian, 6, &UserGramian(&statistics), row);
        let squares = [
            (matrix, grids.matrix()),
            (rhs, grids.rhs()),
            (gramian, &of_gramian),
        ];
        for (most, (square, grid)) in most.iter_mut().zip(squares) {
            let share = share_of(square, grid);
            assert!(share <= 1.0 && row.is_empty() == (square == 0), "{share}");
            *most = most.max(share);
        }
    }
    assert!(most.iter().all(|&most| most > 0.999), "{most:?}");
}

#[test]
fn the_gramian_of_neighbours_differs_by_one_user_who_has_factor_norm_one() {
    let table = users_of_all_kinds(10);
    let (dim, packed) = (3, 6);
    let weights = TaskWeights::uniform(N_ITEMS);
    let factors = initial_factors(N_ITEMS, dim, 0.3, 3).unwrap();
    let fit = implicit_params().check().unwrap();
    let statistics = fit.statistics(dim, &factors, &weights).unwrap();
    let contribution = UserGramian(&statistics);
    let grid = Grid::new(7.0, 1.0).unwrap();
    let release = |table: &Interactions| {
        let data = Private::new(table.clone());
        let sum = VectorSum::accumulate(&data, packed, grid, &contribution).unwrap();
        release_vector(sum, packed)
    };
    let with = release(&table);
    for gone in [0, 17, 200, 204, 240] {
        let without = table
            .partition(1, |user, _, _| usize::from(user == gone))
            .unwrap()
            .remove(0);
        let without = release(&without);
        let one = vector_contribution(&grid, packed, &contribution, table.user(gone));
        let moved = with.integers().iter().zip(without.integers());
        let moved: Vec<i64> = moved.map(|(a, b)| a.wrapping_sub(*b)).collect();
        let mut expected = vec![0; packed];
        one.iter().for_each(|&(at, z)| expected[at] = z);
        assert_eq!(moved, expected);
        let squared: u128 = moved
            .iter()
            .map(|z| u128::from(z.unsigned_abs()).pow(2))
            .sum();
        assert!(squared > 0 && squared <= u128::from(grid.l2_bound()).pow(2));
        // the trace of f f^T is the squared norm of the factor
        let trace = (moved[0] + moved[3] + moved[5]) as f64 * grid.step();
        assert!((trace - 1.0).abs() < 1e-3, "user {gone}: {trace}");
    }
}

#[test]
fn the_gramian_spend_must_not_be_one_for_psd_sums() {
    let data = Private::new(users_of_all_kinds(11));
    let weights = TaskWeights::uniform(N_ITEMS);
    let factors = initial_factors(N_ITEMS, 2, 0.3, 3).unwrap();
    let fit = implicit_params().check().unwrap();
    let statistics = fit.statistics(2, &factors, &weights).unwrap();
    let grid = Grid::new(7.0, 1.0).unwrap();
    let sum = VectorSum::accumulate(&data, 3, grid, &UserGramian(&statistics)).unwrap();
    let planned = PlannedRelease::gaussian("G", 7.0, ReplaceFactor::SqrtTwo, 3).unwrap();
    let spend = spends(Adjacency::AddRemoveUser, vec![planned]).remove(0);
    assert!(
        sum.release(spend, &mut NoiseSource::insecure_seeded(1))
            .is_err()
    );
}

#[test]
#[ignore = "needs the real data sets; see CONTRIBUTING.md"]
fn real_data_movielens_1m_users_stay_within_the_bounds() {
    let folder = std::env::var_os("DP_DATA").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        Into::into,
    );
    let path = folder.join("ml-1m/ratings.csv.gz");
    let ratings = dp_data::read_ratings(&path, &dp_data::RatingsFormat::default())
        .expect("set DP_DATA to the folder of the real data sets");
    let data = ratings.interactions();
    let n_items = ratings.catalogue().len();
    let weights = TaskWeights::uniform(n_items);
    let params = params(5.0);
    let factors = initial_factors(n_items, 5, 0.3, 1).unwrap();
    let fit = params.check().unwrap();
    let statistics = fit.statistics(5, &factors, &weights).unwrap();
    let grids = fit.grids(3.0, 1.5).unwrap();
    for row in data.expose().users() {
        let one = gram_contribution(&grids, &statistics, row).unwrap();
        let (matrix, rhs) = squared_norms(&one, 5);
        assert!(matrix <= u128::from(grids.matrix().l2_bound()).pow(2));
        assert!(rhs <= u128::from(grids.rhs().l2_bound()).pow(2));
        assert!(
            share_of(matrix, grids.matrix()) > 0.99,
            "a user was rejected"
        );
    }
}
