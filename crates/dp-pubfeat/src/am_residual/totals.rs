//! The items' total weights, and the number of users: released once, before all rounds.

use dp_accounting::{Certificate, Plan, ReleaseRequest, Spend};
use dp_core::{Interactions, Private};
use dp_mechanism::WatchedNoise;

use super::FeaturePrior;
use crate::paid::Paid;
use crate::problem::Vectors;
use crate::residual::TotalsContribution;
use crate::run::certify;
use crate::{ProblemSetup, Result, events};

const DEFAULTS: &str = "the rules behind the default settings come from MovieLens-1M";
const UNRATED: &str = "which items are said to be without ratings is public knowledge";

/// What a run releases from, and who pays.
pub(crate) struct Run<'r, 'p> {
    pub(crate) ratings: &'r Private<Interactions>,
    pub(crate) paid: Paid<'p>,
    pub(crate) out: WatchedNoise<'r>,
}

impl<'r, 'p> Run<'r, 'p> {
    /// Nothing released yet; the spends must be those of `requests`.
    pub(crate) fn new(
        setup: &ProblemSetup,
        prior: &FeaturePrior,
        ratings: &'r Private<Interactions>,
        (plan, spends): (&'p Plan, Vec<Spend>),
        requests: &[ReleaseRequest],
        out: WatchedNoise<'r>,
    ) -> Result<Self> {
        setup.unit.check(plan.adjacency())?;
        setup.check_ratings(ratings, prior.n_items())?;
        let paid = Paid::new(plan, &events::wanted(requests), spends)?;
        Ok(Self { ratings, paid, out })
    }

    /// What was released, and what is assumed of the prior.
    pub(crate) fn certify(
        self,
        setup: &ProblemSetup,
        prior: &FeaturePrior,
        output: &str,
    ) -> Result<Certificate> {
        let unrated = prior.has_unrated().then_some(UNRATED);
        let more: Vec<&str> = [DEFAULTS].into_iter().chain(unrated).collect();
        let said = (setup, Vectors::Fitted);
        certify(self.paid, said, (output, &more), self.out.is_insecure())
    }
}

/// Released total weights.
pub(crate) struct Totals {
    /// Of each item as released, 0 and below included.
    pub(crate) released: Vec<f64>,
    /// The same, at least `totals_floor` deviations of the noise.
    pub(crate) items: Vec<f64>,
    /// Standard deviation of the noise in them.
    pub(crate) noise: f64,
    /// Users with items, at least 1.
    pub(crate) n_users: f64,
}

impl Totals {
    pub(crate) fn release(
        setup: &ProblemSetup,
        n_items: usize,
        floor: f64,
        run: &mut Run<'_, '_>,
    ) -> Result<Self> {
        let contribution = TotalsContribution { setup, n_items };
        let spend = run.paid.next()?;
        let shape = (n_items + 1, 1.0);
        let released = run.out.vector(run.ratings, shape, &contribution, spend)?;
        let noise = released.noise_stddev() / TotalsContribution::ITEMS;
        let values = released.values();
        let totals = values[..n_items].iter();
        let released: Vec<f64> = totals
            .map(|total| total / TotalsContribution::ITEMS)
            .collect();
        let n_users = (values[n_items] / TotalsContribution::units()).max(1.0);
        #[cfg(privacy_mutants)]
        let (released, n_users) = (
            crate::mutants::totals(released, &setup.weights, run.ratings),
            crate::mutants::units(n_users, run.ratings),
        );
        Ok(Self {
            items: released
                .iter()
                .map(|total| total.max(floor * noise))
                .collect(),
            released,
            noise,
            n_users,
        })
    }
}
