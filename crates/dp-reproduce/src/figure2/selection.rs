//! The toy problem for the exponential mechanism.

use dp_accounting::{Budget, Ledger};
use dp_core::{Adjacency, ApproxDp};
use dp_data::SharedSubspace;
use dp_mechanism::NoiseSource;
use dp_personalize::{
    Candidates, ExponentialSelectionParams, Provenance, SelectionLoss, Subspace, Trainer,
};

use super::{DELTA, SEED_STRIDE, generate};
use dp_personal::error::Result;

/// The toy problem for the exponential mechanism: a line in three dimensions, 2,000 users, epsilon
/// 1; the mean of 20 selections from one data set. Quick runs use a tenth of the users and one
/// selection.
pub(super) fn select(adjacency: Adjacency, quick: bool, seed: u64) -> Result<f64> {
    let (n_users, n_draws) = if quick { (200, 1) } else { (2_000, 20) };
    let toy = SharedSubspace {
        n_users,
        dim: 3,
        rank: 1,
        ..SharedSubspace::section_6()
    };
    let data = generate(&toy, seed)?;
    let true_one = Subspace::spanned_by(3, 1, &data.basis, Provenance::NonPrivate)?;
    let loss = SelectionLoss::Explained;
    let params = ExponentialSelectionParams { epsilon: 1.0, loss };
    let selection = params.check(Candidates::net(3, 1, 18)?)?;
    let target = ApproxDp::target(params.epsilon, DELTA)?;
    let plan = selection.plan(toy.dim, target, adjacency)?;
    let mut total = 0.0;
    let mut noise = NoiseSource::insecure_seeded(seed.wrapping_mul(SEED_STRIDE).wrapping_sub(1));
    for _ in 0..n_draws {
        let budget = Budget::schedule(plan.target(), adjacency)?;
        let spends = Ledger::in_memory("made data", budget)?.reserve(&plan)?;
        let fitted = selection.fit(&data.samples, &plan, spends, &mut noise)?;
        total += fitted.model.frobenius_distance(&true_one)?.powi(2);
    }
    Ok(total / f64::from(n_draws))
}
