//! Rounds between a server and clients that exchange plain messages.

use dp_core::{ParamError, UserRow, params};
use dp_mechanism::{
    AskedRound, ClientRecord, ClientSampling, Fitted, Grid, KnownRun, OpenSum, Refusal, Run,
    SparseBuffer, VectorContribution, vector_contribution,
};
use serde::{Deserialize, Serialize};

use crate::objective::PersonalizedObjective;
use crate::ppsgd::{LocalState, LocalStep, RoundLayout, SharedState, StepScratch};
use crate::{
    BatchReduction, LocalTraining, Participation, PpSgd, Result, SharedModel, UserBatches,
};

/// What the server sends to everybody at the start of a round: released and public values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundMessage {
    /// The run: the release id of its first round, which is public. Clients start anew at one that they do not know.
    pub run: String,
    /// The round, from 1.
    pub round: u32,
    /// `w_(t-1)`.
    pub shared: Vec<f64>,
    /// Bound `C_t` on the gradient.
    pub clip_norm: f64,
    /// With the bound on the whole contribution it fixes the integer grid.
    pub noise_multiplier: f64,
    /// Local step size.
    pub local_rate: f64,
    /// Whether minibatch gradients are summed instead of averaged.
    pub sum_rows: bool,
    /// Whether clients train that are not asked.
    pub everybody_trains: bool,
    /// Whether there is a coordinate for the share of clients within the clip.
    pub share_within: bool,
    /// Whether there is a coordinate for the number of clients.
    pub count_clients: bool,
    /// Size of each extra coordinate in units of the clip norm.
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

    /// The grid that updates are integers of.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when noise multiplier or clip norm do not fit a grid.
    pub fn grid(&self) -> Result<Grid> {
        let whole = self.layout().whole_norm(self.clip_norm);
        Ok(Grid::new(self.noise_multiplier, whole)?)
    }

    /// What a client's policy looks at.
    fn asked(&self) -> AskedRound<'_> {
        AskedRound {
            run: &self.run,
            number: self.round,
            noise_multipliers: std::slice::from_ref(&self.noise_multiplier),
            clip_norm: self.clip_norm,
        }
    }

    /// Whether every number in it is one.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first member that is out of range.
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
/// As private as the client's data: it goes to the server over an authenticated link, and the server adds it to a sum that is
/// released with noise. No `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    missing_debug_implementations,
    reason = "a private gradient; printing it is never wanted"
)]
pub struct UpdateMessage {
    /// The run of the round that it answers.
    pub run: String,
    /// The round that it answers.
    pub round: u32,
    /// The client, by the number that the server knows it by.
    pub client: usize,
    /// The gradient's integers and those of the extra coordinates.
    pub integers: Vec<i64>,
}

/// What a client does about a round. Only an update leaves it.
///
/// # Privacy
/// `Update` or not is **as secret as the sample**. `Late` follows from messages alone.
#[derive(Clone, PartialEq, Eq)]
#[allow(
    missing_debug_implementations,
    reason = "may hold a private gradient; printing it is never wanted"
)]
pub enum Reply {
    /// For the server.
    Update(UpdateMessage),
    /// The round was heard of; nothing is said.
    NotAsked,
    /// The message is of a run that was left, of an earlier round or of one that was answered before: it was passed over.
    Late,
}

impl Reply {
    /// What goes to the server, if anything.
    #[must_use]
    pub fn update(self) -> Option<UpdateMessage> {
        match self {
            Self::Update(update) => Some(update),
            Self::NotAsked | Self::Late => None,
        }
    }
}

/// Why a message counts for nothing. The round goes on.
///
/// # Privacy
/// **As secret as the sample.** It names a client that sent something, and only clients that were asked send: whoever reads it, in a log say, learns
/// who took part. It is for the eyes of those who may see the sample, and nothing of the run may depend on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// It answers a round of another run.
    #[error("the message of client {client} is of another run")]
    Run {
        /// Sender.
        client: usize,
    },
    /// It answers another round.
    #[error("the message of client {client} answers round {found}, this is round {expected}")]
    Round {
        /// Sender.
        client: usize,
        /// Round of the message.
        found: u32,
        /// The round that is open.
        expected: u32,
    },
    /// It has another number of integers.
    #[error("the message of client {client} has {found} integers, expected {expected}")]
    Length {
        /// Sender.
        client: usize,
        /// Integers in the message.
        found: usize,
        /// Coordinates of the round.
        expected: usize,
    },
    /// Its exact norm is above the bound.
    #[error("the message of client {client} is above the bound")]
    Norm {
        /// Sender.
        client: usize,
    },
    /// It counts as more than one client, or as less than none.
    #[error("an extra coordinate of the message of client {client} is out of range")]
    Extra {
        /// Sender.
        client: usize,
    },
}

impl UpdateMessage {
    /// Whether the message is one of this round, by run, number, length, exact integer norm and the ranges of its extra coordinates.
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

/// What became of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundOutcome {
    /// The model made a step.
    Stepped,
    /// The noisy number of clients was below the minimum: the model stays as it was, the cost too.
    TooFewClients,
}

/// The server of a federation: opens rounds, adds up what clients send, releases the sum with noise.
///
/// A round: [`open_round`](Self::open_round) pays and draws who is asked, [`OpenRound::message`] goes to everybody,
/// [`OpenRound::asked`] says who answers, [`OpenRound::close`] takes the answers in whatever order they come. Spends, noise and the
/// list of releases are those of its [`Run`]. It does the same as [`PpSgdTrainer`](crate::PpSgdTrainer) bit for bit, and works for sampled
/// participation; [`PoissonSampling`](crate::PoissonSampling) with probability 1 asks everybody.
///
/// A server whose run goes on from a list of releases first makes the rounds of the list again, and then opens the next one:
/// clients, which keep their local parameters, notice nothing. A round that was dropped or lost to a crash stays paid for; a list in
/// which a later round follows one that was dropped cannot be gone on from and is refused.
///
/// # Privacy
/// As for [`PpSgd`]. Every message is checked here by exact integer norm and again by the kernel. Drop-outs add nothing and the noise
/// stays what it is. Fewer clients than a minimum, a number that may be secret, are noticed by a noisy count only, which is part of
/// the same release ([`minimum_clients`](crate::PpSgdParams::minimum_clients)). The server sees single updates before it adds them and
/// has to be trusted with them, as the certificate says.
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
    fit: PpSgd,
    sampling: ClientSampling,
    run: Run<'r>,
    state: SharedState,
    /// Whether a release is in the list that the shared parameters have not taken in, because an error came between.
    behind: bool,
}

impl<'r> Server<'r> {
    /// A server for `n_shared` shared parameters along `run`. Rounds in the run's list are made again first.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for settings that release nothing or ask everybody without a sampling scheme;
    /// [`crate::Error::Mechanism`] when settings, plan, spends and list do not belong together.
    pub fn new(fit: PpSgd, n_shared: usize, mut run: Run<'r>) -> Result<Self> {
        params::at_least_one("n_shared", n_shared)?;
        let Participation::Sampled(sampling) = fit.params().participation else {
            return Err(ParamError {
                name: "participation",
                value: 1.0,
                expected: "a sampling scheme; Poisson sampling with probability 1 asks everybody",
            }
            .into());
        };
        run.begin(&fit.requests(n_shared)?, 1)?;
        let mut server = Self {
            state: SharedState::new(&fit, n_shared),
            fit,
            sampling,
            run,
            behind: false,
        };
        while let Some(round) = server.next_round() {
            let Some(released) = server.run.reopened(sampling, server.shape())? else {
                break;
            };
            server.state.begin_round(round);
            server.state.end_round(&server.fit, Some(released.values()));
        }
        Ok(server)
    }

    /// The shared parameters as they stand: released.
    #[must_use]
    pub fn shared(&self) -> &[f64] {
        self.state.parameters()
    }

    /// Pays for the next round and draws who of `n_clients` is asked; none after the last round. A round that is dropped stays
    /// paid for and is passed over.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the payment or the draw is refused or entropy fails.
    pub fn open_round(&mut self, n_clients: usize) -> Result<Option<OpenRound<'_, 'r>>> {
        self.check_state()?;
        let Some(round) = self.next_round() else {
            return Ok(None);
        };
        let ranges = self.layout().extra_ranges(self.state.clip_norm());
        let open = self
            .run
            .open(self.sampling, n_clients, self.shape(), &ranges)?;
        self.state.begin_round(round);
        Ok(Some(OpenRound {
            message: self.message(round, open.noise_multiplier()),
            server: self,
            open,
        }))
    }

    /// Parameters that are behind the list would be sent to clients and be no function of it.
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

    /// The round after all that were paid for.
    fn next_round(&self) -> Option<usize> {
        let round = self.run.paid().len() + 1;
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

    fn message(&self, round: usize, noise_multiplier: f64) -> RoundMessage {
        let params = self.fit.params();
        let layout = self.layout();
        let first = self.run.paid().first();
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

    /// The model as it stands, with the certificate of all rounds that were paid for.
    ///
    /// # Privacy
    /// The number of rounds is released. When to call this may follow from released models, as with
    /// [`PublicEarlyStopping`](crate::PublicEarlyStopping), and from public data, never
    /// from [`OpenRound::asked`] or from who answered or how many.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] where nothing was paid for, and should the certificate not verify.
    pub fn finish(self) -> Result<Fitted<SharedModel>> {
        self.check_state()?;
        let Self {
            fit, run, state, ..
        } = self;
        let model = state.into_model(fit.params().average, run.provenance());
        let describe = |certificate| {
            let certificate = fit.describe(certificate);
            TRUST
                .iter()
                .fold(certificate, |c, &said| c.assumption(said))
        };
        Ok(run.finish(model, describe)?)
    }
}

/// What a run by messages takes on trust beyond a fit.
const TRUST: [&str; 3] = [
    "the server sees every update before noise is added, and tells nobody",
    "every message comes from the client whose number it carries",
    "no round was dropped or closed early, and the run not ended, because of who was drawn, who answered or how many did",
];

/// A round that waits for its answers.
///
/// # Privacy
/// Whether and when it is closed, and whether another one follows, must not be decided by [`asked`](Self::asked) or by the answers: wait for a time
/// that was settled before, and close with what is there.
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
    /// For everybody.
    #[must_use]
    pub const fn message(&self) -> &RoundMessage {
        &self.message
    }

    /// The numbers of the clients to ask, increasing. A secret, see [`OpenSum`].
    #[must_use]
    pub fn asked(&self) -> &[usize] {
        self.open.asked()
    }

    /// Adds up the answers as they come, adds noise, and makes the step.
    ///
    /// A message of another run, round or length, above the bound, or with an extra coordinate out of its range, counts for nothing and goes to `rejected`, which is as secret as
    /// the sample ([`Rejection`]); a second one of a client, or one of a client that was not asked, counts for nothing. The server keeps one mark for each client asked, and no message.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the release is refused, entropy fails or the list cannot be written, and nothing that depends on
    /// messages.
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
        let grid = *open.grid();
        let checked =
            updates
                .into_iter()
                .filter_map(|update| match update.check(&message, &grid) {
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
        let n_listed = server.run.n_releases();
        let released = server.run.close(open, checked);
        server.behind = released.is_err() && server.run.n_releases() > n_listed;
        let values = released?.values();
        #[cfg(privacy_mutants)]
        let values = {
            let ratio = server.fit.params().expected_clients() / f64::from(answered.max(1));
            let ratio = dp_core::mutants::pick("sgd-mean-of-those-who-answered", 1.0, ratio);
            values.into_iter().map(|v| ratio * v).collect()
        };
        let stepped = server.state.end_round(&server.fit, Some(values));
        Ok(if stepped {
            RoundOutcome::Stepped
        } else {
            RoundOutcome::TooFewClients
        })
    }
}
