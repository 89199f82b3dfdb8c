//! The privacy argument of residual rounds, tested on the sums that training makes.

use dp_core::Private;
use dp_mechanism::{Grid, VectorSum, gram_contribution};

use super::tests::{
    N_ITEMS, noisy_counts, params, release_vector, share_of, squared_norm, squared_norms,
    users_of_all_kinds,
};
use super::*;
use crate::TaskWeights;
use crate::regression::GradientClip;

const CLIPS: [GradientClip; 2] = [GradientClip::Joint, GradientClip::PerTask];

fn settings(score_model: ScoreModel, leave_one_out: bool) -> FactorizationParams {
    let mut params = params(1.0);
    params.item_update = ItemUpdate::Residual(ResidualRounds {
        leave_one_out,
        ..ResidualRounds::new()
    });
    params.score_model = score_model;
    params.dim = Some(4);
    params.clip_norm = 0.6;
    params.label_bound = 0.7;
    params
}

/// Every (score model, clip, sampling, coefficients of this size) that the tests use, with the
/// sensitivity stated in the documentation.
fn for_each_setting(
    data: &Private<dp_core::Interactions>,
    mut check: impl FnMut(&ItemResiduals<'_>, f64),
) {
    let counts = noisy_counts(data);
    for (score_model, factor_bound) in [(ScoreModel::Biased, 1.0), (ScoreModel::Plain, 0.6)] {
        for (sampling, leave_one_out) in [
            RecordSampling::All,
            RecordSampling::Uniform {
                records_per_user: 5,
                seed: 3,
            },
            RecordSampling::Tail {
                records_per_user: 5,
            },
        ]
        .into_iter()
        .flat_map(|sampling| [(sampling, false), (sampling, true)])
        {
            for (clip, size) in CLIPS.into_iter().zip([0.5, 1e9]) {
                let fit = settings(score_model, leave_one_out).check().unwrap();
                let weights = TaskWeights::from_counts(&counts, 0.25, 5.0).unwrap();
                let weights = weights.keeping(sampling.selection(Some(&counts)));
                let factors = initial_factors(N_ITEMS, 4, size, 3).unwrap();
                let statistics = fit.statistics(4, &factors, &weights).unwrap();
                let x = fit.coefficients(&factors, 4);
                let residuals = fit.residuals(&statistics, &x, 0.3, clip).unwrap();
                check(&residuals, factor_bound * 0.3);
            }
        }
    }
}

#[test]
fn no_user_moves_the_residual_sums_by_more_than_the_bound_and_none_is_rejected() {
    let data = Private::new(users_of_all_kinds(12));
    for_each_setting(&data, |residuals, sensitivity| {
        let grid = Grid::new(7.0, sensitivity).unwrap();
        let n = residuals.coefficients.len();
        let bound = u128::from(grid.l2_bound()).pow(2);
        let mut largest = 0.0_f64;
        for row in data.expose().users() {
            let squared = squared_norm(&grid, n, residuals, row);
            assert!(squared <= bound);
            // with biases every user has a constant coordinate, and the kernel would drop a user
            // above the bound; ratings at the centre leave no residual around the first factors
            let has_share =
                sensitivity > 0.29 && row.values().iter().any(|y| (y - 3.0).abs() > 0.0);
            assert!(squared > 0 || !has_share);
            largest = largest.max(share_of(squared, &grid));
        }
        assert!(largest > 0.99, "the bound is never reached: {largest}");
    });
}

#[test]
fn the_residual_sums_of_neighbours_differ_by_one_users_share() {
    let table = users_of_all_kinds(13);
    let data = Private::new(table.clone());
    for_each_setting(&data, |residuals, sensitivity| {
        let grid = Grid::new(7.0, sensitivity).unwrap();
        let n = residuals.coefficients.len();
        let release = |table: dp_core::Interactions| {
            let data = Private::new(table);
            release_vector(VectorSum::accumulate(&data, n, grid, residuals).unwrap(), n)
        };
        let with = release(table.clone());
        for gone in [0, 17, 200, 204, 240] {
            let without = table.partition(1, |user, _, _| usize::from(user == gone));
            let without = release(without.unwrap().remove(0));
            let pairs = with.integers().iter().zip(without.integers());
            let moved: u128 = pairs.map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum();
            let one = squared_norm(&grid, n, residuals, table.user(gone));
            assert_eq!(moved, one, "user {gone}");
            assert!(moved <= u128::from(grid.l2_bound()).pow(2));
        }
    });
}

#[test]
fn without_biases_statistics_stay_within_their_smaller_bounds() {
    let table = users_of_all_kinds(14);
    let fit = settings(ScoreModel::Plain, false).check().unwrap();
    let weights = TaskWeights::uniform(N_ITEMS);
    let grids = fit.grids(11.0, 5.5).unwrap();
    // small item factors give long user vectors, which are clipped; large ones give short vectors
    for (size, clipped) in [(0.05, true), (1e6, false)] {
        let factors = initial_factors(N_ITEMS, 4, size, 3).unwrap();
        let statistics = fit.statistics(4, &factors, &weights).unwrap();
        let mut n_full = 0;
        for row in table.users() {
            let one = gram_contribution(&grids, &statistics, row).unwrap();
            let (matrix, rhs) = squared_norms(&one, 3);
            assert!(rhs <= u128::from(grids.rhs().l2_bound()).pow(2));
            let share = share_of(matrix, grids.matrix());
            assert!(share <= 1.0);
            n_full += u32::from(share > 0.99);
        }
        assert_eq!(clipped, n_full > 100, "{n_full} users at the bound");
    }
    // sensitivities F^2 and F B for F = 0.6, B = 0.7
    let step = |grid: &Grid| grid.l2_bound() as f64 * grid.step();
    assert!((step(grids.matrix()) / 0.36 - 1.0).abs() < 1e-5);
    assert!((step(grids.rhs()) / 0.42 - 1.0).abs() < 1e-5);
}

#[test]
fn a_users_residuals_are_those_of_the_documented_formula() {
    // one coordinate: f = 1, so the contribution to item i is w (y - x_i) with w = 1/sqrt(2)
    let mut builder = dp_core::InteractionsBuilder::new(2);
    builder.push(0, 0, 4.0).unwrap();
    builder.push(0, 1, 3.0).unwrap();
    let (table, _) = builder.build();
    let mut params = params(1.0);
    params.dim = Some(1);
    params.label_center = 3.0;
    params.bias_shrinkage = 1e6; // the user bias and the offset are negligible
    params.training_penalties.offset = 1e6;
    let fit = params.check().unwrap();
    let weights = TaskWeights::uniform(2);
    let x = [0.25, 0.5];
    let statistics = fit.statistics(1, &x, &weights).unwrap();
    let grid = Grid::new(1.0, 5.0).unwrap();
    for (bound, clip, expected) in [
        (5.0, GradientClip::Joint, [0.75, -0.5]),
        (5.0, GradientClip::PerTask, [0.75, -0.5]),
        (0.6, GradientClip::PerTask, [0.6, -0.5]),
    ] {
        let residuals = fit.residuals(&statistics, &x, bound, clip).unwrap();
        let sums = dp_mechanism::vector_contribution(&grid, 2, &residuals, table.user(0));
        for (&(_, sum), residual) in sums.iter().zip(expected) {
            let sum = sum as f64 * grid.step();
            assert!((sum - 0.5_f64.sqrt() * residual).abs() < 1e-4, "{sum}");
        }
    }
}
