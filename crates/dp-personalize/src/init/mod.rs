//! First estimates of the subspace, each from one release.

mod pairs;
mod projector;

pub use pairs::SamplePairs;
pub use projector::{ProjectorScratch, ProjectorSum};
