//! The items' total weights, and the number of users: released once, before all rounds.

use dp_core::{Interactions, Private};
use dp_mechanism::WatchedNoise;

use crate::paid::Paid;
use crate::residual::TotalsContribution;
use crate::{ProblemSetup, Result};

/// What a run releases from, and who pays.
pub(crate) struct Run<'r, 'p> {
    pub(crate) ratings: &'r Private<Interactions>,
    pub(crate) paid: Paid<'p>,
    pub(crate) out: WatchedNoise<'r>,
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
        Ok(Self {
            items: released
                .iter()
                .map(|total| total.max(floor * noise))
                .collect(),
            released,
            noise,
            n_users: (values[n_items] / TotalsContribution::units()).max(1.0),
        })
    }
}
