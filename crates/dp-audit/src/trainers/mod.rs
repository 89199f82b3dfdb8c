//! Trainers of this workspace as something to audit.

mod any;
#[cfg(feature = "multitask")]
mod factorization;
mod observe;
#[cfg(feature = "fedsgd")]
mod private_sgd;
#[cfg(feature = "pubfeat")]
mod public_features;
#[cfg(feature = "multitask")]
mod regression;

use dp_accounting::Plan;
use dp_core::{ApproxDp, Gdp};

pub use any::AuditedTrainer;
#[cfg(feature = "multitask")]
pub use factorization::AuditedFactorization;
#[cfg(feature = "fedsgd")]
pub use private_sgd::{AuditedPpSgd, SgdRound, SgdRun};
#[cfg(feature = "pubfeat")]
pub use public_features::{
    AuditedDpSgd, AuditedFeatureRounds, AuditedPublicFeatures, FeatureRounds, PublicFeatures,
};
#[cfg(feature = "multitask")]
pub use regression::{AuditedRegression, Regression};

/// What a run along a plan claims. A plan of Gaussian releases always has a Gaussian-DP parameter.
fn claim(plan: &Plan) -> (ApproxDp, Gdp) {
    let gdp = plan.gdp().unwrap_or(Gdp { mu: f64::NAN });
    (plan.guarantee(), gdp)
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> crate::Error {
    crate::Error::Trainer(Box::new(error))
}
