//! Shared helpers of the benchmarks.

mod memory;
mod timing;

pub use memory::peak_megabytes;
pub use timing::{Contestant, Seconds, Timing, processor_seconds, take_turns};
