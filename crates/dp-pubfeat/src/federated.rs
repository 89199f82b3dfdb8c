//! SSP-c with clients, an aggregator and a server: Algorithm 8.

use std::collections::HashSet;

use dp_accounting::Plan;
use dp_core::{Interactions, InteractionsBuilder, Private, params};
use dp_mechanism::{AskedRound, ClientRecord, Fitted, Run, Trainer};
use serde::{Deserialize, Serialize};

use crate::{Error, ItemStatistics, ProblemSetup, ProtectedUnit, Result, Ssp, StatisticsLearner};

/// Quantisation steps of a coordinate of `u` per `Gamma_u`, and of a label per `Gamma_y`.
const STEPS: i32 = 1 << 20;

/// The public settings that all clients receive at the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// The name of the run: any public text.
    pub run: String,
    /// Number of items of the public catalogue.
    pub n_items: usize,
    /// Bounds on what a client sends.
    pub setup: ProblemSetup,
    /// Noise multipliers of the release of matrices and of that of right-hand sides.
    pub noise_multipliers: [f64; 2],
}

impl Invitation {
    /// Checks that settings and sizes are in range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting that is not.
    pub fn check(&self) -> Result<()> {
        params::at_least_one("run (its length)", self.run.len())?;
        params::at_least_one("n_items", self.n_items)?;
        for z in self.noise_multipliers {
            params::finite_positive("noise_multipliers", z)?;
        }
        self.setup.check()?;
        self.setup.weights.check_items(self.n_items)
    }
}

impl Invitation {
    /// The values that a client's policy checks: one round, and the larger of the bounds on a
    /// vector and a label.
    #[must_use]
    pub fn asked(&self) -> AskedRound<'_> {
        AskedRound {
            run: &self.run,
            number: 1,
            noise_multipliers: &self.noise_multipliers,
            clip_norm: self.setup.user_norm.max(self.setup.label_bound),
        }
    }
}

/// A client's vector and examples, in integers.
///
/// # Privacy
/// As private as the client's data: it goes to the aggregator over an authenticated link and to
/// nobody else. The type does not implement `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    missing_debug_implementations,
    reason = "private examples; printing them is never wanted"
)]
pub struct ExamplesMessage {
    /// The run that the message belongs to.
    pub run: String,
    /// The number under which the aggregator knows the client.
    pub client: u32,
    /// `u` in steps of `2^-20 Gamma_u`.
    pub vector: Vec<i32>,
    /// Items, strictly increasing.
    pub items: Vec<u32>,
    /// Labels in steps of `2^-20 Gamma_y`.
    pub labels: Vec<i32>,
}

/// Why a message was ignored. The run continues.
///
/// # Privacy
/// Depends on what one client sent: for the aggregator only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The message is for another run.
    #[error("the message of client {client} is of another run")]
    Run {
        /// Sender.
        client: u32,
    },
    /// The vector has the wrong length, or the numbers of labels and items differ.
    #[error("the message of client {client} has lists of wrong lengths")]
    Length {
        /// Sender.
        client: u32,
    },
    /// Items are not strictly increasing, or are not in the catalogue.
    #[error("the message of client {client} has items out of order or not in the catalogue")]
    Items {
        /// Sender.
        client: u32,
    },
    /// The exact norm of the vector, or a label, is above its bound.
    #[error("the message of client {client} is above a bound")]
    Bound {
        /// Sender.
        client: u32,
    },
    /// There is no client with that number.
    #[error("there is no client {client}")]
    Unknown {
        /// Sender.
        client: u32,
    },
    /// A message of the client has already been counted.
    #[error("client {client} has sent a message before")]
    Repeated {
        /// Sender.
        client: u32,
    },
}

impl ExamplesMessage {
    /// Checks that the message belongs to this run: run, shapes and exact integer bounds
    /// `sum x^2 <= 2^40` and `|l| <= 2^20`.
    ///
    /// # Errors
    /// The first [`Rejection`] that applies.
    pub fn check(&self, invitation: &Invitation) -> Result<(), Rejection> {
        let client = self.client;
        if self.run != invitation.run {
            return Err(Rejection::Run { client });
        }
        if self.vector.len() != invitation.setup.dim || self.items.len() != self.labels.len() {
            return Err(Rejection::Length { client });
        }
        let last = self.items.last().map_or(0, |&item| item as usize + 1);
        if !self.items.is_sorted_by(|a, b| a < b) || last > invitation.n_items {
            return Err(Rejection::Items { client });
        }
        let square = |x: i32| u128::from(x.unsigned_abs()).pow(2);
        let bound = square(STEPS);
        let norm: u128 = self.vector.iter().map(|&x| square(x)).sum();
        if norm > bound || self.labels.iter().any(|&l| square(l) > bound) {
            return Err(Rejection::Bound { client });
        }
        Ok(())
    }
}

/// The released statistics, for the server and anyone else; shapes and numbers are checked when the
/// message is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatisticsMessage {
    /// The run.
    pub run: String,
    /// Noisy matrices and right-hand sides of all items.
    pub statistics: ItemStatistics,
}

/// One user's device: answers one invitation with the user's vector and examples in integers, and
/// is consumed by it.
///
/// The device's [`ClientRecord`] answers a run once, within its policy; the aggregator counts the
/// first valid message of each number.
///
/// # Privacy
/// Only [`ExamplesMessage`] leaves the device; it is bounded here and checked again by the
/// aggregator. The device never receives the items' features.
#[allow(
    missing_debug_implementations,
    reason = "holds private data; printing it is never wanted"
)]
pub struct Client<'a> {
    data: &'a Private<Interactions>,
    user: usize,
    number: u32,
}

impl<'a> Client<'a> {
    /// The client for row `user` of a table (a device's own table has one row), known to the
    /// aggregator as `number`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there is no such row.
    pub fn new(data: &'a Private<Interactions>, user: usize, number: u32) -> Result<Self> {
        let last = data.expose().n_users().saturating_sub(1);
        params::in_range("user", user, 0, last, "a user of the table")?;
        Ok(Self { data, user, number })
    }

    /// Answers an invitation, the only one that this client answers. `record` stores the answer
    /// durably before this returns.
    ///
    /// # Errors
    /// [`Refused`](dp_mechanism::Error::Refused) when the policy does not admit the invitation, or
    /// this run was answered before; [`crate::Error::Mechanism`] when the record cannot be written;
    /// [`crate::Error::Unsupported`] for an invitation that protects examples instead of users;
    /// [`crate::Error::Param`] or [`crate::Error::Shape`] for one that is out of range or
    /// has another catalogue or vector length. Errors do not depend on the client's records.
    pub fn answer(
        self,
        invitation: &Invitation,
        record: &mut ClientRecord,
    ) -> Result<ExamplesMessage> {
        invitation.check()?;
        let setup = &invitation.setup;
        if setup.unit != ProtectedUnit::User {
            // its weights would let a user add more than the record counts
            return Err(Error::Unsupported {
                what: "an invitation that protects single examples instead of users",
            });
        }
        setup.check_table(self.data, invitation.n_items)?;
        record.enter(&invitation.asked())?;
        record.answer(&invitation.asked())?;
        let row = self.data.expose().user(self.user);
        let mut vector = vec![0.0; setup.dim];
        setup.write_vector(row, &mut vector);
        let labels = row.values().iter().map(|&y| setup.label(y));
        Ok(ExamplesMessage {
            run: invitation.run.clone(),
            client: self.number,
            vector: vector
                .iter()
                .map(|u| in_steps(u / setup.user_norm))
                .collect(),
            items: row.items().to_vec(),
            labels: labels.map(|y| in_steps(y / setup.label_bound)).collect(),
        })
    }
}

/// Quantises a number from -1 to 1, rounding toward zero after scaling it down slightly, so that a
/// norm rounded up cannot exceed the bound.
#[allow(
    clippy::cast_possible_truncation,
    reason = "at most 2^20 in size; the cast saturates"
)]
fn in_steps(x: f64) -> i32 {
    const SHADE: f64 = 1.0 - 1.0 / (1_u64 << 40) as f64;
    (x * SHADE * f64::from(STEPS)) as i32
}

/// The trusted part of federated SSP-c: holds clients' messages until the round is closed, releases
/// noisy statistics, and is consumed by that.
///
/// # Privacy
/// As for [`Ssp`] with one release, and with the same bits for the same integers and noise.
/// Messages are checked here in exact integers, one per client; the kernel checks what each adds to
/// the sums in exact integers again. The aggregator sees single messages and must be trusted with
/// them, as the certificate states. The server sees released values only.
#[allow(
    missing_debug_implementations,
    reason = "holds private examples; printing them is never wanted"
)]
pub struct Aggregator {
    ssp: Ssp,
    invitation: Invitation,
    roster_size: u32,
    seen: HashSet<u32>,
    examples: InteractionsBuilder,
}

const TRUST: [&str; 3] = [
    "the aggregator sees every client's message before noise is added, and tells nobody",
    "every message comes from the client whose number it carries",
    "the round was closed at a time fixed in advance, or earlier when every client on the roster had answered; nobody else learned when",
];

impl Aggregator {
    /// An aggregator of the run named `run` that `plan` pays for, for a public catalogue of
    /// `n_items` items and clients numbered below `roster_size`, the maximum number of clients,
    /// which is public and fixed independently of who takes part. The memory that one message can
    /// take is bounded by it and by the catalogue.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for settings with more than one release; [`Error::Param`] for an
    /// empty roster or catalogue, or a run without a name; [`Error::Shape`] for weights of another
    /// number of items; [`Error::Mechanism`] for a plan without the two releases.
    pub fn new(
        ssp: &Ssp,
        (n_items, roster_size): (usize, u32),
        run: impl Into<String>,
        plan: &Plan,
    ) -> Result<Self> {
        if ssp.params().n_resamples != 1 {
            return Err(Error::Unsupported {
                what: "federated statistics with more than one release",
            });
        }
        params::at_least_one("roster_size", roster_size as usize)?;
        let invitation = Invitation {
            run: run.into(),
            n_items,
            setup: ssp.params().setup.clone(),
            noise_multipliers: noise_multipliers(plan)?,
        };
        invitation.check()?;
        Ok(Self {
            examples: InteractionsBuilder::new(n_items).with_feature_dim(invitation.setup.dim),
            invitation,
            ssp: ssp.clone(),
            roster_size,
            seen: HashSet::new(),
        })
    }

    /// The invitation for every client.
    #[must_use]
    pub const fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Receives a client's message. The first valid message of a client counts.
    ///
    /// # Errors
    /// The [`Rejection`] for which the message was ignored.
    pub fn receive(&mut self, message: &ExamplesMessage) -> Result<(), Rejection> {
        let client = message.client;
        if client >= self.roster_size {
            return Err(Rejection::Unknown { client });
        }
        message.check(&self.invitation)?;
        if !self.seen.insert(client) {
            return Err(Rejection::Repeated { client });
        }
        let setup = &self.invitation.setup;
        let vector: Vec<f32> = message
            .vector
            .iter()
            .map(|&x| scaled(x, setup.user_norm))
            .collect();
        let refused = |_| Rejection::Items { client }; // checked above: cannot happen
        self.examples
            .set_features(client, &vector)
            .map_err(refused)?;
        for (&item, &label) in message.items.iter().zip(&message.labels) {
            let label = scaled(label, setup.label_bound);
            self.examples.push(client, item, label).map_err(refused)?;
        }
        Ok(())
    }

    /// Sums the received messages, adds noise, and discards the messages: runs [`Ssp`] along `run`
    /// on the table of the clients' examples. If its plan does not match the settings, or has other
    /// noise than the clients were told, nothing is paid for or released.
    ///
    /// # Errors
    /// As [`Trainer::run`]. No error depends on messages.
    pub fn close(self, mut run: Run<'_>) -> Result<Fitted<StatisticsMessage>> {
        let ssp = self.ssp.clone();
        let requests = ssp.requests(self.invitation.n_items, run.plan().adjacency())?;
        run.begin(&requests, ssp.n_accounts())?;
        let message = self.release(&mut run)?;
        Ok(run.finish(message, |certificate| ssp.describe(certificate))?)
    }

    /// [`close`](Self::close) as the next releases of a run that has begun with those of [`Ssp`]
    /// and is finished by the caller: for a trainer of which this is a part. Releases in the list of
    /// the run are taken from there, and messages are not used then.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn release(self, run: &mut Run<'_>) -> Result<StatisticsMessage> {
        let Self {
            ssp,
            invitation,
            examples,
            ..
        } = self;
        let told = invitation.noise_multipliers.map(f64::to_bits);
        if noise_multipliers(run.plan())?.map(f64::to_bits) != told {
            return Err(other_plan(run.plan()));
        }
        for assumption in TRUST {
            run.assume(assumption);
        }
        let data = Private::new(examples.build().0);
        let statistics = ssp.train(&data, run)?.into_iter().next();
        Ok(StatisticsMessage {
            run: invitation.run,
            statistics: statistics.ok_or(Error::Unsupported {
                what: "statistics without a release",
            })?,
        })
    }
}

/// Noise multipliers of the release of matrices and of that of right-hand sides, as announced to
/// clients.
fn noise_multipliers(plan: &Plan) -> Result<[f64; 2]> {
    let found = plan.releases().iter().map(|r| r.noise_multiplier());
    let found = found.collect::<dp_accounting::Result<Vec<f64>>>()?;
    found.try_into().map_err(|_| other_plan(plan))
}

fn other_plan(plan: &Plan) -> Error {
    let first = plan.releases().first();
    let label = first.map_or("", |release| release.label()).to_owned();
    dp_mechanism::Error::Plan { label }.into()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "tables hold single precision"
)]
fn scaled(steps: i32, unit: f64) -> f32 {
    (f64::from(steps) * unit / f64::from(STEPS)) as f32
}

/// Holds the items' features, through a learner, and trains when the statistics of its run arrive.
/// No further messages from clients are needed, whatever the number of steps.
///
/// # Privacy
/// Sees released values only: post-processing.
///
/// # Examples
/// ```
/// use dp_pubfeat::federated::{Aggregator, Client, Server};
/// use dp_pubfeat::{Adjacency, ApproxDp, Budget, ClientPolicy, ClientRecord, FeatureKernel, InteractionsBuilder, KernelRidge, Ledger, NoiseSource, Private};
/// use dp_pubfeat::{ProblemSetup, RidgeNoise, Run, SspParams, StatisticsLearner, Trainer};
///
/// let mut builder = InteractionsBuilder::new(2).with_feature_dim(1);
/// for user in 0..300 {
///     builder.set_features(user, &[1.0])?;
///     builder.push(user, user % 2, 0.5)?;
/// }
/// let devices = Private::new(builder.build().0); // stands for 300 devices
///
/// let ssp = SspParams::new(ProblemSetup::new(1, 1.0)).check()?;
/// let (target, adjacency) = (ApproxDp::target(2.0, 1e-5)?, Adjacency::AddRemoveUser);
/// let plan = ssp.plan(2, target, adjacency)?;
/// let mut ledger = Ledger::in_memory("devices", Budget::new(target, adjacency)?)?;
///
/// let mut aggregator = Aggregator::new(&ssp, (2, 300), "run 7", &plan)?;
/// let policy = ClientPolicy { least_noise_multiplier: 1.0, ..ClientPolicy::trusting() };
/// for number in 0..300 {
///     let mut record = ClientRecord::in_memory(policy.clone())?; // a device keeps it in a file
///     let client = Client::new(&devices, number as usize, number)?;
///     let message = client.answer(aggregator.invitation(), &mut record)?;
///     aggregator.receive(&message)?; // by any transport
/// }
/// let noise = &mut NoiseSource::operating_system();
/// let released = aggregator.close(Run::paying(&plan, &mut ledger, noise)?)?;
/// assert!(released.certificate.verify()?.is_private());
///
/// let learner = KernelRidge::new(FeatureKernel::id_only(2)?, 1, RidgeNoise::FromRelease { item_norm: 1.0 }, 0.0)?;
/// let mut server = Server::new("run 7", learner);
/// server.receive(&released.model)?;
/// assert!((server.learner().item_vectors()?[0] - 0.5).abs() < 0.4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Server<L> {
    run: String,
    learner: L,
}

impl<L: StatisticsLearner> Server<L> {
    /// A server of the run with this name.
    pub fn new(run: impl Into<String>, learner: L) -> Self {
        Self {
            run: run.into(),
            learner,
        }
    }

    /// Trains on the statistics of the run.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for statistics of another run; those of the learner.
    pub fn receive(&mut self, message: &StatisticsMessage) -> Result<()> {
        if message.run != self.run {
            return Err(Error::Unsupported {
                what: "statistics of another run",
            });
        }
        self.learner.learn(&message.statistics)
    }

    /// The learner in its current state.
    pub const fn learner(&self) -> &L {
        &self.learner
    }

    /// The learner in its current state.
    pub fn into_learner(self) -> L {
        self.learner
    }
}
