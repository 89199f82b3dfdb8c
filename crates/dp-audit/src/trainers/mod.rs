//! Trainers of this workspace as something to audit.

mod adadpals;

pub use adadpals::AuditedFactorization;
