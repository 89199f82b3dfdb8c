//! Step sizes of gradient descent over many tasks.

use dp_core::params;

use super::gramian::{TaskScales, noise_ridge};
use crate::Result;
use crate::factorization::in_public_range;

/// Step size of task `i` at step `t = 1, 2, ...`, for released total weights `W_i = sum_j w_ij`
/// (the paper's `omega_i n_i`) and gradient noise of standard deviation `s` per coordinate.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum StepSize {
    /// `2 radius / sqrt(Gamma^2 W_i^2 + d s^2) / sqrt(t)`: Theorem 3.12(a), convex losses.
    Lipschitz,
    /// `1 / (W_i lambda t)`: Theorem 3.12(b), strongly convex losses. The paper prints
    /// `omega_i^2` where its proof has `omega_i` (`docs/errata.md`).
    StronglyConvex {
        /// Strong convexity `lambda` of one record's loss.
        convexity: f64,
    },
    /// `rate / (f_i W_i h + damping r_i)`: a constant step in units of the curvature `h` of one
    /// record. `f_i = 1 + d/n_i` keeps small tasks from overshooting, for the `n_i` that are known,
    /// else `W_i`; `r_i = d s^2 / (radius^2 f_i W_i h)` shortens steps where noise outweighs the data.
    Curvature {
        /// The step in units of a Newton step, above 0.
        rate: f64,
        /// Second derivative of one record's loss along a direction, on average.
        curvature: f64,
        /// Damping, 0 or above.
        damping: f64,
    },
}

/// Where a descent stands.
pub(crate) struct Descent {
    /// From 1.
    pub(crate) step: usize,
    pub(crate) dim: usize,
    /// Of the ball that coefficients are kept in.
    pub(crate) radius: f64,
    /// Bound `Gamma` on a user's share of the gradients.
    pub(crate) gradient_norm: f64,
    /// Noise `s` of the step.
    pub(crate) noise_stddev: f64,
}

impl StepSize {
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Lipschitz => Ok(()),
            Self::StronglyConvex { convexity } => in_public_range("convexity", convexity),
            Self::Curvature {
                rate,
                curvature,
                damping,
            } => {
                in_public_range("rate", rate)?;
                in_public_range("curvature", curvature)?;
                params::finite_non_negative("damping", damping)?;
                in_public_range("damping", damping.max(1e-6))
            }
        }
    }

    /// `eta_i^(t)`.
    pub(crate) fn at(self, now: &Descent, scales: &TaskScales, task: usize) -> f64 {
        let (total, t) = (scales.totals[task], now.step as f64);
        match self {
            Self::Lipschitz => {
                let signal = now.gradient_norm * total;
                let squared = signal * signal + now.dim as f64 * now.noise_stddev.powi(2);
                2.0 * now.radius / (squared * t).sqrt()
            }
            Self::StronglyConvex { convexity } => 1.0 / (total * convexity * t),
            Self::Curvature {
                rate,
                curvature,
                damping,
            } => {
                let eigenvalue = curvature * scales.curvature[task];
                let ridge = noise_ridge(now.dim, now.radius, now.noise_stddev, eigenvalue);
                rate / (eigenvalue + damping * ridge)
            }
        }
    }
}
