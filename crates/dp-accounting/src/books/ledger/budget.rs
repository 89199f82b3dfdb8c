//! What may be spent, and what of it was.

use std::fmt;

use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError};
use serde::{Deserialize, Serialize};

use crate::books::allowance::usable_delta;
use crate::books::filter::{GaussianFilter, OrderAccount};
use crate::books::schedule::ideal_guarantee;
use crate::{Error, Measure, Plan, PlannedRelease, Result};

/// How a ledger decides what may still be spent. All three are valid when every plan is chosen
/// after looking at everything released before.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum BudgetKind {
    /// Gaussian mechanisms only, added up exactly; see [`crate::GaussianFilter`].
    #[default]
    Gaussian,
    /// Any mechanism with a Renyi divergence, at one order fixed when the ledger is made; see
    /// [`crate::RdpFilter`].
    Rdp {
        /// The order.
        order: f64,
    },
    /// One plan of any mechanisms, reserved whole, and nothing after it. This is what privacy
    /// loss distributions need: as a filter they are invalid.
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

/// What may be spent on one data set, over all runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    target: ApproxDp,
    adjacency: Adjacency,
    kind: BudgetKind,
}

impl Budget {
    /// A budget of `target` under `adjacency` for Gaussian mechanisms.
    ///
    /// # Errors
    /// [`Error::Param`] when the target's epsilon is not finite and positive or its delta does
    /// not lie strictly between 0 and 1.
    pub fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        Self::of_kind(target, adjacency, BudgetKind::Gaussian)
    }

    /// A budget for mechanisms with a Renyi divergence, counted at `order` and no other.
    ///
    /// # Errors
    /// As [`new`](Self::new), and for an order that is not finite and above 1.
    pub fn rdp(target: ApproxDp, adjacency: Adjacency, order: f64) -> Result<Self> {
        Self::of_kind(target, adjacency, BudgetKind::Rdp { order })
    }

    /// A budget for one plan, reserved whole on an empty ledger.
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
        })
    }

    /// The guarantee that all releases together must keep.
    #[must_use]
    pub const fn target(&self) -> ApproxDp {
        self.target
    }

    /// The neighbours that it is for.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// How it is counted.
    #[must_use]
    pub const fn kind(&self) -> BudgetKind {
        self.kind
    }
}

/// What a ledger has spent, in the measure that it counts in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Balance {
    /// What the figures are.
    pub measure: Measure,
    /// Spent so far, rounded up. A schedule that is reserved has spent everything.
    pub spent: f64,
    /// What may be spent, rounded down.
    pub budget: f64,
}

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
