use std::path::Path;

use super::budget::{Balance, Budget};
use super::corrupt;
use super::releases::Standing;
use super::replay::{Tail, replay};
use crate::{Error, ReleaseRecord, Result};

/// What a ledger file says, read without touching it; see [`crate::Ledger::audit`].
///
/// # Examples
/// ```no_run
/// use dp_accounting::{Certificate, Ledger};
/// let summary = Ledger::audit("ratings.ledger")?;
/// println!("{} releases, {:?}", summary.releases.len(), summary.balance);
/// let text = std::fs::read_to_string("certificate.json")?;
/// summary.covers(&Certificate::from_json(&text)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LedgerSummary {
    /// Version of the file's format.
    pub schema_version: u32,
    /// The data set that the budget belongs to.
    pub data_set_id: String,
    /// The budget.
    pub budget: Budget,
    /// When the file was made, nanoseconds since 1970.
    pub created: u64,
    /// Every release paid for, in order, whether handed out or not.
    pub releases: Vec<ReleaseRecord>,
    /// Ids of the releases that are held: paid for, and not handed out yet.
    pub held: Vec<String>,
    /// Ids of the releases that were held and have been handed out since, in the order of
    /// `releases`. Every release in neither list was handed out when it was paid.
    pub taken: Vec<String>,
    /// What was spent of the budget, readable remains of torn lines included.
    pub balance: Balance,
    /// Whether the file ends in a line that a crash tore and no writer has sealed yet.
    pub torn: bool,
}

impl LedgerSummary {
    /// Reads the bytes of a ledger file.
    ///
    /// # Errors
    /// [`Error::LedgerCorrupt`], with an empty path, when they are not a whole ledger;
    /// [`Error::LedgerMismatch`] for a newer `schema_version`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::of(bytes, Path::new(""))
    }

    pub(super) fn of(bytes: &[u8], path: &Path) -> Result<Self> {
        let replayed = replay(bytes).map_err(|bad| corrupt(path, bad.0))?;
        if replayed.header.schema_version > super::LEDGER_SCHEMA {
            return Err(Error::LedgerMismatch {
                path: path.to_owned(),
                field: "schema_version",
                found: replayed.header.schema_version.to_string(),
                expected: super::LEDGER_SCHEMA.to_string(),
            });
        }
        Ok(Self {
            schema_version: replayed.header.schema_version,
            data_set_id: replayed.header.data_set,
            budget: replayed.budget,
            created: replayed.header.created,
            held: replayed.releases.ids(Standing::Held),
            taken: replayed.releases.ids(Standing::Taken),
            releases: replayed.releases.into_records(),
            balance: replayed.chain.account.balance(),
            torn: matches!(replayed.tail, Tail::Torn(_)),
        })
    }
}
