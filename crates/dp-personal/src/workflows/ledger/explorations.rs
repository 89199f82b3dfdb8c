//! Notes in a ledger about looking at results of its data without payment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dp_accounting::{Error as AccountingError, Ledger, LedgerNote};

use super::{Account, BoundAccount, record, refuse_older_copy};
use crate::error::Result;
use crate::output::{InternalRun, warn};

/// Printed if there is no ledger to record it in.
pub(crate) const UNNOTED: &str = "no ledger records that figures of this data set were seen: certificates of later runs on it cannot mention that";
/// The name of such notes.
const EXPLORATION: &str = "exploration";
/// Suffix of a note of a run, followed by the run's name.
const BY_RUN: &str = ", run ";

fn by_run(run: &str) -> String {
    format!("{BY_RUN}{run}")
}

/// What was looked at, by the notes among these that say so.
fn kinds<'a>(notes: impl Iterator<Item = &'a LedgerNote>) -> Vec<&'a str> {
    let texts = notes.filter(|note| note.name == EXPLORATION);
    let texts = texts.map(|note| note.text.as_str());
    texts
        .map(|text| text.rsplit_once(BY_RUN).map_or(text, |(kind, _)| kind))
        .collect()
}

impl Account {
    /// Explorations of this data set by other runs than the one with this name, as far as the
    /// ledger records them.
    pub(crate) fn explorations(&self, run: &str) -> Vec<&str> {
        let notes = self.ledger.iter().flat_map(Ledger::notes);
        kinds(notes.filter(|note| !note.text.ends_with(&by_run(run))))
    }

    /// Explorations of this data set before the ledger paid for this release.
    pub(crate) fn explorations_before(&self, release_id: &str) -> Vec<&str> {
        let ledgers = self.ledger.iter();
        kinds(ledgers.flat_map(|ledger| ledger.notes_before(release_id)))
    }

    /// The absolute path of the file.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.file.as_ref()?.path.canonicalize().ok()
    }
}

impl BoundAccount {
    /// Records durably, once for a run, that it shows results without payment. Only warns if there
    /// is no file.
    ///
    /// # Errors
    /// When the ledger cannot be written, or has a version without notes.
    pub(crate) fn note_figures_of(&mut self, run: &str) -> Result<()> {
        if !self.has_file() {
            warn(UNNOTED);
        }
        let text = format!("figures that a run printed{}", by_run(run));
        if self.has_file() {
            let ledger = self.ledger()?;
            if ledger.notes().iter().all(|note| note.text != text) {
                ledger.note(EXPLORATION, &text)?;
            }
        }
        Ok(())
    }
}

/// Records durably in a ledger that results of its data set are looked at without payment; later
/// certificates mention it.
///
/// # Errors
/// When the ledger is missing, is an older copy or cannot be written, belongs to a data set other than `data_set`, or
/// has a version without notes.
pub(crate) fn note_exploration(ledger: &Path, data_set: Option<&str>, kind: &str) -> Result<()> {
    if !ledger.exists() {
        let path = ledger.to_owned();
        return Err(AccountingError::LedgerMissing { path }.into());
    }
    let found = Ledger::audit(ledger)?;
    let data_set = data_set.unwrap_or(&found.data_set_id);
    let mut opened = Ledger::open(ledger, data_set, found.budget.adjacency())?;
    refuse_older_copy(ledger, &opened)?;
    opened.note(EXPLORATION, kind)?;
    record(ledger, &opened);
    Ok(())
}

/// Records the same, once for each ledger, in the ledgers that paid for finished runs, as named in
/// their internal files. Only warns if that is not possible: a model may be measured in a place
/// without its ledger.
pub(crate) fn note_exploration_of<'a>(
    runs: impl IntoIterator<Item = Option<&'a InternalRun>>,
    kind: &str,
) {
    let lost = |why: &str| {
        warn(&format!(
            "the ledger of the run cannot record this look at its data: {why}; certificates of later runs will not mention it"
        ));
    };
    let mut ledgers = BTreeSet::new();
    for run in runs {
        match run {
            Some(run) => ledgers.extend(run.aside.ledger.as_deref().map(last_of)),
            None => lost("the folder of internal files, which names it, is missing"),
        }
    }
    for ledger in ledgers {
        if let Err(error) = note_exploration(&ledger, None, kind) {
            lost(&error.to_string());
        }
    }
}

/// The ledger that continues the spends of this one, if the files are in the same folder.
pub(crate) fn last_of(ledger: &Path) -> PathBuf {
    let mut last = ledger.to_owned();
    let mut seen = BTreeSet::new();
    while seen.insert(last.clone())
        && let Ok(found) = Ledger::audit(&last)
        && let Some(successor) = found.successor
        && last.with_file_name(&successor).exists()
    {
        last.set_file_name(successor);
    }
    last
}
