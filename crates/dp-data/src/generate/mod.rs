//! Made data: rating tables of a given size, and their files.

mod activity;
mod draw;
mod new_rows;
mod normals;
mod offsets;
mod public_features;
mod ratings;
mod subspace;
mod tasks;
mod taste;
mod write;

pub use offsets::{OffsetData, PersonalOffsets};
pub use public_features::{MadeLabels, PublicFeatureData, PublicFeatureTask};
pub use ratings::LongTailRatings;
pub use subspace::{SharedSubspace, SubspaceData};
pub use tasks::{SkewedTasks, TaskData};
pub use write::write_csv;
