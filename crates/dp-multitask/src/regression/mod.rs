//! Private regression of many tasks on the users' own features.

mod model;
mod noisy_gd;
mod residual;
mod ssp;

use dp_accounting::CertificateBuilder;
use dp_core::{Interactions, Private, UserRow, params};
use dp_mechanism::Run;

use crate::checked::taken_on_trust;
use crate::factorization::in_public_range;
use crate::{BudgetAllocation, NoisyCounts, Result, TaskCounts, TaskWeights};

pub use model::TaskModels;
pub(crate) use noisy_gd::Descent;
pub use noisy_gd::{GradientClip, GradientScratch, WeightedGradients};
pub use noisy_gd::{Iterate, MultiTaskNoisyGd, MultiTaskNoisyGdParams, StepSize, WithLoss};
pub use residual::{Gramian, ResidualBounds, ResidualSsp, ResidualSspParams};
pub(crate) use ssp::TaskScales;
pub use ssp::{MultiTaskSsp, MultiTaskSspParams, SspSolve};
pub use ssp::{PooledGramian, SspStatistics, WeightTotals};

const OUTPUT: &str = "task coefficients, noisy task counts, settings";

/// Public settings of a multi-task regression: per-task coefficients `theta_i` that predict user
/// `j`'s label for task `i` from the user's own features, `y_ij ~ <theta_i, x_j>`.
///
/// Tasks are the items of the table. There is no intercept: give users a constant feature if one is
/// wanted. Magnitudes must lie between 1e-6 and 1e6.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSetup {
    /// Dimension of the features `d`, 1 to 256.
    pub dim: usize,
    /// Bound `Gamma_x` on the norm of a user's features; longer vectors are shortened to it.
    pub feature_norm: f64,
    /// Bound `Gamma_y` on a label, in data units; larger labels are clipped to it.
    pub label_bound: f64,
    /// Bound `B` on the weighted root mean square `sqrt(sum_i w_ij^2 y_ij^2)` of a user's labels,
    /// in data units; all labels of a user above it are scaled down together. It has no effect at
    /// `label_bound` and above.
    pub label_norm: f64,
    /// Radius of the ball `C` around 0 to which the coefficients are restricted.
    pub radius: f64,
    /// How a user's budget is divided among the user's tasks.
    pub allocation: BudgetAllocation,
}

impl TaskSetup {
    /// Settings for features and coefficients in the unit ball, so that labels are in [-1, 1], with
    /// equal weights for all of a user's tasks.
    ///
    /// The joint label norm is `1/sqrt(3)`, the root mean square of labels that are uniform on
    /// their range: smaller labels are not affected, and the noise decreases in proportion.
    #[must_use]
    pub fn unit_ball(dim: usize) -> Self {
        Self {
            dim,
            feature_norm: 1.0,
            label_bound: 1.0,
            label_norm: 3.0_f64.sqrt().recip(),
            radius: 1.0,
            allocation: BudgetAllocation::equal(),
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(&self) -> Result<()> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        in_public_range("feature_norm", self.feature_norm)?;
        in_public_range("label_bound", self.label_bound)?;
        in_public_range("label_norm", self.label_norm)?;
        in_public_range("radius", self.radius)?;
        self.allocation.check()
    }

    /// `min(B, Gamma_y)`: the largest norm of a user's weighted labels.
    const fn label_reach(&self) -> f64 {
        self.label_norm.min(self.label_bound)
    }

    /// A user's features, shortened to norm `Gamma_x`. Missing cells count as 0.
    fn write_features(&self, user: UserRow<'_>, out: &mut [f64]) {
        out.fill(0.0);
        for (out, &x) in out.iter_mut().zip(user.features()) {
            *out = x.into();
        }
        shorten(out, self.feature_norm);
    }

    fn label(&self, y: f32) -> f64 {
        f64::from(y).clamp(-self.label_bound, self.label_bound)
    }

    /// Checks that the table's features have the length given in the settings.
    fn check_table(&self, data: &Private<Interactions>) -> Result<()> {
        let found = data.expose().feature_dim();
        Ok(params::same_size("users' features", found, self.dim)?)
    }

    /// Releases the counts if the allocation requires it, and computes the weights.
    fn weights(
        &self,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<(TaskWeights, Option<NoisyCounts>)> {
        let counts = match self.allocation.released_counts() {
            Some((_, clip_norm)) => Some(NoisyCounts::release(data, clip_norm, run)?),
            None => None,
        };
        let n_tasks = data.expose().n_items();
        let weights = self.allocation.weights(n_tasks, counts.as_ref())?;
        Ok((weights, counts))
    }

    /// The known task sizes.
    fn task_counts<'a>(&'a self, released: Option<&'a NoisyCounts>) -> Option<&'a [f64]> {
        match self.allocation.counts() {
            Some(TaskCounts::Public { values }) => Some(values),
            _ => released.map(NoisyCounts::values),
        }
    }

    /// Completes the certificate of a run with these settings.
    fn describe(
        &self,
        certificate: CertificateBuilder,
        assumptions: &[String],
    ) -> CertificateBuilder {
        let certificate = certificate
            .released_output(OUTPUT, "anyone")
            .assumption("settings were not chosen by looking at this data set")
            .tuning_included(false);
        let certificate = taken_on_trust(certificate, assumptions);
        match self.allocation.counts() {
            Some(TaskCounts::Public { .. }) => {
                certificate.assumption("the task counts in the settings are public knowledge")
            }
            _ => certificate,
        }
    }

    /// The Euclidean projection onto the ball.
    fn project(&self, coefficients: &mut [f64]) {
        shorten(coefficients, self.radius);
    }
}

/// Scales a vector down to norm `bound`; a vector that is not finite becomes zero.
pub(crate) fn shorten(vector: &mut [f64], bound: f64) {
    let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    if !norm.is_finite() {
        vector.fill(0.0);
    } else if norm > bound {
        let scale = bound / norm;
        vector.iter_mut().for_each(|v| *v *= scale);
    }
}

/// A convex loss of one record, `l(theta; x, y)`.
///
/// # Privacy
/// An implementation sees one record of one user and the released coefficients. Everything else it
/// captures must be public. However large its gradients, the clipping and the kernel's check bound
/// a user's contribution; a gradient that is not finite removes the user's whole contribution.
///
/// # Examples
/// A custom loss, here the squared hinge for labels -1 and 1:
/// ```
/// use dp_multitask::Loss;
/// struct SquaredHinge;
/// impl Loss for SquaredHinge {
///     fn value(&self, theta: &[f64], x: &[f64], y: f64) -> f64 {
///         let margin: f64 = theta.iter().zip(x).map(|(t, x)| t * x * y).sum();
///         0.5 * (1.0 - margin).max(0.0).powi(2)
///     }
///     fn gradient(&self, theta: &[f64], x: &[f64], y: f64, out: &mut [f64]) {
///         let margin: f64 = theta.iter().zip(x).map(|(t, x)| t * x * y).sum();
///         for (out, x) in out.iter_mut().zip(x) {
///             *out = -(1.0 - margin).max(0.0) * y * x;
///         }
///     }
/// }
/// let mut gradient = [0.0];
/// SquaredHinge.gradient(&[0.5], &[1.0], 1.0, &mut gradient);
/// assert_eq!(gradient, [-0.5]);
/// ```
pub trait Loss: Sync {
    /// The loss at `coefficients` of a record with these features and this label.
    fn value(&self, coefficients: &[f64], features: &[f64], label: f64) -> f64;

    /// Writes the gradient with respect to the coefficients.
    fn gradient(&self, coefficients: &[f64], features: &[f64], label: f64, out: &mut [f64]);
}

/// Losses of the linear prediction `p = <theta, x>`; gradients are `slope(p, y) x`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum RegressionLoss {
    /// `(p - y)^2 / 2`.
    Squared,
    /// `log(1 + exp(-s p))` with `s = 1` for labels above 0 and -1 otherwise.
    Logistic,
    /// `(p - y)^2 / 2` up to `|p - y| = threshold`, and linear beyond.
    Huber {
        /// The threshold, in label units, from 1e-6 to 1e6.
        threshold: f64,
    },
}

impl RegressionLoss {
    fn slope(self, prediction: f64, label: f64) -> f64 {
        match self {
            Self::Squared => prediction - label,
            Self::Logistic => {
                let sign = if label > 0.0 { 1.0 } else { -1.0 };
                -sign / (1.0 + (sign * prediction).exp())
            }
            Self::Huber { threshold } => (prediction - label).clamp(-threshold, threshold),
        }
    }

    /// Largest second derivative with respect to the prediction: 1, or 1/4 for the logistic loss.
    #[must_use]
    pub const fn smoothness(self) -> f64 {
        match self {
            Self::Squared | Self::Huber { .. } => 1.0,
            Self::Logistic => 0.25,
        }
    }
}

impl Loss for RegressionLoss {
    fn value(&self, coefficients: &[f64], features: &[f64], label: f64) -> f64 {
        let prediction = inner(coefficients, features);
        let error = prediction - label;
        match *self {
            Self::Squared => 0.5 * error * error,
            Self::Logistic => {
                let margin = if label > 0.0 { prediction } else { -prediction };
                (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
            }
            Self::Huber { threshold } if error.abs() > threshold => {
                threshold * (error.abs() - 0.5 * threshold)
            }
            Self::Huber { .. } => 0.5 * error * error,
        }
    }

    fn gradient(&self, coefficients: &[f64], features: &[f64], label: f64, out: &mut [f64]) {
        let slope = self.slope(inner(coefficients, features), label);
        for (out, x) in out.iter_mut().zip(features) {
            *out = slope * x;
        }
    }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_the_derivatives_of_the_values() {
        let losses = [
            RegressionLoss::Squared,
            RegressionLoss::Logistic,
            RegressionLoss::Huber { threshold: 0.3 },
        ];
        let x = [0.4, -1.1];
        for loss in losses {
            for (theta, y) in [([0.2, 0.1], 1.0), ([-0.7, 0.9], -1.0), ([3.0, -2.0], 0.5)] {
                let mut gradient = [0.0; 2];
                loss.gradient(&theta, &x, y, &mut gradient);
                for k in 0..2 {
                    let at = |step: f64| {
                        let mut moved = theta;
                        moved[k] += step;
                        loss.value(&moved, &x, y)
                    };
                    let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                    assert!((slope - gradient[k]).abs() < 1e-8, "{loss:?} {theta:?} {y}");
                }
            }
        }
    }

    #[test]
    fn the_logistic_loss_does_not_overflow() {
        let loss = RegressionLoss::Logistic;
        for p in [1e300, -1e300] {
            let mut out = [f64::NAN];
            loss.gradient(&[p], &[1.0], 1.0, &mut out);
            assert!(loss.value(&[p], &[1.0], 1.0) >= 0.0 && (-1.0..=0.0).contains(&out[0]));
        }
    }
}
