//! Users, data and payment for the tests.

use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, InteractionsBuilder};
use dp_data::{SkewedTasks, TaskData};
use dp_multitask::{BudgetAllocation, TaskCounts, TaskSetup, UserRule};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

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

/// Users who try to be larger than they may: huge, tiny, not finite, all tasks or one.
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
pub(crate) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

pub(crate) fn pay(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::new(plan.target(), ADJACENCY).unwrap();
    let mut ledger = Ledger::in_memory("test", budget).unwrap();
    ledger.reserve(plan).unwrap()
}

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

/// As little noise as the sampler's allowance lets a plan have.
pub(crate) const LITTLE_NOISE: ApproxDp = ApproxDp {
    epsilon: 40.0,
    delta: 1e-5,
};
