//! Sufficient statistics perturbation: Algorithms 2 to 5.

mod contribution;
mod fit;
mod sampled;
mod statistics;

pub use contribution::SspContribution;
pub(crate) use contribution::scale_jointly;
pub(crate) use fit::{OUTPUT, gram_requests};
pub use fit::{Ssp, SspParams};
pub use sampled::{SampledSsp, SampledSspParams};
pub use statistics::ItemStatistics;
