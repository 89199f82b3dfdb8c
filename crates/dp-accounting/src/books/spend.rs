use dp_core::{Adjacency, DpEvent};
use serde::{Deserialize, Serialize};

use crate::{Pace, PlannedRelease, Result};

/// The right to make one release, which was charged to a [`crate::Ledger`].
///
/// A spend exists only after its line in the ledger is durable. It cannot be copied or created in
/// any other way, and a release takes it by value, so one charge allows one release. There are no
/// refunds: a spend that is dropped stays spent.
///
/// ```compile_fail
/// fn twice(spend: dp_accounting::Spend) -> (dp_accounting::Spend, dp_accounting::Spend) {
///     (spend.clone(), spend) // does not compile
/// }
/// ```
#[must_use = "a spend that is dropped stays spent; nothing is refunded"]
#[derive(Debug)]
pub struct Spend {
    release: PlannedRelease,
    release_id: String,
    data_set_id: String,
    adjacency: Adjacency,
}

impl Spend {
    pub(crate) fn new(
        release: PlannedRelease,
        release_id: String,
        data_set_id: String,
        adjacency: Adjacency,
    ) -> Self {
        Self {
            release,
            release_id,
            data_set_id,
            adjacency,
        }
    }

    /// The label that the plan gave the release.
    #[must_use]
    pub fn label(&self) -> &str {
        self.release.label()
    }

    /// The event that was charged.
    #[must_use]
    pub const fn event(&self) -> &DpEvent {
        self.release.event()
    }

    /// The noise multiplier that was charged, see [`PlannedRelease::noise_multiplier`]. The release
    /// must use at least this much noise.
    ///
    /// # Errors
    /// [`crate::Error::NotGaussian`] for anything but one Gaussian mechanism on all units.
    pub fn noise_multiplier(&self) -> Result<f64> {
        self.release.noise_multiplier()
    }

    /// The number of noise draws that were charged.
    #[must_use]
    pub const fn n_draws(&self) -> u64 {
        self.release.n_draws()
    }

    /// The release's id in the ledger and in certificates: 64 random hexadecimal digits, or in a
    /// ledger file up to version 3 the hash of its line.
    #[must_use]
    pub fn release_id(&self) -> &str {
        &self.release_id
    }

    /// The adjacency for which the release was charged: that of the ledger's budget.
    ///
    /// A release whose bound is per user must not be made for
    /// [`Adjacency::AddRemoveRecord`]: adding or removing one record turns a user's contribution into
    /// another one, which is a replacement of that contribution and not its removal.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// The data set whose budget was charged. This is only a name: nothing compares it with the
    /// data that the spend is used for.
    #[must_use]
    pub fn data_set_id(&self) -> &str {
        &self.data_set_id
    }

    /// The entry for this release in a certificate. Get it before the spend is moved into the
    /// release.
    #[must_use]
    pub fn record(&self) -> ReleaseRecord {
        ReleaseRecord {
            label: self.label().to_owned(),
            event: self.event().clone(),
            n_draws: self.n_draws(),
            release_id: self.release_id.clone(),
            entry_hash: None,
        }
    }
}

/// The right to make the release of one night of a paced lifetime, from [`crate::Ledger::take_night`].
///
/// It exists only after the line of its night is durable, and is handed out once. It is not a
/// [`Spend`]: what users add to the release must stay within the bounds of the [`Pace`], not just
/// within the bound of the whole event.
#[must_use = "a night that is dropped is lost; it is never handed out again"]
#[derive(Debug)]
pub struct NightSpend {
    lifetime: PlannedRelease,
    pace: Pace,
    night: u32,
    n_draws: u64,
    release_id: String,
    data_set_id: String,
    adjacency: Adjacency,
}

impl NightSpend {
    pub(crate) fn new(
        lifetime: PlannedRelease,
        pace: Pace,
        (night, n_draws): (u32, u64),
        release_id: String,
        (data_set_id, adjacency): (String, Adjacency),
    ) -> Self {
        Self {
            lifetime,
            pace,
            night,
            n_draws,
            release_id,
            data_set_id,
            adjacency,
        }
    }

    /// The label of the lifetime.
    #[must_use]
    pub fn label(&self) -> &str {
        self.lifetime.label()
    }

    /// The noise multiplier of the lifetime: noise divided by the bound `D` of a whole lifetime.
    ///
    /// # Errors
    /// [`crate::Error::NotGaussian`], which does not occur for a lifetime that a ledger reserved.
    pub fn noise_multiplier(&self) -> Result<f64> {
        self.lifetime.noise_multiplier()
    }

    /// How users' budgets are spread over nights.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// Number of the night.
    #[must_use]
    pub const fn night(&self) -> u32 {
        self.night
    }

    /// The number of noise draws of this night.
    #[must_use]
    pub const fn n_draws(&self) -> u64 {
        self.n_draws
    }

    /// The lifetime's id in the ledger, the same on all nights.
    #[must_use]
    pub fn release_id(&self) -> &str {
        &self.release_id
    }

    /// The data set whose budget was charged.
    #[must_use]
    pub fn data_set_id(&self) -> &str {
        &self.data_set_id
    }

    /// The adjacency for which the lifetime was charged.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }
}

/// The releases of a plan that a [`crate::Ledger`] has charged and holds.
///
/// A reservation names releases that may be taken, but is not itself a right to make them: only
/// [`crate::Ledger::take`] hands out a [`Spend`], once for each release. Everything in it is
/// public, so it can be copied, and looked up again by its release ids with [`crate::Ledger::held`]
/// after the process has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Reservation {
    releases: Vec<PlannedRelease>,
    release_ids: Vec<String>,
    data_set_id: String,
    adjacency: Adjacency,
}

impl Reservation {
    pub(crate) fn new(
        releases: Vec<PlannedRelease>,
        release_ids: Vec<String>,
        data_set_id: String,
        adjacency: Adjacency,
    ) -> Self {
        debug_assert_eq!(releases.len(), release_ids.len(), "one id a release");
        Self {
            releases,
            release_ids,
            data_set_id,
            adjacency,
        }
    }

    /// The releases, in the order of the plan or of the ids that they were looked up by.
    #[must_use]
    pub fn releases(&self) -> &[PlannedRelease] {
        &self.releases
    }

    /// The id of each release, 64 lowercase hexadecimal digits; see [`Spend::release_id`].
    #[must_use]
    pub fn release_ids(&self) -> &[String] {
        &self.release_ids
    }

    /// The data set whose budget was charged.
    #[must_use]
    pub fn data_set_id(&self) -> &str {
        &self.data_set_id
    }

    /// The adjacency for which the releases were charged.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// Number of releases, including taken ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.release_ids.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.release_ids.is_empty()
    }
}

/// One release as listed in a certificate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseRecord {
    /// The label that the plan gave the release.
    pub label: String,
    /// The mechanism.
    pub event: DpEvent,
    /// Number of noise draws.
    pub n_draws: u64,
    /// Its id in the ledger that was charged, 64 lowercase hexadecimal digits; see
    /// [`Spend::release_id`].
    pub release_id: String,
    /// Hash of the release in the run's list of releases, 64 lowercase hexadecimal digits; absent
    /// if the release was charged and not made, or made outside a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_hash: Option<String>,
}
