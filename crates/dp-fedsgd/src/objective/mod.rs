//! What is learned: losses in shared and local parameters.

mod additive;
mod loss;

pub use additive::AdditiveModel;
pub use loss::AdditiveLoss;

use dp_linalg::StridedRows;

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
    /// No rows, of `n_features` numbers each.
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

    /// Adds a row; one of another length is passed over.
    pub fn push(&mut self, x: &[f32], y: f32) {
        if x.len() == self.n_features {
            self.cells.extend_from_slice(x);
            self.cells.push(y);
        }
    }

    /// The cells themselves, each row `x` then `y`, for whoever writes them in one go. Cells behind the last whole row are
    /// not read.
    pub const fn cells_mut(&mut self) -> &mut Vec<f32> {
        &mut self.cells
    }

    /// Numbers in `x`.
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

    /// The features of all rows, where they lie.
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

/// Shared and local parameters at which a loss is taken.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    /// The shared `w`.
    pub shared: &'a [f64],
    /// The user's `theta_i`.
    pub local: &'a [f64],
}

/// Sums of gradients over the rows of a minibatch, with working memory.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private gradient; printing it is never wanted"
)]
pub struct Gradients {
    /// With respect to `w`.
    pub shared: Vec<f64>,
    /// With respect to `theta_i`.
    pub local: Vec<f64>,
    /// For the objective's own use.
    pub(crate) work: Work,
}

/// Working memory of a minibatch gradient.
#[derive(Default)]
pub(crate) struct Work {
    /// `w + theta_i`.
    model: Vec<f32>,
    /// Derivatives with respect to the scores, those of one score for all rows together.
    slopes: Vec<f32>,
    /// Scores of a row.
    scores: Vec<f64>,
    /// The gradient.
    sum: Vec<f32>,
}

impl Gradients {
    /// Zeros of the objective's lengths.
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
/// Source: Bietti et al. 2022, section 3.1. Any differentiable loss will do; the bounds of [`crate::bounds`] want it
/// jointly convex.
///
/// # Privacy
/// Everything here runs where the user's rows are. What leaves is the gradient for `w`, after it was clipped and quantised.
/// A value that is not a number in it counts as if the whole gradient were 0.
///
/// # Examples
/// A model with a shared slope and a level for every user:
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
    /// Numbers in `x`.
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

    /// Adds both gradients of all rows. To be written anew where they share work.
    fn gradients(&self, at: Point<'_>, batch: &Minibatch, out: &mut Gradients) {
        for (x, y) in batch.rows() {
            self.grad_shared(at, x, y, &mut out.shared);
            self.grad_local(at, x, y, &mut out.local);
        }
    }
}

const LANES: usize = 16;

/// The sum of `f` over the numbers, on sixteen lanes so that the compiler can use vector registers: inlined, for
/// [`with_vector_instructions`](dp_linalg::with_vector_instructions).
#[inline(always)]
pub(crate) fn sum_of(v: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let (v16, rest) = v.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    for v in v16 {
        for lane in 0..LANES {
            sums[lane] += f(v[lane]);
        }
    }
    let mut width = LANES / 2; // by halves: no long chain of additions
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
