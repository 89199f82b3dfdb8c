//! Item updates other than plain sufficient statistics, scores without biases, sampled records.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod plans;
mod pull;
mod resume;
mod rounds;
mod settings;
mod support;
