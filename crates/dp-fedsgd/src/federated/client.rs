//! A client: one user's data and local parameters.

use std::collections::VecDeque;

use dp_core::{UserRow, params};
use dp_mechanism::{Grid, SparseBuffer, VectorContribution, vector_contribution};

use super::{Reply, RoundMessage, UpdateMessage};
use crate::objective::PersonalizedObjective;
use crate::ppsgd::{LocalState, LocalStep, StepScratch};
use crate::{BatchReduction, Result, UserBatches};

/// Ids of runs left that are kept.
const RUNS_KEPT: usize = 8;

/// One user in a federation: trains on the user's own rows and answers rounds with clipped integers.
///
/// # Privacy
/// What leaves is [`UpdateMessage`]. The local parameters stay. A client that is not asked says nothing; in rounds where
/// everybody trains it makes its local step all the same.
///
/// A client serves one run at a time. The first message of another run, told by [`RoundMessage::run`], sets the local parameters back to 0: what
/// a user adds to a run must not depend on another one. Who wants to keep [`local`](Self::local) copies it before. A run that was left is over: a message
/// of it that comes late is passed over, and so is one of a round before the last one heard of, else it would cost the local parameters of the run
/// at hand or make a step twice. The ids of the last 8 runs left are kept for that; they are public.
///
/// Nothing in a message says who sent it. A well-formed one with an id that is not known starts a run and ends the one at hand, and one of a run left so long
/// ago that its id is forgotten does the same: starts of runs have to come over a channel on which the server is authenticated. A forged
/// start costs the local parameters and asks for a contribution that no ledger has paid for.
#[allow(
    missing_debug_implementations,
    reason = "holds a private model; printing it is never wanted"
)]
pub struct Client<'a, O, B> {
    objective: &'a O,
    batches: &'a B,
    user: usize,
    number: usize,
    run: String,
    /// The latest runs that came before, the oldest first.
    left: VecDeque<String>,
    /// The latest round of the run that was heard of.
    round: u32,
    state: LocalState,
}

impl<'a, O: PersonalizedObjective, B: UserBatches> Client<'a, O, B> {
    /// The client for user `user` of the table behind `batches` (a device's own table has one), known to the server as
    /// `number`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when objective and data have other numbers of features; [`crate::Error::Param`] when there is no
    /// such user.
    pub fn new(objective: &'a O, batches: &'a B, user: usize, number: usize) -> Result<Self> {
        params::same_size("features", batches.n_features(), objective.n_features())?;
        let n_users = batches.table().expose().n_users();
        let below = n_users.saturating_sub(1);
        params::in_range("user", user, 0, below, "a user of the table")?;
        Ok(Self {
            objective,
            batches,
            user,
            number,
            run: String::new(),
            left: VecDeque::new(),
            round: 0,
            state: LocalState::new(objective.n_local(), false),
        })
    }

    /// Takes part in a round: trains, and answers if asked. A round of a new run starts anew, a late one is passed over and told.
    ///
    /// # Errors
    /// [`crate::Error::Param`], [`crate::Error::Shape`] or [`crate::Error::Mechanism`] for a message that no server of this model sends. Nothing
    /// depends on the client's data.
    pub fn receive(&mut self, round: &RoundMessage, asked: bool) -> Result<Reply> {
        round.check()?;
        params::same_size(
            "shared parameters",
            round.shared.len(),
            self.objective.n_shared(),
        )?;
        let grid = round.grid()?;
        if !self.enter(round) {
            return Ok(Reply::Late);
        }
        if asked || round.everybody_trains {
            self.train(round);
        }
        if !asked {
            return Ok(Reply::NotAsked);
        }
        Ok(Reply::Update(self.answer(round, &grid)))
    }

    /// The user's own parameters.
    #[must_use]
    pub fn local(&self) -> &[f64] {
        &self.state.theta
    }

    /// Forgets the run before this one; false for a message that comes late.
    fn enter(&mut self, message: &RoundMessage) -> bool {
        if self.run != message.run {
            if self.left.contains(&message.run) {
                return false;
            }
            let left = std::mem::replace(&mut self.run, message.run.clone());
            self.leave(left);
            self.state = LocalState::new(self.objective.n_local(), false);
            self.round = 0;
        }
        let in_time = message.round >= self.round;
        self.round = self.round.max(message.round);
        in_time
    }

    /// Keeps the id of a run that is over, and forgets the oldest of too many.
    fn leave(&mut self, run: String) {
        if run.is_empty() {
            return; // there was none
        }
        if self.left.len() == RUNS_KEPT {
            self.left.pop_front();
        }
        self.left.push_back(run);
    }

    fn train(&mut self, round: &RoundMessage) {
        let rows_per_user = 1.0; // a server's figure, of no use here
        let step = LocalStep {
            round: round.round as usize,
            shared: &round.shared,
            clip_norm: round.clip_norm,
            rate: round.local_rate,
            reduction: if round.sum_rows {
                BatchReduction::Sum { rows_per_user }
            } else {
                BatchReduction::Mean
            },
            layout: round.layout(),
        };
        let row = self.batches.table().expose().user(self.user);
        let scratch = &mut StepScratch::new(self.batches.n_features());
        self.state
            .step(self.objective, step, scratch, |number, batch| {
                self.batches.fill(row, number, batch);
            });
    }

    fn answer(&self, round: &RoundMessage, grid: &Grid) -> UpdateMessage {
        let n = round.n_coordinates();
        let row = self.batches.table().expose().user(self.user);
        let mut integers = vec![0; n];
        for (at, z) in vector_contribution(grid, n, &Values(&self.state.sent), row) {
            if let Some(place) = integers.get_mut(at) {
                *place = z;
            }
        }
        UpdateMessage {
            run: round.run.clone(),
            round: round.round,
            client: self.number,
            integers,
        }
    }
}

/// Values of one user, whoever is asked.
struct Values<'a>(&'a [f64]);

impl VectorContribution for Values<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, _: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        out.extend((0..).zip(self.0.iter().copied()));
    }
}
