//! Private matrix factorisation by alternating minimisation.

mod defaults;
mod fit;
mod item_step;
mod model;
mod params;
mod plan;
mod user_step;

pub use fit::{FittedModel, Progress, Released};
pub use item_step::ItemStatistics;
pub use model::{FactorModel, PersonalModel, Provenance, Scoring, UserPenalties};
pub use params::{FactorizationParams, MatrixFactorization};

pub(crate) use fit::initial_factors;
pub use user_step::UserScratch;
pub(crate) use user_step::{Design, UserStep};

#[cfg(test)]
mod tests;
