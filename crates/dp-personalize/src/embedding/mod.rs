//! The private step of alternating minimisation: from personal models to a better subspace.

mod gd;
mod loss;
mod rows;
mod ssp;
mod symmetric_noise;

pub use gd::{DpGdEmbedding, GradientScratch, SubspaceGradients};
pub use loss::ConvexLoss;
pub use rows::RowUse;
#[cfg(test)]
pub(crate) use ssp::SspUser;
pub use ssp::{SspEmbedding, SspMatrix, SspRhs, SspScratch};
pub use symmetric_noise::SymmetricNoise;
