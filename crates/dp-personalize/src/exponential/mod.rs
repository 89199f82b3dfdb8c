//! Algorithm 4: a subspace chosen among public candidates by the exponential mechanism.

mod candidates;
mod loss;
mod select;

pub use candidates::Candidates;
pub use loss::SelectionLoss;
pub use select::{CandidateGains, ExponentialSelection, ExponentialSelectionParams, GainScratch};
