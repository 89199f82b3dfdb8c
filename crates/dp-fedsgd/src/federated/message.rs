//! What travels: plain numbers, for any transport.

use dp_core::params;
use dp_mechanism::{AskedRound, Grid};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::ppsgd::RoundLayout;

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
    pub(super) fn layout(&self) -> RoundLayout {
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
    pub(super) fn asked(&self) -> AskedRound<'_> {
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
