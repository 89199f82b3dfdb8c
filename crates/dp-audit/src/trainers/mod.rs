//! Trainers of this workspace as something to audit.

mod factorization;

pub use factorization::AuditedFactorization;
