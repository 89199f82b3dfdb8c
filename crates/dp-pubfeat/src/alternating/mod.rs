//! Alternating minimisation: users fit their vectors locally, items learn from noisy statistics of them.

mod contribution;
mod fit;
mod user_step;

pub use contribution::RatingStatistics;
pub use fit::{AmSsp, AmSspParams};
pub use user_step::{PersonalVector, UserStep, UserStepScratch};
