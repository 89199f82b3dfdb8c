//! The server: released values and one open round at a time, along a run.

use dp_core::{ParamError, params};
use dp_mechanism::{ClientSampling, Fitted, OpenSum, Run};

use super::{Rejection, RoundMessage, UpdateMessage};
use crate::ppsgd::{RoundLayout, SharedState};
use crate::{BatchReduction, LocalTraining, Participation, PpSgd, Result, SharedModel};

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
