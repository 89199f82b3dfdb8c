//! Payments, targets, generated ratings and observers of runs.

use chacha20::ChaCha20Rng;
use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp};
use dp_data::{LongTailRatings, RatingSplit, SplitFractions, rmse};
use dp_multitask::{FactorModel, Observed, Observer, Progress};
use rand::SeedableRng;

pub(crate) const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

pub(crate) fn target(epsilon: f64) -> ApproxDp {
    ApproxDp::target(epsilon, 1e-5).unwrap()
}

/// The spends of a ledger with exactly the required budget.
pub(crate) fn pay(plan: &Plan) -> Vec<Spend> {
    let budget = Budget::new(plan.target(), ADJACENCY).unwrap();
    let mut ledger = Ledger::in_memory("test", budget).unwrap();
    ledger.reserve(plan).unwrap()
}

/// Generated ratings, split.
pub(crate) fn ratings(n_users: usize, n_items: usize, n_ratings: usize) -> RatingSplit {
    LongTailRatings::new(n_users, n_items, n_ratings)
        .generate(&mut ChaCha20Rng::seed_from_u64(4))
        .unwrap()
        .split(SplitFractions::default(), 1)
        .unwrap()
}

/// RMSE on the test part.
pub(crate) fn error(model: &FactorModel, split: &RatingSplit) -> f64 {
    let pairs = model.predict_held_out(&split.train, &split.test).unwrap();
    rmse(pairs.into_exposed()).unwrap()
}

/// Shows every release to a function.
pub(crate) struct See<F>(pub(crate) F);

impl<F: FnMut(&Observed<'_>)> Observer for See<F> {
    fn release(&mut self, seen: &Observed<'_>) {
        (self.0)(seen);
    }
}

/// Records the progress of a run, release by release.
#[derive(Default)]
pub(crate) struct Steps(pub(crate) Vec<Progress>);

impl Observer for Steps {
    fn progress(&mut self, at: Progress) -> std::ops::ControlFlow<()> {
        self.0.push(at);
        std::ops::ControlFlow::Continue(())
    }
}
