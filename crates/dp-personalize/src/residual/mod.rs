//! Residual refinement: releases whose noise shrinks with what is left to learn.

mod beside;
mod energy;
mod fit;
mod kept;
mod moment_scales;
mod params;
mod step;
mod transformed;
mod user;
mod whitening;

pub use energy::ResidualEnergy;
pub use fit::ResidualAltMin;
pub use params::{ResidualAltMinParams, Whitening};
pub use step::ResidualStep;
#[cfg(test)]
pub(crate) use user::Public;
pub use user::ResidualScratch;
pub use whitening::{DirectionMoments, MomentScratch};
