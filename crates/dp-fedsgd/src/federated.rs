//! Training rounds between a server and clients that exchange plain messages.

use dp_core::{ParamError, UserRow, params};
use dp_mechanism::{
    AskedRound, ClientRecord, ClientSampling, Fitted, Grid, KnownRun, OpenSum, Refusal, Round, Run,
    SparseBuffer, VectorContribution, vector_contribution,
};
use serde::{Deserialize, Serialize};

use crate::objective::PersonalizedObjective;
use crate::ppsgd::{LocalState, LocalStep, RoundLayout, SharedState, StepScratch};
use crate::{
    BatchReduction, LocalTraining, Participation, PpSgd, PpSgdModel, Result, SharedModel,
    UserBatches,
};

/// The message that the server sends to all clients at the start of a round. It contains only
/// released and public values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundMessage {
    /// Identifies the run: the release id of its first round, which is public. A client that does
    /// not know the id resets its state.
    pub run: String,
    /// The round number, from 1.
    pub round: u32,
    /// `w_(t-1)`.
    pub shared: Vec<f64>,
    /// Bound `C_t` on the norm of the gradient.
    pub clip_norm: f64,
    /// Noise multiplier. Together with the bound on the whole contribution it determines the
    /// integer grid.
    pub noise_multiplier: f64,
    /// Local step size.
    pub local_rate: f64,
    /// Whether minibatch gradients are summed instead of averaged.
    pub sum_rows: bool,
    /// Whether clients that are not asked train too.
    pub everybody_trains: bool,
    /// Whether the update has a coordinate for the share of clients within the clipping norm.
    pub share_within: bool,
    /// Whether the update has a coordinate for the number of clients.
    pub count_clients: bool,
    /// Size of each extra coordinate, in units of the clipping norm.
    pub extra_share: f64,
}

impl RoundMessage {
    fn layout(&self) -> RoundLayout {
        RoundLayout {
            n_shared: self.shared.len(),
            within: self.share_within,
            count: self.count_clients,
            extra: self.extra_share,
        }
    }

    /// Length of an update.
    #[must_use]
    pub fn n_coordinates(&self) -> usize {
        self.layout().n_coordinates()
    }

    /// The integer grid for updates.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the noise multiplier or the clipping norm does not fit a
    /// grid.
    pub fn grid(&self) -> Result<Grid> {
        let whole = self.layout().whole_norm(self.clip_norm);
        Ok(Grid::new(self.noise_multiplier, whole)?)
    }

    /// The values that a client's policy checks.
    fn asked(&self) -> AskedRound<'_> {
        AskedRound {
            run: &self.run,
            number: self.round,
            noise_multipliers: std::slice::from_ref(&self.noise_multiplier),
            clip_norm: self.clip_norm,
        }
    }

    /// Checks that every number is within its range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first field that is out of range.
    pub fn check(&self) -> Result<()> {
        params::at_least_one("run (its length)", self.run.len())?;
        params::finite_positive("clip_norm", self.clip_norm)?;
        params::finite_positive("noise_multiplier", self.noise_multiplier)?;
        params::finite_non_negative("local_rate", self.local_rate)?;
        params::finite_positive("extra_share", self.extra_share)?;
        params::closed_unit("extra_share", self.extra_share)?;
        params::at_least_one("round", self.round as usize)?;
        for &w in &self.shared {
            params::finite("shared", w)?;
        }
        Ok(())
    }
}

/// A client's clipped gradient on the integer grid of its round.
///
/// # Privacy
/// As private as the client's data: it goes to the server over an authenticated link, and the
/// server adds it to a sum that is released with noise. The type does not implement `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    missing_debug_implementations,
    reason = "a private gradient; printing it is never wanted"
)]
pub struct UpdateMessage {
    /// The run that the update belongs to.
    pub run: String,
    /// The round that the update belongs to.
    pub round: u32,
    /// The number under which the server knows the client.
    pub client: usize,
    /// The integers of the gradient, followed by those of the extra coordinates.
    pub integers: Vec<i64>,
}

/// A client's response to a round. Only an update leaves the client.
///
/// # Privacy
/// Whether the answer is `Update` is **as secret as the sample**. `Late` follows from messages
/// alone.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    missing_debug_implementations,
    reason = "may hold a private gradient; printing it is never wanted"
)]
pub enum Reply {
    /// The update to send to the server.
    Update(UpdateMessage),
    /// The round was received, but the client was not asked and sends nothing.
    NotAsked,
    /// The message belongs to a run that the client has left, to an earlier round, or to a round
    /// that the client has already answered. It was ignored.
    Late,
}

impl Reply {
    /// The update to send to the server, if there is one.
    #[must_use]
    pub fn update(self) -> Option<UpdateMessage> {
        match self {
            Self::Update(update) => Some(update),
            Self::NotAsked | Self::Late => None,
        }
    }
}

/// Why an update was ignored. The round continues.
///
/// # Privacy
/// **As secret as the sample.** A rejection names a client that sent something, and only clients
/// that were asked send: whoever reads it, for example in a log, learns who took part. Show it only
/// to those who may see the sample, and let nothing in the run depend on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The update is for a round of another run.
    #[error("the message of client {client} is of another run")]
    Run {
        /// Sender.
        client: usize,
    },
    /// The update is for another round.
    #[error("the message of client {client} answers round {found}, this is round {expected}")]
    Round {
        /// Sender.
        client: usize,
        /// Round in the message.
        found: u32,
        /// The round that is open.
        expected: u32,
    },
    /// The update has the wrong number of integers.
    #[error("the message of client {client} has {found} integers, expected {expected}")]
    Length {
        /// Sender.
        client: usize,
        /// Integers in the message.
        found: usize,
        /// Coordinates of the round.
        expected: usize,
    },
    /// The exact norm of the update is above the bound.
    #[error("the message of client {client} is above the bound")]
    Norm {
        /// Sender.
        client: usize,
    },
    /// The update counts as more than one client, or as less than none.
    #[error("an extra coordinate of the message of client {client} is out of range")]
    Extra {
        /// Sender.
        client: usize,
    },
}

impl UpdateMessage {
    /// Checks that the update belongs to this round: run, round number, length, exact integer norm
    /// and the ranges of its extra coordinates.
    ///
    /// # Errors
    /// The first [`Rejection`] that applies.
    pub fn check(&self, round: &RoundMessage, grid: &Grid) -> Result<(), Rejection> {
        let client = self.client;
        if self.run != round.run {
            return Err(Rejection::Run { client });
        }
        let same_round = self.round == round.round;
        #[cfg(privacy_mutants)]
        let same_round = dp_core::mutants::pick("sgd-any-round-accepted", same_round, true);
        if !same_round {
            return Err(Rejection::Round {
                client,
                found: self.round,
                expected: round.round,
            });
        }
        if self.integers.len() != round.n_coordinates() {
            return Err(Rejection::Length {
                client,
                found: self.integers.len(),
                expected: round.n_coordinates(),
            });
        }
        let squares = self.integers.iter().map(|z| square(z.unsigned_abs()));
        let norm = squares.fold(0, u128::saturating_add);
        #[cfg(privacy_mutants)]
        let norm = dp_core::mutants::pick("sgd-server-norm-unchecked", norm, 0);
        if norm > square(grid.l2_bound()) {
            return Err(Rejection::Norm { client });
        }
        let ranges = round.layout().extra_ranges(round.clip_norm);
        let ranges = ranges.into_iter().map(|range| grid.range(range));
        let extras = self.integers.iter().skip(round.shared.len());
        if !extras
            .zip(ranges)
            .all(|(z, (low, high))| (low..=high).contains(z))
        {
            return Err(Rejection::Extra { client });
        }
        Ok(())
    }
}

fn square(z: u64) -> u128 {
    u128::from(z) * u128::from(z)
}

/// One user in a federation: trains on the user's own rows and answers rounds with clipped
/// integers.
///
/// # Privacy
/// Only [`UpdateMessage`] leaves the client; the local parameters stay. A client that is not asked
/// sends nothing, but in rounds where every client trains it still makes its local step.
///
/// A client takes part only in what its [`ClientPolicy`](dp_mechanism::ClientPolicy) admits. Its
/// [`ClientRecord`] durably records that a round was answered before a message leaves. If an answer
/// is lost, the client sends the same answer again at no further cost, until the client is
/// restarted without its state; then an answered round stays answered.
///
/// A client serves one run at a time. The first message of another run, identified by
/// [`RoundMessage::run`], resets the local parameters to 0, because what a user adds to a run must
/// not depend on another run. Copy [`local`](Self::local) first to keep them. A run that was left
/// cannot be rejoined: the client ignores late messages of that run, and messages of a round before
/// the latest one received; otherwise they would reset the current run's local parameters or repeat
/// a step. A client that is restarted continues the run that it was in, with local parameters of 0
/// unless it is given the [`ClientState`] of its last round ([`resumed`](Self::resumed)).
///
/// Nothing in a message proves who sent it. A well-formed message of an unknown run that the policy
/// admits starts that run and ends the current one. Messages that start a run must therefore come
/// over a channel on which the server is authenticated, or the policy must name the runs. A forged
/// start resets the local parameters and requests a contribution for which no ledger of the server
/// has paid.
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
    state: ClientState,
}

/// What a [`Client`] keeps between rounds besides its record: for clients whose process ends after
/// each round.
///
/// # Privacy
/// Contains the user's local parameters and the last update before it is put on the integer grid,
/// as private as the user's data. Store it durably after each round where only the client can read
/// it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    missing_debug_implementations,
    reason = "holds a private model; printing it is never wanted"
)]
pub struct ClientState {
    /// The run that the client is in.
    run: String,
    /// The latest round of the run that was received.
    round: u32,
    /// The latest answered round: an answer with the same content on the same grid may be sent
    /// again.
    answered: Option<AnsweredRound>,
    local: LocalState,
}

/// Everything in the message of a round on which the grid and the form of the answer depend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnsweredRound {
    round: u32,
    noise_multiplier: f64,
    clip_norm: f64,
    layout: RoundLayout,
}

impl ClientState {
    fn new(n_local: usize) -> Self {
        Self {
            run: String::new(),
            round: 0,
            answered: None,
            local: LocalState::new(n_local, false),
        }
    }

    /// The user's own parameters.
    #[must_use]
    pub fn local(&self) -> &[f64] {
        &self.local.theta
    }
}

impl<'a, O: PersonalizedObjective, B: UserBatches> Client<'a, O, B> {
    /// The client for user `user` of the table behind `batches` (a device's own table has one
    /// user), known to the server as `number`, with its own record and the policy in it.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the objective and the data have different numbers of features;
    /// [`crate::Error::Param`] when there is no such user.
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
            state: ClientState::new(objective.n_local()),
        })
    }

    /// The client with the state after an earlier round of the same client, which it goes on from.
    /// If it has answered later rounds since, they stay answered. A state of another run or of
    /// another model is replaced by the first message.
    #[must_use]
    pub fn resumed(mut self, state: ClientState) -> Self {
        self.state = state;
        self
    }

    /// The state to [resume](Self::resumed) from.
    #[must_use]
    pub const fn state(&self) -> &ClientState {
        &self.state
    }

    /// Takes part in a round: trains, and answers if asked. A round of a new run resets the client;
    /// a late message is ignored and reported as such.
    ///
    /// # Errors
    /// [`crate::Error::Param`], [`crate::Error::Shape`] or [`crate::Error::Mechanism`] for a
    /// message that no server of this model would send; [`Refused`](dp_mechanism::Error::Refused)
    /// for a message that the policy does not admit, and when the record cannot be written. Errors
    /// do not depend on the client's data, and nothing leaves the client.
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
        if asked && !self.pay(round)? {
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
        self.state.local()
    }

    /// The client's policy and its record of answered rounds.
    #[must_use]
    pub const fn record(&self) -> &ClientRecord {
        &self.record
    }

    /// Resets the state if the message starts a new run; returns false for a late message.
    fn enter(&mut self, message: &RoundMessage) -> Result<bool> {
        let known = self.record.enter(&message.asked())?;
        if known == KnownRun::Left {
            return Ok(false);
        }
        let theta = &self.state.local.theta;
        let is_of_model =
            theta.len() == self.objective.n_local() && theta.iter().all(|theta| theta.is_finite());
        if known == KnownRun::New || self.state.run != message.run || !is_of_model {
            self.state = ClientState::new(self.objective.n_local());
            self.state.run.clone_from(&message.run);
        }
        let in_time = message.round >= self.state.round;
        self.state.round = self.state.round.max(message.round);
        Ok(in_time)
    }

    /// Records, once, that the round is answered; returns false if it was answered before the
    /// client was restarted.
    fn pay(&mut self, message: &RoundMessage) -> Result<bool> {
        let as_asked = AnsweredRound {
            round: message.round,
            noise_multiplier: message.noise_multiplier,
            clip_norm: message.clip_norm,
            layout: message.layout(),
        };
        let n_sent = self.state.local.sent.len();
        let has_sent = |answered: AnsweredRound| n_sent == answered.layout.n_coordinates();
        match self.state.answered {
            Some(answered) if answered == as_asked && has_sent(answered) => return Ok(true),
            Some(answered) if answered.round == message.round => {
                // the same numbers on a second grid would reveal more than one answer does
                return Err(dp_mechanism::Error::Refused(Refusal::Answered).into());
            }
            _ if message.round <= self.record.last_answered(&message.run) => return Ok(false),
            _ => {}
        }
        self.record.answer(&message.asked())?;
        self.state.answered = Some(as_asked);
        Ok(true)
    }

    fn train(&mut self, round: &RoundMessage) {
        let rows_per_user = 1.0; // a server-side setting that is not used here
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
            .local
            .step(self.objective, step, scratch, |number, batch| {
                self.batches.fill(row, number, batch);
            });
    }

    fn answer(&self, round: &RoundMessage, grid: &Grid) -> UpdateMessage {
        let n = round.n_coordinates();
        let row = self.batches.table().expose().user(self.user);
        let mut integers = vec![0; n];
        for (at, z) in vector_contribution(grid, n, &Values(&self.state.local.sent), row) {
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

/// A fixed vector as one user's contribution.
struct Values<'a>(&'a [f64]);

impl VectorContribution for Values<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, _: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        out.extend((0..).zip(self.0.iter().copied()));
    }
}

/// Result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundOutcome {
    /// The model was updated.
    Stepped,
    /// The noisy number of clients was below the minimum: the model is unchanged, and so is the
    /// cost.
    TooFewClients,
}

/// The server of a federation: opens rounds, adds up the clients' updates and releases the sum with
/// noise.
///
/// In each round, [`open_round`](Self::open_round) spends the budget and draws which clients to
/// ask, [`OpenRound::message`] goes to all clients, [`OpenRound::asked`] lists the clients that
/// answer, and [`OpenRound::close`] takes the answers in any order. Spends, noise and the release
/// list are those of its [`Run`]. The result is bit for bit that of
/// [`PpSgdTrainer`](crate::PpSgdTrainer). The server supports sampled participation;
/// [`PoissonSampling`](crate::PoissonSampling) with probability 1 asks every client.
///
/// A server that resumes a run from a release list first replays the rounds in the list and then
/// opens the next one. Clients keep their local parameters and are not affected. A round that was
/// dropped or lost in a crash stays paid for. A list in which a dropped round is followed by a
/// later one cannot be resumed and is refused.
///
/// # Privacy
/// As for [`PpSgd`]. The server checks every message by its exact integer norm, and the kernel
/// checks it again. Drop-outs add nothing, and the noise does not change. Whether there are fewer
/// clients than a minimum, a number that may be secret, is determined only from a noisy count,
/// which is part of the same release ([`minimum_clients`](crate::PpSgdParams::minimum_clients)).
/// The server sees single updates before it adds them and must be trusted with them, as the
/// certificate states.
///
/// # Examples
/// ```
/// use dp_fedsgd::{
///     AdditiveLoss, AdditiveModel, Adjacency, Budget, Client, ClientPolicy, ClientRecord, HeldBatches, Ledger, NoiseSource,
///     PoissonSampling, PpSgdParams, Run, Server, UserSamplesBuilder,
/// };
///
/// let mut builder = UserSamplesBuilder::new(1, 1)?;
/// for user in 0..200 {
///     builder.push(user, &[1.0], 2.0)?;
/// }
/// let samples = builder.build().0;
/// let (model, rows) = (AdditiveModel::new(AdditiveLoss::Squared, 1)?, HeldBatches::new(&samples, 1)?);
/// // no round of more than 8, and none with less noise than 2; a device keeps its record in a file
/// let policy = ClientPolicy { least_noise_multiplier: 2.0, most_rounds: 8, ..ClientPolicy::trusting() };
/// let clients = (0..200).map(|user| {
///     let record = ClientRecord::in_memory(policy.clone())?;
///     Client::new(&model, &rows, user, user, record)
/// });
/// let mut clients = clients.collect::<Result<Vec<_>, _>>()?;
///
/// let adjacency = Adjacency::AddRemoveUser;
/// let half = PoissonSampling::new(0.5)?.into();
/// let fit = PpSgdParams::new(1.0, 0.5, 2.0, 8, 200.0).sampled(half).check()?;
/// let plan = fit.plan_with_noise(1, 2.0, 1e-5, adjacency)?;
/// let mut ledger = Ledger::in_memory("federation", Budget::schedule(plan.target(), adjacency)?)?;
/// let mut noise = NoiseSource::operating_system();
/// let run = Run::new(&plan, ledger.reserve(&plan)?, &mut noise)?;
/// let mut server = Server::new(fit, 1, run)?;
/// while let Some(round) = server.open_round(clients.len())? {
///     let mut updates = Vec::new();
///     for (number, client) in clients.iter_mut().enumerate() {
///         let asked = round.asked().binary_search(&number).is_ok();
///         updates.extend(client.receive(round.message(), asked)?.update()); // any transport
///     }
///     round.close(updates, &mut |_| {})?;
/// }
/// let fitted = server.finish()?;
/// assert!(fitted.certificate.verify()?.is_private());
/// assert!((fitted.model.last()[0] + clients[0].local()[0] - 2.0).abs() < 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds a run, which is not shown"
)]
pub struct Server<'r> {
    rounds: ServerRounds,
    run: Run<'r>,
}

impl<'r> Server<'r> {
    /// A server for `n_shared` shared parameters along `run`. Rounds in the run's list are replayed
    /// first.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for settings that release nothing, or with full participation
    /// instead of a sampling scheme; [`crate::Error::Mechanism`] when settings, plan, spends and
    /// list do not belong together.
    pub fn new(fit: PpSgd, n_shared: usize, mut run: Run<'r>) -> Result<Self> {
        let sampling = sampling_of(&fit, n_shared)?;
        run.begin(&fit.requests(n_shared)?, 1)?;
        let rounds = ServerRounds::replayed(fit, sampling, n_shared, &mut run)?;
        Ok(Self { rounds, run })
    }

    /// The current shared parameters, which are released.
    #[must_use]
    pub fn shared(&self) -> &[f64] {
        self.rounds.state.parameters()
    }

    /// Pays for the next round and draws which of `n_clients` clients to ask; returns none after
    /// the last round. A round that is dropped stays paid for and is skipped.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the payment or the draw is refused or entropy fails.
    pub fn open_round(&mut self, n_clients: usize) -> Result<Option<OpenRound<'_, 'r>>> {
        let opened = self.rounds.open(&mut self.run, n_clients)?;
        Ok(opened.map(|(message, open)| OpenRound {
            message,
            server: self,
            open,
        }))
    }

    /// The current model, with the certificate of all rounds that were paid for.
    ///
    /// # Privacy
    /// The number of rounds is released. The decision when to call this may follow from released
    /// models, as with [`PublicEarlyStopping`](crate::PublicEarlyStopping), and from public data,
    /// never from [`OpenRound::asked`], from which clients answered or from how many did.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when nothing was paid for, or when the certificate does not
    /// verify.
    pub fn finish(self) -> Result<Fitted<SharedModel>> {
        let Self { rounds, mut run } = self;
        rounds.check_state()?;
        let ServerRounds { fit, state, .. } = rounds;
        let model = state.into_model(fit.params().average, run.provenance());
        TRUST.iter().for_each(|&said| run.assume(said));
        Ok(run.finish(model, |certificate| fit.describe(certificate))?)
    }
}

/// A server's clients, wherever they are.
pub trait RoundClients {
    /// The number of clients, which are numbered from 0: public.
    fn n_clients(&self) -> usize;

    /// Sends the message of a round to all clients, and returns the updates of those that were
    /// asked, by increasing number, which arrived within a time fixed in advance.
    ///
    /// # Errors
    /// Only when the run is ended from outside, never because of who was asked or what arrived.
    fn round(
        &mut self,
        message: &RoundMessage,
        asked: &[usize],
    ) -> Result<Vec<UpdateMessage>, dp_mechanism::Error>;
}

impl PpSgd {
    /// Makes all rounds by messages, as the next releases of a run that has begun with them; rounds
    /// in its list are replayed first. The model has no local parameters, which stay with the
    /// clients.
    ///
    /// # Privacy
    /// As for [`Server`], which makes the same rounds. Rejected messages are not shown.
    ///
    /// # Errors
    /// As [`Server::new`], [`Server::open_round`] and [`OpenRound::close`]; errors of the clients.
    pub fn train_by_messages(
        &self,
        n_shared: usize,
        clients: &mut dyn RoundClients,
        run: &mut Run<'_>,
    ) -> Result<PpSgdModel> {
        let sampling = sampling_of(self, n_shared)?;
        let mut rounds = ServerRounds::replayed(*self, sampling, n_shared, run)?;
        while let Some((message, open)) = rounds.open(run, clients.n_clients())? {
            let updates = clients.round(&message, open.asked())?;
            rounds.close(run, &message, open, updates, &mut |_| {})?;
        }
        rounds.check_state()?;
        TRUST.iter().for_each(|&said| run.assume(said));
        let average = self.params().average;
        Ok(PpSgdModel::without_users(
            rounds.state.into_model(average, run.provenance()),
        ))
    }
}

fn sampling_of(fit: &PpSgd, n_shared: usize) -> Result<ClientSampling> {
    params::at_least_one("n_shared", n_shared)?;
    let Participation::Sampled(sampling) = fit.params().participation else {
        return Err(ParamError {
            name: "participation",
            value: 1.0,
            expected: "a sampling scheme; Poisson sampling with probability 1 asks everybody",
        }
        .into());
    };
    Ok(sampling)
}

/// The rounds of a server along a run.
struct ServerRounds {
    fit: PpSgd,
    sampling: ClientSampling,
    state: SharedState,
    /// Whether the list contains a release that the shared parameters do not include, because an
    /// error interrupted the update.
    behind: bool,
}

impl ServerRounds {
    /// After the rounds in the run's list.
    fn replayed(
        fit: PpSgd,
        sampling: ClientSampling,
        n_shared: usize,
        run: &mut Run<'_>,
    ) -> Result<Self> {
        let mut rounds = Self {
            state: SharedState::new(&fit, n_shared),
            fit,
            sampling,
            behind: false,
        };
        while let Some(round) = rounds.next(run) {
            let Some(released) = run.reopened(sampling, rounds.shape())? else {
                break;
            };
            rounds.state.begin_round(round);
            rounds.end(run, released.values());
        }
        Ok(rounds)
    }

    fn open(
        &mut self,
        run: &mut Run<'_>,
        n_clients: usize,
    ) -> Result<Option<(RoundMessage, OpenSum)>> {
        self.check_state()?;
        let Some(round) = self.next(run) else {
            return Ok(None);
        };
        let ranges = self.layout().extra_ranges(self.state.clip_norm());
        let open = run.open(self.sampling, n_clients, self.shape(), &ranges)?;
        self.state.begin_round(round);
        Ok(Some((
            self.message(run, round, open.noise_multiplier()),
            open,
        )))
    }

    fn close(
        &mut self,
        run: &mut Run<'_>,
        message: &RoundMessage,
        open: OpenSum,
        updates: impl IntoIterator<Item = UpdateMessage>,
        rejected: &mut dyn FnMut(Rejection),
    ) -> Result<RoundOutcome> {
        let grid = *open.grid();
        let checked = updates
            .into_iter()
            .filter_map(|update| match update.check(message, &grid) {
                Ok(()) => Some((update.client, update.integers)),
                Err(rejection) => {
                    rejected(rejection);
                    None
                }
            });
        #[cfg(privacy_mutants)]
        let mut answered = 0_u32;
        #[cfg(privacy_mutants)]
        let checked = checked.inspect(|_| answered += 1);
        let n_listed = run.n_releases();
        let released = run.close(open, checked);
        self.behind = released.is_err() && run.n_releases() > n_listed;
        let values = released?.values();
        #[cfg(privacy_mutants)]
        let values = {
            let ratio = self.fit.params().expected_clients() / f64::from(answered.max(1));
            let ratio = dp_core::mutants::pick("sgd-mean-of-those-who-answered", 1.0, ratio);
            values.into_iter().map(|v| ratio * v).collect()
        };
        Ok(if self.end(run, values) {
            RoundOutcome::Stepped
        } else {
            RoundOutcome::TooFewClients
        })
    }

    /// Updates the model with the released values and shows it to the observer of the run; returns
    /// whether a step was made.
    fn end(&mut self, run: &mut Run<'_>, values: Vec<f64>) -> bool {
        let stepped = self.state.end_round(&self.fit, Some(values));
        let parameters = self.state.parameters();
        run.round(&Round {
            round: self.state.n_rounds(),
            parameters,
            shape: (1, parameters.len()),
            local: None,
        });
        stepped
    }

    /// Shared parameters that do not include all releases in the list would be sent to clients
    /// although they are not a function of the list.
    fn check_state(&self) -> Result<()> {
        if self.behind {
            return Err(dp_mechanism::Error::List {
                what: "an error came between a release and the step on it: go on from the list"
                    .to_owned(),
            }
            .into());
        }
        Ok(())
    }

    /// The first round that has not been paid for.
    fn next(&self, run: &Run<'_>) -> Option<usize> {
        let round = run.paid().len() + 1;
        (round <= self.fit.params().n_rounds).then_some(round)
    }

    fn layout(&self) -> RoundLayout {
        self.fit.layout(self.state.parameters().len())
    }

    /// Coordinates of the release of the next round, and the bound on a client's norm.
    fn shape(&self) -> (usize, f64) {
        let (layout, clip_norm) = (self.layout(), self.state.clip_norm());
        (layout.n_coordinates(), layout.whole_norm(clip_norm))
    }

    fn message(&self, run: &Run<'_>, round: usize, noise_multiplier: f64) -> RoundMessage {
        let params = self.fit.params();
        let layout = self.layout();
        let first = run.paid().first();
        RoundMessage {
            run: first.map_or_else(String::new, |paid| paid.release_id.clone()),
            round: u32::try_from(round).unwrap_or(u32::MAX), // at most 2^20
            shared: self.state.parameters().to_vec(),
            clip_norm: self.state.clip_norm(),
            noise_multiplier,
            local_rate: self.fit.step_sizes(round).0,
            sum_rows: matches!(params.reduction, BatchReduction::Sum { .. }),
            everybody_trains: params.local_training == LocalTraining::EveryRound,
            share_within: layout.within,
            count_clients: layout.count,
            extra_share: layout.extra,
        }
    }
}

/// Additional trust assumptions of a run by messages.
const TRUST: [&str; 3] = [
    "the server sees every update before noise is added, and tells nobody",
    "every message comes from the client whose number it carries",
    "no round was dropped, or closed before all had replied, and the run not ended, because of who was drawn, who answered or how many did",
];

/// A round that is waiting for its answers.
///
/// # Privacy
/// Whether and when the round is closed, and whether another one follows, must not be decided by
/// [`asked`](Self::asked) or by the answers: wait for a time fixed in advance, and close the round
/// with the answers received so far.
#[must_use = "a round that is dropped stays paid for"]
#[allow(
    missing_debug_implementations,
    reason = "who is asked must stay secret; printing it is never wanted"
)]
pub struct OpenRound<'s, 'r> {
    server: &'s mut Server<'r>,
    message: RoundMessage,
    open: OpenSum,
}

impl OpenRound<'_, '_> {
    /// The message for all clients.
    #[must_use]
    pub const fn message(&self) -> &RoundMessage {
        &self.message
    }

    /// The numbers of the clients to ask, in increasing order. Secret, see [`OpenSum`].
    #[must_use]
    pub fn asked(&self) -> &[usize] {
        self.open.asked()
    }

    /// Adds up the answers as they arrive, adds noise and updates the model.
    ///
    /// A message of another run, round or length, with a norm above the bound, or with an extra
    /// coordinate out of range is not counted and is passed to `rejected`, which is as secret as
    /// the sample ([`Rejection`]). A second message of a client and a message of a client that was
    /// not asked are not counted either. The server stores one flag for each client that was asked,
    /// and no messages.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the release is refused, entropy fails or the list cannot be
    /// written. No error depends on messages.
    pub fn close(
        self,
        updates: impl IntoIterator<Item = UpdateMessage>,
        rejected: &mut dyn FnMut(Rejection),
    ) -> Result<RoundOutcome> {
        let Self {
            server,
            message,
            open,
        } = self;
        let Server { rounds, run } = server;
        rounds.close(run, &message, open, updates, rejected)
    }
}
