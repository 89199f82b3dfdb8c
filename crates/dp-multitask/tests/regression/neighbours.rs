//! Releases of a table and of the table without one user.

use dp_accounting::{Plan, ReleaseRequest, Spend};
use dp_core::{Interactions, InteractionsBuilder, Private, ReplaceFactor};
use dp_mechanism::{GramSums, Grid, NoiseSource, VectorContribution, VectorSum};
use dp_multitask::{
    BudgetAllocation, GradientClip, PooledGramian, RegressionLoss, SspStatistics, TaskCounts,
    WeightTotals, WeightedGradients,
};

use crate::support::{ADJACENCY, DIM, TARGET, TASKS, counts, hostile_users, pay, setup};

fn without(data: &Interactions, gone: usize) -> Private<Interactions> {
    let mut builder = InteractionsBuilder::new(data.n_items()).with_feature_dim(data.feature_dim());
    for (user, row) in (0..).zip(data.users().enumerate().filter(|(user, _)| *user != gone)) {
        builder.set_features(user, row.1.features()).unwrap();
        for (task, value) in row.1.iter() {
            builder.push(user, task, value).unwrap();
        }
    }
    Private::new(builder.build().0)
}

fn spends(requests: &[(ReplaceFactor, u64)]) -> Vec<Spend> {
    let requests: Vec<_> = requests
        .iter()
        .map(|&(factor, n)| ReleaseRequest::new("x", 1.0, factor, n))
        .collect();
    pay(&Plan::calibrate(TARGET, ADJACENCY, &requests).unwrap())
}

/// The same noise on both tables cancels in integers, and what is left is one user's share.
#[test]
fn releases_of_neighbours_differ_by_one_bounded_share() {
    let data = Private::new(hostile_users());
    let setup = setup(BudgetAllocation::adaptive(
        0.5,
        TaskCounts::Public { values: counts() },
    ));
    let weights = setup.allocation.weights(TASKS, None).unwrap();
    let statistics = SspStatistics::new(&setup, &weights);
    let grams = |table: &Private<Interactions>| {
        let mut paid = spends(&[
            (ReplaceFactor::SqrtTwo, GramSums::matrix_draws(TASKS, DIM)),
            (ReplaceFactor::Two, GramSums::rhs_draws(TASKS, DIM)),
        ]);
        let (rhs, matrix) = (paid.pop().unwrap(), paid.pop().unwrap());
        let z = (
            matrix.noise_multiplier().unwrap(),
            rhs.noise_multiplier().unwrap(),
        );
        let grids = statistics.grids(z.0, z.1).unwrap();
        let sums = GramSums::accumulate(table, grids, &statistics).unwrap();
        let released = sums
            .release(matrix, rhs, &mut NoiseSource::insecure_seeded(3))
            .unwrap();
        (grids, released)
    };
    let (grids, whole) = grams(&data);
    for user in 0..data.expose().n_users() {
        let (_, part) = grams(&without(data.expose(), user));
        let moved = |a: &[i64], b: &[i64], weight: &dyn Fn(usize) -> u128| -> u128 {
            let pairs = a.iter().zip(b).enumerate();
            pairs
                .map(|(at, (a, b))| weight(at) * u128::from(a.abs_diff(*b)).pow(2))
                .sum()
        };
        // packed triangle of 3 by 3: places 0, 3 and 5 are the diagonal
        let twice = |at: usize| if matches!(at % 6, 0 | 3 | 5) { 1 } else { 2 };
        let matrix = moved(whole.matrix_integers(), part.matrix_integers(), &twice);
        let rhs = moved(whole.rhs_integers(), part.rhs_integers(), &|_| 1);
        assert!(matrix <= u128::from(grids.matrix().l2_bound()).pow(2));
        assert!(rhs <= u128::from(grids.rhs().l2_bound()).pow(2));
        assert!(matrix > 0 || user == 3 || user == 5);
    }
    let gradients = WeightedGradients {
        setup: &setup,
        weights: &weights,
        loss: &RegressionLoss::Logistic,
        coefficients: &vec![0.2; TASKS * DIM],
        gradient_norm: 0.2,
        clip: GradientClip::Joint,
    };
    check_vector(&data, TASKS * DIM, 0.2, &gradients);
    check_vector(
        &data,
        TASKS,
        1.0,
        &WeightTotals {
            dim: DIM,
            weights: &weights,
        },
    );
    let pooled = PooledGramian { setup: &setup };
    check_vector(&data, DIM * (DIM + 1) / 2 + 1, pooled.clip_norm(), &pooled);
}

fn check_vector(
    data: &Private<Interactions>,
    n: usize,
    clip_norm: f64,
    contribution: &impl VectorContribution,
) {
    let release = |table: &Private<Interactions>| {
        let spend = spends(&[(ReplaceFactor::Two, n as u64)]).remove(0);
        let grid = Grid::new(spend.noise_multiplier().unwrap(), clip_norm).unwrap();
        let sum = VectorSum::accumulate(table, n, grid, contribution).unwrap();
        let released = sum
            .release(spend, &mut NoiseSource::insecure_seeded(4))
            .unwrap();
        (grid, released)
    };
    let (grid, whole) = release(data);
    for user in 0..data.expose().n_users() {
        let (_, part) = release(&without(data.expose(), user));
        let pairs = whole.integers().iter().zip(part.integers());
        let moved: u128 = pairs.map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum();
        assert!(moved <= u128::from(grid.l2_bound()).pow(2), "user {user}");
    }
}
