//! Whole runs: recovery with little noise, no harm with much, bad data, settings and payments that do not fit.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod bad_input;
mod certificate;
mod learns;
mod support;
mod targets;
mod watched;
