//! Files of ratings, items, one user's history and labelled feature vectors.
//!
//! Layers: [`source`] distinguishes text from Parquet and yields the lines of a plain or gzip file,
//! [`fields`] splits a line, `parquet` and `memory` write rows as such fields, [`table`] checks
//! that all lines have the same number of fields, and [`mod@format`] finds layout and columns. The
//! other modules interpret the columns. [`parts`] does the same for plain records on several threads.

mod format;
mod items;
mod json;
mod leaf;
mod memory;
#[cfg(feature = "parquet")]
mod parquet;
mod parts;
mod ratings;
mod samples;
mod table;

pub use format::{Layout, RatingsColumns, RatingsFormat, is_usual_column};
pub use items::{ItemAttributes, read_item_attributes, read_item_table, read_whole_item_table};
pub use items::{check_catalogue, check_item_list, check_no_user_ids, read_catalogue};
pub use leaf::{LeafRows, read_leaf, read_leaf_from};
pub use memory::{
    Column, ColumnKind, MemoryTable, TableRows, TableSource, write_display, write_float,
    write_whole,
};
#[cfg(feature = "parquet")]
pub use parquet::panic_is_contained;
pub use ratings::{UserHistory, read_history, read_history_from};
pub use ratings::{
    read_ratings, read_ratings_from, read_ratings_on_disk, read_ratings_with_catalogue,
};
pub use samples::{SampleColumns, read_samples, read_samples_from};
