//! What counts the privacy loss of a run: a ledger file, or the run alone.

use std::path::{Path, PathBuf};

use super::{Range, Setting, Settings, Shapes, Source, Unread, choices, settings};

choices! {
    /// The releases that a ledger counts, over any number of runs.
    enum LedgerKind {
        /// Only Gaussian releases, which add up exactly.
        Gaussian = "gaussian",
        /// Releases of any mechanism, including sampled ones and noisy selections, at a Renyi order
        /// fixed when the ledger is created.
        Mixed = "mixed",
    }
}

/// The assumption of a run paid by a ledger about other runs on the same data.
pub(crate) const ONE_LEDGER: &str = "every run on this data set used the same ledger file";

/// Where the privacy loss of a run is counted. There is no default: the caller must decide.
#[derive(Debug, Clone, PartialEq)]
pub enum LedgerChoice {
    /// A ledger file: it adds the run to all other runs on the same data and refuses a run that
    /// exceeds the budget.
    Ledger(LedgerFile),
    /// No ledger: epsilon is that of this run alone, and nothing adds it to other runs on the same data. The summary and
    /// the certificate say so.
    NoLedger,
}

/// A ledger file and its options.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LedgerFile {
    /// The file.
    pub path: PathBuf,
    /// Whether it is to be created, with the budget of the run or the one below; then it must not
    /// exist yet.
    pub is_new: bool,
    /// Total epsilon of the ledger; if the ledger does not exist, it is created with this total.
    /// `None` takes that of the file.
    pub epsilon: Option<f64>,
    /// Total delta of the ledger; `None` takes that of the file, or the run's for a new one.
    pub delta: Option<f64>,
    /// The releases that it counts; `None` takes the kind of the file. A new ledger counts Gaussian
    /// releases if the run has no others. Otherwise it counts any mechanism if `epsilon` is given,
    /// and only this run if not.
    pub kind: Option<LedgerKind>,
    /// Declares that these are the data of the ledger although few of its users are among them.
    pub same_data_set: bool,
}

impl LedgerFile {
    /// A file with its existing budget.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }
}

settings! {
    /// Settings to create a ledger before its first run.
    struct LedgerCreateSettings {
        /// File for the ledger; must not exist
        file: PathBuf = { positional: true },
        /// Name of the data set; runs use their file's name by default
        data_set: String = { value_name: "NAME" },
        /// Total epsilon (nats) of all runs, for adding or removing one user
        epsilon: f64 = { value_name: "E", range: Range::above(0.0) },
        /// Total delta of all runs; choose it well below one over the number of users
        delta: f64 = { value_name: "D", range: Range::open_unit() },
        /// gaussian (Gaussian releases, added up exactly) or mixed (any mechanism)
        kind: LedgerKind = { value_name: "KIND", default: "gaussian" },
        /// Also print the epsilon of each of N equal runs that the total pays for
        runs: Option<usize> = { value_name: "N", range: Range::from(1.0) },
    }

    /// Settings to show a ledger.
    struct LedgerShowSettings {
        /// The ledger; it is only read
        file: PathBuf = { positional: true },
        /// Also print the epsilon of each of N equal runs that what is left pays for
        runs: Option<usize> = { value_name: "N", range: Range::from(1.0) },
    }

    /// Settings to rewrite a ledger with the newest version, another kind or a larger total.
    struct LedgerUpgradeSettings {
        /// The ledger; the old file is kept next to it
        file: PathBuf = { positional: true },
        /// mixed (any mechanism) or gaussian
        kind: Option<LedgerKind> = { value_name: "KIND", usual: "the ledger's own" },
        /// Total epsilon, at least the ledger's
        epsilon: Option<f64> = { value_name: "E", usual: "the ledger's", range: Range::above(0.0) },
        /// Total delta, at least the ledger's; above it for another kind
        delta: Option<f64> = { value_name: "D", usual: "the ledger's", range: Range::open_unit() },
    }

    /// Settings to use a ledger whose newest payments are lost.
    struct LedgerAcceptRollbackSettings {
        /// The ledger, which lacks payments that its .users file records
        file: PathBuf = { positional: true },
    }

    /// Settings to add up ledgers of one data set.
    struct LedgerMergeSettings {
        /// The ledgers to merge; they stay where they are and are closed
        files: Vec<PathBuf> = { positional: true, value_name: "FILE" },
        /// File for the new ledger; must not exist
        out: PathBuf = { value_name: "FILE" },
        /// gaussian (Gaussian releases, added up exactly) or mixed (any mechanism)
        kind: Option<LedgerKind> = { value_name: "KIND", usual: "gaussian if all are, else mixed" },
        /// Total epsilon
        epsilon: Option<f64> = { value_name: "E", usual: "the sum of the ledgers'", range: Range::above(0.0) },
        /// Total delta; must exceed the sum of the ledgers' deltas unless their budgets add up
        delta: Option<f64> = { value_name: "D", usual: "their sum, if budgets add up", range: Range::open_unit() },
    }

    /// Where the privacy loss is recorded.
    struct LedgerSettings under "Ledger" {
        /// What counts it.
        account: LedgerChoice = flatten,
        /// Name of the data set in ledger and certificate
        data_set: Option<String> = {
            value_name: "NAME",
            usual: "the file's name",
            shapes: Shapes::Nothing, // the name that follows from it does
        },
    }

}

#[allow(
    unreachable_pub,
    reason = "the table's structs are public; this one is read into a choice"
)]
mod flags {
    use std::path::PathBuf;

    use super::{LedgerKind, Range, Shapes, settings};

    settings! {
    /// The choice as flags.
    struct LedgerFlags {
        /// Ledger of all runs on this data set
        ledger: Option<PathBuf> = { value_name: "FILE", one_of: "account", shapes: Shapes::Nothing },
        /// Count this run alone: no ledger adds it to the other runs on these data
        no_ledger: bool = { one_of: "account", conflicts: ["ledger"], shapes: Shapes::Nothing },
        /// Create the ledger, with the budget of this run or `ledger_epsilon`
        new_ledger: bool = { requires: ["ledger"], conflicts: ["no_ledger"], shapes: Shapes::Nothing },
        /// Total epsilon; creates a missing ledger
        ledger_epsilon: Option<f64> = {
            value_name: "E",
            usual: "the ledger's or the run's",
            requires: ["ledger"],
            conflicts: ["no_ledger"],
            shapes: Shapes::Nothing,
            range: Range::above(0.0),
        },
        /// Total delta of the ledger
        ledger_delta: Option<f64> = {
            value_name: "D",
            usual: "the ledger's; for a new one the run's",
            requires: ["ledger"],
            conflicts: ["no_ledger"],
            shapes: Shapes::Nothing,
            range: Range::open_unit(),
        },
        /// New ledger: gaussian (exact) or mixed (any mechanism)
        ledger_kind: Option<LedgerKind> = {
            value_name: "KIND",
            usual: "by the run",
            requires: ["ledger"],
            conflicts: ["no_ledger"],
            shapes: Shapes::Nothing,
        },
        /// Use this ledger although few of its users match the data
        same_data_set: bool = { requires: ["ledger"], conflicts: ["no_ledger"], shapes: Shapes::Nothing },
    }
    }
}

use flags::LedgerFlags;

impl Settings for LedgerChoice {
    fn rows(heading: Option<&'static str>) -> Vec<Setting> {
        LedgerFlags::rows(heading)
    }

    fn read(source: &dyn Source) -> Result<Self, Unread> {
        let given = LedgerFlags::read(source)?;
        match (given.ledger, given.no_ledger) {
            (Some(path), _) => Ok(Self::Ledger(LedgerFile {
                path,
                is_new: given.new_ledger,
                epsilon: given.ledger_epsilon,
                kind: given.ledger_kind,
                delta: given.ledger_delta,
                same_data_set: given.same_data_set,
            })),
            (None, true) => Ok(Self::NoLedger),
            (None, false) => Err(Unread {
                name: "ledger".to_owned(),
                reason: "give the ledger file of all runs on these data, or `no_ledger` to count this run alone".to_owned(),
            }),
        }
    }

    fn shaping(&self) -> crate::error::Result<Vec<(&'static str, serde_json::Value)>> {
        Ok(Vec::new()) // what is taken on trust of other runs does shape a run
    }
}

impl LedgerSettings {
    /// The choice of a run that releases nothing.
    pub(crate) const fn none() -> Self {
        Self {
            account: LedgerChoice::NoLedger,
            data_set: None,
        }
    }

    /// The ledger file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.account {
            LedgerChoice::Ledger(file) => Some(&file.path),
            LedgerChoice::NoLedger => None,
        }
    }

    /// Whether a ledger is named.
    pub(crate) const fn has_file(&self) -> bool {
        matches!(self.account, LedgerChoice::Ledger(_))
    }

    /// The certificate's assumption about other runs on the same data.
    pub(crate) const fn assumption(&self) -> &'static str {
        match self.account {
            LedgerChoice::Ledger(_) => ONE_LEDGER,
            LedgerChoice::NoLedger => {
                "no ledger: the guarantee is that of this run alone, and other runs on this data set add to it"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Given;

    #[test]
    fn a_run_is_not_begun_before_someone_said_what_counts_it() {
        let read = |given: Given| given.settings::<LedgerSettings>();
        let unread = read(Given::default()).unwrap_err();
        assert_eq!(unread.name, "ledger");
        assert!(unread.reason.contains("`no_ledger`"), "{unread}");
        let both = Given::default()
            .with("ledger", "l")
            .with("no_ledger", "true");
        let refused = read(both).unwrap_err().to_string();
        assert_eq!(refused, "`no_ledger`: cannot be used with `ledger`");
        let without = Given::default()
            .with("no_ledger", "true")
            .with("ledger_epsilon", "3");
        assert!(read(without).is_err());
        let alone = read(Given::default().with("no_ledger", "true")).unwrap();
        assert_eq!(
            (alone.account.clone(), alone.file()),
            (LedgerChoice::NoLedger, None)
        );
        let counted = read(Given::default().with("ledger", "l")).unwrap();
        assert_eq!(counted.account, LedgerChoice::Ledger(LedgerFile::at("l")));
    }
}
