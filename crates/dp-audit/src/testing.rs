//! Spends for tests.

use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, Spend};
use dp_core::{Adjacency, DpEvent, ReplaceFactor};

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

/// Pays for one kind of release as often as asked, each time from a ledger of its own: for audits that
/// make the same release many times.
#[derive(Debug, Clone)]
pub struct Payer {
    plan: Plan,
    budget: Budget,
}

impl Payer {
    /// Pays for `event` with `n_draws` noise coordinates.
    ///
    /// # Errors
    /// [`crate::Error::Accounting`] for an event that no plan takes.
    pub fn new(event: DpEvent, n_draws: u64, adjacency: Adjacency) -> Result<Self> {
        let release = PlannedRelease::new("audited release", event, n_draws);
        let plan = Plan::with_noise_multipliers(1e-5, adjacency, vec![release])?;
        // at order 2 a release is cheap to count; its divergence is at most its epsilon, and
        // ln(1/delta) comes on top
        let mut target = plan.target();
        target.epsilon += 20.0;
        let budget = Budget::rdp(target, adjacency, 2.0)?;
        Ok(Self { plan, budget })
    }

    /// One spend.
    ///
    /// # Errors
    /// [`crate::Error::Accounting`], which a new ledger with the plan's own budget does not give.
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
