//! The server: released values, spends, and one open round at a time.

use dp_accounting::{Certificate, Plan, Spend};
use dp_core::{ParamError, params};
use dp_mechanism::{Grid, NoiseSource, PaidSample, VectorSum};

use super::{Rejection, RoundMessage, UpdateMessage};
use crate::paid::Paid;
use crate::ppsgd::{Run, noise_multiplier};
use crate::{BatchReduction, LocalTraining, Participation, PpSgd, Provenance, Result, SharedModel};

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
/// [`OpenRound::asked`] says who answers, [`OpenRound::close`] takes the answers in whatever order they come. It does the same as
/// [`PpSgd::fit`] bit for bit, and works for sampled participation; [`PoissonSampling`](dp_mechanism::PoissonSampling) with probability 1 asks everybody.
///
/// # Privacy
/// As for [`PpSgd`]. Every message is checked here by exact integer norm and again by the kernel. Drop-outs add nothing and the noise
/// stays what it is. Fewer clients than a minimum, a number that may be secret, are noticed by a noisy count only, which is part of
/// the same release ([`minimum_clients`](crate::PpSgdParams::minimum_clients)). The server sees single updates before it adds them and
/// has to be trusted with them, as the certificate says.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger};
/// use dp_core::{Adjacency, UserSamplesBuilder};
/// use dp_fedsgd::{AdditiveLoss, AdditiveModel, Client, HeldBatches, PpSgdParams, Server};
/// use dp_mechanism::{NoiseSource, PoissonSampling};
///
/// let mut builder = UserSamplesBuilder::new(1, 1)?;
/// for user in 0..200 {
///     builder.push(user, &[1.0], 2.0)?;
/// }
/// let samples = builder.build().0;
/// let (model, rows) = (AdditiveModel::new(AdditiveLoss::Squared, 1)?, HeldBatches::new(&samples, 1)?);
/// let clients = (0..200).map(|user| Client::new(&model, &rows, user, user));
/// let mut clients = clients.collect::<Result<Vec<_>, _>>()?;
///
/// let adjacency = Adjacency::AddRemoveUser;
/// let half = PoissonSampling::new(0.5)?.into();
/// let fit = PpSgdParams::new(1.0, 0.5, 2.0, 8, 200.0).sampled(half).check()?;
/// let plan = fit.plan_with_noise(1, 2.0, 1e-5, adjacency)?;
/// let mut ledger = Ledger::in_memory("federation", Budget::schedule(plan.target(), adjacency)?)?;
/// let noise = &mut NoiseSource::operating_system();
/// let mut server = Server::new(fit, 1, &plan, ledger.reserve(&plan)?)?;
/// while let Some(round) = server.open_round(clients.len(), noise)? {
///     let mut updates = Vec::new();
///     for (number, client) in clients.iter_mut().enumerate() {
///         let asked = round.asked().binary_search(&number).is_ok();
///         updates.extend(client.receive(round.message(), asked)?.update()); // any transport
///     }
///     round.close(updates, &mut |_| {}, noise)?;
/// }
/// let (shared, certificate) = server.finish()?;
/// assert!(certificate.verify()?.is_private());
/// assert!((shared.last()[0] + clients[0].local()[0] - 2.0).abs() < 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(
    missing_debug_implementations,
    reason = "holds spends, which are not shown"
)]
pub struct Server<'p> {
    /// Release id of the first round.
    id: String,
    fit: PpSgd,
    paid: Paid<'p>,
    run: Run,
    insecure: bool,
}

impl<'p> Server<'p> {
    /// A server for `n_shared` shared parameters that has paid for all rounds of `plan`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for settings that release nothing or ask everybody without a sampling scheme;
    /// [`crate::Error::Shape`] or [`crate::Error::Spends`] when settings, plan and spends do not belong together.
    pub fn new(fit: PpSgd, n_shared: usize, plan: &'p Plan, spends: Vec<Spend>) -> Result<Self> {
        params::at_least_one("n_shared", n_shared)?;
        params::finite_positive("alpha", fit.params().alpha.min(f64::MAX))?;
        if fit.params().participation == Participation::Full {
            return Err(ParamError {
                name: "participation",
                value: 1.0,
                expected: "a sampling scheme; Poisson sampling with probability 1 asks everybody",
            }
            .into());
        }
        fit.check_plan(n_shared, plan)?;
        Ok(Self {
            id: spends
                .first()
                .map_or_else(String::new, |spend| spend.release_id().to_owned()),
            paid: Paid::new(plan, spends)?,
            run: Run::new(&fit, n_shared),
            fit,
            insecure: false,
        })
    }

    /// The shared parameters as they stand: released.
    #[must_use]
    pub fn shared(&self) -> &[f64] {
        self.run.shared()
    }

    /// Pays for the next round and draws who of `n_clients` is asked; none after the last round. A round that is dropped stays
    /// paid for and is passed over.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the draw is refused or entropy fails; the spend is then gone.
    pub fn open_round(
        &mut self,
        n_clients: usize,
        noise: &mut NoiseSource,
    ) -> Result<Option<OpenRound<'_, 'p>>> {
        let Participation::Sampled(sampling) = self.fit.params().participation else {
            return Ok(None);
        };
        let round = self.run.n_rounds() + 1;
        if round > self.fit.params().n_rounds {
            return Ok(None);
        }
        self.run.begin_round(round); // first: whatever fails, this round's spend is of this round
        let spend = self.paid.next()?;
        let noise_multiplier = noise_multiplier(spend.event())?;
        let message = self.message(round, noise_multiplier);
        let grid = message.grid()?;
        let sample = sampling.pay_and_sample(n_clients, spend, noise)?;
        self.insecure |= sample.is_insecure();
        Ok(Some(OpenRound {
            server: self,
            message,
            grid,
            sample,
        }))
    }

    fn message(&self, round: usize, noise_multiplier: f64) -> RoundMessage {
        let params = self.fit.params();
        let layout = self.fit.layout(self.run.shared().len());
        RoundMessage {
            run: self.id.clone(),
            round: u32::try_from(round).unwrap_or(u32::MAX), // at most 2^20
            shared: self.run.shared().to_vec(),
            clip_norm: self.run.clip_norm(),
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
    /// The number of rounds is released. When to call this may follow from released models, as in [`PpSgd::fit_until`], and from public data, never
    /// from [`OpenRound::asked`] or from who answered or how many.
    ///
    /// # Errors
    /// [`crate::Error::Accounting`] should the certificate not verify.
    pub fn finish(self) -> Result<(SharedModel, Certificate)> {
        let provenance = if self.insecure {
            Provenance::SeededNoise
        } else {
            Provenance::Private
        };
        let average = self.fit.params().average;
        let certificate = self
            .paid
            .certificate(&self.fit.assumptions(&TRUST), self.insecure)?;
        let certificate = certificate.ok_or(dp_accounting::Error::NothingReleased)?;
        Ok((self.run.into_model(average, provenance), certificate))
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
pub struct OpenRound<'s, 'p> {
    server: &'s mut Server<'p>,
    message: RoundMessage,
    grid: Grid,
    sample: PaidSample,
}

impl OpenRound<'_, '_> {
    /// For everybody.
    #[must_use]
    pub const fn message(&self) -> &RoundMessage {
        &self.message
    }

    /// The numbers of the clients to ask, increasing. A secret, see [`PaidSample`].
    #[must_use]
    pub fn asked(&self) -> &[usize] {
        self.sample.indices()
    }

    /// Adds up the answers as they come, adds noise, and makes the step.
    ///
    /// A message of another run, round or length, or above the bound, counts for nothing and goes to `rejected`, which is as secret as
    /// the sample ([`Rejection`]); a second one of a client, or one of a client that was not asked, counts for nothing. The server keeps one mark for each client asked, and no message.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the release is refused or entropy fails, and nothing that depends on messages.
    pub fn close(
        self,
        updates: impl IntoIterator<Item = UpdateMessage>,
        rejected: &mut dyn FnMut(Rejection),
        noise: &mut NoiseSource,
    ) -> Result<RoundOutcome> {
        let Self {
            server,
            message,
            grid,
            sample,
        } = self;
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
        let n = message.n_coordinates();
        let released = VectorSum::from_messages(sample, checked, n, grid)?.release(noise)?;
        server.insecure |= released.is_insecure();
        let values = released.values();
        #[cfg(privacy_mutants)]
        let values = {
            let ratio = server.fit.params().expected_clients() / f64::from(answered.max(1));
            let ratio = dp_core::mutants::pick("sgd-mean-of-those-who-answered", 1.0, ratio);
            values.into_iter().map(|v| ratio * v).collect()
        };
        let stepped = server.run.end_round(&server.fit, Some(values));
        Ok(if stepped {
            RoundOutcome::Stepped
        } else {
            RoundOutcome::TooFewClients
        })
    }
}
