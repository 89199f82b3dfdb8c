//! The privacy filter for Renyi divergences.

use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError};

use crate::engines::composition::Composition;
use crate::engines::rounding::{UpwardSum, count_up, mul_up};
use crate::{Error, Measure, RdpAccountant, Result};

/// A filter for any mechanism with a Renyi divergence.
///
/// A filter of one order α has the budget
///
/// ```text
/// B_α = ε - ln(1 - 1/α) + ln(α δ) / (α - 1)
/// ```
///
/// and allows a step while the sum of the divergences of order α, including that of the step, is at
/// most `B_α`. Then all outputs together have divergence at most `B_α` of order α, however the
/// steps were chosen (Feldman, Zrnic, arXiv 2008.11193, Theorem 3.1; Lécuyer, arXiv 2103.01379),
/// and that is (ε, δ)-DP (Canonne, Kamath, Steinke, arXiv 2004.00010, Proposition 12).
///
/// The order must be fixed before the first step. Using whichever order looks best at each moment
/// is a different rule: the best order then depends on the outputs, and no single divergence is
/// bounded. It is possible at a cost, though. With k orders and δ/k for each, a step may run while
/// *some* order is within its budget:
///
/// > Let J be an order still within its budget at the end, and M_α the same interaction with a
/// > filter of α alone. Sums only grow, so if J = α then no step exceeded `B_α`, and the
/// > transcript is that of M_α. For any set S of transcripts, on neighbours P and Q,
/// > P(S) = Σ_α P(S, J = α) <= Σ_α (e^ε Q(S, J = α) + δ/k) = e^ε Q(S) + δ.
///
/// So [`over_orders`](Self::over_orders) costs ln(k)/(α-1) of epsilon and needs no guess, while
/// [`at_order`](Self::at_order) is best if the schedule is known roughly; `for_schedule` picks its
/// order.
///
/// # Examples
/// ```
/// use dp_accounting::RdpFilter;
/// use dp_core::{Adjacency, ApproxDp, DpEvent};
/// let target = ApproxDp::target(2.0, 1e-6)?;
/// let expected = [(DpEvent::gaussian(30.0), 100), (DpEvent::laplace(50.0), 10)];
/// let mut filter = RdpFilter::for_schedule(target, Adjacency::AddRemoveUser, &expected)?;
/// // what is run may differ from what was expected
/// filter.spend(&DpEvent::laplace(9.0))?;
/// filter.spend(&DpEvent::gaussian(12.0))?;
/// assert!(filter.spend(&DpEvent::gaussian(0.5)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RdpFilter {
    orders: Vec<OrderAccount>,
}

impl RdpFilter {
    /// Creates a filter of one order.
    ///
    /// # Errors
    /// [`Error::Param`] for an invalid target, an order that is not finite and above 1, and an
    /// order so small that it has no budget at this target.
    pub fn at_order(target: ApproxDp, adjacency: Adjacency, order: f64) -> Result<Self> {
        Self::over_orders(target, adjacency, &[order])
    }

    /// Creates a filter that accepts steps while one of `orders` is within its budget. Each has an
    /// equal part of delta, including orders without any budget.
    ///
    /// # Errors
    /// As [`at_order`](Self::at_order), for any order; also if no order has a budget.
    pub fn over_orders(target: ApproxDp, adjacency: Adjacency, orders: &[f64]) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        let each = ApproxDp {
            delta: (target.delta / orders.len() as f64).next_down(),
            ..target
        };
        let mut useful = Vec::with_capacity(orders.len());
        for &order in orders {
            let budget = budget_at(order, each)?;
            if budget > 0.0 {
                useful.push(OrderAccount::with_budget(order, budget, adjacency));
            }
        }
        if useful.is_empty() {
            return Err(no_budget(orders.first().copied().unwrap_or(f64::NAN)));
        }
        Ok(Self { orders: useful })
    }

    /// Creates a filter of the one order, from a fixed grid from 1.01 to 10^6, at which the
    /// expected `schedule` (events with counts) would use the smallest part of the budget. The
    /// schedule is public and only a guess: the guarantee holds whatever is run instead.
    ///
    /// # Errors
    /// As [`at_order`](Self::at_order), and the errors of the events' divergences.
    pub fn for_schedule(
        target: ApproxDp,
        adjacency: Adjacency,
        schedule: &[(DpEvent, u64)],
    ) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        Self::at_order(target, adjacency, best_order(target, adjacency, schedule)?)
    }

    /// Counts `event`, or rejects it and stays unchanged.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`], with the values of the order that came closest;
    /// [`Error::UnsupportedEvent`] for an event without a Renyi divergence; [`Error::Param`].
    pub fn spend(&mut self, event: &DpEvent) -> Result<()> {
        let mut after = self.orders.clone();
        for account in &mut after {
            let cost = account.cost(event)?;
            account.count(cost);
        }
        if !after.iter().any(OrderAccount::covers) {
            return Err(self.refusal(&after));
        }
        self.orders = after;
        Ok(())
    }

    /// What each order has spent. If there are several, it is enough that one is within its budget.
    #[must_use]
    pub fn balances(&self) -> Vec<OrderBalance> {
        self.orders.iter().map(OrderAccount::balance).collect()
    }

    fn refusal(&self, after: &[OrderAccount]) -> Error {
        let excess = |account: &OrderAccount| account.spent.total() / account.budget;
        let nearest = self
            .orders
            .iter()
            .zip(after)
            .min_by(|a, b| excess(a.1).total_cmp(&excess(b.1)));
        nearest.map_or_else(
            || no_budget(f64::NAN),
            |(before, after)| before.refusal(after),
        )
    }
}

/// What one order of an [`RdpFilter`] has spent, in nats of Renyi divergence.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct OrderBalance {
    /// The order.
    pub order: f64,
    /// Spent so far, rounded up.
    pub spent: f64,
    /// What may be spent, rounded down.
    pub budget: f64,
}

/// The account of one order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OrderAccount {
    order: f64,
    budget: f64,
    adjacency: Adjacency,
    spent: UpwardSum,
}

impl OrderAccount {
    /// An account that guarantees `target` by itself.
    pub(crate) fn new(target: ApproxDp, adjacency: Adjacency, order: f64) -> Result<Self> {
        let budget = budget_at(order, target)?;
        if budget > 0.0 {
            return Ok(Self::with_budget(order, budget, adjacency));
        }
        Err(no_budget(order))
    }

    const fn with_budget(order: f64, budget: f64, adjacency: Adjacency) -> Self {
        Self {
            order,
            budget,
            adjacency,
            spent: UpwardSum::EMPTY,
        }
    }

    pub(crate) fn cost(&self, event: &DpEvent) -> Result<f64> {
        rdp_of(event, self.adjacency, self.order)
    }

    /// Counts a cost, whether or not it fits.
    pub(crate) fn count(&mut self, rdp: f64) {
        self.spent = self.spent.plus(rdp);
    }

    pub(crate) fn covers(&self) -> bool {
        self.spent.total() <= self.budget
    }

    pub(crate) fn balance(&self) -> OrderBalance {
        OrderBalance {
            order: self.order,
            spent: self.spent.total(),
            budget: self.budget,
        }
    }

    /// The error for a step that would change this account to `after`.
    pub(crate) fn refusal(&self, after: &Self) -> Error {
        Error::BudgetSpent {
            requested: after.spent.total() - self.spent.total(),
            spent: self.spent.total(),
            budget: self.budget,
            measure: Measure::Rdp,
        }
    }
}

/// The order of the grid at which `schedule` uses the smallest part of the budget.
pub(crate) fn best_order(
    target: ApproxDp,
    adjacency: Adjacency,
    schedule: &[(DpEvent, u64)],
) -> Result<f64> {
    let mut best = (f64::INFINITY, None);
    for order in grid() {
        let budget = budget_at(order, target)?;
        if budget <= 0.0 {
            continue;
        }
        let share = cost_of_schedule(schedule, adjacency, order)? / budget;
        if share < best.0 {
            best = (share, Some(order));
        }
    }
    best.1.ok_or_else(|| no_budget(f64::NAN))
}

/// An epsilon whose budget at `order` and `delta` is positive and at least `rdp`; the smallest one
/// up to rounding.
pub(crate) fn epsilon_for(rdp: f64, order: f64, delta: f64) -> Result<f64> {
    let budget = |epsilon| budget_at(order, ApproxDp { epsilon, delta });
    let at_zero = budget(0.0)?;
    let mut epsilon = (rdp - at_zero).max(f64::MIN_POSITIVE);
    let step = 1e-14 * (epsilon + at_zero.abs() + rdp);
    while epsilon.is_finite() && !(budget(epsilon)? >= rdp && budget(epsilon)? > 0.0) {
        epsilon = (epsilon + step).next_up();
    }
    Ok(epsilon)
}

/// Divergence of all events of a schedule, rounded up.
fn cost_of_schedule(schedule: &[(DpEvent, u64)], adjacency: Adjacency, order: f64) -> Result<f64> {
    let mut sum = UpwardSum::EMPTY;
    for (event, count) in schedule {
        sum = sum.plus(mul_up(rdp_of(event, adjacency, order)?, count_up(*count)));
    }
    Ok(sum.total())
}

/// Divergence of order `order` that suffices for `target`, rounded down; not positive if the order
/// is too small for the target's delta.
fn budget_at(order: f64, target: ApproxDp) -> Result<f64> {
    const MARGIN: f64 = 1e-14;
    if !(order.is_finite() && order > 1.0) {
        return Err(Error::Param(ParamError {
            name: "order",
            value: order,
            expected: "a finite number above 1",
        }));
    }
    let gain = -libm::log1p(-1.0 / order);
    let price = (libm::log(target.delta) + libm::log(order)) / (order - 1.0);
    let size = target.epsilon + gain + price.abs() + libm::log(order) / (order - 1.0);
    Ok(target.epsilon + gain + price - MARGIN * size)
}

/// Orders from 1.01 to 10^6, eight per decade of order - 1.
fn grid() -> impl Iterator<Item = f64> {
    (-16..=48).map(|step| 1.0 + libm::pow(10.0, f64::from(step) / 8.0))
}

const fn no_budget(order: f64) -> Error {
    Error::Param(ParamError {
        name: "order",
        value: order,
        expected: "an order with a positive budget at this epsilon and delta",
    })
}

/// Renyi divergence of `event` at `order`, the worse of the two directions, rounded up.
///
/// This is the only function through which the filters obtain the Renyi cost of an event.
fn rdp_of(event: &DpEvent, adjacency: Adjacency, order: f64) -> Result<f64> {
    let composition = Composition::of(event, adjacency)?;
    let divergence = RdpAccountant::divergences(&composition, &[order])?[0];
    // no event is free, however little it reveals
    let divergence = dp_core::params::finite("rdp", divergence.next_up())?;
    Ok(divergence.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use dp_core::Relation;

    use super::*;

    fn rdp(event: &DpEvent, order: f64) -> f64 {
        rdp_of(event, Adjacency::AddRemoveUser, order).unwrap()
    }

    #[test]
    fn laplace_is_the_published_formula() {
        // mpmath: log(a/(2a-1) exp((a-1) e) + (a-1)/(2a-1) exp(-a e)) / (a-1)
        for (z, order, expected) in [
            (1.0, 2.0, 0.619_123_629_998_592_88),
            (0.5, 32.0, 1.978_148_425_045_425_6),
            (1.0, 1.5, 0.512_883_511_294_508_6),
            (100.0, 2.0, 9.966_419_172_325_247_5e-5),
        ] {
            let found = rdp(&DpEvent::laplace(z), order);
            assert!(found >= expected * (1.0 - 1e-15), "{z} {order}: {found}");
            assert!(found <= expected * (1.0 + 1e-9), "{z} {order}: {found}");
        }
    }

    #[test]
    fn costs_add_and_replacement_doubles_the_distance() {
        let gaussian = DpEvent::gaussian(2.0);
        assert!((rdp(&gaussian, 8.0) - 1.0).abs() < 1e-12);
        let both = DpEvent::Composed {
            events: vec![gaussian.clone().repeated(3), DpEvent::laplace(1.0)],
        };
        let sum = 3.0 + rdp(&DpEvent::laplace(1.0), 8.0);
        assert!((rdp(&both, 8.0) - sum).abs() < 1e-11);
        let replaced = rdp_of(&gaussian, Adjacency::ReplaceUser, 8.0).unwrap();
        assert!((replaced - 4.0).abs() < 1e-11);
    }

    #[test]
    fn unknown_costs_are_refused() {
        let failing = DpEvent::ApproxDp {
            epsilon: 1.0,
            delta: 1e-5,
            relation: Relation::AddRemove,
        };
        assert!(rdp_of(&DpEvent::NonPrivate, Adjacency::AddRemoveUser, 2.0).is_err());
        assert!(rdp_of(&failing, Adjacency::AddRemoveUser, 2.0).is_err());
    }
}
