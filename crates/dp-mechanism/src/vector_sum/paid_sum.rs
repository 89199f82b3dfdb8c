use dp_accounting::Spend;

use super::VectorSum;
use crate::release::ReleasedVector;
use crate::{NoiseSource, Result};

/// A sum over a sample that has been charged, with its spend. It can only be released.
///
/// It cannot be merged, because a server cannot check that the messages of another sum came from
/// other clients.
#[must_use = "a sum that is dropped stays paid for; nothing is refunded"]
#[allow(
    missing_debug_implementations,
    reason = "holds a private sum; printing it is never wanted"
)]
pub struct PaidSum {
    pub(super) sum: VectorSum,
    pub(super) spend: Spend,
}

impl PaidSum {
    /// Adds exact noise once and makes the sum public: [`VectorSum::release`] with the spend for
    /// which the sample was drawn.
    ///
    /// # Errors
    /// The errors of [`VectorSum::release`]. Nothing is then released and the spend is lost.
    pub fn release(self, noise: &mut NoiseSource) -> Result<ReleasedVector> {
        self.sum.release(self.spend, noise)
    }
}
