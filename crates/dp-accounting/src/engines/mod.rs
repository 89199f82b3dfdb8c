//! Accountants: they take events and compute bounds on epsilon and delta.
//!
//! From the bottom up: [`rounding`] and [`quadrature`]; [`accountant`], the common contract;
//! [`gdp`], the Gaussian profile in closed form; [`loss`], the privacy loss of one mechanism;
//! [`composition`], a list of them; [`profile`], delta of a single loss; [`rdp`], [`zcdp`],
//! [`saddle_point`] and [`pld`], which bound a composition, each by its own method; [`tightest`],
//! which returns the best of their bounds; [`gaussian`], the accountant for Gaussian mechanisms
//! only; [`calibrate`], which searches for the parameter that meets a target. Nothing here imports
//! from the books or the questions.

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
pub(crate) mod trade_off;
pub(crate) mod zcdp;
