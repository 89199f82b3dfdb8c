//! Private matrix factorisation by alternating minimisation.

mod checkpoint;
mod defaults;
mod feedback;
mod fit;
mod implicit_step;
mod item_step;
mod item_update;
mod model;
mod nearest;
mod params;
mod plain_lists;
mod plan;
mod pooled;
mod residual_step;
mod run;
mod state;
mod user_step;

pub use checkpoint::{Checkpoint, CheckpointFolder};
pub use feedback::{Feedback, ImplicitFeedback, ItemGramian};
pub use fit::{FittedModel, Released};
pub use implicit_step::{ImplicitSums, UserGramian};
pub use item_step::ItemStatistics;
pub use item_update::{
    GradientRounds, ItemUpdate, PooledMatrices, RecordSampling, ResidualRounds, ScoreModel,
};
pub use model::{FactorModel, PersonalModel, Provenance, Scoring, UserPenalties};
pub use params::{FactorizationParams, MatrixFactorization};
pub use residual_step::ItemResiduals;
pub use run::{Pay, Progress};

pub(crate) use params::in_public_range;
pub(crate) use state::initial_factors;
pub use user_step::UserScratch;
pub(crate) use user_step::UserStep;

#[cfg(test)]
mod residual_tests;
#[cfg(test)]
mod tests;
