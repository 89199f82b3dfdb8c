//! Filters for Gaussian mechanisms: one common budget, or one budget per person.

use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, Private};

use crate::engines::gdp::{self, from_mu_squared, mu_squared};
use crate::engines::rounding::{UpwardSum, mul_up, two_sum};
use crate::{Error, Measure, Result};

/// The exact filter for Gaussian mechanisms.
///
/// ```text
/// the next mechanism may run   iff   Σ mu_i^2 (it included) <= mu_B^2
/// ```
///
/// with `mu_B` the largest mu that is (epsilon, delta)-DP for the target. Whatever mechanisms run,
/// in whatever order and however the noise was chosen from earlier outputs, all outputs together
/// are `mu_B`-GDP, so nothing is lost compared with a plan made in advance.
///
/// Sources: Smith, Thakurta, arXiv 2210.17520; Koskela, Tobaben, Honkela, arXiv 2209.15596.
///
/// The filter counts the ideal mechanisms; a [`crate::Ledger`] also sets delta aside for the
/// sampler.
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
    /// Creates a filter with all of `target` unspent.
    ///
    /// # Errors
    /// [`Error::Param`] if the target's epsilon is not finite and positive or its delta does not
    /// lie strictly between 0 and 1.
    pub fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        Ok(Self {
            target,
            adjacency,
            mu_squared_budget: largest_mu_squared(target)?,
            spent: UpwardSum::EMPTY,
        })
    }

    /// Counts `event`, or rejects it and stays unchanged.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`] and the errors of [`gdp::mu_squared`].
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

    /// The mu^2 of `event`.
    pub(crate) fn cost(&self, event: &DpEvent) -> Result<f64> {
        mu_squared(event, self.adjacency)
    }

    /// Counts a cost, whether or not it fits.
    pub(crate) fn count(&mut self, mu_squared: f64) {
        self.spent = self.spent.plus(mu_squared);
    }

    /// Whether the total so far is within the budget. The budget in mu^2 is rounded down, and a
    /// plan at exactly its own guarantee would miss it by that rounding. So near the limit the
    /// certified epsilon of the sum decides. That is still a fixed budget: the largest f64 sum
    /// whose certified epsilon is within the target.
    pub(crate) fn covers(&self) -> bool {
        let total = self.spent.total();
        let epsilon = || gdp::epsilon(from_mu_squared(total).mu, self.target.delta);
        total <= self.mu_squared_budget || epsilon() <= self.target.epsilon
    }

    /// The mu^2 spent so far and the mu^2 allowed.
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
    Ok((mu * mu).next_down().max(0.0))
}

/// Gives every unit its own Gaussian budget: units that contribute little can take part in more
/// steps.
///
/// Before each step, every unit is charged for what *it* would add, mu = (L2 norm of its own
/// contribution) / (noise standard deviation). A unit whose account would exceed the budget is left
/// out of that step only:
///
/// ```text
/// unit i takes part in step t   iff   Σ_{s <= t, i took part} mu_s(i)^2 + mu_t(i)^2 <= mu_B^2
/// ```
///
/// All outputs together are then `mu_B`-GDP for adding or removing any one unit, under full
/// adaptivity (Koskela, Tobaben, Honkela, arXiv 2209.15596; Feldman, Zrnic, arXiv 2008.11193, for
/// the idea). Under replacement, each account has a quarter of the squared budget. With m the costs
/// of the unit and m' those of its replacement, the neighbours differ by at most m + m' in each
/// step, and
///
/// ```text
/// √(Σ (m_t + m'_t)^2) <= √(Σ m_t^2) + √(Σ m'_t^2) <= mu_B        (Minkowski)
/// ```
///
/// # Privacy
/// **The accounts are private data.** How much a unit has spent, whether it is still active, and
/// how many units are active depend on its records; none of this may be published, logged or used
/// to choose the next step. Therefore the type has no `Debug`, `Clone` or serialisation, costs come
/// in and decisions go out wrapped in [`Private`], and a cost that is not a number leaves its unit
/// out instead of raising an error. The only public facts are the budget and the adjacency. Noise
/// and everything else about a step must be chosen from earlier *outputs* alone.
///
/// ```compile_fail
/// let target = dp_core::ApproxDp::target(1.0, 1e-5).unwrap();
/// let adjacency = dp_core::Adjacency::AddRemoveUser;
/// let filter = dp_accounting::IndividualGaussianFilter::new(target, adjacency, 3).unwrap();
/// println!("{filter:?}"); // does not compile
/// ```
///
/// # Numerics
/// Eight bytes per unit. Every addition is rounded up, so an account exceeds the true value by at
/// most one unit in the last place per step and is never below it.
///
/// # Examples
/// ```
/// use dp_accounting::IndividualGaussianFilter;
/// use dp_core::{Adjacency, ApproxDp, Private};
/// let target = ApproxDp::target(1.0, 1e-5)?; // mu_B = 0.268
/// let mut filter = IndividualGaussianFilter::new(target, Adjacency::AddRemoveUser, 2)?;
/// let costs = Private::new(vec![0.25, 0.01]);
/// let first = filter.admit_all(&costs);
/// let second = filter.admit_all(&costs);
/// assert_eq!(first.expose(), &[true, true]);
/// assert_eq!(second.expose(), &[false, true]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "the accounts are private data and must not be printed"
)]
pub struct IndividualGaussianFilter {
    /// mu^2 that each unit may spend, rounded down.
    allowed: f64,
    /// mu^2 that each unit has spent, rounded up.
    spent: Vec<f64>,
}

impl IndividualGaussianFilter {
    /// Creates a filter for `n_units` units, numbered from 0, each with all of `target` unspent.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if the target's epsilon is not finite and positive or its delta does
    /// not lie strictly between 0 and 1.
    pub fn new(target: ApproxDp, adjacency: Adjacency, n_units: usize) -> Result<Self> {
        let budget = largest_mu_squared(target)?;
        let shares = if adjacency.is_replace() { 4.0 } else { 1.0 };
        Ok(Self {
            allowed: budget / shares,
            spent: vec![0.0; n_units],
        })
    }

    /// Charges one unit if its budget allows, and returns whether it takes part in the step. Call
    /// this once per step for each unit that contributes. A unit outside the range given to
    /// [`new`](Self::new) does not take part.
    #[must_use = "a unit that is not admitted must be left out of the step"]
    pub fn admit(&mut self, unit: impl TryInto<usize>, mu: f64) -> Private<bool> {
        let allowed = self.allowed;
        let account = unit.try_into().ok().and_then(|at| self.spent.get_mut(at));
        Private::new(account.is_some_and(|spent| charge(spent, mu, allowed)))
    }

    /// Like [`admit`](Self::admit), for all units at once: `mu[i]` is the cost of unit i. Units
    /// beyond the end of `mu` contribute nothing and are not admitted; costs of unknown units are
    /// ignored. The result has one entry per unit.
    #[must_use = "units that are not admitted must be left out of the step"]
    pub fn admit_all(&mut self, mu: &Private<Vec<f64>>) -> Private<Vec<bool>> {
        let allowed = self.allowed;
        let mut admitted = vec![false; self.spent.len()];
        let accounts = self.spent.iter_mut().zip(mu.expose());
        for ((account, &cost), answer) in accounts.zip(&mut admitted) {
            *answer = charge(account, cost, allowed);
        }
        Private::new(admitted)
    }
}

/// Adds mu^2 to an account if the sum stays within `allowed`. A negative or NaN cost is never
/// accepted.
fn charge(spent: &mut f64, mu: f64, allowed: f64) -> bool {
    let after = add_up(*spent, mul_up(mu, mu));
    let admitted = mu >= 0.0 && after <= allowed;
    if admitted {
        *spent = after;
    }
    admitted
}

/// a + b, rounded up.
fn add_up(a: f64, b: f64) -> f64 {
    let (sum, error) = two_sum(a, b);
    if error > 0.0 { sum.next_up() } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_too_small_to_show_is_counted_all_the_same() {
        assert!(add_up(1.0, 1e-17) > 1.0);
        assert!((add_up(1.0, 0.5) - 1.5).abs() < 1e-300);
        let mut spent = 1.0;
        assert!(charge(&mut spent, 1e-9, 1.1) && spent > 1.0);
        let allowed = spent;
        assert!(!charge(&mut spent, 1e-9, allowed));
    }
}
