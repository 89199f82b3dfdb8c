//! Public features of items.

mod item_features;
mod kernel;
mod sparse_kernel;

pub use item_features::{ItemFeatures, ItemFeaturesBuilder};
pub(crate) use item_features::{below, check_items, in_public_range, to_unit_norm};
pub use kernel::FeatureKernel;
pub use sparse_kernel::SparseKernel;

/// What a kernel has to say of `m` items, symmetric and positive semidefinite. Public.
pub trait ItemKernel {
    /// Number of items `m`.
    fn n_items(&self) -> usize;

    /// `K_jj`.
    fn diagonal(&self, item: usize) -> f64;

    /// `out = K g` for `g` and `out` of shape `(m, dim)`, row-major.
    fn apply(&self, dim: usize, g: &[f64], out: &mut [f64]);
}
