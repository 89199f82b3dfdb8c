//! Releases with what each unit added to them, for audits.

pub use dp_mechanism::{Observed, ObservedSums, Watch};
