//! A client: one user's data and local parameters.

use dp_core::{UserRow, params};
use dp_mechanism::{
    ClientRecord, Grid, KnownRun, Refusal, SparseBuffer, VectorContribution, vector_contribution,
};

use super::{Reply, RoundMessage, UpdateMessage};
use crate::objective::PersonalizedObjective;
use crate::ppsgd::{LocalState, LocalStep, RoundLayout, StepScratch};
use crate::{BatchReduction, Result, UserBatches};

/// One user in a federation: trains on the user's own rows and answers rounds with clipped integers.
///
/// # Privacy
/// What leaves is [`UpdateMessage`]. The local parameters stay. A client that is not asked says nothing; in rounds where
/// everybody trains it makes its local step all the same.
///
/// A client takes part in what its [`ClientPolicy`](dp_mechanism::ClientPolicy) admits and in nothing else, and its [`ClientRecord`] says durably, before a
/// message leaves, that the round was answered. An answer that is lost is given again as it was, at no further cost, until the client is started anew; after that a round that was
/// answered stays answered.
///
/// A client serves one run at a time. The first message of another run, told by [`RoundMessage::run`], sets the local parameters back to 0: what
/// a user adds to a run must not depend on another one. Who wants to keep [`local`](Self::local) copies it before. A run that was left is over for good: a message
/// of it that comes late is passed over, and so is one of a round before the last one heard of, else it would cost the local parameters of the run
/// at hand or make a step twice. A client that is started anew goes on with the run that it was in, with local parameters of 0: they are in no file.
///
/// Nothing in a message says who sent it. A well-formed one of a run that is not known, and that the policy admits, starts that run and ends the one at hand:
/// starts of runs have to come over a channel on which the server is authenticated, or the policy has to name the runs. A forged
/// start costs the local parameters and asks for a contribution that no ledger of the server has paid for.
#[allow(
    missing_debug_implementations,
    reason = "holds a private model; printing it is never wanted"
)]
pub struct Client<'a, O, B> {
    objective: &'a O,
    batches: &'a B,
    user: usize,
    number: usize,
    record: ClientRecord,
    /// The latest round of the run that was heard of.
    round: u32,
    /// How the latest round that was answered was asked for: what says the same on the same grid may be sent again.
    answered: Option<(u32, Grid, RoundLayout)>,
    state: LocalState,
}

impl<'a, O: PersonalizedObjective, B: UserBatches> Client<'a, O, B> {
    /// The client for user `user` of the table behind `batches` (a device's own table has one), known to the server as
    /// `number`, with its own record and the policy in it.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when objective and data have other numbers of features; [`crate::Error::Param`] when there is no
    /// such user.
    pub fn new(
        objective: &'a O,
        batches: &'a B,
        user: usize,
        number: usize,
        record: ClientRecord,
    ) -> Result<Self> {
        params::same_size("features", batches.n_features(), objective.n_features())?;
        let n_users = batches.table().expose().n_users();
        let below = n_users.saturating_sub(1);
        params::in_range("user", user, 0, below, "a user of the table")?;
        Ok(Self {
            objective,
            batches,
            user,
            number,
            record,
            round: 0,
            answered: None,
            state: LocalState::new(objective.n_local(), false),
        })
    }

    /// Takes part in a round: trains, and answers if asked. A round of a new run starts anew, a late one is passed over and told.
    ///
    /// # Errors
    /// [`crate::Error::Param`], [`crate::Error::Shape`] or [`crate::Error::Mechanism`] for a message that no server of this model sends;
    /// [`Refused`](dp_mechanism::Error::Refused) for one that the policy does not admit, and where the record cannot be written. Nothing
    /// depends on the client's data, and nothing leaves.
    pub fn receive(&mut self, round: &RoundMessage, asked: bool) -> Result<Reply> {
        round.check()?;
        params::same_size(
            "shared parameters",
            round.shared.len(),
            self.objective.n_shared(),
        )?;
        let grid = round.grid()?;
        if !self.enter(round)? {
            return Ok(Reply::Late);
        }
        if asked && !self.pay(round, grid)? {
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

    /// The client's policy, and what it has answered.
    #[must_use]
    pub const fn record(&self) -> &ClientRecord {
        &self.record
    }

    /// Forgets the run before this one; false for a message that comes late.
    fn enter(&mut self, message: &RoundMessage) -> Result<bool> {
        match self.record.enter(&message.asked())? {
            KnownRun::Left => return Ok(false),
            KnownRun::Current => {}
            KnownRun::New => {
                self.state = LocalState::new(self.objective.n_local(), false);
                (self.round, self.answered) = (0, None);
            }
        }
        let in_time = message.round >= self.round;
        self.round = self.round.max(message.round);
        Ok(in_time)
    }

    /// Writes down that the round is answered, once; false where it was answered by a client that has been started anew since.
    fn pay(&mut self, message: &RoundMessage, grid: Grid) -> Result<bool> {
        let as_asked = (message.round, grid, message.layout());
        match self.answered {
            Some(answered) if answered == as_asked => return Ok(true),
            Some((round, ..)) if round == message.round => {
                // the same numbers on a second grid would tell more than one answer does
                return Err(dp_mechanism::Error::Refused(Refusal::Answered).into());
            }
            _ if message.round <= self.record.last_answered(&message.run) => return Ok(false),
            _ => {}
        }
        self.record.answer(&message.asked())?;
        self.answered = Some(as_asked);
        Ok(true)
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
