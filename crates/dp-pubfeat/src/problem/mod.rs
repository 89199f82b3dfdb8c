//! Users' examples, their bounds and the unit that is protected.

mod setup;
mod trust;
mod unit;
mod unit_values;
mod weights;

pub use setup::ProblemSetup;
pub(crate) use setup::shorten;
pub(crate) use trust::{Vectors, assumptions};
pub use unit::ProtectedUnit;
pub use unit_values::UnitValues;
pub use weights::{ExampleWeights, ItemNumbers, WeightRule};
