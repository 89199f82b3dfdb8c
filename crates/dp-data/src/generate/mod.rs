//! Made data: rating tables of a given size, and their files.

mod activity;
mod draw;
mod ratings;
mod taste;
mod write;

pub use ratings::LongTailRatings;
pub use write::write_csv;
