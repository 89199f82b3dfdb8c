//! Convex losses.

/// A convex loss of one record, `l(theta; x, y)`.
///
/// # Privacy
/// An implementation sees one record of one user and the released coefficients. What it captures
/// must be public. However large its gradients, the clipping and the kernel's check bound what a
/// user adds; a gradient that is not finite takes the user's whole share out.
///
/// # Examples
/// A loss of one's own, here the squared hinge for labels -1 and 1:
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
    /// `log(1 + exp(-s p))` with `s = 1` for labels above 0 and -1 else.
    Logistic,
    /// `(p - y)^2 / 2` up to `|p - y| = threshold`, from there on linear.
    Huber {
        /// Where the loss turns linear, label units, from 1e-6 to 1e6.
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

    /// Largest second derivative in the prediction: 1, or 1/4 for the logistic loss.
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
