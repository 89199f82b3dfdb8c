//! What is learned: losses in shared and local parameters.

mod additive;
mod loss;
mod minibatch;
pub(crate) mod vectors;

pub use additive::AdditiveModel;
pub use loss::AdditiveLoss;
pub use minibatch::Minibatch;

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
