//! Settings of residual refinement.

use dp_core::params;

use super::ResidualAltMin;
use crate::Result;

/// Settings of [`ResidualAltMin`], not yet checked. All are public, and none has a unit: they fit features and
/// labels of any scale.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualAltMinParams {
    /// Dimension of the subspace `k`.
    pub rank: usize,
    /// How the features are whitened; none for features that are known to be isotropic.
    pub whitening: Option<Whitening>,
    /// Share of the budget for the projector sum.
    pub init_share: f64,
    /// Refinement steps, all of the same share of what is left.
    pub n_steps: usize,
    /// Part of a step's share spent on the scalar that sets its clip, strictly between 0 and 1.
    pub energy_share: f64,
    /// Clip of the first step, in units of `U`: 1 is the size of an error as large as `U` itself.
    pub first_clip: f64,
    /// A step's clip over the released mean size of residual gradients.
    pub clip_factor: f64,
    /// Weight of the `k x k` part of a release against its residual part.
    pub moment_weight: f64,
}

/// Private whitening of the features.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whitening {
    /// Share of the budget.
    pub share: f64,
    /// Bound on the Frobenius norm of a user's mean `x x^T / ||x||^2`, 0 to 1; a loose one, above `1/sqrt(m) + 1/sqrt(d)` or so.
    pub clip_norm: f64,
    /// Lift of the eigenvalues in units of the noise's spectral norm.
    pub damping: f64,
}

impl ResidualAltMinParams {
    /// Whitening, a projector sum, four steps.
    #[must_use]
    pub const fn new(rank: usize) -> Self {
        Self {
            rank,
            whitening: Some(Whitening {
                share: 0.2,
                clip_norm: 0.5,
                damping: 0.25,
            }),
            init_share: 0.2,
            n_steps: 4,
            energy_share: 0.1,
            first_clip: 1.0,
            clip_factor: 1.0,
            moment_weight: 0.25,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<ResidualAltMin> {
        params::in_range("rank", self.rank, 1, 256, "a whole number from 1 to 256")?;
        params::open_unit("init_share", self.init_share)?;
        let mut spent = self.init_share;
        if let Some(whitening) = self.whitening {
            spent += params::open_unit("share of the whitening", whitening.share)?;
            params::open_unit("clip_norm of the whitening", whitening.clip_norm)?;
            params::finite_non_negative("damping", whitening.damping)?;
        }
        params::open_unit("init_share and share of the whitening", spent)?;
        params::in_range("n_steps", self.n_steps, 0, 100, "a whole number up to 100")?;
        params::open_unit("energy_share", self.energy_share)?;
        for (name, value) in [
            ("first_clip", self.first_clip),
            ("clip_factor", self.clip_factor),
            ("moment_weight", self.moment_weight),
        ] {
            params::finite_positive(name, value)?;
        }
        Ok(ResidualAltMin { params: self })
    }
}
