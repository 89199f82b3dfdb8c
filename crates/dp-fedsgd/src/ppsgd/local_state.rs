//! What stays with a user: the local parameters, and one step of them.

use dp_linalg::{PlainLoops, with_vector_instructions};

use super::RoundLayout;
use crate::objective::vectors::sum_of;
use crate::objective::{Gradients, PersonalizedObjective, Point};
use crate::{BatchReduction, Minibatch};

/// One user's side of a run.
///
/// A step is made once a round, however often it is asked for: the contribution of a round is the same every time. A copy
/// is for looking at a step without making it.
#[derive(Clone)]
pub(crate) struct LocalState {
    /// The last round in which a step was made, 0 for none.
    round: usize,
    n_steps: u64,
    /// `theta_i`.
    pub(crate) theta: Vec<f64>,
    /// Sum of `theta_i` over the first `summed` rounds' starts; empty when no average is wanted.
    sum: Vec<f64>,
    summed: usize,
    /// What is sent in `round`: the clipped gradient and the extra coordinates.
    pub(crate) sent: Vec<f64>,
}

/// What a round's local steps have in common: public and released values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalStep<'a> {
    /// From 1.
    pub(crate) round: usize,
    /// `w_(t-1)`.
    pub(crate) shared: &'a [f64],
    pub(crate) clip_norm: f64,
    /// Step size of `theta_i`.
    pub(crate) rate: f64,
    pub(crate) reduction: BatchReduction,
    pub(crate) layout: RoundLayout,
}

/// Working memory of a step.
pub(crate) struct StepScratch {
    pub(crate) batch: Minibatch,
    pub(crate) gradients: Gradients,
}

impl StepScratch {
    pub(crate) fn new(n_features: usize) -> Self {
        Self {
            batch: Minibatch::new(n_features),
            gradients: Gradients::default(),
        }
    }
}

impl LocalState {
    pub(crate) fn new(n_local: usize, average: bool) -> Self {
        Self {
            round: 0,
            n_steps: 0,
            theta: vec![0.0; n_local],
            sum: if average {
                vec![0.0; n_local]
            } else {
                Vec::new()
            },
            summed: 0,
            sent: Vec::new(),
        }
    }

    /// Makes the step of a round unless it is made: both gradients at `(w_(t-1), theta_i)`, the shared one clipped and kept for sending, `theta_i`
    /// moved along the local one, which is not clipped.
    ///
    /// `fill` writes the minibatch of a step by number. A shared gradient with a value that is not finite is sent as 0; a
    /// local one makes no step.
    pub(crate) fn step<O: PersonalizedObjective>(
        &mut self,
        objective: &O,
        step: LocalStep<'_>,
        scratch: &mut StepScratch,
        fill: impl FnOnce(u64, &mut Minibatch),
    ) {
        if self.round == step.round {
            return;
        }
        let StepScratch { batch, gradients } = scratch;
        batch.clear(); // whatever `fill` does, no rows of another user
        fill(self.n_steps, batch);
        gradients.reset(objective);
        let at = Point {
            shared: step.shared,
            local: &self.theta,
        };
        objective.gradients(at, batch, gradients);
        let scale = match step.reduction {
            BatchReduction::Mean => 1.0 / (batch.len().max(1) as f64),
            BatchReduction::Sum { .. } => 1.0,
        };
        with_vector_instructions(StepEnd {
            state: self,
            gradients,
            scale,
            step,
        });
        self.round = step.round;
        self.n_steps += 1;
    }

    /// `g <- g min(1, C / ||g||)`, 0 where the norm is not finite, and the extras behind it.
    #[inline(always)]
    fn keep_clipped(&mut self, gradient: &[f64], scale: f64, step: LocalStep<'_>) {
        let norm = scale * sum_of(gradient, |g| g * g).sqrt();
        let within = norm <= step.clip_norm; // false for NaN
        #[cfg(privacy_mutants)]
        let within = dp_core::mutants::pick("sgd-clip-missing", within, true);
        let factor = if within {
            1.0
        } else if norm.is_finite() {
            step.clip_norm / norm
        } else {
            0.0
        };
        self.sent.clear();
        if factor > 0.0 {
            let factor = factor * scale;
            self.sent.extend(gradient.iter().map(|g| g * factor));
        } else {
            self.sent.resize(gradient.len(), 0.0);
        }
        self.sent.extend(step.layout.extras(step.clip_norm, within));
    }

    #[inline(always)]
    fn descend(&mut self, gradient: &[f64], rate: f64) {
        let size = sum_of(gradient, |g| (g * rate).abs());
        #[cfg(privacy_mutants)]
        let size = dp_core::mutants::pick("sgd-overflow-let-through", size, 0.0);
        if rate > 0.0 && size.is_finite() {
            for (theta, g) in self.theta.iter_mut().zip(gradient) {
                *theta -= rate * g;
            }
        }
    }

    /// Adds the `theta_i` with which the rounds up to `round` began.
    fn sum_up_to(&mut self, round: usize) {
        let times = (round - self.summed.min(round)) as f64;
        for (sum, theta) in self.sum.iter_mut().zip(&self.theta) {
            *sum += times * theta;
        }
        self.summed = self.summed.max(round);
    }

    /// The mean of `theta_i` over the starts of `n_rounds` rounds.
    pub(crate) fn average(&mut self, n_rounds: usize) -> Vec<f64> {
        self.sum_up_to(n_rounds);
        let n = n_rounds.max(1) as f64;
        self.sum.iter().map(|sum| sum / n).collect()
    }
}

/// What follows the gradients in a step.
struct StepEnd<'a> {
    state: &'a mut LocalState,
    gradients: &'a Gradients,
    /// Of the gradients: 1 over the rows for their mean.
    scale: f64,
    step: LocalStep<'a>,
}

impl PlainLoops for StepEnd<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            state,
            gradients,
            scale,
            step,
        } = self;
        state.keep_clipped(&gradients.shared, scale, step);
        state.sum_up_to(step.round);
        state.descend(&gradients.local, scale * step.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdditiveLoss, AdditiveModel};

    #[test]
    fn a_fill_that_appends_gets_no_rows_of_the_user_before() {
        let model = AdditiveModel::new(AdditiveLoss::Squared, 1).unwrap();
        let step = LocalStep {
            round: 1,
            shared: &[0.0],
            clip_norm: 1e3,
            rate: 0.1,
            reduction: BatchReduction::Sum { rows_per_user: 1.0 },
            layout: RoundLayout {
                n_shared: 1,
                within: false,
                count: false,
                extra: 0.1,
            },
        };
        let mut scratch = StepScratch::new(1);
        let mut sent = |label: f32| {
            let mut state = LocalState::new(1, false);
            state.step(&model, step, &mut scratch, |_, batch| {
                batch.push(&[1.0], label);
            });
            (state.sent, state.theta)
        };
        let (first, second) = (sent(3.0), sent(-5.0));
        assert!((second.0[0] / first.0[0] + 5.0 / 3.0).abs() < 1e-12); // linear in one label
        assert!((second.1[0] / first.1[0] + 5.0 / 3.0).abs() < 1e-12);
    }
}
