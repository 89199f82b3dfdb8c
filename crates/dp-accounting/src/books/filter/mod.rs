//! Privacy filters and odometers, for spending that is decided step by step.
//!
//! Composition theorems take the mechanisms as given. A *privacy filter* keeps its guarantee when
//! every mechanism, including its noise, is chosen after looking at all outputs so far: it fixes a
//! budget in advance and rejects the first step that would exceed it. An *odometer* never rejects;
//! it reports what has been spent so far, in a form that is valid at any time.
//!
//! Not every accountant can be used as a filter. Adding up privacy loss distributions or trade-off
//! functions, and stopping when the sum reaches a target, is invalid in general (arXiv 2602.06756).
//! Such a schedule has to be fixed in advance and reserved as a whole, see
//! [`crate::Budget::schedule`].

mod gaussian;
mod odometer;
mod rdp;

pub(crate) use gaussian::largest_mu_squared;
pub use gaussian::{GaussianFilter, IndividualGaussianFilter};
pub use odometer::Odometer;
pub(crate) use rdp::{OrderAccount, best_order, epsilon_for};
pub use rdp::{OrderBalance, RdpFilter};
