//! The aggregator: checks what clients send, sums, adds noise, forgets.

use std::collections::HashSet;

use dp_accounting::Plan;
use dp_core::{InteractionsBuilder, Private, params};
use dp_mechanism::{Fitted, Run, Trainer};

use super::message::STEPS;
use super::{ExamplesMessage, Invitation, Rejection, StatisticsMessage};
use crate::{Error, ItemStatistics, Result, Ssp};

/// The trusted part of federated SSP-c: holds clients' messages until the round is closed, releases noisy statistics, and is used up.
///
/// # Privacy
/// As for [`Ssp`] with one release, and the same bits for the same integers and noise. Messages are checked here in exact integers, one per client; the kernel checks what each adds to the
/// sums in exact integers again. The aggregator sees single messages and has to be trusted with them, as the certificate says. The server sees released values only.
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
    "the round was closed at a time that did not depend on who had answered or how many had",
];

impl Aggregator {
    /// An aggregator of the run named `run` that `plan` pays for, for a public catalogue of `n_items` items and clients numbered below `roster_size`: how many there could be, public and fixed without regard to who takes
    /// part. What one message can take of memory is bounded by it and by the catalogue.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for settings with more than one release; [`Error::Param`] for an empty roster or catalogue, or a run without a name;
    /// [`Error::Shape`] for weights of another number of items; [`Error::Mechanism`] for a plan without the two releases.
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

    /// For every client.
    #[must_use]
    pub const fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Takes a client's message. The first good one of a client counts.
    ///
    /// # Errors
    /// The [`Rejection`] for which the message counts for nothing.
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
        let refused = |_| Rejection::Items { client }; // checked above: cannot be
        self.examples
            .set_features(client, &vector)
            .map_err(refused)?;
        for (&item, &label) in message.items.iter().zip(&message.labels) {
            let label = scaled(label, setup.label_bound);
            self.examples.push(client, item, label).map_err(refused)?;
        }
        Ok(())
    }

    /// Sums what came, adds noise, and forgets the messages: [`Ssp`] along `run`, on the table of the clients' examples. Where its plan does not fit the
    /// settings, or has other noise than clients were told, nothing is paid for or released.
    ///
    /// # Errors
    /// As [`Trainer::run`], and nothing that depends on messages.
    pub fn close(self, mut run: Run<'_>) -> Result<Fitted<StatisticsMessage>> {
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
        let fitted = ssp.run(&data, run)?;
        let mut statistics = None;
        let fitted = fitted.map(|all| statistics = all.into_iter().next());
        let statistics: ItemStatistics = statistics.ok_or(Error::Unsupported {
            what: "statistics without a release",
        })?;
        let run = invitation.run;
        Ok(fitted.map(|()| StatisticsMessage { run, statistics }))
    }
}

/// Of the release of matrices and of that of right-hand sides: what clients are told.
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
