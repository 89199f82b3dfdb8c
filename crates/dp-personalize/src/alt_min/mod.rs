//! Algorithm 1: private alternating minimisation.

mod fit;
mod params;
mod start;
mod users;

pub(crate) use fit::OUTPUT;
pub use fit::{AltMin, FittedSubspace};
pub use params::{AltMinParams, Embedding, Initialisation, RowSplit, UserBatches};
pub(crate) use users::StepUsers;
