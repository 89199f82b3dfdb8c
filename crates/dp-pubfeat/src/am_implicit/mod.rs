//! Alternating minimisation on likes: users fit themselves locally, items learn from released sums through their features.

mod contribution;
mod fit;
mod item_step;
mod model;
mod params;

pub use contribution::{LikesContribution, LikesShare, LikesStep};
pub use fit::AmImplicitSsp;
pub use model::LikesModel;
pub use params::AmImplicitSspParams;
