//! The workflows through the public interface of the crate.

#![allow(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on should stop it"
)]

mod items;
mod resume;
mod values;
mod workers;
