//! Trainers of this workspace as something to audit.

mod factorization;
mod regression;

use dp_accounting::Plan;
use dp_core::{ApproxDp, Gdp};

pub use factorization::AuditedFactorization;
pub use regression::{AuditedRegression, Regression};

/// What a run along a plan claims. A plan of Gaussian releases always has a Gaussian-DP parameter.
fn claim(plan: &Plan) -> (ApproxDp, Gdp) {
    let gdp = plan.gdp().unwrap_or(Gdp { mu: f64::NAN });
    (plan.guarantee(), gdp)
}

fn failed(error: dp_multitask::Error) -> crate::Error {
    crate::Error::Trainer(Box::new(error))
}
