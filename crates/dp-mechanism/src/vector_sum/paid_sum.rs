use dp_accounting::Spend;

use super::VectorSum;
use crate::release::ReleasedVector;
use crate::{NoiseSource, Result};

/// A sum over a sample that is paid for, with the spend that paid: all that can be done with it is the
/// release.
///
/// It does not merge: that the messages of another sum came from other clients is nothing that a
/// server could check.
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
    /// Adds exact noise once and makes the sum public: [`VectorSum::release`] with the spend that
    /// the sample was drawn for.
    ///
    /// # Errors
    /// Those of [`VectorSum::release`]. Nothing is then released and the spend is gone.
    pub fn release(self, noise: &mut NoiseSource) -> Result<ReleasedVector> {
        self.sum.release(self.spend, noise)
    }
}
