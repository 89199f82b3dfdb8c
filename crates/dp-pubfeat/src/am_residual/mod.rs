//! Alternating minimisation with residual rounds: users fit themselves locally, items learn from released residuals through their features.

mod contribution;
mod defaults;
mod evidence;
mod fit;
mod model;
mod params;
mod prior;
mod totals;
mod user_step;
mod weights;

pub(crate) use contribution::{MOMENT_RATIO, push_moments, to_norm};
pub use contribution::{RoundContribution, RoundScratch};
pub(crate) use evidence::mean_moment;
pub use fit::AmResidualSsp;
pub use model::FeatureModel;
pub use params::AmResidualSspParams;
pub(crate) use params::{constant, round_shares};
pub(crate) use prior::LEVELS;
pub use prior::{FeaturePrior, PriorVariances};
pub(crate) use totals::Totals;
pub use user_step::LevelStep;
pub use weights::FeatureWeights;
