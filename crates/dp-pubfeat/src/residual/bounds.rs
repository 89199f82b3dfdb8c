//! Bounds that shrink with the residuals.

use dp_core::params;

use crate::Result;
use crate::features::in_public_range;

/// Public bound `c_t` on a unit's residuals in step `t`.
///
/// ```text
/// c_t = max(floor, first ratio^(t - 1))        t = 1, 2, ...
/// ```
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShrinkingBound {
    /// Bound of the first step, data units of a label, from 1e-6 to 1e6.
    pub first: f64,
    /// What a step leaves of it, above 0 and at most 1.
    pub ratio: f64,
    /// Least bound, from 1e-6 to `first`: about the noise of labels.
    pub floor: f64,
}

impl ShrinkingBound {
    pub(crate) fn check(&self) -> Result<()> {
        in_public_range("first", self.first)?;
        in_public_range("floor", self.floor)?;
        params::finite_non_negative("first - floor", self.first - self.floor)?;
        params::finite_positive("ratio", self.ratio)?;
        params::closed_unit("ratio", self.ratio)?;
        Ok(())
    }

    /// `c_t`, `t` from 1.
    #[must_use]
    pub fn at(&self, step: usize) -> f64 {
        let power = step.saturating_sub(1) as f64;
        (self.first * self.ratio.powf(power)).max(self.floor)
    }
}
