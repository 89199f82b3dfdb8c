//! The contract of `Accountant`, put to every accountant with every kind of event.

#![allow(
    clippy::cast_possible_truncation,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do"
)]

#[path = "../shared/mod.rs"]
mod shared;

mod composition;
mod contract;
mod known_mistakes;
mod monotone;
mod questions;
mod subject;
