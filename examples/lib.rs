//! Examples of dp-personal: run one with `cargo run --release -p dp-examples --example NAME`.

/// Compiles the code that the README prints.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
