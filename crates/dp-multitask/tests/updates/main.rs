//! Item updates other than plain sufficient statistics, scores without biases, sampled records.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![allow(clippy::disallowed_types, reason = "tests drive runs")]

mod plans;
mod pull;
mod rounds;
mod settings;
mod support;
