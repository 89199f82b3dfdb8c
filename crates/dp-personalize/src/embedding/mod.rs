//! The private step of alternating minimisation: from personal models to a better subspace.

mod gd;
mod loss;
mod rows;
mod ssp;
mod ssp_user;
mod symmetric_noise;

pub use gd::{DpGdEmbedding, GradientScratch, SubspaceGradients};
pub use loss::ConvexLoss;
pub use rows::RowUse;
pub(crate) use rows::StepUsers;
pub use ssp::SspEmbedding;
#[cfg(test)]
pub(crate) use ssp_user::SspUser;
pub use ssp_user::{SspMatrix, SspRhs, SspScratch};
pub use symmetric_noise::SymmetricNoise;
