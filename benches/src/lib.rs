//! Shared yardsticks of the benchmarks.
