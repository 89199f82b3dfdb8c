//! Spends for tests.

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, ReplaceFactor};

use crate::Result;

/// Spends for Gaussian releases with the given noise multipliers, replace factors and draws, from a
/// ledger that nobody else uses.
///
/// # Errors
/// [`crate::Error::Accounting`] for noise multipliers or draws that no plan takes.
pub fn spends(releases: &[(f64, ReplaceFactor, u64)]) -> Result<Vec<Spend>> {
    let releases = releases
        .iter()
        .map(|&(z, factor, draws)| PlannedRelease::gaussian("audited release", z, factor, draws))
        .collect::<dp_accounting::Result<Vec<_>>>()?;
    let adjacency = Adjacency::AddRemoveUser;
    let plan = Plan::with_noise_multipliers(1e-5, adjacency, releases)?;
    let mut target = plan.target();
    target.epsilon += 1.0;
    let budget = Budget::new(target, adjacency)?;
    Ok(Ledger::in_memory("audit", budget)?.reserve(&plan)?)
}
