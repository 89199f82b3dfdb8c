//! Exact Gaussian differential privacy.
//!
//! A Gaussian mechanism with noise multiplier z is mu-GDP with mu = 1/z, and any adaptive
//! composition of Gaussian mechanisms is mu-GDP with mu^2 equal to the sum of theirs. This module
//! computes the exact privacy profile of that composition, not a bound on it.
//!
//! Sources: Dong, Roth, Su, *Gaussian Differential Privacy*, arXiv 1905.02383 (Theorem 2.7:
//! mechanism; Corollary 2.13: profile; Corollary 3.3: composition); Balle, Wang, *Improving the Gaussian Mechanism for
//! Differential Privacy*, arXiv 1805.06530v2, Theorem 8 (the same profile).

mod cost;
mod profile;

pub(crate) use cost::{finite_cost, from_mu_squared, repeated_cost, sensitivity_squared};

pub use cost::mu_squared;
pub use profile::{delta, epsilon, log_delta, mu_for};
