//! A convolutional representation that writers of digits learn together, and a head to which each
//! writer adds a personal part.

pub mod glyphs;
pub mod network;
pub mod study;

/// Result with any error.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
