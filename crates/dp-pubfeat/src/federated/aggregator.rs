//! The aggregator: checks what clients send, sums, adds noise, forgets.

use std::collections::HashSet;

use dp_accounting::{Certificate, Plan, Spend};
use dp_core::{InteractionsBuilder, Private};
use dp_mechanism::NoiseSource;

use super::message::STEPS;
use super::{ExamplesMessage, Invitation, Rejection, StatisticsMessage};
use crate::paid::Paid;
use crate::problem::Vectors;
use crate::run::certify;
use crate::ssp::{OUTPUT, release};
use crate::{Error, ItemStatistics, Result, Ssp, events};

/// The trusted part of federated SSP-c: holds clients' messages until the round is closed, releases noisy statistics, and is used up.
///
/// # Privacy
/// As for [`Ssp`] with one release, and the same bits for the same integers and noise. Messages are checked here in exact integers, one per client; the kernel checks what each adds to the
/// sums in exact integers again. The aggregator sees single messages and has to be trusted with them, as the certificate says. The server sees released values only.
#[allow(
    missing_debug_implementations,
    reason = "holds private examples; printing them is never wanted"
)]
pub struct Aggregator<'p> {
    invitation: Invitation,
    paid: Paid<'p>,
    seen: HashSet<u32>,
    examples: InteractionsBuilder,
}

const TRUST: [&str; 3] = [
    "the aggregator sees every client's message before noise is added, and tells nobody",
    "every message comes from the client whose number it carries",
    "the round was closed at a time that did not depend on who had answered or how many had",
];

impl<'p> Aggregator<'p> {
    /// An aggregator that has paid for the release of `plan`.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for settings with more than one release; [`crate::Error::Shape`] or [`crate::Error::Spends`] when settings, plan and spends do
    /// not belong together.
    pub fn new(ssp: &Ssp, n_items: usize, plan: &'p Plan, spends: Vec<Spend>) -> Result<Self> {
        if ssp.params().n_resamples != 1 {
            return Err(Error::Unsupported {
                what: "federated statistics with more than one release",
            });
        }
        let setup = ssp.params().setup.clone();
        setup.unit.check(plan.adjacency())?;
        let run = spends.first().map(|spend| spend.release_id().to_owned());
        let wanted = events::wanted(&ssp.requests(n_items));
        let paid = Paid::new(plan, &wanted, spends)?;
        let invitation = Invitation {
            run: run.unwrap_or_default(),
            n_items,
            setup,
        };
        invitation.check()?;
        Ok(Self {
            examples: InteractionsBuilder::new(n_items).with_feature_dim(invitation.setup.dim),
            invitation,
            paid,
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
        message.check(&self.invitation)?;
        let client = message.client;
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

    /// Sums what came, adds noise, and forgets the messages.
    ///
    /// # Errors
    /// [`crate::Error::Mechanism`] when the release is refused or entropy fails, and nothing that depends on messages.
    pub fn close(self, noise: &mut NoiseSource) -> Result<(StatisticsMessage, Certificate)> {
        let Self {
            invitation,
            mut paid,
            examples,
            ..
        } = self;
        let data = Private::new(examples.build().0);
        let setup = &invitation.setup;
        let released = setup.unit.with_rows(&data, |rows| {
            release(setup, rows, &mut paid, noise, &mut |_| {})
        })?;
        let certificate = certify(
            paid,
            (setup, Vectors::Given),
            (OUTPUT, &TRUST),
            noise.is_insecure(),
        )?;
        let message = StatisticsMessage {
            run: invitation.run,
            statistics: ItemStatistics::of(&released),
        };
        Ok((message, certificate))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "tables hold single precision"
)]
fn scaled(steps: i32, unit: f64) -> f32 {
    (f64::from(steps) * unit / f64::from(STEPS)) as f32
}
