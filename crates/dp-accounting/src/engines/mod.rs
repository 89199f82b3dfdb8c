//! What mechanisms cost: events in, bounds on epsilon and delta out.
//!
//! From the ground up: [`rounding`];[`gdp`], the Gaussian profile in closed form; [`loss`], the
//! privacy loss of one mechanism; [`composition`], a list of them; [`rdp`], [`zcdp`],
//! [`saddle_point`] and [`pld`], four ways to bound the whole; [`tightest`], which takes the best of
//! them; [`calibrate`], which turns the question round. Nothing here knows of budgets, plans or files.

pub(crate) mod accountant;
pub mod calibrate;
pub(crate) mod composition;
pub(crate) mod gaussian;
pub mod gdp;
pub(crate) mod loss;
pub(crate) mod pld;
pub(crate) mod profile;
pub(crate) mod quadrature;
pub mod rdp;
pub(crate) mod rounding;
pub(crate) mod saddle_point;
pub(crate) mod tightest;
pub(crate) mod zcdp;
