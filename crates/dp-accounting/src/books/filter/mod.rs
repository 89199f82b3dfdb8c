//! Spending that is decided step by step.
//!
//! Composition theorems take the mechanisms as given. A *privacy filter* keeps its guarantee when
//! every mechanism, noise included, is chosen after looking at all outputs so far: it fixes a
//! budget up front and refuses the first step that would exceed it. An *odometer* never refuses;
//! it says what has been spent by now, in a form that holds at whatever moment one looks.
//!
//! Not every accountant makes a filter. Adding up privacy loss distributions, or trade-off
//! functions, and stopping when the sum crosses a target is invalid in general (arXiv 2602.06756);
//! such a schedule has to be fixed and reserved whole, see [`crate::Budget::schedule`].

mod gaussian;
mod odometer;
mod rdp;

pub(crate) use gaussian::largest_mu_squared;
pub use gaussian::{GaussianFilter, IndividualGaussianFilter};
pub use odometer::Odometer;
pub(crate) use rdp::{OrderAccount, best_order, epsilon_for};
pub use rdp::{OrderBalance, RdpFilter};
