//! The users' side: local parameters, a local step, and a user's contribution to the sum of a
//! round.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dp_core::{Interactions, InteractionsBuilder, PerUser, UserRow, parallel};
use dp_linalg::{PlainLoops, with_vector_instructions};
use dp_mechanism::{SparseBuffer, VectorContribution};

use super::RoundLayout;
use crate::objective::{Gradients, PersonalizedObjective, Point, sum_of};
use crate::{BatchReduction, Minibatch, UserBatches};

/// One user's side of a run.
///
/// A step is made once per round, no matter who requests it first or how often: the user sends the
/// same values every time. Make the step on a copy to look at it without changing the state.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LocalState {
    /// The last round in which a step was made; 0 for none.
    round: usize,
    n_steps: u64,
    /// `theta_i`.
    pub(crate) theta: Vec<f64>,
    /// Sum of `theta_i` at the start of the first `summed` rounds; empty when no average is
    /// requested.
    sum: Vec<f64>,
    summed: usize,
    /// Values sent in `round`: the clipped gradient and the extra coordinates.
    pub(crate) sent: Vec<f64>,
}

/// Public and released values that are common to a round's local steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalStep<'a> {
    /// The round number, from 1.
    pub(crate) round: usize,
    /// `w_(t-1)`.
    pub(crate) shared: &'a [f64],
    pub(crate) clip_norm: f64,
    /// Step size of `theta_i`.
    pub(crate) rate: f64,
    pub(crate) reduction: BatchReduction,
    pub(crate) layout: RoundLayout,
}

/// Scratch memory for a step.
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

    /// Makes the step of a round unless it has been made: computes both gradients at
    /// `(w_(t-1), theta_i)`, clips the shared one and stores it for sending, and moves `theta_i`
    /// along the local one, which is not clipped.
    ///
    /// `fill` writes the minibatch of a step by number. A shared gradient with a value that is not
    /// finite is sent as 0; such a local gradient makes no step.
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
        batch.clear(); // whatever `fill` does, no rows of another user remain
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

    /// `g <- g min(1, C / ||g||)`, 0 where the norm is not finite, followed by the extra
    /// coordinates.
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

    /// Adds `theta_i` at the start of each round up to `round`.
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

/// What a step does with the gradients.
struct StepEnd<'a> {
    state: &'a mut LocalState,
    gradients: &'a Gradients,
    /// Scale of the gradients: 1 over the number of rows for their mean.
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

/// The local states of the users of one table.
///
/// A user's state is looked up by the key of the user's row, in the table and in copies and shards
/// of it.
pub(super) struct LocalStates {
    states: PerUser<Mutex<LocalState>>,
}

impl LocalStates {
    pub(super) fn new(table: &Interactions, n_local: usize, average: bool) -> Self {
        let new = |_: UserRow<'_>| Mutex::new(LocalState::new(n_local, average));
        Self {
            states: PerUser::of(table, new),
        }
    }

    pub(super) fn of_nobody() -> Self {
        let nobody = InteractionsBuilder::new(1).build().0;
        Self::new(&nobody, 0, false)
    }

    pub(super) fn n_users(&self) -> usize {
        self.states.values().len()
    }

    fn of(&self, user: UserRow<'_>) -> Option<MutexGuard<'_, LocalState>> {
        let place = self.states.place(user.key())?;
        #[cfg(privacy_mutants)]
        let place = dp_core::mutants::pick(
            "sgd-local-model-of-another-user",
            place,
            (place + 1) % self.states.values().len(),
        );
        self.at(place)
    }

    fn at(&self, number: usize) -> Option<MutexGuard<'_, LocalState>> {
        let state = self.states.values().get(number)?;
        Some(state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The current `theta_i`; empty if there is no such user.
    pub(super) fn theta(&self, number: usize) -> Vec<f64> {
        let state = self.at(number);
        state.map_or_else(Vec::new, |state| state.theta.clone())
    }

    /// `theta_i` of every user, and its average over `n_rounds`.
    pub(super) fn collect(
        &mut self,
        n_rounds: usize,
        average: bool,
    ) -> (Vec<f64>, Option<Vec<f64>>) {
        let (mut last, mut averages) = (Vec::new(), Vec::new());
        for state in self.states.values_mut() {
            let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
            last.extend_from_slice(&state.theta);
            averages.extend(state.average(n_rounds));
        }
        (last, average.then_some(averages))
    }
}

/// The users' work in one round.
pub(super) struct RoundWork<'a, O> {
    pub(super) objective: &'a O,
    pub(super) batches: &'a dyn UserBatches,
    pub(super) states: &'a LocalStates,
    pub(super) step: LocalStep<'a>,
}

impl<O: PersonalizedObjective> RoundWork<'_, O> {
    /// Makes every user's step, unless it has been made, on the threads of rayon.
    pub(super) fn train_all(&self) {
        let table = self.batches.table().expose();
        let scratch = || StepScratch::new(self.batches.n_features());
        parallel::for_each_with(0..table.n_users(), scratch, |own, user| {
            if cfg!(debug_assertions) {
                *own = scratch(); // a scratch that keeps state would show
            }
            if let Some(mut state) = self.states.at(user) {
                self.make_step(&mut state, table.user(user), own);
            }
        });
    }

    /// The user's step of this round, made now or before.
    fn train(
        &self,
        user: UserRow<'_>,
        scratch: &mut StepScratch,
    ) -> Option<MutexGuard<'_, LocalState>> {
        let mut state = self.states.of(user)?;
        self.make_step(&mut state, user, scratch);
        Some(state)
    }

    fn make_step(&self, state: &mut LocalState, user: UserRow<'_>, scratch: &mut StepScratch) {
        state.step(self.objective, self.step, scratch, |number, batch| {
            self.batches.fill(user, number, batch);
        });
    }

    /// The values that the user would send in this round if asked. The state does not change: a
    /// step that has not been made is made on a copy.
    fn would_send(&self, user: UserRow<'_>, scratch: &mut StepScratch) -> Option<Vec<f64>> {
        let mut copy = self.states.of(user)?.clone();
        self.make_step(&mut copy, user, scratch);
        Some(copy.sent)
    }

    /// Adds a user's contribution without noise and without quantisation, for baselines.
    pub(super) fn add_to(&self, user: UserRow<'_>, scratch: &mut StepScratch, sums: &mut [f64]) {
        if let Some(state) = self.train(user, scratch) {
            for (sum, value) in sums.iter_mut().zip(&state.sent) {
                *sum += value;
            }
        }
    }
}

/// # Privacy
/// A user's contribution is the gradient of the user's own minibatch at the released `w_(t-1)` and
/// the user's own `theta_i`, clipped to `C_t`, and the extra coordinates. `theta_i` in turn came
/// from the user's own rows, earlier released values and, where users train when asked, the user's
/// own earlier coins; [`PpSgd`](crate::PpSgd) shows why that is covered. The norm of the whole
/// contribution is at most `C_t sqrt(1 + a^2 n_extras)`, which the kernel checks in integers.
impl<O: PersonalizedObjective> VectorContribution for RoundWork<'_, O> {
    type Scratch = StepScratch;

    fn scratch(&self) -> StepScratch {
        StepScratch::new(self.batches.n_features())
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut StepScratch, out: &mut SparseBuffer) {
        if let Some(state) = self.train(user, scratch) {
            out.dense(state.sent.len()).copy_from_slice(&state.sent);
        }
    }
    fn observe(&self, user: UserRow<'_>, scratch: &mut StepScratch, out: &mut SparseBuffer) {
        let sent = self.would_send(user, scratch).unwrap_or_default();
        out.extend((0..).zip(sent));
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

    // Scratch memory is reused from user to user, and nothing of the previous user may remain in
    // it. The kernel's loops reset it in debug builds, so their tests cannot detect this; here
    // steps are made without them.

    const DIM: usize = 5;
    const N_ROUNDS: usize = 3;

    type Rows = Vec<([f32; DIM], f32)>;

    /// Users with few rows and many, with rows that overflow, without rows, and the first one
    /// again.
    fn users() -> Vec<Rows> {
        let row = |user: usize, at: usize| {
            let number = |k: usize| ((user * 101 + at * 31 + k * 7) % 23) as f32 / 11.0 - 1.0;
            (std::array::from_fn(number), ((user + at) % 4) as f32) // of three classes: 3 is not one
        };
        let of = |user: usize| (0..=3 * user).map(|at| row(user, at)).collect();
        let mut all: Vec<Rows> = (0..3).map(of).collect();
        all.insert(1, vec![([f32::MAX; DIM], 1.0), ([f32::MIN; DIM], 0.0)]);
        all.push(Rows::new());
        all.push(all[0].clone());
        all
    }

    /// What a user sends in successive rounds, and the state that remains, bit for bit.
    fn bits(model: &AdditiveModel, rows: &Rows, mut scratch: Option<&mut StepScratch>) -> Vec<u64> {
        let n = model.n_shared();
        let shared: Vec<f64> = (0..n).map(|k| 0.1 * k as f64 - 0.3).collect();
        let (mut state, mut bits) = (LocalState::new(n, true), Vec::new());
        for round in 1..=N_ROUNDS {
            let step = LocalStep {
                round,
                shared: &shared,
                clip_norm: 0.5,
                rate: 0.1,
                reduction: BatchReduction::Mean,
                layout: RoundLayout {
                    n_shared: n,
                    within: true,
                    count: true,
                    extra: 0.1,
                },
            };
            let mut fresh = StepScratch::new(DIM);
            let scratch = scratch.as_deref_mut().unwrap_or(&mut fresh);
            state.step(model, step, scratch, |_, batch| {
                rows.iter().for_each(|(x, y)| batch.push(x, *y));
            });
            bits.extend(state.sent.iter().chain(&state.theta).map(|x| x.to_bits()));
        }
        bits.extend(state.average(N_ROUNDS).iter().map(|x| x.to_bits()));
        bits
    }

    #[test]
    fn nothing_of_a_user_is_left_in_the_working_memory_of_the_next() {
        for loss in AdditiveLoss::ONE_OF_EACH {
            let model = AdditiveModel::new(loss, DIM).unwrap();
            let scratch = &mut StepScratch::new(DIM);
            let mut seen = Vec::new();
            for (user, rows) in users().iter().enumerate() {
                let fresh = bits(&model, rows, None);
                let reused = bits(&model, rows, Some(scratch));
                assert!(fresh == reused, "{loss:?}, user {user}");
                seen.push(fresh);
            }
            // users differ, so that leftover state would show
            assert!(seen[0] != seen[2] && seen[0] != seen[3], "{loss:?}");
            assert!(seen[0] == seen[5], "{loss:?}");
        }
    }
}
