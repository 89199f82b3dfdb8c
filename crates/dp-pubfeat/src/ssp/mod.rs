//! Sufficient statistics perturbation: Algorithms 2 to 5.

mod contribution;
mod fit;
mod sampled;
mod statistics;

pub use contribution::SspContribution;
pub(crate) use contribution::scale_jointly;
pub use fit::{FittedItems, Ssp, SspParams};
pub(crate) use fit::{OUTPUT, gram_requests, release};
pub use sampled::{SampledSsp, SampledSspParams};
pub use statistics::ItemStatistics;
