//! How large residual gradients are, as one released number.

use dp_core::{UserRow, params};
use dp_mechanism::{SparseBuffer, VectorContribution};

use super::user::{Public, ResidualScratch};
use crate::{Result, Subspace};

/// One user's share of the size of residual gradients: `min(||R_j||_F, c) / c`, with the `R_j` of
/// [`ResidualStep`](super::ResidualStep) and the clip `c` of the step before.
///
/// # Privacy
/// A number from 0 to 1: sensitivity 1 under add/remove; paid for 2 under replacement.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct ResidualEnergy<'a> {
    pub(crate) public: Public<'a>,
    pub(crate) clip_norm: f64,
}

impl<'a> ResidualEnergy<'a> {
    /// The shares for features as they are, in units of a clip.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when the clip is not finite and positive.
    pub fn new(subspace: &'a Subspace, clip_norm: f64) -> Result<Self> {
        Ok(Self {
            public: Public::unwhitened(subspace),
            clip_norm: params::finite_positive("clip_norm", clip_norm)?,
        })
    }
}

impl VectorContribution for ResidualEnergy<'_> {
    type Scratch = ResidualScratch;

    fn scratch(&self) -> ResidualScratch {
        self.public.scratch()
    }

    fn reads_features(&self) -> bool {
        self.public.kept.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut ResidualScratch, out: &mut SparseBuffer) {
        if let Some(gradient) = self.public.gradient(user, own) {
            out.push(0, (gradient.size / self.clip_norm).min(1.0));
        }
    }
}
