//! Rounds under a prior by features under audit.

mod items;
mod prior;
mod replay;

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, Private};
use dp_mechanism::{NoiseSource, Observed, Run, Trainer};
use dp_pubfeat::{AmImplicitSsp, AmResidualSsp, FeaturePrior, ItemFeatures, PriorVariances};

use self::prior::Features;
use self::replay::Replay;
use super::ShowTo;
use crate::Result;
use crate::trainers::failed;
use crate::trainers::observe::Views;
use crate::view::View;

/// Alternating minimisation under a prior by features (`dp-pubfeat`) under audit.
///
/// As [`AuditedPublicFeatures`](crate::AuditedPublicFeatures): a run is made once more while it goes on, from its releases, public features and settings. The kernel of the items, their popularity, what rounds say together and the
/// factors of the pooled matrix are the audit's own code, after the formulas of the documentation; the solver and what a user adds at given item vectors are the trainer's.
#[derive(Debug, Clone)]
pub struct AuditedFeatureRounds {
    fit: FeatureRounds,
    prior: FeaturePrior,
    features: Features,
    plan: Plan,
}

/// The fits there are.
#[derive(Debug, Clone)]
pub enum FeatureRounds {
    /// Residuals of ratings.
    Ratings(AmResidualSsp),
    /// Likes.
    Likes(AmImplicitSsp),
}

impl AuditedFeatureRounds {
    /// A fit over items with these features, none of them declared unrated, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the fit cannot be planned.
    pub fn new(
        fit: FeatureRounds,
        features: &ItemFeatures,
        variances: PriorVariances,
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Self> {
        let own = Features::new(features, &variances);
        let prior = FeaturePrior::new(features, variances).map_err(failed)?;
        let plan = match &fit {
            FeatureRounds::Ratings(fit) => fit.plan(prior.n_items(), target, adjacency),
            FeatureRounds::Likes(fit) => fit.plan(prior.n_items(), target, adjacency),
        };
        Ok(Self {
            plan: plan.map_err(failed)?,
            features: own,
            prior,
            fit,
        })
    }

    /// The plan of a run.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One run on a ledger of its own: item vectors, and each release with the exact sums behind it.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the fit fails; [`crate::Error::Shape`] when it does not release what its plan lists, when users do not add what follows from
    /// settings and earlier releases, or when the model does not follow from the releases.
    pub fn run(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<(Vec<f64>, Vec<View>)> {
        let budget = Budget::new(self.plan.target(), self.plan.adjacency())?;
        let spends = Ledger::in_memory("audit", budget)?.reserve(&self.plan)?;
        let tables = [data.expose(), canaries];
        let mut seen = Views::of(tables[0], tables[1]);
        let mut replay = Replay::new(&self.fit, &self.features, tables);
        let mut observer = ShowTo(|one: &Observed<'_>| {
            replay.look(one);
            seen.look(*one);
        });
        let run = Run::new(&self.plan, spends, noise).map_err(failed)?;
        let (run, prior) = (run.observed_by(&mut observer), &self.prior);
        let vectors = match &self.fit {
            FeatureRounds::Ratings(fit) => {
                let fitted = fit.with(prior).run(data, run);
                fitted.map_err(failed)?.model.item_vectors().to_vec()
            }
            FeatureRounds::Likes(fit) => {
                let fitted = fit.with(prior).run(data, run);
                fitted.map_err(failed)?.model.item_vectors().to_vec()
            }
        };
        let views = seen.all(self.plan.releases().len())?;
        replay.finish(&vectors)?;
        Ok((vectors, views))
    }
}

impl crate::Trainer for AuditedFeatureRounds {
    fn claim(&self) -> (ApproxDp, Gdp) {
        crate::trainers::claim(&self.plan)
    }

    fn train(
        &self,
        data: &Private<Interactions>,
        canaries: &Interactions,
        noise: &mut NoiseSource,
    ) -> Result<Vec<View>> {
        Ok(self.run(data, canaries, noise)?.1)
    }
}
