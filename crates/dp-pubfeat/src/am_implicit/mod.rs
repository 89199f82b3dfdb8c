//! Alternating minimisation on likes: users fit themselves locally, items learn from released sums through their features.

mod contribution;
mod defaults;
mod fit;
mod item_step;
mod model;
mod params;
mod user_step;

pub use contribution::{LikesContribution, LikesShare};
pub use fit::AmImplicitSsp;
pub use model::LikesModel;
pub use params::AmImplicitSspParams;
pub use user_step::LikesStep;
