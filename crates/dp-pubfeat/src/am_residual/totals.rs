//! The items' total weights, and the number of users: released once, before all rounds.

use dp_core::{Interactions, Private};
use dp_mechanism::Run;

use crate::residual::TotalsContribution;
use crate::{ProblemSetup, Result};

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
        (users, run): (&Private<Interactions>, &mut Run<'_>),
    ) -> Result<Self> {
        let contribution = TotalsContribution { setup, n_items };
        let released = run.vector(users, (n_items + 1, 1.0), &contribution)?;
        let noise = released.noise_stddev() / TotalsContribution::ITEMS;
        let values = released.values();
        let totals = values[..n_items].iter();
        let released: Vec<f64> = totals
            .map(|total| total / TotalsContribution::ITEMS)
            .collect();
        let n_users = (values[n_items] / TotalsContribution::units()).max(1.0);
        #[cfg(privacy_mutants)]
        let (released, n_users) = (
            crate::mutants::totals(released, &setup.weights, users),
            crate::mutants::units(n_users, users),
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
