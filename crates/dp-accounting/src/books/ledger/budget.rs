//! The budget of a ledger, and how much of it was spent.

use std::fmt;

use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError};
use serde::{Deserialize, Serialize};

use crate::books::allowance::usable_delta;
use crate::books::filter::{GaussianFilter, OrderAccount, best_order, epsilon_for};
use crate::books::schedule::ideal_guarantee;
use crate::engines::gdp::{self, from_mu_squared};
use crate::engines::rounding::UpwardSum;
use crate::{Error, Measure, Plan, PlannedRelease, Result};

/// How a ledger decides what may still be spent. All three kinds are valid if every plan is chosen
/// after looking at everything released before. The kind is fixed when the ledger is created:
/// choosing it after seeing outputs would be covered only at the sum of the kinds' deltas, see
/// [`crate::Ledger::upgrade`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum BudgetKind {
    /// Gaussian mechanisms only, composed exactly; see [`crate::GaussianFilter`].
    #[default]
    Gaussian,
    /// Any mechanism with a Renyi divergence, at one order fixed when the ledger is created; see
    /// [`crate::RdpFilter`].
    Rdp {
        /// The order.
        order: f64,
    },
    /// One plan of any mechanisms, reserved as a whole, and nothing after it. Privacy loss
    /// distributions need this, because they are invalid as a filter.
    Schedule,
}

impl fmt::Display for BudgetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gaussian => f.write_str("gaussian"),
            Self::Rdp { order } => write!(f, "rdp of order {order}"),
            Self::Schedule => f.write_str("whole schedule"),
        }
    }
}

/// The privacy budget of one data set, over all runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    target: ApproxDp,
    adjacency: Adjacency,
    kind: BudgetKind,
    carried_delta: f64,
}

impl Budget {
    /// Creates a budget of `target` under `adjacency` for Gaussian mechanisms.
    ///
    /// # Errors
    /// [`Error::Param`] if the target's epsilon is not finite and positive or its delta does not
    /// lie strictly between 0 and 1.
    pub fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        Self::of_kind(target, adjacency, BudgetKind::Gaussian)
    }

    /// Creates a budget for mechanisms with a Renyi divergence, counted at `order` only.
    ///
    /// # Errors
    /// As [`new`](Self::new), and for an order that is not finite and above 1.
    pub fn rdp(target: ApproxDp, adjacency: Adjacency, order: f64) -> Result<Self> {
        Self::of_kind(target, adjacency, BudgetKind::Rdp { order })
    }

    /// Creates a budget for mechanisms with a Renyi divergence, counted at the order at which
    /// `expected` (plans, each with its number of runs) would use the smallest part of it; without
    /// plans, at the order at which most Gaussian releases fit. The plans are public and only a
    /// guess: the guarantee holds whatever is run instead. Fix them before anything is released.
    ///
    /// # Errors
    /// As [`rdp`](Self::rdp), and the errors of the events' divergences.
    ///
    /// # Examples
    /// ```
    /// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease};
    /// use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor};
    /// let (target, adjacency) = (ApproxDp::target(4.0, 1e-6)?, Adjacency::AddRemoveUser);
    /// let sum = PlannedRelease::gaussian("sum", 8.0, ReplaceFactor::Two, 50)?;
    /// let sum = Plan::with_noise_multipliers(1e-6, adjacency, vec![sum])?;
    /// let step = DpEvent::sampled_gaussian(2.0, 0.01);
    /// let steps = (0..50).map(|_| PlannedRelease::new("step", step.clone(), 50)).collect();
    /// let training = Plan::with_noise_multipliers(1e-6, adjacency, steps)?;
    ///
    /// // one ledger for runs of both kinds
    /// let budget = Budget::rdp_for(target, adjacency, &[(&sum, 3), (&training, 2)])?;
    /// let mut ledger = Ledger::in_memory("ratings", budget)?;
    /// let first = ledger.reserve(&sum)?;
    /// let second = ledger.reserve(&training)?;
    /// assert!(ledger.affords(&sum).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rdp_for(
        target: ApproxDp,
        adjacency: Adjacency,
        expected: &[(&Plan, u64)],
    ) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        let ideal = ApproxDp {
            delta: usable_delta(target.delta),
            ..target
        };
        let order = best_order(ideal, adjacency, &schedule_of(expected))?;
        Self::rdp(target, adjacency, order)
    }

    /// Creates a budget for one plan, reserved as a whole on an empty ledger.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn schedule(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        Self::of_kind(target, adjacency, BudgetKind::Schedule)
    }

    pub(super) fn of_kind(
        target: ApproxDp,
        adjacency: Adjacency,
        kind: BudgetKind,
    ) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        if let BudgetKind::Rdp { order } = kind
            && !(order.is_finite() && order > 1.0)
        {
            return Err(Error::Param(ParamError {
                name: "order",
                value: order,
                expected: "a finite number above 1",
            }));
        }
        Ok(Self {
            target,
            adjacency,
            kind,
            carried_delta: 0.0,
        })
    }

    /// The same budget with a part of delta that covers what was released under earlier ledgers.
    pub(super) fn carrying(self, carried_delta: f64) -> Result<Self> {
        if carried_delta >= 0.0 && carried_delta < self.target.delta {
            return Ok(Self {
                carried_delta,
                ..self
            });
        }
        Err(Error::Param(ParamError {
            name: "carried_delta",
            value: carried_delta,
            expected: "a number from 0 to below delta",
        }))
    }

    /// The guarantee that the filter alone must provide: delta without the part for earlier
    /// ledgers.
    pub(super) fn filter_target(&self) -> ApproxDp {
        let mut target = self.target;
        if self.carried_delta > 0.0 {
            target.delta = (target.delta - self.carried_delta).next_down();
        }
        target
    }

    /// The part of delta that covers what was released under this ledger's predecessors before it
    /// took over; 0 if it has no predecessors, or counts in the same way as they did.
    #[must_use]
    pub const fn carried_delta(&self) -> f64 {
        self.carried_delta
    }

    /// The cost of `plan` in a ledger of this budget, in its measure (mu^2, Renyi divergence, or
    /// epsilon of the whole plan), rounded up.
    ///
    /// # Errors
    /// [`Error::UnsupportedEvent`] for an event that the budget's kind cannot count; [`Error::Param`].
    pub fn cost(&self, plan: &Plan) -> Result<f64> {
        if self.kind == BudgetKind::Schedule {
            let events = plan.releases().iter().map(PlannedRelease::event);
            let delta = usable_delta(self.filter_target().delta);
            return Ok(ideal_guarantee(events, plan.adjacency(), delta)?.upper);
        }
        let account = Account::new(self)?;
        let mut sum = UpwardSum::EMPTY;
        for cost in account.costs(plan)? {
            sum = sum.plus(cost);
        }
        Ok(sum.total())
    }

    /// An epsilon at which a budget of this kind and delta allows a total of `cost`; the smallest
    /// one up to rounding.
    ///
    /// # Errors
    /// [`Error::Param`] for a cost without a finite epsilon.
    pub fn epsilon_for(&self, cost: f64) -> Result<f64> {
        let cost = dp_core::params::finite_non_negative("cost", cost)?;
        let delta = usable_delta(self.filter_target().delta);
        let epsilon = match self.kind {
            BudgetKind::Gaussian => gdp::epsilon(from_mu_squared(cost).mu, delta),
            BudgetKind::Rdp { order } => epsilon_for(cost, order, delta)?,
            BudgetKind::Schedule => cost,
        };
        Ok(dp_core::params::finite("epsilon", epsilon)?)
    }

    /// The guarantee for all releases together.
    #[must_use]
    pub const fn target(&self) -> ApproxDp {
        self.target
    }

    /// The adjacency of the guarantee.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// How spending is counted.
    #[must_use]
    pub const fn kind(&self) -> BudgetKind {
        self.kind
    }
}

/// What has been spent from a ledger, in the measure that it counts in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Balance {
    /// The measure of the two values.
    pub measure: Measure,
    /// Spent so far, rounded up. A reserved schedule has spent everything.
    pub spent: f64,
    /// What may be spent, rounded down.
    pub budget: f64,
}

impl Balance {
    /// What is left, rounded down; 0 if more was counted than the budget allows.
    #[must_use]
    pub fn left(&self) -> f64 {
        (self.budget - self.spent).next_down().max(0.0)
    }
}

/// What was spent from a budget, with the sampler's part of delta set aside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Account {
    Gaussian(GaussianFilter),
    Rdp(OrderAccount),
    Schedule { target: ApproxDp, reserved: bool },
}

impl Account {
    pub(super) fn new(budget: &Budget) -> Result<Self> {
        let target = budget.filter_target();
        let usable = ApproxDp {
            epsilon: target.epsilon,
            delta: usable_delta(target.delta),
        };
        let adjacency = budget.adjacency();
        Ok(match budget.kind() {
            BudgetKind::Gaussian => Self::Gaussian(GaussianFilter::new(usable, adjacency)?),
            BudgetKind::Rdp { order } => Self::Rdp(OrderAccount::new(usable, adjacency, order)?),
            BudgetKind::Schedule => Self::Schedule {
                target: usable,
                reserved: false,
            },
        })
    }

    /// The cost of one release. A schedule is accounted for as a whole, so its releases cost
    /// nothing individually.
    pub(super) fn cost(&self, event: &DpEvent) -> Result<f64> {
        match self {
            Self::Gaussian(filter) => filter.cost(event),
            Self::Rdp(account) => account.cost(event),
            Self::Schedule { .. } => Ok(0.0),
        }
    }

    /// The cost of each release of a plan.
    pub(super) fn costs(&self, plan: &Plan) -> Result<Vec<f64>> {
        let mut costs = Vec::with_capacity(plan.releases().len());
        let mut last: Option<(&DpEvent, f64)> = None;
        for release in plan.releases() {
            // the steps of a schedule are often identical, and computing a divergence takes time
            let cost = match last {
                Some((event, cost)) if event == release.event() => cost,
                _ => self.cost(release.event())?,
            };
            last = Some((release.event(), cost));
            costs.push(cost);
        }
        Ok(costs)
    }

    /// The error for spending more than the budget covers, counted from an empty account.
    pub(super) fn overdraft(&self) -> Option<Error> {
        let covers = match self {
            Self::Gaussian(filter) => filter.covers(),
            Self::Rdp(account) => account.covers(),
            Self::Schedule { .. } => true,
        };
        let Balance {
            measure,
            spent,
            budget,
        } = self.balance();
        (!covers).then_some(Error::BudgetSpent {
            requested: spent,
            spent: 0.0,
            budget,
            measure,
        })
    }

    /// Counts a release, whether or not it fits.
    pub(super) fn count(&mut self, cost: f64) {
        match self {
            Self::Gaussian(filter) => filter.count(cost),
            Self::Rdp(account) => account.count(cost),
            Self::Schedule { reserved, .. } => *reserved = true,
        }
    }

    /// Rejects a plan that changes this account to `after` if the budget does not cover it.
    pub(super) fn check(&self, after: &Self, plan: &Plan) -> Result<()> {
        match (self, after) {
            (Self::Gaussian(before), Self::Gaussian(now)) if !now.covers() => {
                let (spent, budget) = before.figures();
                Err(Error::BudgetSpent {
                    requested: plan.mu_squared()?,
                    spent,
                    budget,
                    measure: Measure::MuSquared,
                })
            }
            (Self::Rdp(before), Self::Rdp(now)) if !now.covers() => Err(before.refusal(now)),
            (Self::Schedule { target, .. }, _) => check_schedule(*target, plan),
            _ => Ok(()),
        }
    }

    pub(super) fn balance(&self) -> Balance {
        let (measure, spent, budget) = match self {
            Self::Gaussian(filter) => {
                let (spent, budget) = filter.figures();
                (Measure::MuSquared, spent, budget)
            }
            Self::Rdp(account) => {
                let balance = account.balance();
                (Measure::Rdp, balance.spent, balance.budget)
            }
            Self::Schedule { target, reserved } => {
                let spent = if *reserved { target.epsilon } else { 0.0 };
                (Measure::Epsilon, spent, target.epsilon)
            }
        };
        Balance {
            measure,
            spent,
            budget,
        }
    }
}

/// The events of the plans with the number of times each is run; one Gaussian mechanism if there
/// are no plans.
fn schedule_of(plans: &[(&Plan, u64)]) -> Vec<(DpEvent, u64)> {
    let mut schedule: Vec<(DpEvent, u64)> = Vec::new();
    for &(plan, times) in plans {
        for release in plan.releases() {
            match schedule.last_mut() {
                Some((event, count)) if event == release.event() => {
                    *count = count.saturating_add(times);
                }
                _ => schedule.push((release.event().clone(), times)),
            }
        }
    }
    if schedule.is_empty() {
        schedule.push((DpEvent::gaussian(1.0), 1));
    }
    schedule
}

fn check_schedule(target: ApproxDp, plan: &Plan) -> Result<()> {
    let events = plan.releases().iter().map(PlannedRelease::event);
    let whole = ideal_guarantee(events, plan.adjacency(), target.delta)?;
    if whole.upper <= target.epsilon {
        return Ok(());
    }
    Err(Error::BudgetSpent {
        requested: whole.upper,
        spent: 0.0,
        budget: target.epsilon,
        measure: Measure::Epsilon,
    })
}
