//! The trainers of dp-pubfeat under audit.

mod dp_sgd;
mod pooled;
mod replay;
mod rounds;

use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, ApproxDp, Gdp, Interactions, Private};
use dp_mechanism::{NoiseSource, Observed, Observer, Run, Trainer};
use dp_pubfeat::{AmSsp, ConvexSsp, Logistic, ResidualSsp, Ssp, StatisticsLearner};

pub use dp_sgd::AuditedDpSgd;
pub use rounds::{AuditedFeatureRounds, FeatureRounds};

use self::replay::Replay;
use super::failed;
use super::observe::Views;
use crate::Result;
use crate::view::View;

/// Shows each release to a function.
struct ShowTo<F>(F);

impl<F: FnMut(&Observed<'_>)> Observer for ShowTo<F> {
    fn release(&mut self, seen: &Observed<'_>) {
        (self.0)(seen);
    }
}

/// A fit of item vectors by statistics (`dp-pubfeat`) under audit.
///
/// What item vectors were at each release is computed here once more, from the releases before it, public settings and a learner of the audit's own; and what each user adds is computed once more
/// from that. A trainer whose users add anything else, or whose last model does not follow from its releases, is refused: one that looks at true counts, a true mean, or exact sums between
/// releases is one. Bugs in code that both sides share (bounds on a user's share, the split of a budget among a user's items) do not show that way; the kernel's bound, canaries and neighbouring
/// tables are for those.
#[derive(Debug, Clone)]
pub struct AuditedPublicFeatures<F> {
    fit: PublicFeatures,
    plan: Plan,
    learner: F,
}

/// The fits there are.
#[derive(Debug, Clone)]
pub enum PublicFeatures {
    /// SSP-c and SSP-i.
    Ssp(Ssp),
    /// The residual form.
    Residual(ResidualSsp),
    /// SSP-convex with the logistic loss.
    Logistic(ConvexSsp),
    /// Alternating minimisation.
    AmSsp(AmSsp),
}

impl<F, L> AuditedPublicFeatures<F>
where
    F: Fn() -> L,
    L: StatisticsLearner + Clone,
{
    /// A fit with a learner that `learner` makes for each run, always the same, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the fit cannot be planned.
    pub fn new(
        fit: PublicFeatures,
        learner: F,
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Self> {
        let n_items = learner().n_items();
        let plan = match &fit {
            PublicFeatures::Ssp(fit) => fit.plan(n_items, target, adjacency),
            PublicFeatures::Residual(fit) => fit.plan(n_items, target, adjacency),
            PublicFeatures::Logistic(fit) => fit.plan(n_items, target, adjacency),
            PublicFeatures::AmSsp(fit) => fit.plan(n_items, target, adjacency),
        };
        Ok(Self {
            plan: plan.map_err(failed)?,
            fit,
            learner,
        })
    }

    /// The plan of a run.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One run on a ledger of its own: what it learned, and each release with the exact sums behind it.
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
        let mut replay = Replay::new(&self.fit, (self.learner)(), tables);
        let mut observer = ShowTo(|one: &Observed<'_>| {
            replay.look(*one);
            seen.look(*one);
        });
        let run = Run::new(&self.plan, spends, noise).map_err(failed)?;
        let run = run.observed_by(&mut observer);
        let learner = (self.learner)();
        let fitted = match &self.fit {
            PublicFeatures::Ssp(fit) => fit.with(learner).run(data, run),
            PublicFeatures::Residual(fit) => fit.with(learner).run(data, run),
            PublicFeatures::Logistic(fit) => fit.with(Logistic, learner).run(data, run),
            PublicFeatures::AmSsp(fit) => fit.with(learner).run(data, run),
        };
        let fitted = fitted.map_err(failed)?;
        let vectors = fitted.model.item_vectors().map_err(failed)?;
        let views = seen.all(self.plan.releases().len())?;
        replay.finish(&vectors)?;
        Ok((vectors, views))
    }
}

impl<F, L> crate::Trainer for AuditedPublicFeatures<F>
where
    F: Fn() -> L,
    L: StatisticsLearner + Clone,
{
    fn claim(&self) -> (ApproxDp, Gdp) {
        super::claim(&self.plan)
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
