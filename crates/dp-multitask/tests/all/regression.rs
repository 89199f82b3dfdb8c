//! Private regression of many tasks.

use chacha20::ChaCha20Rng;
use dp_accounting::{Plan, ReleaseRequest, Spend};
use dp_core::{ApproxDp, Interactions, InteractionsBuilder, Private, ReplaceFactor};
use dp_data::{SkewedTasks, TaskData};
use dp_mechanism::{
    GramSums, Grid, NoiseSource, VectorContribution, VectorSum, gram_contribution,
    vector_contribution,
};
use dp_multitask::{
    BudgetAllocation, Error, Fitted, GradientClip, Gramian, Loss, MultiTaskNoisyGdParams,
    MultiTaskSspParams, PooledGramian, RegressionLoss, ResidualSspParams, SspSolve, SspStatistics,
    StepSize, TaskCounts, TaskModels, TaskSetup, TaskWeights, Trainer, UserRule, WeightTotals,
    WeightedGradients,
};
use rand::SeedableRng;

use crate::support::{ADJACENCY, pay};

pub(crate) const DIM: usize = 3;
pub(crate) const TASKS: usize = 20;

pub(crate) fn counts() -> Vec<f64> {
    (0..TASKS).map(|task| 1.0 + (task * task) as f64).collect()
}

pub(crate) fn allocations() -> Vec<BudgetAllocation> {
    let public = || TaskCounts::Public { values: counts() };
    let rule = UserRule::Clip {
        n_users: 500.0,
        concentration: 0.5,
    };
    vec![
        BudgetAllocation::equal(),
        BudgetAllocation::adaptive(0.5, public()),
        BudgetAllocation::adaptive(1.0, public()),
        BudgetAllocation::UniformSampling {
            tasks_per_user: 4,
            seed: 1,
            rule: UserRule::Normalise,
        },
        BudgetAllocation::TailSampling {
            tasks_per_user: 4,
            counts: public(),
            rule,
        },
        BudgetAllocation::AdaptiveWeights {
            exponent: 0.25,
            counts: Some(public()),
            slack: 2.0,
            floor: 3.0,
            rule,
        },
    ]
}

pub(crate) fn setup(allocation: BudgetAllocation) -> TaskSetup {
    TaskSetup {
        feature_norm: 0.7,
        label_bound: 2.0,
        label_norm: 1.1,
        allocation,
        ..TaskSetup::unit_ball(DIM)
    }
}

/// Adversarial users: huge, tiny, not finite, with all tasks or one.
pub(crate) fn hostile_users() -> Interactions {
    let rows: [(&[f32], f32, usize); 7] = [
        (&[1e30, -1e30, 1e30], 1e30, TASKS),
        (&[f32::MAX, f32::MAX, f32::MAX], f32::MAX, TASKS),
        (&[f32::NAN, f32::INFINITY, 5.0], -1e9, TASKS),
        (&[0.0; 3], 1e9, TASKS),
        (&[0.4, 0.4, 0.4], 3.0, 1),
        (&[1e-30, 0.0, 0.0], 1.0, TASKS),
        (&[0.1, -0.2, 0.3], 1e-20, 7),
    ];
    let mut builder = InteractionsBuilder::new(TASKS).with_feature_dim(DIM);
    for (user, (features, label, n)) in (0..).zip(rows) {
        builder.set_features(user, features).unwrap();
        for task in 0..n {
            let sign = if task % 3 == 0 { -1.0 } else { 1.0 };
            let task = u32::try_from(task).unwrap();
            builder.push(user, task, sign * label).unwrap();
        }
    }
    builder.build().0
}

pub(crate) const TARGET: ApproxDp = ApproxDp {
    epsilon: 2.0,
    delta: 1e-5,
};
pub(crate) fn made(n_users: usize, seed: u64) -> TaskData {
    let set_up = SkewedTasks {
        n_users,
        n_tasks: 8,
        dim: DIM,
        tasks_per_user: 4.0,
        label_noise: 0.0,
        ..SkewedTasks::appendix_c(2.0)
    };
    set_up
        .generate(&mut ChaCha20Rng::seed_from_u64(seed))
        .unwrap()
}

/// The smallest noise that the sampler's allowance permits in a plan.
pub(crate) const LITTLE_NOISE: ApproxDp = ApproxDp {
    epsilon: 40.0,
    delta: 1e-5,
};

/// Exact squared norm of a user's contribution.
fn squared(entries: &[(usize, i64)]) -> u128 {
    let square = |&(_, z): &(usize, i64)| u128::from(z.unsigned_abs()).pow(2);
    entries.iter().map(square).sum()
}

/// Norm divided by bound for every user; a user whom the kernel had to reject shows as 0.
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

/// The regulariser is not part of a user's contribution: a user without features moves no matrix at
/// all, whereas `lambda I` inside the sum would have moved every task of the user.
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

/// The clipping is inside the sum: a user with 20 tasks and large gradients adds `Gamma` in total,
/// whereas clipping the sum over users permits a move of `2 Gamma` in each of the 20 tasks.
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

/// A run with little noise.
fn seeded<T>(trainer: &T, data: &TaskData, seed: u64) -> Fitted<TaskModels>
where
    T: Trainer<Data = Private<Interactions>, Model = TaskModels, Error = Error>,
{
    let plan = trainer.plan(8, LITTLE_NOISE, ADJACENCY).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(seed);
    trainer.fit(&data.train, &plan, pay(&plan), noise).unwrap()
}

/// Largest distance of a coefficient from the non-private solution.
fn distance(found: &TaskModels, data: &TaskData) -> f64 {
    let exact = TaskModels::non_private_ridge(&data.train, 1e-6).unwrap();
    let pairs = found.coefficients().iter().zip(exact.coefficients());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn non_private_ridge_finds_the_truth() {
    let data = made(500, 1);
    let exact = TaskModels::non_private_ridge(&data.train, 1e-6).unwrap();
    for (a, b) in exact.coefficients().iter().zip(&data.coefficients) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn ssp_with_little_noise_is_ridge_regression() {
    let data = made(20_000, 2);
    let wide = TaskSetup {
        label_norm: 1.0,
        ..TaskSetup::unit_ball(DIM)
    };
    for solve in [
        MultiTaskSspParams::new(wide.clone()).solve,
        SspSolve::PseudoInverse,
    ] {
        let params = MultiTaskSspParams {
            solve,
            ..MultiTaskSspParams::new(wide.clone())
        };
        let fitted = seeded(&params.check().unwrap(), &data, 5);
        let found = distance(&fitted.model, &data);
        assert!(found < 0.01, "{solve:?} {found}");
        assert!(!fitted.certificate.verify().unwrap().is_private(), "seeded");
    }
}

#[test]
fn residual_steps_close_in_on_ridge_regression() {
    let data = made(20_000, 3);
    for gramian in [
        Gramian::Pooled { share: 0.02 },
        Gramian::PerTask { share: 0.1 },
    ] {
        let params = ResidualSspParams {
            gramian,
            n_steps: 14,
            ..ResidualSspParams::new(TaskSetup::unit_ball(DIM))
        };
        let fitted = seeded(&params.check().unwrap(), &data, 6);
        let found = distance(&fitted.model, &data);
        // the last bound is 7e-5 of that of the labels: far more accurate than a single release of
        // the labels
        assert!(found < 2e-4, "{gramian:?} {found}");
    }
}

#[test]
fn noisy_gradient_descent_with_little_noise_finds_the_minimum() {
    let data = made(20_000, 4);
    let start = || MultiTaskNoisyGdParams {
        n_steps: 30,
        ..MultiTaskNoisyGdParams::new(TaskSetup::unit_ball(DIM))
    };
    let strongly_convex = StepSize::StronglyConvex { convexity: 0.3 };
    // steps that shrink as 1/t cannot cover the distance with a small clipping norm
    for (step_size, gradient_norm) in [(start().step_size, 0.15), (strongly_convex, 0.6)] {
        let params = MultiTaskNoisyGdParams {
            step_size,
            gradient_norm,
            ..start()
        };
        let fitted = seeded(&params.check().unwrap(), &data, 7);
        let found = distance(&fitted.model, &data);
        assert!(found < 0.02, "{step_size:?} {found}");
    }
}

/// Absolute error, a loss that the crate does not provide.
struct AbsoluteError;

impl Loss for AbsoluteError {
    fn value(&self, theta: &[f64], x: &[f64], y: f64) -> f64 {
        (theta.iter().zip(x).map(|(t, x)| t * x).sum::<f64>() - y).abs()
    }

    fn gradient(&self, theta: &[f64], x: &[f64], y: f64, out: &mut [f64]) {
        let error = theta.iter().zip(x).map(|(t, x)| t * x).sum::<f64>() - y;
        for (out, x) in out.iter_mut().zip(x) {
            *out = error.signum() * x;
        }
    }
}

#[test]
fn other_losses_and_schedules_lower_their_loss() {
    let data = made(5_000, 5);
    let losses: [&dyn Loss; 3] = [
        &RegressionLoss::Huber { threshold: 0.1 },
        &RegressionLoss::Logistic,
        &AbsoluteError,
    ];
    for loss in losses {
        let params = MultiTaskNoisyGdParams {
            step_size: StepSize::Lipschitz,
            gradient_norm: 0.5,
            n_steps: 20,
            ..MultiTaskNoisyGdParams::new(TaskSetup::unit_ball(DIM))
        };
        let fit = params.check().unwrap();
        let fitted = seeded(&fit.with_loss(loss), &data, 8);
        let total = |theta: &[f64]| -> f64 {
            let of_row = |row: dp_core::UserRow<'_>| -> f64 {
                let x: Vec<f64> = row.features().iter().map(|&x| x.into()).collect();
                let one = |(task, y): (u32, f32)| {
                    loss.value(&theta[task as usize * DIM..][..DIM], &x, y.into())
                };
                row.iter().map(one).sum()
            };
            data.train.expose().users().map(of_row).sum()
        };
        let (before, after) = (total(&[0.0; 8 * DIM]), total(fitted.model.coefficients()));
        assert!(after < 0.8 * before, "{before} {after}");
    }
}

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

/// The same noise on both tables cancels in integers, and the difference is one user's
/// contribution.
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
        // packed triangle of 3 by 3: positions 0, 3 and 5 are the diagonal
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

#[test]
fn counts_are_released_once_where_the_weights_need_them() {
    let data = made(3_000, 6);
    let released = TaskCounts::Released {
        share: 0.1,
        clip_norm: 3.0,
    };
    let setup = TaskSetup {
        allocation: BudgetAllocation::adaptive(0.5, released),
        ..TaskSetup::unit_ball(DIM)
    };
    let fit = ResidualSspParams::new(setup).check().unwrap();
    let plan = fit.plan(8, TARGET, ADJACENCY).unwrap();
    assert_eq!(plan.releases()[0].label(), "task counts");
    let z = plan.releases()[0].noise_multiplier().unwrap();
    let mu_squared = plan.mu_squared().unwrap();
    assert!((1.0 / (z * z) / mu_squared - 0.1).abs() < 1e-9);
    let mut noise = NoiseSource::operating_system();
    let fitted = fit.fit(&data.train, &plan, pay(&plan), &mut noise).unwrap();
    assert!(
        fitted
            .model
            .counts()
            .is_some_and(|counts| counts.values().len() == 8)
    );
    assert!(fitted.certificate.verify().unwrap().is_private());
}

#[test]
fn tables_plans_and_spends_must_belong_together() {
    let data = made(200, 7);
    let fit = MultiTaskSspParams::new(TaskSetup::unit_ball(DIM))
        .check()
        .unwrap();
    let plan = fit.plan(8, TARGET, ADJACENCY).unwrap();
    let mut noise = NoiseSource::operating_system();
    let other = fit.plan(9, TARGET, ADJACENCY).unwrap();
    let mut few = pay(&plan);
    few.pop();
    let longer = MultiTaskSspParams::new(TaskSetup::unit_ball(DIM + 1));
    let longer = longer.check().unwrap();
    for (fit, plan, spends) in [
        (&fit, &other, pay(&other)),
        (&fit, &plan, few),
        (&longer, &plan, pay(&plan)),
    ] {
        assert!(fit.fit(&data.train, plan, spends, &mut noise).is_err());
    }
}

fn assert_finite<T>(trainer: &T, data: &Private<Interactions>)
where
    T: Trainer<Data = Private<Interactions>, Model = TaskModels, Error = Error>,
{
    let plan = trainer.plan(TASKS, TARGET, ADJACENCY).unwrap();
    let noise = &mut NoiseSource::operating_system();
    let fitted = trainer.fit(data, &plan, pay(&plan), noise).unwrap();
    assert!(fitted.model.coefficients().iter().all(|c| c.is_finite()));
}

#[test]
fn a_table_of_hostile_users_or_of_nobody_is_fitted() {
    let nobody = InteractionsBuilder::new(TASKS)
        .with_feature_dim(DIM)
        .build()
        .0;
    for table in [nobody, hostile_users()] {
        let data = Private::new(table);
        let setup = setup(BudgetAllocation::equal());
        // bounds that end at 1e-18 of the first leave the solves with almost no ridge
        let long = ResidualSspParams {
            n_steps: 60,
            ..ResidualSspParams::new(setup.clone())
        };
        assert_finite(&long.check().unwrap(), &data);
        let descent = MultiTaskNoisyGdParams::new(setup.clone());
        assert_finite(&descent.check().unwrap(), &data);
        assert_finite(&MultiTaskSspParams::new(setup).check().unwrap(), &data);
    }
}

#[test]
fn settings_survive_serialisation_and_bad_ones_are_refused() {
    let setup = TaskSetup {
        allocation: allocations().remove(4),
        ..TaskSetup::unit_ball(DIM)
    };
    let params = MultiTaskNoisyGdParams::new(setup.clone());
    let written = serde_json::to_value(&params).unwrap();
    assert_eq!(
        serde_json::from_value::<MultiTaskNoisyGdParams>(written).unwrap(),
        params
    );
    let params = ResidualSspParams::new(setup.clone());
    let mut written = serde_json::to_value(&params).unwrap();
    let read = |written: &serde_json::Value| serde_json::from_value(written.clone());
    assert_eq!(read(&written).ok(), Some(params));
    written["setup"]["raduis"] = 1.0.into();
    assert!(read(&written).is_err());
    let label_norm = |norm| {
        let setup = TaskSetup {
            label_norm: norm,
            ..setup.clone()
        };
        MultiTaskSspParams::new(setup).setup.label_norm
    };
    assert!((label_norm(0.1) - 0.794_65).abs() < 1e-4 && (label_norm(0.9) - 0.9).abs() < 1e-15);
    for bad in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        let radius = TaskSetup {
            radius: bad,
            ..setup.clone()
        };
        assert!(MultiTaskSspParams::new(radius).check().is_err());
        let share = Gramian::Pooled { share: bad };
        let params = ResidualSspParams {
            gramian: share,
            ..ResidualSspParams::new(setup.clone())
        };
        assert!(params.check().is_err());
        let params = MultiTaskNoisyGdParams {
            gradient_norm: bad,
            ..MultiTaskNoisyGdParams::new(setup.clone())
        };
        assert!(params.check().is_err());
    }
}
