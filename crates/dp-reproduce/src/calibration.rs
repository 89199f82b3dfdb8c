//! Calibrates the noise of a row from its epsilon, and pays for it.

use dp_accounting::{Budget, Ledger, Plan, Spend, usable_delta};
use dp_core::ApproxDp;

use dp_personal::error::Result;

pub(super) const DELTA: f64 = 1e-5;

/// How epsilon is converted to noise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Accounting {
    /// The paper's `beta = epsilon^2 / (8 ln(1/delta))`, two releases of noise multiplier
    /// `1/sqrt(beta)` in total: `mu^2 = 2 beta`. Its true epsilon is smaller.
    Closed,
    /// The exact composition of Gaussian mechanisms.
    Gdp,
}

impl Accounting {
    /// The target whose exact calibration gives the noise of a row at this epsilon.
    pub(super) fn target(self, epsilon: f64) -> Result<ApproxDp> {
        let epsilon = match self {
            Self::Gdp => epsilon,
            Self::Closed => {
                let beta = epsilon * epsilon / (8.0 * (1.0 / DELTA).ln());
                dp_accounting::gdp::epsilon((2.0 * beta).sqrt(), usable_delta(DELTA))
            }
        };
        Ok(ApproxDp::target(epsilon, DELTA)?)
    }

    /// The true epsilon of the noise, rounded up.
    pub(super) fn true_epsilon(self, epsilon: f64) -> Result<f64> {
        Ok((self.target(epsilon)?.epsilon * 1e4).ceil() / 1e4)
    }
}

/// Reserves a plan on a separate budget for each measurement.
pub(super) fn pay(plan: &Plan, data: &str) -> Result<Vec<Spend>> {
    let budget = Budget::new(plan.target(), plan.adjacency())?;
    Ok(Ledger::in_memory(data, budget)?.reserve(plan)?)
}

/// The same for a plan with sampling, which is reserved as a whole.
pub(super) fn pay_schedule(plan: &Plan, data: &str) -> Result<Vec<Spend>> {
    let budget = Budget::schedule(plan.target(), plan.adjacency())?;
    Ok(Ledger::in_memory(data, budget)?.reserve(plan)?)
}
