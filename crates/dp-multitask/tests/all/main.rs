//! Integration tests of this crate, in one binary.

#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do"
)]
#![allow(clippy::disallowed_types, reason = "tests drive runs")]

mod fit;
mod implicit;
mod nights;
mod non_private;
mod public_ratings;
mod regression;
mod resume;
mod runs;
mod settings;
mod support;
mod tuning;
mod updates;
