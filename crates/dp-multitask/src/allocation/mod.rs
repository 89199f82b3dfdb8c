//! How a user's privacy budget is spread over the user's tasks.

mod budget;
mod head;
mod sampling;
mod weights;

pub use budget::{BudgetAllocation, TaskCounts, UserRule};
pub(crate) use head::n_head;
pub(crate) use sampling::{Selection, fingerprint, mix};
pub use weights::TaskWeights;
