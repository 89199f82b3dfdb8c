//! The contents of a ledger's lines: the releases and the state of each, notes, and remains of
//! interrupted lines.

use std::collections::HashMap;

use dp_core::DpEvent;
use serde::Serialize;

use super::lines::{PacedTerms, Record};
use super::nights::LedgerNight;
use super::summary::LedgerNote;
use crate::ReleaseRecord;

/// The state of a release that was charged to the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Its spend was handed out when it was reserved.
    HandedOut,
    /// Its spend may still be handed out, once.
    Held,
    /// It was held, and its spend has been handed out since.
    Taken,
    /// It covers the nights of a paced lifetime; its own spend is never handed out.
    Paced,
}

/// A line that records a release.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) release: ReleaseRecord,
    pub(super) standing: Standing,
    /// Its cost in the measure of the budget.
    pub(super) cost: f64,
    pub(super) time: Option<u64>,
    pub(super) run: Option<String>,
    /// Hash of the line.
    pub(super) hash: String,
    /// When its spend was taken.
    pub(super) taken: Option<u64>,
    /// Terms and nights of a paced lifetime.
    pub(super) paced: Option<PacedEntry>,
}

/// A paced lifetime and what was handed out of it.
#[derive(Debug, Clone)]
pub(super) struct PacedEntry {
    pub(super) terms: PacedTerms,
    pub(super) nights: Vec<LedgerNight>,
}

/// Remains of an interrupted line whose cost was counted.
#[derive(Debug, Clone)]
pub(super) struct CountedRemains {
    pub(super) event: DpEvent,
    pub(super) n_draws: u64,
    pub(super) cost: f64,
}

/// Everything recorded in a ledger, in the order of its lines.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    by_id: HashMap<String, usize>,
    pub(super) remains: Vec<CountedRemains>,
    pub(super) notes: Vec<LedgerNote>,
}

impl Contents {
    /// Adds a release recorded by `record`, a line with this hash. Returns false and changes
    /// nothing if its id is already in use.
    pub(super) fn add(&mut self, record: Record, cost: f64, hash: String) -> bool {
        let release_id = record.id.unwrap_or_else(|| hash.clone());
        if self.by_id.contains_key(&release_id) {
            return false;
        }
        self.by_id.insert(release_id.clone(), self.entries.len());
        self.entries.push(Entry {
            release: ReleaseRecord {
                label: record.label,
                event: record.event,
                n_draws: record.n_draws,
                release_id,
                entry_hash: None,
            },
            standing: match (&record.paced, record.held) {
                (Some(_), _) => Standing::Paced,
                (None, true) => Standing::Held,
                (None, false) => Standing::HandedOut,
            },
            cost,
            time: record.time,
            run: record.run,
            hash,
            taken: None,
            paced: record.paced.map(|terms| PacedEntry {
                terms,
                nights: Vec::new(),
            }),
        });
        true
    }

    /// The release with this id.
    pub(super) fn get(&self, id: &str) -> Option<&Entry> {
        self.by_id.get(id).map(|&at| &self.entries[at])
    }

    /// The paced lifetime with this id.
    pub(super) fn paced_mut(&mut self, id: &str) -> Option<&mut PacedEntry> {
        let at = *self.by_id.get(id)?;
        self.entries[at].paced.as_mut()
    }

    /// Marks a held release as handed out. Returns false and changes nothing if it is not held.
    pub(super) fn mark_taken(&mut self, id: &str, time: Option<u64>) -> bool {
        let found = self.by_id.get(id).map(|&at| &mut self.entries[at]);
        let Some(entry) = found.filter(|entry| entry.standing == Standing::Held) else {
            return false;
        };
        entry.standing = Standing::Taken;
        entry.taken = time;
        true
    }

    /// Ids of the releases in one state.
    pub(super) fn ids(&self, wanted: Standing) -> Vec<String> {
        self.entries
            .iter()
            .filter(|entry| entry.standing == wanted)
            .map(|entry| entry.release.release_id.clone())
            .collect()
    }
}
