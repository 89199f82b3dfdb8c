//! Deliberate bugs, in `--cfg privacy_mutants` builds only; see `docs/audits.md`.

use dp_core::mutants::{active, pick};
use dp_core::{Interactions, Private, ReplaceFactor};

use crate::{ExampleWeights, ItemNumbers, ProblemSetup, ProtectedUnit, UserStep};

/// Bug: right-hand sides charged as if they were semidefinite.
pub(crate) fn rhs_factor(right: ReplaceFactor) -> ReplaceFactor {
    let wrong = ReplaceFactor::SqrtTwo;
    pick("pubfeat-right-hand-sides-as-semidefinite", right, wrong)
}

/// Bug: the true number of units replaces the released one; returns the factor between them.
pub(crate) fn units(released: f64, data: &Private<Interactions>) -> f64 {
    let exact = data.expose().n_users() as f64;
    pick("pubfeat-matrix-by-the-true-n", released, exact)
}

/// Bug: a sampling probability that makes the mean one over the true number of users, of whom 1000
/// were declared.
pub(crate) fn denominator(q: f64, data: &Private<Interactions>) -> f64 {
    let exact = data.expose().n_users() as f64;
    pick("pubfeat-gradient-by-the-true-n", q, q * exact / 1000.0)
}

/// Bug: ratings centred at their true mean.
pub(crate) fn user_step(right: &UserStep, data: &Private<Interactions>) -> UserStep {
    let (mut step, data) = (*right, data.expose());
    if active("pubfeat-centre-of-the-true-mean") {
        let values = data.users().flat_map(|row| row.values().to_vec());
        let sum: f64 = values.map(f64::from).sum();
        step.label_center = sum / data.n_records().max(1) as f64;
    }
    step
}

/// Bug: weights computed from the true number of users of each item.
pub(crate) fn setup(right: &ProblemSetup, data: &Private<Interactions>) -> ProblemSetup {
    let mut setup = right.clone();
    if active("pubfeat-weights-by-the-true-counts") {
        let items = data.expose().item_major();
        let count = |item| items.item(item).len() as f64;
        let values = (0..items.n_items()).map(count).collect();
        if let Ok(weights) = ExampleWeights::adaptive(ItemNumbers::Public { values }, 0.25) {
            setup.weights = weights;
        }
    }
    setup
}

/// Bug: each of a user's records has the weight of an only record.
pub(crate) fn weights(out: &mut [f64]) {
    if active("pubfeat-weights-unbounded") {
        out.fill(1.0);
    }
}

/// Bug: a round charged for half of a user's contribution.
pub(crate) fn round_norm(right: f64) -> f64 {
    pick("pubfeat-round-charged-by-half", right, 0.5 * right)
}

/// Bug: popularity computed from the true total weights, so that the paid release is not used.
pub(crate) fn totals(
    released: Vec<f64>,
    weights: &ExampleWeights,
    data: &Private<Interactions>,
) -> Vec<f64> {
    if !active("pubfeat-popularity-unpaid") {
        return released;
    }
    let mut exact = vec![0.0; released.len()];
    for row in data.expose().users() {
        let mut own = vec![0.0; row.len()];
        weights.weigh(row, &mut own);
        let each = row.items().iter().zip(own);
        each.for_each(|(&item, w)| exact[item as usize] += w);
    }
    exact
}

/// Bug: users bounded record by record.
pub(crate) fn unit(right: ProtectedUnit) -> ProtectedUnit {
    let wrong = ProtectedUnit::Example;
    pick("pubfeat-users-split-into-records", right, wrong)
}
