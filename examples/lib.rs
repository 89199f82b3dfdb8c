//! Examples of dp-personal: run one with `cargo run --release -p dp-examples --example NAME`.

/// Compiles the code in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles and runs the code of the tutorials.
#[cfg(doctest)]
#[doc = include_str!("../docs/tutorials/account.md")]
struct AccountTutorial;

/// Compiles and runs the code of the tutorials.
#[cfg(doctest)]
#[doc = include_str!("../docs/tutorials/audit.md")]
struct AuditTutorial;
