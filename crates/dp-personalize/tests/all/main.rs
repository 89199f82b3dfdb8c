//! Complete runs: recovery with low noise, no harm with high noise, bad data, settings and payments
//! that do not match.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![allow(clippy::disallowed_types, reason = "tests start runs")]

mod bad_input;
mod errors;
mod exponential;
mod golden;
mod learns;
mod nights;
mod observed;
mod runs;
mod settings;
mod support;
mod targets;
