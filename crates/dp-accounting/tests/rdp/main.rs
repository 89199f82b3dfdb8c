//! Renyi and zCDP accounting from outside: divergences against 50-digit values, the bounds against
//! exact answers on small cases, and what every accountant promises.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers in a table of f64"
)]

mod closed_forms;
mod composition_adds_up;
mod conversion_is_attained;
mod ends_of_ranges;
mod matches_50_digits;
mod selection_is_covered;
mod support;
mod zcdp_is_the_looser;
