//! Renyi differential privacy at real orders (Mironov, arXiv 1702.07476).
//!
//! A mechanism is (a, r)-RDP if the Renyi divergence of order a > 1 between its outputs on any
//! neighbours is at most r. Divergences of the same order add up under adaptive composition, and
//! every order implies an (epsilon, delta) by [`conversion`]; the best one is used.

mod accountant;
mod allocation;
mod converse;
pub mod conversion;
mod curve;
mod search;

pub use accountant::RdpAccountant;
pub(crate) use search::{minimum, minimum_on};
