//! Private matrix factorisation by alternating minimisation.

mod axes;
mod cooccurrence;
mod fit;
mod forgetting;
mod global_effects;
mod implicit;
mod item_posterior;
mod item_prior;
mod item_update;
mod model;
mod nightly;
mod own_strength;
mod params;
mod popularity;
mod prior_rounds;
mod rating_scale;
mod taste_votes;
mod typical_user;
mod user_step;

pub use cooccurrence::MOST_COOCCURRING;
pub use implicit::{Feedback, ImplicitFeedback, ImplicitSums, ItemGramian, UserGramian};
pub use item_prior::ItemPrior;
pub use item_update::ItemResiduals;
pub use item_update::ItemStatistics;
pub use item_update::{
    GradientRounds, ItemUpdate, PooledMatrices, RecordSampling, ResidualRounds, ScoreModel,
};
pub use model::{ABOVE_NOISE, FactorModel, PersonalModel, Scoring, SimilarItem, UserPenalties};
pub use nightly::{
    NightContribution, NightState, NightlyFactorization, NightlyModel, NightlyParams,
};
pub use params::{FactorizationParams, MatrixFactorization};
pub use rating_scale::{RatingScale, ScaleContribution};
pub use taste_votes::TasteVotes;

pub(crate) use fit::initial_factors;
pub(crate) use params::in_public_range;
pub use user_step::UserScratch;
pub(crate) use user_step::UserStep;

#[cfg(test)]
mod residual_tests;
#[cfg(test)]
mod tests;
