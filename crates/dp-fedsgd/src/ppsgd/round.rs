//! One round over a table of users: everybody's local state, and what users contribute.

use std::sync::{Mutex, MutexGuard, PoisonError};

use dp_core::{Interactions, UserRow};
use dp_mechanism::{SparseBuffer, VectorContribution};
use rayon::prelude::*;

use super::local_state::StepScratch;
use super::{LocalState, LocalStep};
use crate::objective::PersonalizedObjective;
use crate::places::Places;
use crate::{Result, UserBatches};

/// Users that one task trains at least.
const USERS_PER_TASK: usize = 16;

/// The local states of the users of one table.
pub(super) struct LocalStates {
    states: Vec<Mutex<LocalState>>,
    places: Places,
}

impl LocalStates {
    /// # Errors
    /// [`crate::Error::Param`] for a table without features.
    pub(super) fn new(table: &Interactions, n_local: usize, average: bool) -> Result<Self> {
        let new = |_| Mutex::new(LocalState::new(n_local, average));
        Ok(Self {
            states: (0..table.n_users()).map(new).collect(),
            places: Places::of(table)?,
        })
    }

    fn of(&self, user: UserRow<'_>) -> Option<MutexGuard<'_, LocalState>> {
        let number = self.places.index(user)?;
        #[cfg(privacy_mutants)]
        let number = dp_core::mutants::pick(
            "sgd-local-model-of-another-user",
            number,
            (number + 1) % self.states.len(),
        );
        self.at(number)
    }

    fn at(&self, number: usize) -> Option<MutexGuard<'_, LocalState>> {
        let state = self.states.get(number)?;
        Some(state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `theta_i` as it stands; empty where there is no such user.
    pub(super) fn theta(&self, number: usize) -> Vec<f64> {
        let state = self.at(number);
        state.map_or_else(Vec::new, |state| state.theta.clone())
    }

    /// Everybody's `theta_i` and its average over `n_rounds`.
    pub(super) fn collect(
        &mut self,
        n_rounds: usize,
        average: bool,
    ) -> (Vec<f64>, Option<Vec<f64>>) {
        let (mut last, mut averages) = (Vec::new(), Vec::new());
        for state in &mut self.states {
            let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
            last.extend_from_slice(&state.theta);
            averages.extend(state.average(n_rounds));
        }
        (last, average.then_some(averages))
    }
}

/// What users do in one round.
pub(super) struct RoundWork<'a, O, B> {
    pub(super) objective: &'a O,
    pub(super) batches: &'a B,
    pub(super) states: &'a LocalStates,
    pub(super) step: LocalStep<'a>,
}

impl<O: PersonalizedObjective, B: UserBatches> RoundWork<'_, O, B> {
    /// Everybody's step, on the threads of rayon.
    pub(super) fn train_all(&self, table: &Interactions) {
        let scratch = || StepScratch::new(self.batches.n_features());
        (0..table.n_users())
            .into_par_iter()
            .with_min_len(USERS_PER_TASK)
            .for_each_init(scratch, |scratch, user| {
                if cfg!(debug_assertions) {
                    *scratch = StepScratch::new(self.batches.n_features()); // one that remembers shows
                }
                if let Some(mut state) = self.states.at(user) {
                    self.make_step(&mut state, table.user(user), scratch);
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

    /// What the user sends in this round if asked. Nothing moves: a step that was not made is made on a copy.
    fn would_send(&self, user: UserRow<'_>, scratch: &mut StepScratch) -> Option<Vec<f64>> {
        let mut copy = self.states.of(user)?.clone();
        self.make_step(&mut copy, user, scratch);
        Some(copy.sent)
    }

    /// Adds a user's contribution without noise or grid: for baselines.
    pub(super) fn add_to(&self, user: UserRow<'_>, scratch: &mut StepScratch, sums: &mut [f64]) {
        if let Some(state) = self.train(user, scratch) {
            for (sum, value) in sums.iter_mut().zip(&state.sent) {
                *sum += value;
            }
        }
    }
}

/// # Privacy
/// What a user adds: the gradient of the user's own minibatch at the released `w_(t-1)` and the user's own `theta_i`, clipped to `C_t`,
/// and the extra coordinates. `theta_i` in turn came from the user's own rows, earlier released values and, where users train
/// when asked, the user's own earlier coins; [`PpSgd`](crate::PpSgd) shows why that is covered. The norm of all is at
/// most `C_t sqrt(1 + a^2 n_extras)`, which the kernel checks in integers.
impl<O: PersonalizedObjective, B: UserBatches> VectorContribution for RoundWork<'_, O, B> {
    type Scratch = StepScratch;

    fn scratch(&self) -> StepScratch {
        StepScratch::new(self.batches.n_features())
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut StepScratch, out: &mut SparseBuffer) {
        if let Some(state) = self.train(user, scratch) {
            out.dense(state.sent.len()).copy_from_slice(&state.sent);
        }
    }
}

/// A look at what users add, for audits: the same values as [`RoundWork`], and the run goes on as if nobody had looked.
pub(super) struct Look<'a, 'w, O, B>(pub(super) &'a RoundWork<'w, O, B>);

/// # Privacy
/// As for [`RoundWork`]: the values are the same.
impl<O: PersonalizedObjective, B: UserBatches> VectorContribution for Look<'_, '_, O, B> {
    type Scratch = StepScratch;

    fn scratch(&self) -> StepScratch {
        self.0.scratch()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut StepScratch, out: &mut SparseBuffer) {
        let sent = self.0.would_send(user, scratch).unwrap_or_default();
        out.extend((0..).zip(sent));
    }
}
