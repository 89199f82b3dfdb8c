//! One account for each kind of budget.

use dp_core::{ApproxDp, DpEvent};

use super::budget::{Balance, Budget, BudgetKind};
use crate::books::allowance::usable_delta;
use crate::books::filter::{GaussianFilter, OrderAccount};
use crate::books::schedule::ideal_guarantee;
use crate::{Error, Measure, Plan, PlannedRelease, Result};

/// What was spent of a budget, the sampler's part of delta set aside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Account {
    Gaussian(GaussianFilter),
    Rdp(OrderAccount),
    Schedule { target: ApproxDp, reserved: bool },
}

impl Account {
    pub(super) fn new(budget: &Budget) -> Result<Self> {
        let usable = ApproxDp {
            epsilon: budget.target().epsilon,
            delta: usable_delta(budget.target().delta),
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

    /// What one release costs; a schedule is judged as a whole, so its releases cost nothing singly.
    pub(super) fn cost(&self, event: &DpEvent) -> Result<f64> {
        match self {
            Self::Gaussian(filter) => filter.cost(event),
            Self::Rdp(account) => account.cost(event),
            Self::Schedule { .. } => Ok(0.0),
        }
    }

    /// Counts a release, whether it fits or not.
    pub(super) fn count(&mut self, cost: f64) {
        match self {
            Self::Gaussian(filter) => filter.count(cost),
            Self::Rdp(account) => account.count(cost),
            Self::Schedule { reserved, .. } => *reserved = true,
        }
    }

    /// Refuses a plan that led from this account to `after` when the budget does not cover it.
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
