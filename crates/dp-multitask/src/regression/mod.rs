//! Private regression of many tasks on the users' own features.

mod gradients;
mod loss;
mod model;
mod noisy_gd;
mod residual;
mod setup;
mod ssp;
mod statistics;

pub use gradients::{GradientClip, GradientScratch, WeightedGradients};
pub use loss::{Loss, RegressionLoss};
pub use model::TaskModels;
pub(crate) use noisy_gd::Descent;
pub use noisy_gd::{Iterate, MultiTaskNoisyGd, MultiTaskNoisyGdParams, StepSize, WithLoss};
pub use residual::{Gramian, ResidualBounds, ResidualSsp, ResidualSspParams};
pub use setup::TaskSetup;
pub(crate) use setup::shorten;
pub use ssp::{MultiTaskSsp, MultiTaskSspParams, SspSolve};
pub(crate) use statistics::TaskScales;
pub use statistics::{PooledGramian, SspStatistics, WeightTotals};
