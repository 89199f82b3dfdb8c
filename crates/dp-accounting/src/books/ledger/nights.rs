//! Paced lifetimes: one Gaussian event that covers the releases of many nights.

use dp_core::{Adjacency, DpEvent, ReplaceFactor};
use serde::Serialize;

use super::contents::{Contents, Entry, PacedEntry};
use super::ids::is_release_id;
use super::lines::{Night, NightRemains, PACED_SCHEMA, PacedTerms, Record, close};
use super::{Ledger, planned};
use crate::{Error, NightSpend, Pace, Plan, PlannedRelease, Result};

/// A night of a paced lifetime, or a change of its store of first nights, as recorded in a ledger's
/// line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LedgerNight {
    /// Number of the night; absent if only the store changed.
    pub number: Option<u32>,
    /// Noise draws of the night's release.
    pub n_draws: u64,
    /// The MAC of the store from this line on; absent if an interrupted line lacks it.
    pub first_seen: Option<String>,
    /// When it was written, in nanoseconds since 1970, if known.
    pub time: Option<u64>,
}

/// The progress of a paced lifetime.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LifetimeState {
    /// The reserved event with the noise draws of all nights.
    pub release: PlannedRelease,
    /// How users' budgets are spread over nights.
    pub pace: Pace,
    /// The last night that was handed out.
    pub last_night: Option<u32>,
    /// Number of nights that were handed out, whether their releases were made or lost.
    pub n_nights: usize,
    /// Noise draws that are left for later nights.
    pub draws_left: u64,
    /// The MAC of the store of first nights: 64 lowercase hexadecimal digits.
    pub first_seen: String,
}

impl Ledger {
    /// Charges one Gaussian event whose nights are handed out one at a time by
    /// [`take_night`](Self::take_night), and returns its release id. `first_seen` is the MAC of the
    /// store that records when each user was first seen; the line names it.
    ///
    /// The plan has one release, Gaussian, with the multiplier of the whole lifetime and the noise
    /// draws of **all** nights: nights times coordinates of a night, including growth.
    /// `docs/nights-proof.md` proves that nights whose bounds follow `pace` are equivalent to this one
    /// event, whatever is released in between and whatever else this ledger charges. The event is
    /// never handed out as a [`crate::Spend`].
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); [`Error::LifetimePlan`] for another plan, or an adjacency
    /// that bounds per user do not cover; [`Error::LedgerVersion`] for a file up to version 4.
    pub fn reserve_lifetime(
        &mut self,
        plan: &Plan,
        pace: Pace,
        first_seen: &str,
    ) -> Result<String> {
        let reason = match plan.releases() {
            _ if plan.adjacency() == Adjacency::AddRemoveRecord => {
                Some("a night bounds users: plan it for adding, removing or replacing users")
            }
            [only] if is_plain_gaussian(only.event()) => None,
            _ => Some("plan it as one Gaussian release of replacement factor two"),
        };
        let mac_fits = is_release_id(first_seen);
        let reason = reason.or((!mac_fits).then_some("the MAC of the store is no MAC"));
        if let Some(reason) = reason {
            return Err(Error::LifetimePlan { reason });
        }
        self.refresh()?;
        self.check_knows_nights()?;
        let terms = PacedTerms {
            pace,
            first_seen: first_seen.to_owned(),
        };
        let ids = self.pay(plan, true, Some(&terms))?;
        ids.into_iter().next().ok_or(Error::LifetimePlan {
            reason: "the plan has no release",
        })
    }

    /// Hands out night `night` of a lifetime, a release with `n_draws` noise draws, after a line is
    /// durable that names the night and the MAC of the store of first nights from now on. Nothing
    /// is charged, because the whole lifetime was charged when it was reserved.
    ///
    /// `first_seen` contains the MAC of the store that the night was prepared with and that of the
    /// next store. Night numbers increase strictly, so none is handed out twice, whatever crashes.
    /// A night that is handed out but not released stays lost.
    ///
    /// # Errors
    /// [`Error::NightPassed`] for a night that is not after the last one; [`Error::NightDraws`] if
    /// the reserved draws do not suffice; [`Error::FirstSeenChanged`] if the ledger names another
    /// store by now; [`Error::NotALifetime`]. These leave the ledger unchanged. [`Error::Io`] as
    /// for [`take`](Self::take).
    pub fn take_night(
        &mut self,
        release_id: &str,
        night: u32,
        n_draws: u64,
        first_seen: [&str; 2],
    ) -> Result<NightSpend> {
        self.refresh()?;
        self.check_night(release_id, night, n_draws)?;
        let state = self.goes_on_from(release_id, first_seen[0])?;
        self.write_night(release_id, Some(night), n_draws, first_seen[1])?;
        Ok(NightSpend::new(
            state.release,
            state.pace,
            (night, n_draws),
            release_id.to_owned(),
            (self.data_set_id.clone(), self.budget.adjacency()),
        ))
    }

    /// Whether [`take_night`](Self::take_night) would hand out this night. Checked before the users
    /// are summed.
    ///
    /// # Errors
    /// Those of [`take_night`](Self::take_night) except for write errors.
    pub fn check_night(&self, release_id: &str, night: u32, n_draws: u64) -> Result<()> {
        let state = self.lifetime(release_id)?;
        let passed = state.last_night.filter(|&last| night <= last);
        #[cfg(privacy_mutants)]
        let passed = dp_core::mutants::pick("paced-night-repeated", passed, None);
        if let Some(last) = passed {
            return Err(Error::NightPassed { night, last });
        }
        if n_draws > state.draws_left {
            return Err(Error::NightDraws {
                asked: n_draws,
                left: state.draws_left,
            });
        }
        Ok(())
    }

    /// Records that the store of first nights of a lifetime has changed without a night, for
    /// example because a user was erased from it. The first MAC is that of the old store, the
    /// second that of the new one.
    ///
    /// # Errors
    /// [`Error::FirstSeenChanged`], [`Error::NotALifetime`]; write errors as for
    /// [`take`](Self::take).
    pub fn rebind_first_seen(&mut self, release_id: &str, first_seen: [&str; 2]) -> Result<()> {
        self.refresh()?;
        self.goes_on_from(release_id, first_seen[0])?;
        self.write_night(release_id, None, 0, first_seen[1])
    }

    /// The lifetime, if the store that was changed is its current one. A copy of the file may
    /// contain nights of another program, and a store without their newcomers would treat these
    /// users as new again.
    fn goes_on_from(&self, release_id: &str, first_seen: &str) -> Result<LifetimeState> {
        let state = self.lifetime(release_id)?;
        if state.first_seen == first_seen {
            return Ok(state);
        }
        Err(Error::FirstSeenChanged)
    }

    fn write_night(
        &mut self,
        release_id: &str,
        number: Option<u32>,
        n_draws: u64,
        first_seen: &str,
    ) -> Result<()> {
        if !is_release_id(first_seen) {
            return Err(Error::LifetimePlan {
                reason: "the MAC of the store is no MAC",
            });
        }
        let night = LedgerNight {
            number,
            n_draws,
            first_seen: Some(first_seen.to_owned()),
            time: self.time(),
        };
        let (line, hash) = close(&Night::of(release_id, &night, &self.chain.head));
        self.append(&line)?;
        self.chain.head = hash;
        self.contents.add_night(release_id, night);
        Ok(())
    }

    /// The progress of the lifetime with this release id.
    ///
    /// # Errors
    /// [`Error::NotALifetime`].
    pub fn lifetime(&self, release_id: &str) -> Result<LifetimeState> {
        let found = self.contents.get(release_id);
        let paced = found.and_then(|entry| entry.paced.as_ref().map(|paced| (entry, paced)));
        let Some((entry, paced)) = paced else {
            return Err(Error::NotALifetime {
                release: release_id.to_owned(),
                reason: match found {
                    Some(_) => "it was paid for as another kind of release",
                    None => "no line has its id",
                },
            });
        };
        Ok(entry.lifetime(paced))
    }

    /// The release ids of all reserved lifetimes, in order.
    pub fn lifetimes(&self) -> impl Iterator<Item = &str> {
        let entries = self.contents.entries.iter();
        let paced = entries.filter(|entry| entry.paced.is_some());
        paced.map(|entry| entry.release.release_id.as_str())
    }

    /// Whether this night of a lifetime was handed out.
    #[must_use]
    pub fn has_night(&self, release_id: &str, night: u32) -> bool {
        let paced = self.contents.get(release_id);
        let paced = paced.and_then(|entry| entry.paced.as_ref());
        paced.is_some_and(|paced| paced.nights.iter().any(|n| n.number == Some(night)))
    }

    fn check_knows_nights(&self) -> Result<()> {
        if self.schema_version >= PACED_SCHEMA {
            return Ok(());
        }
        Err(Error::LedgerVersion {
            found: self.schema_version,
            needed: PACED_SCHEMA,
            what: "paced lifetimes",
        })
    }
}

/// Whether this is one Gaussian mechanism on all users whose contributions may be anything within
/// their bound.
const fn is_plain_gaussian(event: &DpEvent) -> bool {
    matches!(
        event,
        DpEvent::Gaussian {
            replace_factor: ReplaceFactor::Two,
            ..
        }
    )
}

/// Whether the terms of a lifetime occur only where they may: from version 5 on, on a release that
/// is never handed out.
pub(super) fn fits(record: &Record, version: u32) -> bool {
    record.paced.as_ref().is_none_or(|terms| {
        version >= PACED_SCHEMA
            && record.held
            && is_plain_gaussian(&record.event)
            && is_release_id(&terms.first_seen)
            && Pace::new(terms.pace.alpha(), terms.pace.horizon()).is_ok()
    })
}

impl Night {
    pub(super) fn of(release_id: &str, night: &LedgerNight, head: &str) -> Self {
        Self {
            night: release_id.to_owned(),
            number: night.number,
            first_seen: night.first_seen.clone(),
            n_draws: night.n_draws,
            time: night.time,
            previous_hash: head.to_owned(),
        }
    }
}

impl From<Night> for LedgerNight {
    fn from(line: Night) -> Self {
        Self {
            number: line.number,
            n_draws: line.n_draws,
            first_seen: line.first_seen,
            time: line.time,
        }
    }
}

impl PacedEntry {
    pub(super) fn last_night(&self) -> Option<u32> {
        self.nights.iter().rev().find_map(|night| night.number)
    }

    fn draws(&self) -> u64 {
        let nights = self.nights.iter();
        nights.fold(0, |sum, night| sum.saturating_add(night.n_draws))
    }
}

impl Entry {
    fn lifetime(&self, paced: &PacedEntry) -> LifetimeState {
        let macs = paced.nights.iter().rev();
        let mac = macs.filter_map(|night| night.first_seen.as_ref()).next();
        LifetimeState {
            release: planned(&self.release),
            pace: paced.terms.pace,
            last_night: paced.last_night(),
            n_nights: paced.nights.iter().filter(|n| n.number.is_some()).count(),
            draws_left: self.release.n_draws.saturating_sub(paced.draws()),
            first_seen: mac.unwrap_or(&paced.terms.first_seen).clone(),
        }
    }
}

impl Contents {
    fn add_night(&mut self, release_id: &str, night: LedgerNight) {
        if let Some(paced) = self.paced_mut(release_id) {
            paced.nights.push(night);
        }
    }

    /// Adds a night named by a line. Returns false and changes nothing if it cannot follow the
    /// lines before.
    pub(super) fn replay_night(&mut self, line: Night) -> bool {
        let id = line.night.clone();
        let Some(entry) = self.get(&id) else {
            return false;
        };
        let Some(paced) = &entry.paced else {
            return false;
        };
        let n_draws = paced.draws().saturating_add(line.n_draws);
        let is_later = line
            .number
            .is_none_or(|number| paced.last_night().is_none_or(|last| number > last));
        #[cfg(privacy_mutants)]
        let is_later = dp_core::mutants::pick("paced-night-repeated", is_later, true);
        let mac = line.first_seen.as_deref();
        let fits = is_later
            && n_draws <= entry.release.n_draws
            && mac.is_none_or(is_release_id)
            && (line.number.is_some() || line.n_draws == 0);
        if fits {
            self.add_night(&id, line.into());
        }
        fits
    }

    /// Counts a night named by an interrupted line, as far as it can be read.
    pub(super) fn replay_torn_night(&mut self, found: NightRemains) {
        let reserved = self.get(&found.night).map(|entry| entry.release.n_draws);
        if let (Some(reserved), Some(paced)) = (reserved, self.paced_mut(&found.night)) {
            let last = paced.last_night();
            let number = found.number.filter(|&n| last.is_none_or(|last| n > last));
            let left = reserved.saturating_sub(paced.draws());
            let n_draws = number.map_or(0, |_| found.n_draws.min(left));
            let first_seen = found.first_seen.filter(|mac| is_release_id(mac));
            if number.is_some() || first_seen.is_some() {
                paced.nights.push(LedgerNight {
                    number,
                    n_draws,
                    first_seen,
                    time: None,
                });
            }
        }
    }
}
