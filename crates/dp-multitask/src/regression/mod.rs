//! Private regression of many tasks on the users' own features.

mod gradients;
mod gramian;
mod loss;
mod model;
mod noisy_gd;
mod residual;
mod residual_bounds;
mod setup;
mod ssp;
mod statistics;
mod step_size;

pub use gradients::{GradientClip, GradientScratch, WeightedGradients};
pub(crate) use gramian::TaskScales;
pub use gramian::{PooledGramian, WeightTotals};
pub use loss::{Loss, RegressionLoss};
pub use model::{FittedRegression, TaskModels};
pub use noisy_gd::{Iterate, MultiTaskNoisyGd, MultiTaskNoisyGdParams};
pub use residual::{Gramian, ResidualSsp, ResidualSspParams};
pub use residual_bounds::ResidualBounds;
pub use setup::TaskSetup;
pub(crate) use setup::shorten;
pub use ssp::{MultiTaskSsp, MultiTaskSspParams, SspSolve};
pub use statistics::SspStatistics;
pub(crate) use step_size::Descent;
pub use step_size::StepSize;
