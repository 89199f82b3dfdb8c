//! From released statistics to item vectors: post-processing.

mod collective;
mod encoder_descent;
mod kernel_ridge;
mod uncertainty;

pub use collective::PooledStatistics;
pub use collective::{CollectiveFactorization, CollectiveParams};
pub use encoder_descent::{Descent, EncoderDescent};
pub use encoder_descent::{ValueDescent, ValueDescentParams};
pub use kernel_ridge::{KernelRidge, RidgeNoise};

use crate::{ItemStatistics, Result};

/// A learner of item vectors from a sequence of released statistics.
///
/// # Privacy
/// It sees released and public values only, so everything it does is post-processing.
pub trait StatisticsLearner {
    /// Number of items `m`.
    fn n_items(&self) -> usize;

    /// Length `d` of an item's vector.
    fn dim(&self) -> usize;

    /// Learns from the statistics of one release.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the statistics are of other items, [`crate::Error::Diverged`]
    /// when training produces numbers that are not finite, [`crate::Error::Linalg`] when a solve
    /// fails.
    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()>;

    /// All current item vectors, shape `(m, d)`, row-major.
    ///
    /// # Errors
    /// Errors of an encoder's forward pass.
    fn item_vectors(&self) -> Result<Vec<f64>>;
}

/// All item vectors, checked to have the shape `(m, d)` that the fit began with, before they are
/// used with users' data.
pub(crate) fn vectors_of(
    learner: &impl StatisticsLearner,
    (n_items, dim): (usize, usize),
) -> Result<Vec<f64>> {
    let vectors = learner.item_vectors()?;
    let n = n_items.saturating_mul(dim);
    dp_core::params::same_size("learner's item vectors", vectors.len(), n)?;
    Ok(vectors)
}

/// Checks that the statistics are of this learner's items.
fn check_shape(learner: &impl StatisticsLearner, statistics: &ItemStatistics) -> Result<()> {
    dp_core::params::same_size("statistics' dim", statistics.dim(), learner.dim())?;
    Ok(dp_core::params::same_size(
        "items of the statistics",
        statistics.n_items(),
        learner.n_items(),
    )?)
}

/// Refuses vectors that are not finite.
fn finite(values: &[f64]) -> Result<()> {
    if values.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    Err(crate::Error::Diverged)
}
