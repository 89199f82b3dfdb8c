use dp_core::params;

use crate::Result;

/// How a step size changes over rounds `t = 1, 2, ...`: a factor of the learning rate.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum StepSchedule {
    /// 1.
    Constant,
    /// `1 / sqrt t`.
    InverseSqrt,
    /// `ratio^(t - 1)`, for steps that follow a shrinking clip.
    Geometric {
        /// From 0 (excluded) to 1.
        ratio: f64,
    },
}

impl StepSchedule {
    /// The factor of round `t`, from 1.
    #[must_use]
    pub fn factor(self, round: usize) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::InverseSqrt => 1.0 / (round.max(1) as f64).sqrt(),
            Self::Geometric { ratio } => ratio.powf(round.max(1) as f64 - 1.0),
        }
    }

    pub(super) fn check(self) -> Result<()> {
        if let Self::Geometric { ratio } = self {
            params::finite_positive("ratio", ratio)?;
            params::closed_unit("ratio", ratio)?;
        }
        Ok(())
    }
}
