//! Trainers of this workspace as something to audit.

mod factorization;
mod regression;

pub use factorization::AuditedFactorization;
pub use regression::{AuditedRegression, Regression};
