//! The releases that a ledger paid for, and what has become of each.

use std::collections::HashMap;

use crate::ReleaseRecord;

/// What has become of a release that was paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its spend was handed out when it was paid.
    HandedOut,
    /// Its spend may still be handed out, once.
    Held,
    /// It was held, and its spend has been handed out.
    Taken,
}

/// All releases of a ledger, in the order of their lines.
#[derive(Debug, Default)]
pub(super) struct Releases {
    records: Vec<(ReleaseRecord, Standing)>,
    by_id: HashMap<String, usize>,
}

impl Releases {
    /// Enters a release that was paid for.
    pub(super) fn add(&mut self, record: ReleaseRecord, held: bool) {
        let standing = if held {
            Standing::Held
        } else {
            Standing::HandedOut
        };
        self.by_id
            .insert(record.release_id.clone(), self.records.len());
        self.records.push((record, standing));
    }

    /// The release of this id.
    pub(super) fn get(&self, id: &str) -> Option<&(ReleaseRecord, Standing)> {
        self.by_id.get(id).map(|&at| &self.records[at])
    }

    /// Marks a held release as handed out; false, and nothing changes, unless it is held.
    pub(super) fn mark_taken(&mut self, id: &str) -> bool {
        let found = self.by_id.get(id).map(|&at| &mut self.records[at].1);
        let Some(standing @ Standing::Held) = found else {
            return false;
        };
        *standing = Standing::Taken;
        true
    }

    /// Ids of the releases of one standing.
    pub(super) fn ids(&self, wanted: Standing) -> Vec<String> {
        self.records
            .iter()
            .filter(|(_, standing)| *standing == wanted)
            .map(|(record, _)| record.release_id.clone())
            .collect()
    }

    pub(super) fn into_records(self) -> Vec<ReleaseRecord> {
        self.records.into_iter().map(|(record, _)| record).collect()
    }
}
