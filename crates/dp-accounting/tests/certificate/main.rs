//! Certificates: what they say, and that nothing in them can be changed unnoticed.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

#[path = "../shared/mod.rs"]
mod shared;

mod builder_insists;
mod claims;
mod edits_are_found;
mod hostile_text;
mod json_schema;
mod schema_holds;
mod states_the_guarantee;
mod support;
mod versions;
