use dp_core::params;

use crate::Result;

/// A loss of scores `s` and a label, for [`AdditiveModel`](crate::AdditiveModel).
///
/// | loss | scores | label | value |
/// |---|---|---|---|
/// | `Squared` | 1 | any number | `(s - y)^2 / 2` |
/// | `Logistic` | 1 | above 0 is yes | `ln(1 + e^-s)` for yes, `ln(1 + e^s)` for no |
/// | `Softmax` | `K` | class `0, ..., K - 1` | `ln(sum_k e^(s_k - s_y))` |
/// | `OneVsAll` | `K` | class `0, ..., K - 1` | `sum_k (s_k - [k = y])^2 / 2` |
/// | `OneVsAllLogistic` | `K` | class `0, ..., K - 1` | sum of the logistic losses of "is it k" |
///
/// A label that is no class says nothing: loss and derivative are 0. `OneVsAll` is what the paper's experiments on
/// classes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum AdditiveLoss {
    /// Squared error.
    Squared,
    /// Yes or no.
    Logistic,
    /// One of `K` classes, cross-entropy.
    Softmax {
        /// `K`.
        n_classes: usize,
    },
    /// One of `K` classes, a squared error for each.
    OneVsAll {
        /// `K`.
        n_classes: usize,
    },
    /// One of `K` classes, a logistic loss for each.
    OneVsAllLogistic {
        /// `K`.
        n_classes: usize,
    },
}

impl AdditiveLoss {
    /// Scores that it takes.
    #[must_use]
    pub const fn n_scores(self) -> usize {
        match self {
            Self::Squared | Self::Logistic => 1,
            Self::Softmax { n_classes }
            | Self::OneVsAll { n_classes }
            | Self::OneVsAllLogistic { n_classes } => n_classes,
        }
    }

    pub(crate) fn check(self) -> Result<()> {
        let least = match self {
            Self::Squared | Self::Logistic => 1,
            _ => 2,
        };
        let expected = "a whole number from 2 to 65536";
        params::in_range("n_classes", self.n_scores(), least, 1 << 16, expected)?;
        Ok(())
    }

    /// The loss at `scores`.
    #[must_use]
    pub fn value(self, scores: &[f64], y: f32) -> f64 {
        let label = f64::from(y);
        match self {
            Self::Squared => 0.5 * (scores[0] - label).powi(2),
            Self::Logistic => log_loss(scores[0], label > 0.0),
            _ => self.of_class(scores, y),
        }
    }

    fn of_class(self, scores: &[f64], y: f32) -> f64 {
        let Some(class) = class(y, scores.len()) else {
            return 0.0;
        };
        let each = scores.iter().enumerate();
        match self {
            Self::OneVsAll { .. } => each
                .map(|(k, s)| 0.5 * (s - indicator(k == class)).powi(2))
                .sum(),
            Self::OneVsAllLogistic { .. } => each.map(|(k, &s)| log_loss(s, k == class)).sum(),
            _ => {
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s - most).exp()).sum();
                sum.ln() + most - scores[class]
            }
        }
    }

    /// Puts the derivative with respect to each score in its place.
    pub fn derivative(self, scores: &mut [f64], y: f32) {
        match self {
            Self::Squared | Self::Logistic => scores[0] = self.slope(scores[0], y),
            _ => self.derivative_of_class(scores, y),
        }
    }

    /// The derivative of a loss of one score; 0 for those of several.
    #[inline]
    pub(super) fn slope(self, score: f64, y: f32) -> f64 {
        let label = f64::from(y);
        match self {
            Self::Squared => score - label,
            Self::Logistic => sigmoid(score) - indicator(label > 0.0),
            _ => 0.0,
        }
    }

    fn derivative_of_class(self, scores: &mut [f64], y: f32) {
        let Some(class) = class(y, scores.len()) else {
            scores.fill(0.0);
            return;
        };
        match self {
            Self::OneVsAll { .. } => {}
            Self::OneVsAllLogistic { .. } => scores.iter_mut().for_each(|s| *s = sigmoid(*s)),
            _ => {
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                scores.iter_mut().for_each(|s| *s = (*s - most).exp());
                let sum: f64 = scores.iter().sum();
                scores.iter_mut().for_each(|s| *s /= sum);
            }
        }
        scores[class] -= 1.0;
    }
}

fn log_loss(score: f64, yes: bool) -> f64 {
    let margin = if yes { score } else { -score };
    // ln(1 + e^-m) without overflow
    (-margin.abs()).exp().ln_1p() + (-margin).max(0.0)
}

fn sigmoid(s: f64) -> f64 {
    let e = (-s.abs()).exp();
    let tail = e / (1.0 + e);
    if s < 0.0 { tail } else { 1.0 - tail }
}

fn indicator(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "a whole number below n_classes, compared with itself"
)]
fn class(y: f32, n_classes: usize) -> Option<usize> {
    let whole = y >= 0.0 && y < n_classes as f32 && y == y.trunc();
    whole.then_some(y as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [AdditiveLoss; 5] = [
        AdditiveLoss::Squared,
        AdditiveLoss::Logistic,
        AdditiveLoss::Softmax { n_classes: 3 },
        AdditiveLoss::OneVsAll { n_classes: 3 },
        AdditiveLoss::OneVsAllLogistic { n_classes: 3 },
    ];

    #[test]
    fn derivatives_are_those_of_the_values() {
        for loss in ALL {
            for y in [0.0, 1.0, 2.0, 1.5, -1.0] {
                let at = [0.3, -1.2, 4.0];
                let at = &at[..loss.n_scores()];
                let mut found = at.to_vec();
                loss.derivative(&mut found, y);
                for (k, found) in found.iter().enumerate() {
                    let moved = |h: f64| {
                        let mut at = at.to_vec();
                        at[k] += h;
                        loss.value(&at, y)
                    };
                    let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                    assert!((found - expected).abs() < 1e-8, "{loss:?} at label {y}");
                }
            }
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        for loss in ALL {
            for score in [800.0, -800.0] {
                let mut at = vec![score; loss.n_scores()];
                at[0] = -score;
                assert!(loss.value(&at, 1.0).is_finite());
                loss.derivative(&mut at, 1.0);
                assert!(at.iter().all(|d| d.is_finite()), "{loss:?}");
            }
        }
    }

    #[test]
    fn classes_are_counted() {
        assert!(AdditiveLoss::Softmax { n_classes: 1 }.check().is_err());
        assert!(AdditiveLoss::Softmax { n_classes: 2 }.check().is_ok());
        assert!(
            AdditiveLoss::OneVsAll { n_classes: 1 << 17 }
                .check()
                .is_err()
        );
    }
}
