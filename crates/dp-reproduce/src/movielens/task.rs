//! What a model is trained on and held against.

use dp_core::{Interactions, Private};
use dp_multitask::{FactorModel, Fitted};

use dp_personal::error::Result;

/// Buckets of items by exact training counts; bucket 1 holds the rarest items.
pub(super) const N_BUCKETS: usize = 5;

/// Names of a metric over everything and within a bucket.
pub(super) type Metric = (&'static str, &'static str);

/// A metric over everything and by popularity of the item.
pub(super) struct Figures {
    pub(super) metric: Metric,
    pub(super) all: f64,
    pub(super) by_bucket: [Option<f64>; N_BUCKETS],
}

/// A training part with a validation and a test part. All figures are computed on private data.
pub(super) trait Task {
    fn train(&self) -> &Private<Interactions>;

    /// What settings are chosen by: the less, the better.
    fn validation(&self, fitted: &Fitted<FactorModel>) -> Result<f64>;

    /// Figures of the test part, always of the same metrics for models of one setting.
    fn test(&self, fitted: &Fitted<FactorModel>) -> Result<Vec<Figures>>;

    /// What needs no noise, by method.
    fn baselines(&self) -> Result<Vec<(&'static str, Figures)>>;
}
