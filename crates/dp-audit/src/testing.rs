//! Spends for tests.

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, DpEvent, ReplaceFactor};

use crate::Result;

/// Spends for Gaussian releases with the given noise multipliers, replace factors and draws, from a
/// separate ledger.
///
/// # Errors
/// [`crate::Error::Accounting`] for noise multipliers or draws that no plan accepts.
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

/// Provides spends for one kind of release as often as requested, each from a separate ledger: for
/// audits that make the same release many times.
#[derive(Debug, Clone)]
pub struct Payer {
    plan: Plan,
    budget: Budget,
}

impl Payer {
    /// Creates a payer for `event` with `n_draws` noise coordinates.
    ///
    /// # Errors
    /// [`crate::Error::Accounting`] for an event that no plan accepts.
    pub fn new(event: DpEvent, n_draws: u64, adjacency: Adjacency) -> Result<Self> {
        let release = PlannedRelease::new("audited release", event, n_draws);
        let plan = Plan::with_noise_multipliers(1e-5, adjacency, vec![release])?;
        // at order 2 the cost of a release is fast to compute; its divergence is at most its
        // epsilon, and ln(1/delta) is added
        let mut target = plan.target();
        target.epsilon += 20.0;
        let budget = Budget::rdp(target, adjacency, 2.0)?;
        Ok(Self { plan, budget })
    }

    /// One spend.
    ///
    /// # Errors
    /// [`crate::Error::Accounting`], which does not occur for a new ledger with the plan's own
    /// budget.
    pub fn spend(&self) -> Result<Spend> {
        let mut paid = Ledger::in_memory("audit", self.budget)?.reserve(&self.plan)?;
        let nothing = dp_core::ShapeError {
            name: "spends",
            found: 0,
            expected: 1,
        };
        Ok(paid.pop().ok_or(nothing)?)
    }
}
