//! Complete runs.

#![allow(
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests drive runs, and may panic"
)]

mod accounting;
mod federated;
mod golden;
mod hostile;
mod learns;
mod lists;
mod neighbours;
mod observed;
mod reference;
mod runs;
mod settings;
mod support;
