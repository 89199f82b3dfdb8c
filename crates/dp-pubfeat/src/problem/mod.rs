//! Users' examples, their bounds and the unit that is protected.

mod setup;
mod unit;
mod weights;

pub use setup::{ProblemSetup, UnitValues};
pub(crate) use setup::{Vectors, assumptions, shorten};
pub use unit::ProtectedUnit;
pub use weights::{ExampleWeights, ItemNumbers, WeightRule};
