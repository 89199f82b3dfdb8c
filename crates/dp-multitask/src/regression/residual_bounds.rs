//! Bounds that shrink with what is left to learn.

use dp_core::{ParamError, params};

use crate::Result;
use crate::factorization::in_public_range;

/// Bounds `c_t` on a user's share of the residuals, step by step.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum ResidualBounds {
    /// `c_t = Gamma_x min(B, Gamma_y) ratio^(t-1)`.
    Geometric {
        /// From 0.01 to 1.
        ratio: f64,
    },
    /// One bound per step, in units of label times feature.
    Listed {
        /// The bounds.
        values: Vec<f64>,
    },
}

impl ResidualBounds {
    pub(crate) fn check(&self, n_steps: usize) -> Result<()> {
        match self {
            Self::Geometric { ratio } if (0.01..=1.0).contains(ratio) => Ok(()),
            Self::Geometric { ratio } => Err(ParamError {
                name: "ratio",
                value: *ratio,
                expected: "a number from 0.01 to 1",
            }
            .into()),
            Self::Listed { values } => {
                params::same_size("residual bounds", values.len(), n_steps)?;
                for &value in values {
                    in_public_range("residual bound", value)?;
                }
                Ok(())
            }
        }
    }

    /// The bound of step `step` where that of step 0 is `first`; geometric ones are never below 1e-9 of it.
    pub(crate) fn at(&self, first: f64, step: usize) -> f64 {
        match self {
            Self::Geometric { ratio } => first * ratio.powf(step as f64).max(1e-9),
            Self::Listed { values } => values[step],
        }
    }
}
