//! A convolutional representation that writers of digits learn together, and a head to which each adds a part of its own.

pub mod glyphs;
pub mod network;
pub mod study;

/// What may go wrong.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
