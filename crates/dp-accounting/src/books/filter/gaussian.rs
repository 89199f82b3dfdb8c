use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp};

use crate::engines::gdp::{self, from_mu_squared, mu_squared};
use crate::engines::rounding::UpwardSum;
use crate::{Error, Measure, Result};

/// The exact filter for Gaussian mechanisms.
///
/// ```text
/// the next mechanism may run   iff   Σ mu_i^2 (it included) <= mu_B^2
/// ```
///
/// with `mu_B` the largest mu that is (epsilon, delta)-DP for the target. Whatever is run, in
/// whatever order and however the noise was chosen from earlier outputs, all outputs together are
/// `mu_B`-GDP, so nothing is lost against a plan made in advance.
///
/// Sources: Smith, Thakurta, arXiv 2210.17520; Koskela, Tobaben, Honkela, arXiv 2209.15596.
///
/// It counts the ideal mechanisms; a [`crate::Ledger`] also sets delta aside for the sampler.
///
/// # Examples
/// ```
/// use dp_accounting::GaussianFilter;
/// use dp_core::{Adjacency, ApproxDp, DpEvent};
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let mut filter = GaussianFilter::new(target, Adjacency::AddRemoveUser)?;
/// // noise for the whole budget is 3.7306, so four runs at twice that fit and no fifth
/// let step = DpEvent::gaussian(2.0 * 3.7307);
/// for _ in 0..4 {
///     filter.spend(&step)?;
/// }
/// assert!(filter.spend(&step).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianFilter {
    target: ApproxDp,
    adjacency: Adjacency,
    /// Rounded down; see [`covers`](Self::covers).
    mu_squared_budget: f64,
    spent: UpwardSum,
}

impl GaussianFilter {
    /// A filter with all of `target` left.
    ///
    /// # Errors
    /// [`Error::Param`] when the target's epsilon is not finite and positive or its delta does not
    /// lie strictly between 0 and 1.
    pub fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        Ok(Self {
            target,
            adjacency,
            mu_squared_budget: largest_mu_squared(target)?,
            spent: UpwardSum::EMPTY,
        })
    }

    /// Counts `event`, or refuses it and stays as it was.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`]; those of [`gdp::mu_squared`].
    pub fn spend(&mut self, event: &DpEvent) -> Result<()> {
        let cost = self.cost(event)?;
        let mut after = *self;
        after.count(cost);
        if !after.covers() {
            return Err(self.refusal(cost));
        }
        *self = after;
        Ok(())
    }

    /// What has been spent, rounded up.
    #[must_use]
    pub fn spent(&self) -> Gdp {
        from_mu_squared(self.spent.total())
    }

    /// What can still be spent, rounded down: `sqrt(mu_B^2 - mu_spent^2)`.
    #[must_use]
    pub fn remaining(&self) -> Gdp {
        let left = (self.mu_squared_budget - self.spent.total()).next_down();
        Gdp {
            mu: left.max(0.0).sqrt().next_down().max(0.0),
        }
    }

    /// The guarantee that everything together keeps.
    #[must_use]
    pub const fn target(&self) -> ApproxDp {
        self.target
    }

    /// The neighbours that it is for.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// mu^2 of `event`.
    pub(crate) fn cost(&self, event: &DpEvent) -> Result<f64> {
        mu_squared(event, self.adjacency)
    }

    /// Counts a cost whether it fits or not.
    pub(crate) fn count(&mut self, mu_squared: f64) {
        self.spent = self.spent.plus(mu_squared);
    }

    /// Whether what was counted is within the budget. The budget in mu^2 is rounded down, and a
    /// plan at exactly its own guarantee would miss it by that rounding, so near the edge the
    /// certified epsilon of the sum decides. That is still a fixed budget: the largest f64 sum
    /// whose certified epsilon is within the target.
    pub(crate) fn covers(&self) -> bool {
        let total = self.spent.total();
        let epsilon = || gdp::epsilon(from_mu_squared(total).mu, self.target.delta);
        total <= self.mu_squared_budget || epsilon() <= self.target.epsilon
    }

    /// mu^2 spent so far and allowed.
    pub(crate) fn figures(&self) -> (f64, f64) {
        (self.spent.total(), self.mu_squared_budget)
    }

    fn refusal(&self, requested: f64) -> Error {
        let (spent, budget) = self.figures();
        Error::BudgetSpent {
            requested,
            spent,
            budget,
            measure: Measure::MuSquared,
        }
    }
}

/// The largest mu^2 that meets a target, rounded down.
pub(crate) fn largest_mu_squared(target: ApproxDp) -> Result<f64> {
    let mu = gdp::mu_for(target)?;
    Ok((mu * mu).next_down())
}
