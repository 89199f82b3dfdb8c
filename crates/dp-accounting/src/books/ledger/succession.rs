//! A ledger in which the spends of other ledgers are continued.
//!
//! # What it costs
//! A filter keeps its guarantee for every choice of plans, but it must be fixed before the first
//! output is seen. Whoever sees outputs and then counts in another way has not run one filter. With
//! the ledgers i = 1, 2, ... at `(ε_i, δ_i)`, and a new filter F at `(ε_F, δ_F)` that counts every
//! release ever charged, split the transcripts of the whole interaction into those where F never
//! took over (A) and those where it did (B). Any set S of transcripts has, on neighbours P and Q,
//!
//! ```text
//! P(S ∩ A) <= e^(Σ ε_i) Q(S ∩ A) + Σ δ_i     the old filters side by side
//! P(S ∩ B) <= e^ε_F     Q(S ∩ B) + δ_F       F alone: it counted everything and never went over
//! P(S)     <= e^ε       Q(S)     + Σ δ_i + δ_F,      ε >= ε_F, ε >= Σ ε_i
//! ```
//!
//! The first line is the concurrent composition of interactive mechanisms (Vadhan, Wang, arXiv
//! 2105.14427; Lyu, arXiv 2207.08335; for one old ledger it is that filter's own guarantee). So the
//! new delta is split: `carried_delta = Σ δ_i` covers A, and F has the rest. If F's budget covers
//! all of the old budgets together, F would have accepted every transcript of A, too. Then F alone
//! covers everything, and nothing is carried. This is the case for a larger budget of the same
//! kind, and for merging ledgers into a budget that is at least the sum of theirs.
//!
//! Whether and when a ledger takes over may depend on outputs. Its kind, order and target may not:
//! each further set of them that outputs might have led to would need a delta of its own.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dp_core::{ApproxDp, DpEvent};

use super::contents::{Contents, Entry, Standing};
use super::lines::{Closed, Followed, Night, Note, Record, Taken, close};
use super::opening::{header, now};
use super::replay::{Chain, replay};
use super::store::{Pending, Store};
use super::{Account, Budget, BudgetKind, Ledger, ids};
use crate::books::allowance::check_draws;
use crate::engines::rounding::{UpwardSum, mul_up};
use crate::{Error, Result};

/// How much a budget must exceed the sum of others to be certain to cover it: they are met up to a
/// rounding of epsilon.
const HEADROOM: f64 = 1e-9;

/// The label of what an interrupted line charged.
const REMAINS: &str = "remains of an interrupted line";

impl Ledger {
    /// Rewrites the ledger at `path` in the newest version, with the given `kind` and `target`.
    /// Every release keeps its id, its event and whether it was handed out, and records the hash of
    /// the line that charged it first. The old file is kept next to the new one as `.bak-1` or the
    /// next free number, closed: it accepts no more charges. The new file replaces it in one step,
    /// so a crash leaves the old ledger or the new one. A crash right after that step leaves the
    /// kept file open: never charge it. Returns the path of the old file.
    ///
    /// To keep its kind, a ledger needs at least its old epsilon and delta. A ledger of Gaussian
    /// releases, for one schedule, or of another order can become one for mixed mechanisms
    /// ([`BudgetKind::Rdp`]) if epsilon is at least the old one and delta is above the old one: the
    /// old delta covers the fact that the change was decided after seeing outputs, and the new
    /// filter gets the difference. Choose kind, order and target without looking at the outputs,
    /// for example by [`Budget::rdp_for`] without plans.
    ///
    /// # Errors
    /// [`Error::LedgerSuccession`] with the reason; [`Error::BudgetSpent`] and
    /// [`Error::SamplerAllowance`] if what was spent does not fit; [`Error::UnsupportedEvent`] for
    /// a release without a Renyi divergence; the errors of [`open`](Self::open). The ledger is then
    /// unchanged.
    pub fn upgrade(path: impl AsRef<Path>, kind: BudgetKind, target: ApproxDp) -> Result<PathBuf> {
        let mut old = [Self::of_file(path.as_ref(), |_| Ok(()))?];
        let budget = successor(&old, kind, target)?;
        let text = rewritten(&old, budget)?;
        let [Self { store, chain, .. }] = &mut old;
        let mut backup = PathBuf::new();
        if let Some(store) = store {
            let last = closing(chain, path.as_ref());
            backup = store.replace_with(text.as_bytes(), last.as_bytes())?;
        }
        Ok(backup)
    }

    /// Merges ledgers of one data set into a new one at `out`, which counts every line of each. The
    /// old files stay where they are and are closed: they accept no more charges.
    ///
    /// The new budget must cover the sum of the old ones in its own measure (Gaussian: `Σ mu_B²`).
    /// Otherwise epsilon must be at least the sum of the epsilons and delta above the sum of the
    /// deltas, and the new filter gets the difference. In both cases everything that was spent must
    /// fit. Choose kind and target without looking at outputs, as for [`upgrade`](Self::upgrade).
    ///
    /// The old files are closed before the new one gets its name. If the machine stops in between,
    /// run the same merge again: it finds the new file in the folder of `out` under a hidden name
    /// that ends in `.pending`, closes the old files that are still open, provided that nothing was
    /// charged to them since, and gives the new one its name. Do not rename that file: an old
    /// ledger that is still open would then be spent twice. Running a finished merge again changes
    /// nothing.
    ///
    /// # Errors
    /// As [`upgrade`](Self::upgrade); [`Error::LedgerMismatch`] for ledgers of different data sets
    /// or adjacencies; [`Error::LedgerExists`] if `out` is another ledger;
    /// [`Error::LedgerSuccession`] if an interrupted merge was that of other ledgers or another
    /// target.
    pub fn merge<P: AsRef<Path>>(
        paths: &[P],
        out: impl AsRef<Path>,
        kind: BudgetKind,
        target: ApproxDp,
    ) -> Result<()> {
        let out = out.as_ref();
        let mut old = Vec::with_capacity(paths.len());
        let heir = name_of(out);
        for path in paths {
            let (store, bytes) = Store::open(path.as_ref())?;
            old.push(Self::of_bytes(store, &bytes, Some(&heir), |_| Ok(()))?);
        }
        check_alike(&old, paths)?;
        let budget = successor(&old, kind, target)?;
        let is_begun = old.iter().any(|ledger| ledger.chain.successor.is_some());
        let is_named = out.symlink_metadata().is_ok();
        if is_named {
            let (named, bytes) = Store::open(out)?;
            if !follows(&bytes, &old, budget) || !Pending::is_within(out, &bytes)? {
                return Err(Error::LedgerExists {
                    path: out.to_owned(),
                });
            }
            close_all(&mut old, out)?;
            Pending::clear(out)?;
            drop(named);
            return Ok(());
        }
        let pending = if is_begun {
            let found = match Pending::find(out) {
                Err(Error::LedgerMissing { .. }) => None,
                found => Some(found?),
            };
            let found = found.filter(|pending| follows(pending.contents(), &old, budget));
            found.ok_or_else(|| Error::LedgerSuccession {
                kind,
                epsilon: target.epsilon,
                delta: target.delta,
                reason: format!(
                    "an interrupted merge into {heir} closed one of these ledgers; run the same merge again, of the same \
                     ledgers in the same order, with the same total; none of them may have been written to since"
                ),
            })?
        } else {
            Pending::write(out, rewritten(&old, budget)?.as_bytes())?
        };
        close_all(&mut old, out)?;
        pending.named(out)?;
        Ok(())
    }
}

/// Closes, durably, the ledgers that still accept charges.
fn close_all(old: &mut [Ledger], successor: &Path) -> Result<()> {
    for ledger in old {
        if ledger.chain.successor.is_none() {
            let line = closing(&ledger.chain, successor);
            ledger.append(&line)?;
            ledger.chain.successor = Some(name_of(successor));
        }
    }
    Ok(())
}

/// Whether these are the bytes of a ledger of `budget` that continues the old ones in their current
/// state.
fn follows(bytes: &[u8], old: &[Ledger], budget: Budget) -> bool {
    replay(bytes).is_ok_and(|found| {
        let now = old.iter().map(Followed::of);
        found.budget == budget && now.eq(found.header.follows)
    })
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The line that closes a ledger.
fn closing(chain: &Chain, successor: &Path) -> String {
    let line = Closed {
        closed: name_of(successor),
        time: now(),
        previous_hash: chain.head.clone(),
    };
    close(&line).0
}

fn check_alike<P: AsRef<Path>>(old: &[Ledger], paths: &[P]) -> Result<()> {
    for (ledger, path) in old.iter().zip(paths) {
        let differ = |field, found: &str, expected: &str| {
            if found == expected {
                return Ok(());
            }
            Err(Error::LedgerMismatch {
                path: path.as_ref().to_owned(),
                field,
                found: found.to_owned(),
                expected: expected.to_owned(),
            })
        };
        differ("data_set", &ledger.data_set_id, &old[0].data_set_id)?;
        let adjacency = |ledger: &Ledger| ledger.budget.adjacency().to_string();
        differ("adjacency", &adjacency(ledger), &adjacency(&old[0]))?;
    }
    Ok(())
}

/// The budget of a ledger that takes over, with the part of delta that it carries; see the module
/// documentation.
fn successor(old: &[Ledger], kind: BudgetKind, target: ApproxDp) -> Result<Budget> {
    let refused = |reason: String| Error::LedgerSuccession {
        kind,
        epsilon: target.epsilon,
        delta: target.delta,
        reason,
    };
    let Some(first) = old.first() else {
        return Err(refused("no ledger was named".to_owned()));
    };
    let budget = Budget::of_kind(target, first.budget.adjacency(), kind)?;
    if let [only] = old
        && only.budget.kind() == kind
    {
        let (found, carried) = (only.budget.target(), only.budget.carried_delta());
        if target.epsilon >= found.epsilon && target.delta >= found.delta {
            return budget.carrying(carried);
        }
        let (epsilon, delta) = (found.epsilon, found.delta);
        let reason =
            format!("it needs at least epsilon {epsilon} and delta {delta}, which were promised");
        return Err(refused(reason));
    }
    if kind == BudgetKind::Schedule {
        let reason = "a ledger for one schedule follows no other";
        return Err(refused(reason.to_owned()));
    }
    if kind == BudgetKind::Gaussian && old.iter().any(|l| l.budget.kind() != kind) {
        let reason = "one of the ledgers counts releases that need not be Gaussian";
        return Err(refused(reason.to_owned()));
    }
    let joint = if old.len() > 1 {
        joint_budget(old, kind)
    } else {
        None
    };
    if let Some(joint) = joint
        && Account::new(&budget)?.balance().budget >= joint
    {
        return Ok(budget);
    }
    let (mut epsilon, mut delta) = (UpwardSum::EMPTY, UpwardSum::EMPTY);
    for ledger in old {
        epsilon = epsilon.plus(ledger.budget.target().epsilon);
        delta = delta.plus(ledger.budget.target().delta);
    }
    let (epsilon, delta) = (epsilon.total(), delta.total());
    if target.epsilon >= epsilon && target.delta > delta {
        return budget.carrying(delta);
    }
    let mut reason = format!("it needs at least epsilon {epsilon} and a delta above {delta}");
    if let Some(joint) = joint {
        let alone = budget.epsilon_for(joint)?;
        reason.push_str(&format!(", or at this delta at least epsilon {alone}"));
    }
    Err(refused(reason))
}

/// The combined size of the old budgets, for a budget of this kind that covers all of them; `None`
/// if there is none, or if one of them carries a part of delta itself.
fn joint_budget(old: &[Ledger], kind: BudgetKind) -> Option<f64> {
    let mut sum = UpwardSum::EMPTY;
    for ledger in old {
        let budget = ledger.balance().budget;
        let factor = match (ledger.budget.kind(), kind) {
            (found, wanted) if found == wanted => 1.0,
            (BudgetKind::Gaussian, BudgetKind::Rdp { order }) => 0.5 * order,
            _ => return None,
        };
        if ledger.budget.carried_delta() > 0.0 {
            return None;
        }
        sum = sum.plus(mul_up(budget, factor));
    }
    Some(sum.total() * (1.0 + HEADROOM))
}

/// The text of a ledger of `budget` that contains all lines of the old ones.
fn rewritten(old: &[Ledger], budget: Budget) -> Result<String> {
    let data_set = old.first().map_or("", |ledger| ledger.data_set_id.as_str());
    let mut header = header(data_set, budget, now());
    header.follows = old.iter().map(Followed::of).collect();
    let (line, hash) = close(&header);
    let mut new = Writer {
        chain: Chain::after_header(hash, Account::new(&budget)?),
        data_set,
        text: line,
    };
    let mut names = HashSet::new();
    for ledger in old {
        for entry in &ledger.contents.entries {
            if !names.insert(entry.release.release_id.as_str()) {
                return Err(Error::LedgerSuccession {
                    kind: budget.kind(),
                    epsilon: budget.target().epsilon,
                    delta: budget.target().delta,
                    reason:
                        "two of the ledgers have a release in common, so one is a copy of the other, and each could spend the whole budget: \
                         go on with the newer one, and count the other as a second ledger"
                            .to_owned(),
                });
            }
            new.pay(ledger, entry)?;
        }
        new.pay_for_remains(ledger)?;
    }
    for ledger in old {
        new.hand_over(&ledger.contents);
    }
    let is_same_filter = old.len() == 1 && old[0].budget.kind() == budget.kind();
    if !is_same_filter {
        if let Some(refusal) = new.chain.account.overdraft() {
            return Err(refusal);
        }
        check_draws(budget.filter_target(), new.chain.n_draws)?;
    }
    // a text that cannot be read back never replaces anything
    let found = replay(new.text.as_bytes()).map_err(|bad| super::corrupt(Path::new(""), bad.0))?;
    debug_assert_eq!(
        found.chain.head, new.chain.head,
        "the file is what was counted"
    );
    Ok(new.text)
}

impl Followed {
    fn of(ledger: &Ledger) -> Self {
        Self {
            schema_version: ledger.schema_version,
            epsilon: ledger.budget.target().epsilon,
            delta: ledger.budget.target().delta,
            filter: ledger.budget.kind(),
            created: ledger.created,
            n_releases: ledger.n_releases(),
            head: ledger.chain.head.clone(),
        }
    }
}

/// The text of a ledger while it is being written.
struct Writer<'a> {
    chain: Chain,
    data_set: &'a str,
    text: String,
}

impl Writer<'_> {
    /// Rewrites the line that charged a release.
    fn pay(&mut self, ledger: &Ledger, entry: &Entry) -> Result<()> {
        let (release, account) = (&entry.release, &self.chain.account);
        let cost = converted(ledger, &release.event, entry.cost, account)?;
        let record = Record {
            seq: self.chain.next_seq,
            id: Some(release.release_id.clone()),
            time: entry.time,
            data_set: self.data_set.to_owned(),
            label: release.label.clone(),
            event: release.event.clone(),
            n_draws: release.n_draws,
            mu_squared: None,
            rdp: None,
            held: entry.standing != Standing::HandedOut,
            paced: entry.paced.as_ref().map(|paced| paced.terms.clone()),
            run: entry.run.clone(),
            paid_by: Some(entry.hash.clone()),
            previous_hash: self.chain.head.clone(),
        };
        self.write_record(record, cost);
        Ok(())
    }

    /// Writes lines for what interrupted lines of the old ledger charged.
    fn pay_for_remains(&mut self, ledger: &Ledger) -> Result<()> {
        for remains in &ledger.contents.remains {
            let cost = converted(ledger, &remains.event, remains.cost, &self.chain.account)?;
            let record = Record {
                seq: self.chain.next_seq,
                id: Some(ids::release_id()?),
                time: None,
                data_set: self.data_set.to_owned(),
                label: REMAINS.to_owned(),
                event: remains.event.clone(),
                n_draws: remains.n_draws,
                mu_squared: None,
                rdp: None,
                held: false,
                paced: None,
                run: None,
                paid_by: None,
                previous_hash: self.chain.head.clone(),
            };
            self.write_record(record, cost);
        }
        Ok(())
    }

    fn write_record(&mut self, mut record: Record, cost: f64) {
        match self.chain.account {
            Account::Gaussian(_) => record.mu_squared = Some(cost),
            Account::Rdp(_) => record.rdp = Some(cost),
            Account::Schedule { .. } => {}
        }
        let (line, hash) = close(&record);
        self.text.push_str(&line);
        self.chain.add(cost, record.n_draws, hash);
    }

    /// Writes lines for the held releases that were taken, the nights of lifetimes, and the notes.
    fn hand_over(&mut self, contents: &Contents) {
        for entry in &contents.entries {
            if entry.standing == Standing::Taken {
                let (taken, time) = (entry.release.release_id.clone(), entry.taken);
                let previous_hash = self.chain.head.clone();
                self.write(close(&Taken {
                    taken,
                    time,
                    previous_hash,
                }));
            }
        }
        for entry in &contents.entries {
            for night in entry.paced.iter().flat_map(|paced| &paced.nights) {
                let line = Night::of(&entry.release.release_id, night, &self.chain.head);
                self.write(close(&line));
            }
        }
        for note in &contents.notes {
            self.write(close(&Note {
                note: note.name.clone(),
                text: note.text.clone(),
                time: note.time,
                previous_hash: self.chain.head.clone(),
            }));
        }
    }

    fn write(&mut self, (line, hash): (String, String)) {
        self.text.push_str(&line);
        self.chain.head = hash;
    }
}

/// The cost in `account` of an event that cost `counted` in an old ledger, which may be more than
/// the event implies.
fn converted(ledger: &Ledger, event: &DpEvent, counted: f64, account: &Account) -> Result<f64> {
    let here = account.cost(event)?;
    let there = match (ledger.budget.kind(), account) {
        (BudgetKind::Gaussian, Account::Gaussian(_)) => counted,
        // D_α <= α mu^2 / 2
        (BudgetKind::Gaussian, Account::Rdp(account)) => {
            mul_up(mul_up(0.5, account.balance().order), counted)
        }
        (BudgetKind::Rdp { order }, Account::Rdp(account))
            if is_same(order, account.balance().order) =>
        {
            counted
        }
        (BudgetKind::Rdp { .. }, _) if ledger.chain.account.cost(event)? < counted => {
            return Err(Error::NotCertified {
                method: "rdp",
                reason: "a line counted more than its event costs, which cannot be told at another order",
            });
        }
        _ => here,
    };
    Ok(here.max(there))
}

fn is_same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits()
}
