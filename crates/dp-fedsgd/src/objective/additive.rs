use dp_core::params;
use dp_linalg::{PlainLoops, row_scores, weighted_row_sum, with_vector_instructions};

use super::to_f32;
use super::{AdditiveLoss, Gradients, Minibatch, PersonalizedObjective, Point, Work};
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
/// Minibatch gradients are taken in single precision (the user step), single rows in double. Products are fused into sums where the
/// processor can, so last digits depend on it.
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
        let Gradients {
            shared,
            local,
            work,
        } = out;
        work.model.clear();
        work.model.resize(self.n_shared(), 0.0);
        let model = &mut work.model;
        with_vector_instructions(Both { at, model });
        // rows of another width say nothing
        if self.sum_over_rows(batch, work).is_ok() {
            let sum = &work.sum;
            with_vector_instructions(AddToBoth { sum, shared, local });
        }
    }
}

impl AdditiveModel {
    /// The sum over the rows of the derivative with respect to the scores times the row, one row of the parameters after the other.
    fn sum_over_rows(&self, batch: &Minibatch, work: &mut Work) -> dp_linalg::Result<()> {
        let rows = batch.features();
        work.slopes.resize(self.loss.n_scores() * rows.n_rows, 0.0);
        work.sum.resize(work.model.len(), 0.0);
        let n_rows = rows.n_rows.max(1);
        let slopes = work.slopes.chunks_exact_mut(n_rows);
        for (own, scores) in work.model.chunks_exact(self.n_features).zip(slopes) {
            row_scores(rows, own, scores)?;
        }
        self.derive(batch, work);
        let sums = work.sum.chunks_exact_mut(self.n_features);
        for (at, sum) in sums.enumerate() {
            let slopes = &work.slopes[at * rows.n_rows..][..rows.n_rows];
            weighted_row_sum(rows, slopes, sum)?;
        }
        Ok(())
    }

    /// Puts derivatives in place of the scores of all rows, which stand together for each of the model's scores.
    fn derive(&self, batch: &Minibatch, work: &mut Work) {
        if self.loss.n_scores() == 1 {
            for (slope, y) in work.slopes.iter_mut().zip(batch.labels()) {
                *slope = to_f32(self.loss.slope(f64::from(*slope), y));
            }
            return;
        }
        for (row, y) in batch.labels().enumerate() {
            let of_row = work.slopes.iter_mut().skip(row).step_by(batch.len());
            work.scores.clear();
            work.scores.extend(of_row.map(|score| f64::from(*score)));
            self.loss.derivative(&mut work.scores, y);
            let of_row = work.slopes.iter_mut().skip(row).step_by(batch.len());
            for (slope, &derivative) in of_row.zip(&work.scores) {
                *slope = to_f32(derivative);
            }
        }
    }
}

/// `w + theta_i` in single precision.
struct Both<'a> {
    at: Point<'a>,
    model: &'a mut [f32],
}

impl PlainLoops for Both<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let both = self.at.shared.iter().zip(self.at.local);
        for (model, (w, t)) in self.model.iter_mut().zip(both) {
            *model = to_f32(w + t);
        }
    }
}

/// The same sum added to both gradients.
struct AddToBoth<'a> {
    sum: &'a [f32],
    shared: &'a mut [f64],
    local: &'a mut [f64],
}

impl PlainLoops for AddToBoth<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((shared, local), &sum) in self.shared.iter_mut().zip(self.local).zip(self.sum) {
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
