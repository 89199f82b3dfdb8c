//! Examples of dp-personal: run one with `cargo run --release -p dp-examples --example NAME`.
