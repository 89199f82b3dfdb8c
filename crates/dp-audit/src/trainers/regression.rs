use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, Private};
use dp_mechanism::{NoiseSource, Run, Trainer as _};
use dp_multitask::{MultiTaskNoisyGd, MultiTaskSsp, ResidualSsp};

use super::failed;
use super::observe::Views;
use crate::view::View;
use crate::{Result, Trainer};

/// A multi-task regression (`dp-multitask`) under audit.
///
/// The exact sums come from the trainer's own account of what each user adds, one user at a time: the
/// audit shows that what is released is their sum with the noise paid for, and that no user adds
/// more than that noise covers.
#[derive(Debug, Clone)]
pub struct AuditedRegression {
    fit: Regression,
    plan: Plan,
}

/// The methods there are.
#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "one of them exists for the length of an audit"
)]
pub enum Regression {
    /// Perturbed sufficient statistics.
    Ssp(MultiTaskSsp),
    /// Noisy gradient descent.
    NoisyGd(MultiTaskNoisyGd),
    /// Perturbed residual statistics.
    Residual(ResidualSsp),
}

impl AuditedRegression {
    /// A fit over `n_tasks`, calibrated to `target` for adding or removing one user.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the fit cannot be planned.
    pub fn new(fit: Regression, n_tasks: usize, target: ApproxDp) -> Result<Self> {
        let adjacency = Adjacency::AddRemoveUser;
        let plan = match &fit {
            Regression::Ssp(fit) => fit.plan(n_tasks, target, adjacency),
            Regression::NoisyGd(fit) => fit.plan(n_tasks, target, adjacency),
            Regression::Residual(fit) => fit.plan(n_tasks, target, adjacency),
        };
        let plan = plan.map_err(failed)?;
        Ok(Self { fit, plan })
    }

    /// The plan of a run.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl Trainer for AuditedRegression {
    fn claim(&self) -> (ApproxDp, Gdp) {
        super::claim(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>> {
        let budget = Budget::new(self.plan.target(), Adjacency::AddRemoveUser)?;
        let spends: Vec<Spend> = Ledger::in_memory("audit", budget)?.reserve(&self.plan)?;
        let mut seen = Views::of(data.expose(), canaries);
        let run = Run::new(&self.plan, spends, noise)?.observed_by(&mut seen);
        let fitted = match &self.fit {
            Regression::Ssp(fit) => fit.run(data, run),
            Regression::NoisyGd(fit) => fit.run(data, run),
            Regression::Residual(fit) => fit.run(data, run),
        };
        fitted.map_err(failed)?;
        seen.all(self.plan.releases().len())
    }
}
