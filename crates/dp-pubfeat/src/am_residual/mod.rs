//! Alternating minimisation with residual rounds: users fit themselves locally, items learn from released residuals through their features.

mod contribution;
mod evidence;
mod fit;
mod model;
mod params;
mod prior;

pub use contribution::{LevelStep, RoundContribution, RoundScratch};
pub(crate) use contribution::{MOMENT_RATIO, push_moments, to_norm};
pub(crate) use evidence::{Totals, mean_moment};
pub use fit::AmResidualSsp;
pub use model::{FeatureModel, FeatureWeights};
pub use params::AmResidualSspParams;
pub(crate) use params::{constant, round_shares};
pub(crate) use prior::LEVELS;
pub use prior::{FeaturePrior, PriorVariances};
