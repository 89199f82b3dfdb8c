//! Code shared by several test targets.

#![allow(dead_code, reason = "each test target uses its own part")]
#![allow(
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do"
)]

pub(crate) mod accountants;
pub(crate) mod draw;
pub(crate) mod edits;
pub(crate) mod events;
pub(crate) mod memory_folder;
pub(crate) mod refusals;
