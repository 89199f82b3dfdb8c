use dp_core::params;
use dp_linalg::{PlainLoops, with_vector_instructions};

use super::vectors::{add_scaled, inner, to_f32};
use super::{AdditiveLoss, Gradients, Minibatch, PersonalizedObjective, Point};
use crate::Result;

/// The additive model: scores `s_k = <w_k + theta_ik, x>` under a loss.
///
/// ```text
/// f(w, theta_i, (x, y)) = loss(y, (w + theta_i) x),   w and theta_i of shape (n_scores, n_features)
/// grad_w f = grad_theta f = loss'(y, s) x^T
/// ```
///
/// Source: Bietti et al. 2022, eq. (3). Shared and local parameters can stand in for each other: how much each learns is
/// settled by the ratio of their step sizes.
///
/// # Numerics
/// Minibatch gradients are taken in single precision (the user step), single rows in double.
///
/// # Examples
/// ```
/// use dp_fedsgd::{AdditiveLoss, AdditiveModel, PersonalizedObjective, Point};
/// let model = AdditiveModel::new(AdditiveLoss::Squared, 2)?;
/// let at = Point { shared: &[1.0, 0.0], local: &[0.0, 2.0] };
/// assert_eq!(model.loss(at, &[1.0, 1.0], 1.0), 2.0); // (3 - 1)^2 / 2
/// # Ok::<(), dp_fedsgd::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdditiveModel {
    loss: AdditiveLoss,
    n_features: usize,
}

impl AdditiveModel {
    /// The model for `n_features` numbers in `x`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless there are 1 to 2^16 features, and 2 to 2^16 classes where there are classes.
    pub fn new(loss: AdditiveLoss, n_features: usize) -> Result<Self> {
        let expected = "a whole number from 1 to 65536";
        params::in_range("n_features", n_features, 1, 1 << 16, expected)?;
        loss.check()?;
        Ok(Self { loss, n_features })
    }

    /// The loss.
    #[must_use]
    pub const fn loss_function(&self) -> AdditiveLoss {
        self.loss
    }

    /// The scores of one row.
    #[must_use]
    pub fn scores(&self, at: Point<'_>, x: &[f32]) -> Vec<f64> {
        let both = at.shared.iter().zip(at.local).map(|(w, t)| w + t);
        let sums: Vec<f64> = both.collect();
        let score = |u: &[f64]| u.iter().zip(x).map(|(u, &x)| u * f64::from(x)).sum();
        sums.chunks_exact(self.n_features).map(score).collect()
    }

    fn add_row(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        let mut scores = self.scores(at, x);
        self.loss.derivative(&mut scores, y);
        for (out, slope) in out.chunks_exact_mut(self.n_features).zip(scores) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out += slope * f64::from(x);
            }
        }
    }
}

impl PersonalizedObjective for AdditiveModel {
    fn n_features(&self) -> usize {
        self.n_features
    }

    fn n_shared(&self) -> usize {
        self.n_features * self.loss.n_scores()
    }

    fn n_local(&self) -> usize {
        self.n_shared()
    }

    fn loss(&self, at: Point<'_>, x: &[f32], y: f32) -> f64 {
        self.loss.value(&self.scores(at, x), y)
    }

    fn grad_shared(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        self.add_row(at, x, y, out);
    }

    fn grad_local(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        self.add_row(at, x, y, out);
    }

    fn gradients(&self, at: Point<'_>, batch: &Minibatch, out: &mut Gradients) {
        with_vector_instructions(MinibatchGradient {
            model: *self,
            at,
            batch,
            out,
        });
    }
}

/// Both gradients of a minibatch, which are the same.
struct MinibatchGradient<'a> {
    model: AdditiveModel,
    at: Point<'a>,
    batch: &'a Minibatch,
    out: &'a mut Gradients,
}

impl PlainLoops for MinibatchGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (n, n_features) = (self.model.n_shared(), self.model.n_features);
        let Gradients {
            shared,
            local,
            work,
            scores,
        } = self.out;
        work.clear();
        let both = self.at.shared.iter().zip(self.at.local);
        work.extend(both.map(|(w, t)| to_f32(w + t)));
        work.resize(2 * n, 0.0);
        let (model, sum) = work.split_at_mut(n);
        if self.model.loss.n_scores() == 1 {
            for (x, y) in self.batch.rows() {
                let slope = self.model.loss.slope(f64::from(inner(model, x)), y);
                add_scaled(sum, to_f32(slope), x);
            }
        } else {
            scores.resize(self.model.loss.n_scores(), 0.0);
            for (x, y) in self.batch.rows() {
                for (score, u) in scores.iter_mut().zip(model.chunks_exact(n_features)) {
                    *score = f64::from(inner(u, x));
                }
                self.model.loss.derivative(scores, y);
                for (sum, &slope) in sum.chunks_exact_mut(n_features).zip(&*scores) {
                    add_scaled(sum, to_f32(slope), x);
                }
            }
        }
        for ((shared, local), &sum) in shared.iter_mut().zip(local).zip(&*sum) {
            *shared += f64::from(sum);
            *local += f64::from(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minibatch_gradient_is_the_sum_of_those_of_its_rows() {
        for loss in [
            AdditiveLoss::Squared,
            AdditiveLoss::Softmax { n_classes: 4 },
        ] {
            let model = AdditiveModel::new(loss, 19).unwrap();
            let n = model.n_shared();
            let number = |at: usize| ((at * 7919) % 101) as f64 / 50.0 - 1.0;
            let (shared, local): (Vec<_>, Vec<_>) =
                (0..n).map(|i| (number(i), number(i + 31))).unzip();
            let at = Point {
                shared: &shared,
                local: &local,
            };
            let mut batch = Minibatch::new(19);
            for row in 0..6 {
                let x: Vec<f32> = (0..19).map(|i| to_f32(number(row * 19 + i + 5))).collect();
                batch.push(&x, (row % 4) as f32);
            }
            batch.push(&[1.0], 0.0); // of another length
            assert_eq!(batch.len(), 6);
            let mut quick = Gradients::default();
            quick.reset(&model);
            model.gradients(at, &batch, &mut quick);
            let mut slow = vec![0.0; n];
            for (x, y) in batch.rows() {
                model.grad_shared(at, x, y, &mut slow);
            }
            for (a, b) in quick.shared.iter().zip(&slow) {
                assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{loss:?}");
            }
            assert_eq!(quick.shared, quick.local);
        }
    }

    #[test]
    fn gradients_are_those_of_the_loss() {
        let model = AdditiveModel::new(AdditiveLoss::Softmax { n_classes: 3 }, 2).unwrap();
        let (shared, local) = ([0.5, -1.0, 0.2, 0.0, 1.0, 0.3], [0.1; 6]);
        let (x, y) = ([0.7_f32, -0.4], 2.0);
        let mut found = [0.0; 6];
        let at = Point {
            shared: &shared,
            local: &local,
        };
        model.grad_local(at, &x, y, &mut found);
        for (k, found) in found.iter().enumerate() {
            let moved = |h: f64| {
                let mut local = local;
                local[k] += h;
                model.loss(
                    Point {
                        shared: &shared,
                        local: &local,
                    },
                    &x,
                    y,
                )
            };
            assert!((found - (moved(1e-5) - moved(-1e-5)) / 2e-5).abs() < 1e-8);
        }
    }
}
