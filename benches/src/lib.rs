//! Shared yardsticks of the benchmarks.

mod timing;

pub use timing::{Contestant, median_seconds};
