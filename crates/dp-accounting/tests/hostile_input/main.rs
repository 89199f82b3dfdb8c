//! Numbers out of range, counts that overflow, depth without end, files that make no sense: typed
//! errors, and never an epsilon of 0, an answer that is not a number, or a panic.

#![allow(
    clippy::cast_possible_truncation,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do"
)]

#[path = "../shared/mod.rs"]
mod shared;

mod depth_is_bounded;
mod every_parameter_has_its_range;
mod extreme_numbers_are_sane;
mod parameters;
mod question_files_do_not_panic;
mod support;
