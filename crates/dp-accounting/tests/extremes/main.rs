//! Parameters at the ends of their ranges: bounded work, figures in order, closed forms where there
//! are any.
//!
//! The default tests take a sample of the grid; `long_every_corner` takes all of it and prints the
//! slowest calls:
//!
//! ```text
//! cargo test --release -p dp-accounting --test extremes -- --ignored --nocapture long_
//! ```

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do"
)]

#[path = "../shared/mod.rs"]
mod shared;

mod closed_forms;
mod corners_are_answered;
mod figures_are_in_order;
mod grid;
mod patience;
