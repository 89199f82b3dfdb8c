//! Complete fits: sensitivity, certificates, errors, learning.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "small made numbers; tests drive runs; a test that fails may panic"
)]

mod alternating;
mod am_implicit;
mod am_residual;
mod certificates;
mod exchanged;
mod federated;
mod first_release;
mod learns;
mod neighbours;
mod observed;
mod reference;
mod refusals;
mod runs;
mod settings;
mod support;
mod uncertainty;
