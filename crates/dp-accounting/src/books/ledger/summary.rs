use std::ops::Range;
use std::path::Path;

use dp_core::ApproxDp;
use serde::Serialize;

use super::budget::{Balance, Budget, BudgetKind};
use super::contents::Standing;
use super::corrupt;
use super::nights::LedgerNight;
use super::opening::check_version;
use super::replay::{Tail, replay};
use crate::engines::rounding::UpwardSum;
use crate::{ReleaseRecord, Result};

/// The contents of a ledger file, read without changing it; see [`crate::Ledger::audit`].
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
    /// When the ledger was created, or the first of those that it continues, in nanoseconds since
    /// 1970.
    pub created: u64,
    /// When it was rewritten last, by an upgrade or a merge.
    pub rewritten: Option<u64>,
    /// Every charged release, in order, whether handed out or not.
    pub releases: Vec<ReleaseRecord>,
    /// Ids of the releases that are held: charged, and not handed out yet.
    pub held: Vec<String>,
    /// Ids of the releases that were held and have been handed out since, in the order of
    /// `releases`. Every release in neither list was handed out when it was reserved, or is a paced
    /// lifetime.
    pub taken: Vec<String>,
    /// Further details of the line of each of `releases`.
    pub entries: Vec<LedgerEntry>,
    /// The notes, in order.
    pub notes: Vec<LedgerNote>,
    /// The nights of each paced lifetime, by its release id.
    pub nights: Vec<(String, Vec<LedgerNight>)>,
    /// What was spent from the budget, including readable remains of torn lines.
    pub balance: Balance,
    /// Name of the ledger in which the spends of this one are continued; this one accepts no more
    /// charges.
    pub successor: Option<String>,
    /// Whether the file ends in a line torn by a crash that no writer has sealed yet.
    pub torn: bool,
}

impl LedgerSummary {
    /// Reads the bytes of a ledger file.
    ///
    /// # Errors
    /// [`crate::Error::LedgerCorrupt`], with an empty path, if they are not a complete ledger;
    /// [`crate::Error::LedgerMismatch`] for a newer `schema_version`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::of(bytes, Path::new(""))
    }

    pub(super) fn of(bytes: &[u8], path: &Path) -> Result<Self> {
        let replayed = replay(bytes).map_err(|bad| corrupt(path, bad.0))?;
        check_version(&replayed, path)?;
        let (contents, header) = (replayed.contents, replayed.header);
        let (held, taken) = (contents.ids(Standing::Held), contents.ids(Standing::Taken));
        let nights = contents.entries.iter();
        let nights = nights.filter_map(|entry| {
            let paced = entry.paced.as_ref()?;
            Some((entry.release.release_id.clone(), paced.nights.clone()))
        });
        let nights = nights.collect();
        let (releases, entries) = contents
            .entries
            .into_iter()
            .map(|entry| {
                let line = LedgerEntry {
                    time: entry.time,
                    cost: entry.cost,
                    standing: entry.standing,
                    run: entry.run,
                };
                (entry.release, line)
            })
            .unzip();
        Ok(Self {
            created: header.since(),
            rewritten: (!header.follows.is_empty()).then_some(header.created),
            schema_version: header.schema_version,
            data_set_id: header.data_set,
            budget: replayed.budget,
            held,
            taken,
            releases,
            entries,
            notes: contents.notes,
            nights,
            balance: replayed.chain.account.balance(),
            successor: replayed.chain.successor,
            torn: matches!(replayed.tail, Tail::Torn(_)),
        })
    }

    /// The positions in `releases` of each run, in order: adjacent lines that name the same run,
    /// or, if they name none, that were charged at the same time. Up to version 3 lines have
    /// neither, and every line is a run of its own.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let is_one = |a: &LedgerEntry, b: &LedgerEntry| match (&a.run, a.time) {
            (None, None) => false,
            (None, Some(_)) => b.run.is_none() && a.time == b.time,
            (Some(_), _) => a.run == b.run,
        };
        let mut end = 0;
        self.entries.chunk_by(is_one).map(move |run| {
            let start = end;
            end += run.len();
            start..end
        })
    }

    /// The positions in `releases` of the last of the [`runs`](Self::runs).
    #[must_use]
    pub fn last_run(&self) -> Range<usize> {
        self.runs().last().unwrap_or(0..0)
    }

    /// The guarantee of several ledgers together: the sums of their epsilons and of their deltas,
    /// both rounded up.
    #[must_use]
    pub fn joint_target<'a>(ledgers: impl IntoIterator<Item = &'a Self>) -> ApproxDp {
        let (mut epsilon, mut delta) = (UpwardSum::EMPTY, UpwardSum::EMPTY);
        for ledger in ledgers {
            let target = ledger.budget.target();
            epsilon = epsilon.plus(target.epsilon);
            delta = delta.plus(target.delta);
        }
        ApproxDp {
            epsilon: epsilon.total(),
            delta: delta.total(),
        }
    }

    /// What would be left of the budget after another run like the last one, in the measure of
    /// `balance`; `None` if it does not fit, nothing was charged yet, or the ledger is for one
    /// schedule.
    #[must_use]
    pub fn left_after_another(&self) -> Option<f64> {
        let run = self.entries.get(self.last_run())?;
        if run.is_empty() || self.budget.kind() == BudgetKind::Schedule {
            return None;
        }
        let mut sum = UpwardSum::EMPTY.plus(self.balance.spent);
        for entry in run {
            sum = sum.plus(entry.cost);
        }
        let spent = sum.total();
        let left = Balance {
            spent,
            ..self.balance
        }
        .left();
        (spent <= self.balance.budget).then_some(left)
    }
}

/// A line of a ledger that charges a release.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// When it was charged, in nanoseconds since 1970; unknown up to version 3.
    pub time: Option<u64>,
    /// Its cost, in the measure of the balance; 0 in a ledger for one schedule, which is charged as
    /// a whole.
    pub cost: f64,
    /// The state of its spend.
    pub standing: Standing,
    /// The run that it belongs to, if known; see [`crate::Ledger::set_run`].
    pub run: Option<String>,
}

/// A note in a ledger, which costs nothing; see [`crate::Ledger::note`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LedgerNote {
    /// What the note is about.
    pub name: String,
    /// The text of the note.
    pub text: String,
    /// When it was written, in nanoseconds since 1970.
    pub time: u64,
}
