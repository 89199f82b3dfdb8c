//! The tests of this crate, in one binary.

#![allow(clippy::unwrap_used, reason = "a test stops where a step fails")]

mod generate;
mod readers;
mod real_data;
#[cfg(feature = "serde")]
mod settings;
mod split;
