//! Private regression of many tasks on the users' own features.

mod gradients;
mod gramian;
mod loss;
mod model;
mod noisy_gd;
mod residual;
mod setup;
mod ssp;
mod statistics;

pub use gradients::{GradientClip, GradientScratch, WeightedGradients};
pub(crate) use gramian::TaskScales;
pub use gramian::{PooledGramian, WeightTotals};
pub use loss::{Loss, RegressionLoss};
pub use model::{FittedRegression, TaskModels};
pub(crate) use noisy_gd::Descent;
pub use noisy_gd::{Iterate, MultiTaskNoisyGd, MultiTaskNoisyGdParams, StepSize};
pub use residual::{Gramian, ResidualBounds, ResidualSsp, ResidualSspParams};
pub use setup::TaskSetup;
pub(crate) use setup::shorten;
pub use ssp::{MultiTaskSsp, MultiTaskSspParams, SspSolve};
pub use statistics::SspStatistics;
