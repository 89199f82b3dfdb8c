//! Shared yardsticks of the benchmarks.

mod timing;

pub use timing::{Contestant, Timing, median_seconds, take_turns};
