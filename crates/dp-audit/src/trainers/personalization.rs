use dp_accounting::{Budget, Ledger, Plan, Spend};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, Private};
use dp_mechanism::{NoiseSource, Run, Trainer as _};
use dp_personalize::{AltMin, ResidualAltMin};

use super::failed;
use super::observe::Views;
use super::samples::samples_of;
use crate::view::View;
use crate::{Result, Trainer};

/// A trainer of shared subspaces (`dp-personalize`) under audit, on tables of [`UserSamples`](dp_core::UserSamples).
///
/// As in [`AuditedRegression`](crate::AuditedRegression) the exact sums come from the trainer's own account of what each user adds,
/// one user at a time. Disjoint batches release once each what the plan lists once: all of them are looked at, and a canary is
/// found in its own batch only.
#[derive(Debug, Clone)]
pub struct AuditedPersonalization {
    fit: Personalization,
    plan: Plan,
    n_features: usize,
    max_rows: usize,
}

/// The trainers there are.
#[derive(Debug, Clone)]
pub enum Personalization {
    /// Alternating minimisation, with either embedding step and any start.
    AltMin(AltMin),
    /// Residual refinement.
    Residual(ResidualAltMin),
}

impl AuditedPersonalization {
    /// A fit on at most `max_rows` rows of `n_features` a user, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the fit cannot be planned.
    pub fn new(
        fit: Personalization,
        (n_features, max_rows): (usize, usize),
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Self> {
        let plan = match &fit {
            Personalization::AltMin(fit) => fit.plan(n_features, target, adjacency),
            Personalization::Residual(fit) => fit.plan(n_features, target, adjacency),
        };
        Ok(Self {
            fit,
            plan: plan.map_err(failed)?,
            n_features,
            max_rows,
        })
    }

    /// What one user pays for.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    fn n_accounts(&self) -> usize {
        match &self.fit {
            Personalization::AltMin(fit) => fit.n_accounts(),
            Personalization::Residual(_) => 1,
        }
    }

    /// Releases of a run: those of a batch happen in every batch.
    fn n_releases(&self) -> usize {
        let times = |label: &str| match label.starts_with("step of the own batch") {
            true => self.n_accounts(),
            false => 1,
        };
        let releases = self.plan.releases().iter();
        releases.map(|release| times(release.label())).sum()
    }

    /// The reservations of all accounts, one after the other.
    fn spends(&self) -> Result<Vec<Spend>> {
        let mut spends = Vec::new();
        for account in 0..self.n_accounts() {
            let budget = Budget::new(self.plan.target(), self.plan.adjacency())?;
            let mut ledger = Ledger::in_memory(&format!("audit {account}"), budget)?;
            spends.extend(ledger.reserve(&self.plan)?);
        }
        Ok(spends)
    }
}

impl Trainer for AuditedPersonalization {
    fn claim(&self) -> (ApproxDp, Gdp) {
        super::claim(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>> {
        let (plan, spends) = (&self.plan, self.spends()?);
        let samples = samples_of(data.expose(), self.n_features, self.max_rows)?;
        let mut seen = Views::of(data.expose(), canaries);
        let run = Run::new(plan, spends, noise).map_err(failed)?;
        let run = run.observed_by(&mut seen);
        let fitted = match &self.fit {
            Personalization::AltMin(fit) => fit.run(&samples, run),
            Personalization::Residual(fit) => fit.run(&samples, run),
        };
        fitted.map_err(failed)?;
        seen.all(self.n_releases())
    }
}
