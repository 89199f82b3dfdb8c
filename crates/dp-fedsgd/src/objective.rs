//! The training objective: losses in shared and local parameters.

use dp_core::params;
use dp_linalg::{PlainLoops, StridedRows, row_scores, weighted_row_sum, with_vector_instructions};

use crate::Result;

/// Rows `(x, y)` of one user for one local step.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing them is never wanted"
)]
pub struct Minibatch {
    n_features: usize,
    /// Every row: `x`, then `y`.
    cells: Vec<f32>,
}

impl Minibatch {
    /// An empty minibatch for rows of `n_features` features.
    #[must_use]
    pub const fn new(n_features: usize) -> Self {
        Self {
            n_features,
            cells: Vec::new(),
        }
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.cells.clear();
    }

    /// Adds a row; a row of the wrong length is ignored.
    pub fn push(&mut self, x: &[f32], y: f32) {
        if x.len() == self.n_features {
            self.cells.extend_from_slice(x);
            self.cells.push(y);
        }
    }

    /// The cells, each row `x` then `y`, to be written directly. Cells after the last complete row
    /// are ignored.
    pub const fn cells_mut(&mut self) -> &mut Vec<f32> {
        &mut self.cells
    }

    /// Number of features in `x`.
    #[must_use]
    pub const fn n_features(&self) -> usize {
        self.n_features
    }

    /// Number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.cells.len() / (self.n_features + 1)
    }

    /// Whether there is no row.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The features of all rows, without copying.
    fn features(&self) -> StridedRows<'_> {
        StridedRows {
            data: &self.cells,
            stride: self.n_features + 1,
            n_rows: self.len(),
            dim: self.n_features,
        }
    }

    /// The labels of all rows.
    fn labels(&self) -> impl ExactSizeIterator<Item = f32> {
        self.rows().map(|(_, y)| y)
    }

    /// The rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = (&[f32], f32)> {
        self.cells.chunks_exact(self.n_features + 1).map(|row| {
            let (x, y) = row.split_at(self.n_features);
            (x, y[0])
        })
    }
}

/// Shared and local parameters at which a loss is evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    /// The shared `w`.
    pub shared: &'a [f64],
    /// The user's `theta_i`.
    pub local: &'a [f64],
}

/// Sums of gradients over the rows of a minibatch, with scratch memory.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private gradient; printing it is never wanted"
)]
pub struct Gradients {
    /// Gradient with respect to `w`.
    pub shared: Vec<f64>,
    /// Gradient with respect to `theta_i`.
    pub local: Vec<f64>,
    /// Scratch memory of the objective.
    pub(crate) work: Work,
}

/// Scratch memory for a minibatch gradient.
#[derive(Default)]
pub(crate) struct Work {
    /// `w + theta_i`.
    model: Vec<f32>,
    /// Derivatives with respect to the scores, grouped by score.
    slopes: Vec<f32>,
    /// Scores of a row.
    scores: Vec<f64>,
    /// The gradient.
    sum: Vec<f32>,
}

impl Gradients {
    /// Resets the sums to zeros of the objective's lengths.
    pub fn reset(&mut self, objective: &impl PersonalizedObjective) {
        for (vector, len) in [
            (&mut self.shared, objective.n_shared()),
            (&mut self.local, objective.n_local()),
        ] {
            vector.clear();
            vector.resize(len, 0.0);
        }
    }
}

/// A loss `f(w, theta_i, (x, y))` of one row, in shared parameters `w` and a user's own `theta_i`.
///
/// Source: Bietti et al. 2022, section 3.1. Any differentiable loss can be used; the bounds in
/// [`crate::bounds`] require it to be jointly convex.
///
/// # Privacy
/// All methods run where the user's rows are stored. Only the gradient for `w` leaves, after
/// clipping and quantisation. If it contains a value that is not a number, the whole gradient
/// counts as 0.
///
/// # Examples
/// A model with a shared slope and an intercept for each user:
/// ```
/// use dp_fedsgd::{Gradients, Minibatch, PersonalizedObjective, Point};
///
/// struct SlopeAndLevel;
/// impl PersonalizedObjective for SlopeAndLevel {
///     fn n_features(&self) -> usize { 1 }
///     fn n_shared(&self) -> usize { 1 }
///     fn n_local(&self) -> usize { 1 }
///     fn loss(&self, at: Point<'_>, x: &[f32], y: f32) -> f64 {
///         0.5 * (at.shared[0] * f64::from(x[0]) + at.local[0] - f64::from(y)).powi(2)
///     }
///     fn grad_shared(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
///         let x = f64::from(x[0]);
///         out[0] += (at.shared[0] * x + at.local[0] - f64::from(y)) * x;
///     }
///     fn grad_local(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
///         out[0] += at.shared[0] * f64::from(x[0]) + at.local[0] - f64::from(y);
///     }
/// }
///
/// let mut batch = Minibatch::new(1);
/// batch.push(&[2.0], 1.0);
/// let mut gradients = Gradients::default();
/// gradients.reset(&SlopeAndLevel);
/// let at = Point { shared: &[1.0], local: &[0.5] };
/// SlopeAndLevel.gradients(at, &batch, &mut gradients);
/// assert_eq!((gradients.shared[0], gradients.local[0]), (3.0, 1.5));
/// ```
pub trait PersonalizedObjective: Sync {
    /// Number of features in `x`.
    fn n_features(&self) -> usize;

    /// Length of `w`.
    fn n_shared(&self) -> usize;

    /// Length of `theta_i`.
    fn n_local(&self) -> usize;

    /// The loss of one row.
    fn loss(&self, at: Point<'_>, x: &[f32], y: f32) -> f64;

    /// Adds the gradient with respect to `w`.
    fn grad_shared(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]);

    /// Adds the gradient with respect to `theta_i`.
    fn grad_local(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]);

    /// Adds both gradients of all rows. Override it where they share work.
    fn gradients(&self, at: Point<'_>, batch: &Minibatch, out: &mut Gradients) {
        for (x, y) in batch.rows() {
            self.grad_shared(at, x, y, &mut out.shared);
            self.grad_local(at, x, y, &mut out.local);
        }
    }
}

const LANES: usize = 16;

/// The sum of `f` over the numbers in sixteen lanes, so that the compiler can use vector registers.
/// Inlined, for [`with_vector_instructions`](dp_linalg::with_vector_instructions).
#[inline(always)]
pub(crate) fn sum_of(v: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let (v16, rest) = v.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    for v in v16 {
        for lane in 0..LANES {
            sums[lane] += f(v[lane]);
        }
    }
    let mut width = LANES / 2; // pairwise: no long chain of additions
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest.iter().map(|&v| f(v)).sum::<f64>()
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a rounded number is meant")]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

/// The additive model: scores `s_k = <w_k + theta_ik, x>` under a loss.
///
/// ```text
/// f(w, theta_i, (x, y)) = loss(y, (w + theta_i) x),   w and theta_i of shape (n_scores, n_features)
/// grad_w f = grad_theta f = loss'(y, s) x^T
/// ```
///
/// Source: Bietti et al. 2022, eq. (3). Shared and local parameters can substitute for each other:
/// the ratio of their step sizes determines how much each learns.
///
/// # Numerics
/// Minibatch gradients are computed in single precision (the user step), gradients of single rows
/// in double precision. Products are fused into sums where the processor supports it, so last
/// digits depend on the processor.
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
        // rows of another width are ignored
        if self.sum_over_rows(batch, work).is_ok() {
            let sum = &work.sum;
            with_vector_instructions(AddToBoth { sum, shared, local });
        }
    }
}

impl AdditiveModel {
    /// The sum over the rows of the derivative with respect to the scores times the row, in the
    /// order of the parameter rows.
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

    /// Replaces the scores of all rows, which are grouped by score, with derivatives.
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

/// Adds the same sum to both gradients.
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

/// A loss of scores `s` and a label, for [`AdditiveModel`](crate::AdditiveModel).
///
/// | loss | scores | label | value |
/// |---|---|---|---|
/// | `Squared` | 1 | any number | `(s - y)^2 / 2` |
/// | `Logistic` | 1 | positive if above 0 | `ln(1 + e^-s)` if positive, `ln(1 + e^s)` otherwise |
/// | `Softmax` | `K` | class `0, ..., K - 1` | `ln(sum_k e^(s_k - s_y))` |
/// | `OneVsAll` | `K` | class `0, ..., K - 1` | `sum_k (s_k - [k = y])^2 / 2` |
/// | `OneVsAllLogistic` | `K` | class `0, ..., K - 1` | sum over `k` of the logistic losses of the label `y = k` |
///
/// A label that is not a class is ignored: loss and derivative are 0. The paper's classification
/// experiments use `OneVsAll`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum AdditiveLoss {
    /// Squared error.
    Squared,
    /// Binary logistic loss.
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
    /// One loss of every kind, with three classes where the loss has classes, for tests of
    /// properties that all losses share.
    pub const ONE_OF_EACH: [Self; 5] = [
        Self::Squared,
        Self::Logistic,
        Self::Softmax { n_classes: 3 },
        Self::OneVsAll { n_classes: 3 },
        Self::OneVsAllLogistic { n_classes: 3 },
    ];

    /// Number of scores that the loss takes.
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

    /// Replaces each score with the derivative with respect to it.
    pub fn derivative(self, scores: &mut [f64], y: f32) {
        match self {
            Self::Squared | Self::Logistic => scores[0] = self.slope(scores[0], y),
            _ => self.derivative_of_class(scores, y),
        }
    }

    /// The derivative of a loss of one score; 0 for losses of several scores.
    #[inline]
    fn slope(self, score: f64, y: f32) -> f64 {
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
            batch.push(&[1.0], 0.0); // wrong length
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

    #[test]
    fn derivatives_are_those_of_the_values() {
        for loss in AdditiveLoss::ONE_OF_EACH {
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
        for loss in AdditiveLoss::ONE_OF_EACH {
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
