//! Training data and evaluation of a model.

use dp_core::{Interactions, Private};
use dp_multitask::{FactorModel, Fitted};

use dp_personal::error::Result;

/// Buckets of items by exact training counts; bucket 1 holds the rarest items.
pub(super) const N_BUCKETS: usize = 5;

/// Names of a metric overall and within a bucket.
pub(super) type Metric = (&'static str, &'static str);

/// A metric overall and by popularity of the item.
pub(super) struct Figures {
    pub(super) metric: Metric,
    pub(super) all: f64,
    pub(super) by_bucket: [Option<f64>; N_BUCKETS],
}

/// A training part with a validation and a test part. All metrics are computed on private data.
pub(super) trait Task {
    fn train(&self) -> &Private<Interactions>;

    /// The value that settings are selected by; lower is better.
    fn validation(&self, fitted: &Fitted<FactorModel>) -> Result<f64>;

    /// Metrics of the test part, always the same ones for models of one setting.
    fn test(&self, fitted: &Fitted<FactorModel>) -> Result<Vec<Figures>>;

    /// Methods that need no noise, by name.
    fn baselines(&self) -> Result<Vec<(&'static str, Figures)>>;
}
