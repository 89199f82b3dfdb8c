//! Releases with what each user added to them, for audits.

pub use dp_mechanism::{Observed, ObservedSums, Watch};
