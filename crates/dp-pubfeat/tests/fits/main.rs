//! Whole fits: sensitivity, certificates, errors, learning.
#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "small made numbers; a test that fails may panic"
)]

mod alternating;
mod am_implicit;
mod am_residual;
mod am_residual_bounds;
mod am_residual_units;
mod certificates;
mod exchanged;
mod federated;
mod first_release;
mod first_rounds;
mod golden;
mod learns;
mod neighbours;
mod reference;
mod refusals;
mod support;
mod watched;
