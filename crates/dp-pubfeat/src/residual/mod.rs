//! Releases of clipped residuals around what is known already.

mod bounds;
mod contributions;
mod fit;
mod pooled;

pub use bounds::ShrinkingBound;
pub use contributions::{ResidualContribution, TotalsContribution};
pub use fit::{ResidualSsp, ResidualSspParams};
