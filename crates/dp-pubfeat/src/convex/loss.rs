//! Losses of a score and a label.

/// A twice differentiable convex loss `l(s, y)` of a score `s = <u, v>` and a label `y`, with bounds on its derivatives in `s`.
///
/// # Privacy
/// The guarantee does not rest on the bounds: derivatives outside them are clipped to them. Wrong ones cost accuracy.
///
/// **[`first`](Self::first) and [`second`](Self::second) are given users' private scores and labels.** The guarantee rests on what an implementation must keep to: all
/// methods are pure functions of their arguments, keep nothing from one call to the next, write and send nothing, and do not panic, whatever the
/// numbers (infinite ones and NaN too).
pub trait ConvexLoss: Sync {
    /// `l(s, y)`.
    fn loss(&self, score: f64, label: f64) -> f64;

    /// `l'(s, y)`.
    fn first(&self, score: f64, label: f64) -> f64;

    /// `l''(s, y)`, 0 or above.
    fn second(&self, score: f64, label: f64) -> f64;

    /// Bound on `|l'|` for labels up to `label_bound`, finite and above 0; where `l'` is unbounded, what is clipped to.
    fn first_bound(&self, label_bound: f64) -> f64;

    /// Bound on `l''`, finite and above 0.
    fn second_bound(&self) -> f64;
}

/// `log(1 + exp(-y s))`, a label's sign as its class. `|l'| <= 1`, `l'' <= 1/4`.
///
/// # Examples
/// ```
/// use dp_pubfeat::{ConvexLoss, Logistic};
/// assert_eq!(Logistic.first(0.0, 1.0), -0.5);
/// assert_eq!(Logistic.second(0.0, -3.0), 0.25);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Logistic;

/// 1 or -1.
fn class(label: f64) -> f64 {
    if label > 0.0 { 1.0 } else { -1.0 }
}

/// `1 / (1 + exp(-x))`.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl ConvexLoss for Logistic {
    fn loss(&self, score: f64, label: f64) -> f64 {
        let margin = class(label) * score;
        (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
    }

    fn first(&self, score: f64, label: f64) -> f64 {
        -class(label) * sigmoid(-class(label) * score)
    }

    fn second(&self, score: f64, _: f64) -> f64 {
        sigmoid(score) * sigmoid(-score)
    }

    fn first_bound(&self, _: f64) -> f64 {
        1.0
    }

    fn second_bound(&self) -> f64 {
        0.25
    }
}

/// `(s - y)^2 / 2`, with residuals beyond twice the label bound clipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Squared;

impl ConvexLoss for Squared {
    fn loss(&self, score: f64, label: f64) -> f64 {
        0.5 * (score - label).powi(2)
    }

    fn first(&self, score: f64, label: f64) -> f64 {
        score - label
    }

    fn second(&self, _: f64, _: f64) -> f64 {
        1.0
    }

    fn first_bound(&self, label_bound: f64) -> f64 {
        2.0 * label_bound
    }

    fn second_bound(&self) -> f64 {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_differences_and_within_their_bounds() {
        let losses: [&dyn ConvexLoss; 2] = [&Logistic, &Squared];
        for loss in losses {
            for score in [-30.0, -2.0, -0.1, 0.0, 0.7, 3.0, 40.0] {
                for y in [-1.0, 1.0] {
                    let h = 1e-4;
                    let slope = (loss.loss(score + h, y) - loss.loss(score - h, y)) / (2.0 * h);
                    assert!((slope - loss.first(score, y)).abs() < 1e-7);
                    let bend = (loss.first(score + h, y) - loss.first(score - h, y)) / (2.0 * h);
                    assert!((bend - loss.second(score, y)).abs() < 1e-7);
                    assert!((0.0..=loss.second_bound()).contains(&loss.second(score, y)));
                }
            }
        }
        for y in [-1.0, 1.0] {
            assert!(Logistic.first(-800.0, y).abs() <= 1.0 && Logistic.loss(800.0, y).is_finite());
        }
    }
}
