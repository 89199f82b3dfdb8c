//! What travels: plain numbers, for any transport.

use dp_core::params;
use dp_mechanism::AskedRound;
use serde::{Deserialize, Serialize};

use crate::{ItemStatistics, ProblemSetup, Result};

/// Steps of a coordinate of `u` per `Gamma_u`, and of a label per `Gamma_y`.
pub(super) const STEPS: i32 = 1 << 20;

/// What everybody is told at the start: public settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// The name of the run: any text, public.
    pub run: String,
    /// Number of items of the public catalogue.
    pub n_items: usize,
    /// Bounds on what a client sends.
    pub setup: ProblemSetup,
    /// Noise multipliers of the release of matrices and of that of right-hand sides.
    pub noise_multipliers: [f64; 2],
}

impl Invitation {
    /// Whether settings and sizes are in range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first that is not.
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
    /// What a client's policy looks at: one round, and the larger of the bounds on a vector and a label.
    pub(super) fn asked(&self) -> AskedRound<'_> {
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
/// As private as the client's data: it goes to the aggregator over an authenticated link and to nobody else. No `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    missing_debug_implementations,
    reason = "private examples; printing them is never wanted"
)]
pub struct ExamplesMessage {
    /// The run that it answers.
    pub run: String,
    /// The client, by the number that the aggregator knows it by.
    pub client: u32,
    /// `u` in steps of `2^-20 Gamma_u`.
    pub vector: Vec<i32>,
    /// Items, strictly increasing.
    pub items: Vec<u32>,
    /// Labels in steps of `2^-20 Gamma_y`.
    pub labels: Vec<i32>,
}

/// Why a message counts for nothing. The run goes on.
///
/// # Privacy
/// Depends on what one client sent: for the aggregator's eyes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// It is of another run.
    #[error("the message of client {client} is of another run")]
    Run {
        /// Sender.
        client: u32,
    },
    /// The vector has another length, or there are not as many labels as items.
    #[error("the message of client {client} has lists of wrong lengths")]
    Length {
        /// Sender.
        client: u32,
    },
    /// Items are not strictly increasing, or not in the catalogue.
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
    /// No client has that number.
    #[error("there is no client {client}")]
    Unknown {
        /// Sender.
        client: u32,
    },
    /// The client has sent one that counts.
    #[error("client {client} has sent a message before")]
    Repeated {
        /// Sender.
        client: u32,
    },
}

impl ExamplesMessage {
    /// Whether the message is one of this run, by run, shapes and exact integer bounds: `sum x^2 <= 2^40` and `|l| <= 2^20`.
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

/// The released statistics, for the server and anybody else; shapes and numbers are checked as it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatisticsMessage {
    /// The run.
    pub run: String,
    /// Noisy matrices and right-hand sides of all items.
    pub statistics: ItemStatistics,
}
