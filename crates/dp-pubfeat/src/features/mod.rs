//! Public features of items.

mod item_features;
mod kernel;

pub use item_features::{ItemFeatures, ItemFeaturesBuilder};
pub(crate) use item_features::{check_items, in_public_range};
pub use kernel::FeatureKernel;
