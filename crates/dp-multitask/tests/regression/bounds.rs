//! What one user adds, in exact integers.

use dp_mechanism::{Grid, VectorContribution, gram_contribution, vector_contribution};
use dp_multitask::{
    BudgetAllocation, GradientClip, PooledGramian, RegressionLoss, SspStatistics, TaskWeights,
    WeightTotals, WeightedGradients,
};

use crate::support::{DIM, TASKS, allocations, hostile_users, setup};

/// Exact squared norm of what a user adds.
fn squared(entries: &[(usize, i64)]) -> u128 {
    let square = |&(_, z): &(usize, i64)| u128::from(z.unsigned_abs()).pow(2);
    entries.iter().map(square).sum()
}

/// Norm over bound of every user; a user whom the kernel had to reject shows as 0.
fn shares(grid: Grid, n: usize, contribution: &impl VectorContribution) -> Vec<f64> {
    let users = hostile_users();
    let bound = u128::from(grid.l2_bound()).pow(2);
    let share = |row| {
        let own = squared(&vector_contribution(&grid, n, contribution, row));
        assert!(own <= bound, "{own} above {bound}");
        (own as f64 / bound as f64).sqrt()
    };
    users.users().map(share).collect()
}

#[test]
fn no_user_adds_more_than_the_bound_to_a_vector_and_large_users_reach_it() {
    let coefficients = vec![0.5; TASKS * DIM];
    for allocation in allocations() {
        let setup = setup(allocation);
        let weights = setup.allocation.weights(TASKS, None).unwrap();
        for clip in [GradientClip::Joint, GradientClip::PerTask] {
            let gradients = WeightedGradients {
                setup: &setup,
                weights: &weights,
                loss: &RegressionLoss::Squared,
                coefficients: &coefficients,
                gradient_norm: 0.3,
                clip,
            };
            let found = shares(Grid::new(2.3, 0.3).unwrap(), TASKS * DIM, &gradients);
            assert!(found[0] > 0.7 && found[2] > 0.7, "{clip:?} {found:?}");
            assert!(found[3] == 0.0, "no features, no gradient: {found:?}");
        }
        let totals = WeightTotals {
            dim: DIM,
            weights: &weights,
        };
        let found = shares(Grid::new(2.3, 1.0).unwrap(), TASKS, &totals);
        assert!(found.iter().all(|&f| f > 0.02), "{found:?}");
    }
    let setup = setup(BudgetAllocation::equal());
    let pooled = PooledGramian { setup: &setup };
    let grid = Grid::new(2.3, pooled.clip_norm()).unwrap();
    let found = shares(grid, DIM * (DIM + 1) / 2 + 1, &pooled);
    assert!(found[0] > 0.999 && found[1] > 0.999, "{found:?}");
}

#[test]
fn no_user_adds_more_than_the_bounds_to_the_statistics() {
    for allocation in allocations() {
        let setup = setup(allocation);
        let weights = setup.allocation.weights(TASKS, None).unwrap();
        let statistics = SspStatistics::new(&setup, &weights);
        let grids = statistics.grids(2.3, 3.1).unwrap();
        let mut largest = (0.0_f64, 0.0_f64);
        for row in hostile_users().users() {
            let own = gram_contribution(&grids, &statistics, row).unwrap();
            let (mut matrix, mut rhs) = (0_u128, 0_u128);
            for (x, l) in own.factors.chunks_exact(DIM).zip(&own.labels) {
                let norm: u128 = x.iter().map(|x| u128::from(x.unsigned_abs()).pow(2)).sum();
                matrix += norm * norm;
                rhs += u128::from(l.unsigned_abs()).pow(2) * norm;
            }
            let share = |sum: u128, grid: &Grid| {
                let bound = u128::from(grid.l2_bound()).pow(2);
                assert!(sum <= bound, "{sum} above {bound}");
                (sum as f64 / bound as f64).sqrt()
            };
            largest.0 = largest.0.max(share(matrix, grids.matrix()));
            largest.1 = largest.1.max(share(rhs, grids.rhs()));
        }
        assert!(largest.0 > 0.4 && largest.1 > 0.4, "{largest:?}");
    }
}

/// The regulariser is no part of a user's share: a user without features moves no matrix at all,
/// where `lambda I` inside the sum would have moved every task of the user.
#[test]
fn the_regulariser_is_outside_the_private_sum() {
    let setup = setup(BudgetAllocation::equal());
    let weights = TaskWeights::uniform(TASKS);
    let statistics = SspStatistics::new(&setup, &weights);
    let grids = statistics.grids(2.3, 3.1).unwrap();
    let own = gram_contribution(&grids, &statistics, hostile_users().user(3)).unwrap();
    assert_eq!(own.items.len(), TASKS);
    assert!(own.factors.iter().all(|&x| x == 0));
}

/// The clip is inside the sum: a user with 20 tasks and large gradients adds `Gamma` in all, where
/// the clip of the sum over users allows a move of `2 Gamma` in each of the 20 tasks.
#[test]
fn a_user_with_twenty_tasks_is_clipped_as_one() {
    let setup = setup(BudgetAllocation::equal());
    let weights = TaskWeights::uniform(TASKS);
    for clip in [GradientClip::Joint, GradientClip::PerTask] {
        let gradients = WeightedGradients {
            setup: &setup,
            weights: &weights,
            loss: &RegressionLoss::Squared,
            coefficients: &vec![0.0; TASKS * DIM],
            gradient_norm: 0.3,
            clip,
        };
        let grid = Grid::new(2.3, 0.3).unwrap();
        let own = vector_contribution(&grid, TASKS * DIM, &gradients, hostile_users().user(0));
        let norm = (squared(&own) as f64).sqrt() / grid.l2_bound() as f64;
        assert!(norm > 0.999 && norm <= 1.0, "{norm}");
    }
}
