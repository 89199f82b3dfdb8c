//! `dp ledger`: creates, shows, upgrades and merges ledgers, and accepts that payments are missing.

use std::path::{Path, PathBuf};

use dp_accounting::{
    Balance, Budget, BudgetKind, Ledger, LedgerSummary, Measure, ReleaseRecord, gdp, usable_delta,
    utc,
};
use dp_core::ApproxDp;
use dp_page::{Block, Table, terminal};
use serde_json::{Value, json};

use super::binding::{self, Age};
use super::{USERS_KEY, epsilon_left, runs_left, users_keys};
use crate::error::{Error, Result};
use crate::output::{releases_in_words, rounded_down, rounded_up, warn};
use crate::settings::{
    LedgerAcceptRollbackSettings, LedgerCreateSettings, LedgerKind, LedgerMergeSettings,
    LedgerShowSettings, LedgerUpgradeSettings,
};
use crate::warnings;
use crate::workflows::train::ADJACENCY;

/// Contents of a ledger.
#[derive(Debug, Clone)]
pub struct LedgerReport {
    /// JSON with a documented schema.
    pub json: Value,
    /// Text for a terminal.
    pub text: String,
}

/// Creates a ledger before its first run, completely or not at all.
///
/// # Errors
/// When the file exists, when another ledger was lost at this path, or when the budget is not
/// valid.
pub fn create(args: &LedgerCreateSettings) -> Result<LedgerReport> {
    let total = ApproxDp::target(args.epsilon, args.delta)?;
    let budget = args.kind.budget(total)?;
    warn_of(total);
    if !args.file.exists() {
        binding::refuse_leftovers(&args.file)?;
    }
    drop(Ledger::create(&args.file, &args.data_set, budget)?);
    report_with(&args.file, args.runs)
}

/// Warns of a total that promises little.
fn warn_of(total: ApproxDp) {
    for text in warnings::of_settings(total, None) {
        warn(&text);
    }
}

/// What was spent from a ledger, for what and when, what is left, and what would be left after
/// another run like the last. Only reads the file, also while a run writes to it.
///
/// # Errors
/// When the file is not a complete ledger, or cannot be read.
pub fn show(args: &LedgerShowSettings) -> Result<LedgerReport> {
    report_with(&args.file, args.runs)
}

/// Rewrites a ledger with the newest version, and with another kind or a larger total if these are
/// given. It keeps every release and what was spent; the old file is kept next to it, closed.
///
/// # Errors
/// When the ledger lacks what the file of its users records, or when such a ledger cannot continue
/// the old one: the total must be at least the old one, and for another kind delta must be above the
/// old one, to cover that the change was decided after seeing releases. The ledger is then
/// unchanged.
pub fn upgrade(args: &LedgerUpgradeSettings) -> Result<LedgerReport> {
    let found = binding::audit_current(&args.file)?;
    let old = found.budget.target();
    let stays = args.kind.is_none() || args.kind == LedgerKind::of(found.budget.kind());
    let delta = match args.delta {
        Some(delta) => delta,
        None if stays => old.delta,
        None => {
            return Err(Error::Usage(format!(
                "`delta` is needed for another kind, above the ledger's {:e}: that much covers what was released so far, and \
                 only the rest can be spent",
                old.delta
            )));
        }
    };
    let target = ApproxDp::target(args.epsilon.unwrap_or(old.epsilon), delta)?;
    let kind = match args.kind {
        Some(kind) if !stays => kind.budget(target)?.kind(),
        _ => found.budget.kind(),
    };
    warn_of(target);
    let kept = Ledger::upgrade(&args.file, kind, target)?;
    note_raise(&args.file, (&found, &kept), target)?;
    let mut report = report(&args.file)?;
    let kept = kept.display().to_string();
    report.text = format!(
        "upgraded; the old ledger is closed and kept as {kept}\n\n{}",
        report.text
    );
    if let Value::Object(json) = &mut report.json {
        json.insert("kept".to_owned(), json!(kept));
    }
    Ok(report)
}

/// The name of the note in a ledger that replaced another.
const BUDGET: &str = "budget";

/// Records in an upgraded ledger the properties of the old one.
fn note_raise(file: &Path, (old, kept): (&LedgerSummary, &Path), target: ApproxDp) -> Result<()> {
    let was = old.budget.target();
    let kept = kept.file_name().unwrap_or_default().to_string_lossy();
    let text = format!(
        "epsilon {}, delta {:e} ({}) until then, epsilon {}, delta {:e} from then on; the old ledger is kept as {kept}",
        was.epsilon,
        was.delta,
        LedgerKind::of(old.budget.kind()).map_or("one run", LedgerKind::name),
        target.epsilon,
        target.delta,
    );
    let mut ledger = Ledger::open(file, &old.data_set_id, old.budget.adjacency())?;
    ledger.note(BUDGET, &text)?;
    binding::record(file, &ledger);
    Ok(())
}

/// Lets runs use a ledger that lacks payments which the file of its users records, because it was
/// truncated or is an older copy and the newest copy is lost. A note in the ledger and an assumption
/// in every later certificate say that these payments are not counted.
///
/// # Errors
/// When nothing is missing, or the ledger cannot be used for another reason.
pub fn accept_rollback(args: &LedgerAcceptRollbackSettings) -> Result<LedgerReport> {
    binding::accept_rollback(&args.file)?;
    report(&args.file)
}

/// Adds up ledgers of one data set in a new one, which counts everything that any of them paid for.
/// The old files are kept in place, closed.
///
/// # Errors
/// When they are of different data sets, when one lacks payments that the file of its users records,
/// or when what was spent exceeds the total. Nothing is changed in that case.
pub fn merge(args: &LedgerMergeSettings) -> Result<LedgerReport> {
    if args.files.len() < 2 {
        return Err(Error::Usage(
            "`files`: give two or more ledgers to merge".to_owned(),
        ));
    }
    refuse_repeated(&args.files)?;
    let found = args.files.iter().map(|file| binding::audit_current(file));
    let found = found.collect::<Result<Vec<_>>>()?;
    let sum = LedgerSummary::joint_target(&found);
    let first = found[0].budget.kind();
    let usual =
        LedgerKind::of(first).filter(|_| found.iter().all(|one| one.budget.kind() == first));
    // budgets of one kind add up, unless one of them has reserved a part of its delta
    let stays = usual.is_some() && args.kind.is_none_or(|kind| Some(kind) == usual);
    let add_up = stays && found.iter().all(|one| one.budget.carried_delta() <= 0.0);
    let delta = match args.delta {
        Some(delta) => delta,
        None if add_up => sum.delta,
        None => {
            return Err(Error::Usage(format!(
                "`delta` is needed, above the {:e} of these ledgers together: that much covers what was released so far, and \
                 only the rest can be spent",
                sum.delta
            )));
        }
    };
    let target = ApproxDp::target(args.epsilon.unwrap_or(sum.epsilon), delta)?;
    let kind = match args.kind {
        _ if stays => first,
        kind => kind.unwrap_or(LedgerKind::Mixed).budget(target)?.kind(),
    };
    warn_of(target);
    if args.out.symlink_metadata().is_err() {
        binding::refuse_leftovers(&args.out)?;
    }
    Ledger::merge(&args.files, &args.out, kind, target)?;
    for file in &args.files {
        binding::record_closed(file)?;
    }
    let merged = Ledger::audit(&args.out)?;
    let recorded = binding::Recorded::of_summary(&merged);
    // continues a merge that was interrupted after the new file got its name
    let kept = if recorded.keys.is_empty() || binding::is_bound(&args.out) {
        None
    } else {
        binding::carry_over(&args.files, &args.out, &recorded)?
    };
    let mut report = report(&args.out)?;
    if let Some(kept) = kept {
        report.text = format!(
            "merged; the new ledger keeps only the users of {}: make sure that the other ledgers are of the same data\n\n{}",
            kept.display(),
            report.text
        );
    }
    Ok(report)
}

/// Refuses a ledger that is named twice, even through a link: it cannot be added to itself.
fn refuse_repeated(files: &[PathBuf]) -> Result<()> {
    let mut seen = Vec::with_capacity(files.len());
    for file in files {
        let path = file.canonicalize().unwrap_or_else(|_| file.clone());
        if seen.contains(&path) {
            let text = format!("`files`: {} is named twice", file.display());
            return Err(Error::Usage(text));
        }
        seen.push(path);
    }
    Ok(())
}

impl LedgerKind {
    /// A budget of this kind for runs that are not known yet.
    fn budget(self, total: ApproxDp) -> Result<Budget> {
        Ok(match self {
            Self::Gaussian => Budget::new(total, ADJACENCY)?,
            Self::Mixed => Budget::rdp_for(total, ADJACENCY, &[])?,
        })
    }
}

fn report(path: &Path) -> Result<LedgerReport> {
    report_with(path, None)
}

/// The report, with the epsilon of each of `n_runs` equal runs.
fn report_with(path: &Path, n_runs: Option<usize>) -> Result<LedgerReport> {
    let (found, age) = binding::audit(path)?;
    if age == Age::Older {
        let path = path.display();
        warn(&format!(
            "{path} was truncated or is an older copy: restore the newest one; runs with this one are refused"
        ));
    }
    let shown = Shown {
        n_runs,
        ..Shown::of(&found, path, age)
    };
    Ok(LedgerReport {
        json: shown.json(),
        text: terminal(&shown.blocks()),
    })
}

/// Balance and history of a ledger, for an internal page.
pub(crate) fn ledger_blocks(path: &Path) -> Result<Vec<Block>> {
    let (found, age) = binding::audit(path)?;
    Ok(Shown::of(&found, path, age).blocks())
}

/// Releases that were paid for by one run.
struct PaidRun<'a> {
    /// The command that made it, if the file records it.
    command: Option<&'a str>,
    /// When it began to pay, in nanoseconds since 1970, if the file records it.
    time: Option<u64>,
    releases: Vec<&'a ReleaseRecord>,
    /// In the measure of the budget; none for a ledger of one run.
    cost: Option<f64>,
}

/// A ledger, prepared for display.
struct Shown<'a> {
    found: &'a LedgerSummary,
    path: &'a Path,
    runs: Vec<PaidRun<'a>>,
    age: Age,
    /// Number of equal runs for which the rest of the budget is to be divided.
    n_runs: Option<usize>,
}

impl<'a> Shown<'a> {
    fn of(found: &'a LedgerSummary, path: &'a Path, age: Age) -> Self {
        let counts = found.budget.kind() != BudgetKind::Schedule;
        let runs = found.runs().map(|run| {
            let (lines, releases) = (&found.entries[run.clone()], &found.releases[run]);
            let name = lines[0].run.as_deref();
            PaidRun {
                command: name.and_then(|run| run.split(' ').next()),
                time: lines[0].time,
                releases: releases.iter().collect(),
                cost: counts.then(|| lines.iter().map(|line| line.cost).sum()),
            }
        });
        Self {
            found,
            path,
            runs: runs.collect(),
            age,
            n_runs: None,
        }
    }

    /// The largest epsilon of a Gaussian run that the budget permits, now and after one more run
    /// like the last.
    fn left(&self) -> (f64, Option<f64>) {
        if self.found.successor.is_some() {
            return (0.0, None);
        }
        let budget = &self.found.budget;
        let epsilon = |left| epsilon_left(budget, left, budget.target().delta);
        let after = self.found.left_after_another();
        (epsilon(self.found.balance.left()), after.map(epsilon))
    }

    /// The largest epsilon, at the ledger's delta, of each of the requested number of equal Gaussian
    /// runs that the rest of the budget pays for together; none for a ledger of one run.
    fn of_each(&self) -> Option<(usize, f64)> {
        let (n, budget) = (self.n_runs?, &self.found.budget);
        let is_open = self.found.successor.is_none() && budget.kind() != BudgetKind::Schedule;
        let left = self.found.balance.left() / n as f64;
        is_open.then(|| (n, epsilon_left(budget, left, budget.target().delta)))
    }

    /// How many more runs like the last one the budget permits.
    fn more(&self) -> Option<f64> {
        if self.found.successor.is_some() {
            return Some(0.0);
        }
        let cost = self.runs.last()?.cost?;
        Some(runs_left(self.found.balance, cost))
    }

    /// Epsilon of everything that was paid for, at the ledger's delta; none if a part of that delta
    /// covers releases of earlier ledgers, or the ledger is for one run.
    fn epsilon_spent(&self) -> Option<f64> {
        let budget = &self.found.budget;
        let counts = budget.kind() != BudgetKind::Schedule && budget.carried_delta() <= 0.0;
        let spent = self.found.balance.spent;
        let epsilon = counts.then(|| budget.epsilon_for(spent).ok()).flatten();
        // the budget was not exceeded, whatever rounding says
        epsilon.map(|epsilon| match spent <= self.found.balance.budget {
            true => epsilon.min(budget.target().epsilon),
            false => epsilon,
        })
    }

    /// Epsilon of a Gaussian run by itself, at the ledger's delta.
    fn epsilon(&self, run: &PaidRun<'_>) -> Option<f64> {
        let delta = usable_delta(self.found.budget.target().delta);
        let is_gaussian = self.found.balance.measure == Measure::MuSquared;
        run.cost
            .filter(|_| is_gaussian)
            .map(|mu_squared| gdp::epsilon(mu_squared.sqrt(), delta))
    }

    fn share(&self, cost: f64) -> f64 {
        cost / self.found.balance.budget
    }

    fn is_bound(&self) -> bool {
        binding::is_bound(self.path)
    }

    fn blocks(&self) -> Vec<Block> {
        let (found, budget) = (self.found, &self.found.budget);
        let total = budget.target();
        let mut facts: Vec<(String, String)> = Vec::new();
        let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
        let (left, after) = self.left();
        let left = rounded_down(left);
        match (budget.kind(), self.more()) {
            _ if found.successor.is_some() => {
                let successor = found.successor.as_deref().unwrap_or_default();
                fact("left", format!("nothing: it was replaced by {successor}"));
            }
            (BudgetKind::Schedule, _) if found.balance.spent <= 0.0 => {
                fact("left", format!("epsilon {left}, for one run"));
            }
            (BudgetKind::Schedule, _) => {
                fact("left", "nothing: it was made for one run".to_owned());
            }
            (_, None) => fact("left", format!("epsilon {left}")),
            (_, Some(more)) => {
                let next = match after {
                    Some(after) => {
                        format!(
                            "; another run like the last would leave epsilon {}",
                            rounded_down(after)
                        )
                    }
                    None => "; another run like the last does not fit".to_owned(),
                };
                fact("left", format!("epsilon {left}{next}, {more:.0} would fit"));
            }
        }
        if let Some((n, epsilon)) = self.of_each() {
            let (epsilon, delta) = (rounded_down(epsilon), total.delta);
            let text = format!("epsilon {epsilon} at delta {delta:e} for each of {n} equal runs");
            fact("", text);
        }
        fact("spent", self.spent());
        fact(
            "budget",
            format!(
                "epsilon {}, delta {:e} for {}",
                total.epsilon,
                total.delta,
                in_words(budget.kind())
            ),
        );
        fact(
            "data set",
            format!("{} ({})", found.data_set_id, budget.adjacency()),
        );
        fact(
            "ledger",
            format!(
                "{}, made {}{}, version {}",
                self.path.display(),
                minute(found.created),
                found.rewritten.map_or_else(String::new, |time| {
                    format!(", upgraded or merged {}", minute(time))
                }),
                found.schema_version
            ),
        );
        if !found.held.is_empty() {
            let n = releases_in_words(found.held.len() as u64);
            fact("held", format!("{n} paid for and not made yet"));
        }
        for (_, nights) in &found.nights {
            let numbers = nights.iter().filter_map(|night| night.number);
            let last = numbers.clone().max();
            let last = last.map_or_else(String::new, |last| format!(", the last one {last}"));
            let n = numbers.count();
            fact(
                "nights",
                format!("{n} of a paced lifetime, which was paid for when it began{last}"),
            );
        }
        match self.age {
            Age::Older => {
                let what =
                    "something that its .users file records: it was truncated or is an older copy";
                fact("missing", what.to_owned());
            }
            Age::Unchecked => {
                let what = "whether it is an older copy: its .users file shows that";
                fact("unknown", what.to_owned());
            }
            Age::Current => {}
        }
        if found.torn {
            let what = "the last line is incomplete after a crash; the next run repairs it";
            fact("torn", what.to_owned());
        }
        let was_bound = users_keys(&found.notes).next().is_some() && !found.releases.is_empty();
        let users = if self.is_bound() {
            "bound to its users: back up the .key and .users files next to it as well"
        } else if was_bound {
            "its .key or .users file is missing: runs are refused until both are restored, or --same-data-set"
        } else {
            "not bound to its users: the next run does that"
        };
        fact("users", users.to_owned());
        let rows = self.runs.iter().map(|run| {
            let (first, last) = (run.releases.first(), run.releases.last());
            let label =
                |of: Option<&&ReleaseRecord>| of.map_or_else(String::new, |r| r.label.clone());
            let what = match run.releases.len() {
                1 => label(first),
                _ => format!("{} ... {}", label(first), label(last)),
            };
            let number = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), rounded_up);
            vec![
                run.time.map_or_else(|| "-".to_owned(), minute),
                run.command.unwrap_or("-").to_owned(),
                what,
                run.releases.len().to_string(),
                number(self.epsilon(run)),
                run.cost.map_or_else(
                    || "-".to_owned(),
                    |cost| format!("{:.1} %", 100.0 * self.share(cost)),
                ),
            ]
        });
        let mut blocks = vec![Block::Facts(facts)];
        if !self.runs.is_empty() {
            let epsilon = format!("epsilon at {:e}", total.delta);
            let heads = ["paid", "by", "for", "releases", &*epsilon, "budget"];
            blocks.push(Block::Table(Table::new("", heads, rows).with_text([1, 2])));
        }
        let notes = shown_notes(found)
            .map(|(time, about, text)| vec![minute(time), about.to_owned(), text.to_owned()]);
        let notes: Vec<_> = notes.collect();
        if !notes.is_empty() {
            let heads = ["noted", "about", "what"];
            blocks.push(Block::Table(Table::new("", heads, notes).with_text([1, 2])));
        }
        blocks
    }

    fn spent(&self) -> String {
        let Balance {
            spent,
            budget,
            measure,
            ..
        } = self.found.balance;
        let n = self.found.releases.len();
        let by = match n {
            0 if spent <= 0.0 => return "nothing".to_owned(),
            0 => "the remains of an interrupted line".to_owned(),
            n => releases_in_words(n as u64),
        };
        let (share, of) = (100.0 * spent / budget, rounded_down(budget));
        // if each were rounded conservatively, a fully spent budget would appear overdrawn
        let spent = match rounded_up(spent) {
            up if spent <= budget && up.parse::<f64>().ok() > of.parse().ok() => of.clone(),
            up => up,
        };
        let in_all = self.epsilon_spent().map_or_else(String::new, |epsilon| {
            let delta = self.found.budget.target().delta;
            format!("epsilon {} at delta {delta:e}: ", rounded_up(epsilon))
        });
        format!("{in_all}{share:.1} % by {by} ({measure}: {spent} of {of})")
    }

    fn json(&self) -> Value {
        let (found, budget) = (self.found, &self.found.budget);
        let (left, after) = self.left();
        let runs = self.runs.iter().map(|run| {
            let labels = run.releases.iter().map(|release| &release.label);
            json!({
                "time": run.time.map(second),
                "command": run.command,
                "n_releases": run.releases.len(),
                "releases": labels.collect::<Vec<_>>(),
                "epsilon": self.epsilon(run),
                "share": run.cost.map(|cost| self.share(cost)),
            })
        });
        let notes = shown_notes(found).map(|(time, about, text)| {
            json!({
                "time": second(time),
                "about": about,
                "text": text,
            })
        });
        json!({
            "ledger": self.path.display().to_string(),
            "schema_version": found.schema_version,
            "created": second(found.created),
            "rewritten": found.rewritten.map(second),
            "data_set": found.data_set_id,
            "adjacency": budget.adjacency(),
            "kind": LedgerKind::of(budget.kind()).map_or("one run", LedgerKind::name),
            "epsilon": budget.target().epsilon,
            "delta": budget.target().delta,
            "balance": found.balance,
            "epsilon_spent": self.epsilon_spent(),
            "left": {
                "epsilon": left,
                "runs_like_the_last": self.more(),
                "epsilon_after_one": after,
                "epsilon_of_each": self.of_each().and_then(|(_, epsilon)| rounded_down(epsilon).parse::<f64>().ok()),
            },
            "n_releases": found.releases.len(),
            "n_held": found.held.len(),
            "lifetimes": found.nights.iter().map(|(id, nights)| json!({
                "release_id": id,
                "nights": nights.iter().filter_map(|night| night.number).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "torn": found.torn,
            "bound": self.is_bound(),
            "is_older_copy": match self.age {
                Age::Current => Some(false),
                Age::Older => Some(true),
                Age::Unchecked => None,
            },
            "successor": found.successor,
            "runs": runs.collect::<Vec<_>>(),
            "notes": notes.collect::<Vec<_>>(),
        })
    }
}

/// Notes as people read them: when, about what, and the text. Those that name a key say nothing to
/// people.
fn shown_notes(found: &LedgerSummary) -> impl Iterator<Item = (u64, &str, &str)> {
    let notes = found.notes.iter().filter(|note| note.name != USERS_KEY);
    notes.map(|note| (note.time, &*note.name, &*note.text))
}

fn in_words(kind: BudgetKind) -> String {
    match kind {
        BudgetKind::Gaussian => "all runs; counts Gaussian releases, exactly".to_owned(),
        BudgetKind::Rdp { order } => {
            format!("all runs; counts any mechanism, by Renyi divergence of order {order:.3}")
        }
        BudgetKind::Schedule => "one run of any mechanisms".to_owned(),
    }
}

/// A time to the minute, in UTC.
fn minute(nanoseconds: u64) -> String {
    let moment = second(nanoseconds);
    let (date, time) = moment.split_once('T').unwrap_or((&moment, ""));
    format!("{date} {} UTC", time.get(..5).unwrap_or_default())
}

/// A time to the second, in UTC, in ISO 8601 format.
fn second(nanoseconds: u64) -> String {
    utc(nanoseconds / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_date() {
        // `date -u -d @N`
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_423_336, "2026-11-23T08:42:16Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(second(seconds * 1_000_000_000 + 7), expected);
        }
        assert_eq!(minute(1_795_423_336_000_000_000), "2026-11-23 08:42 UTC");
        assert!(!minute(u64::MAX).is_empty());
    }
}
