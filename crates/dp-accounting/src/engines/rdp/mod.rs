//! Renyi differential privacy at real orders (Mironov, arXiv 1702.07476).
//!
//! A mechanism is (a, r)-RDP when the Renyi divergence of order a > 1 of its outputs on any
//! neighbours is at most r. Divergences of one order add up under adaptive composition, and every
//! order gives an (epsilon, delta) by [`conversion`]; the best one counts.

mod accountant;
mod allocation;
mod converse;
pub mod conversion;
mod curve;
mod search;

pub use accountant::RdpAccountant;
pub(crate) use search::{minimum, minimum_on};
