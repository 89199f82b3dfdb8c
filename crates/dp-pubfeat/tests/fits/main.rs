//! Whole fits: sensitivity, certificates, errors, learning.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod certificates;
mod federated;
mod learns;
mod neighbours;
mod reference;
mod refusals;
mod support;
