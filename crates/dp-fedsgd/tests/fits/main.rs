//! Whole runs.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod accounting;
mod federated;
mod hostile;
mod learns;
mod neighbours;
mod reference;
mod runs;
mod support;
mod threads;
mod watched;
