//! Write-ahead bookkeeping of privacy spending.

mod budget;
mod contents;
mod ids;
mod lines;
mod nights;
mod opening;
mod replay;
mod store;
mod succession;
mod summary;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::path::Path;

use dp_core::{Adjacency, Gdp};

use crate::books::allowance::check_draws;
use crate::books::filter::GaussianFilter;
use crate::engines::rounding::div_up;
use crate::{Error, Plan, PlannedRelease, ReleaseRecord, Reservation, Result, Spend};

use budget::Account;
pub use budget::{Balance, Budget, BudgetKind};
pub use contents::Standing;
use contents::{Contents, Entry};
use lines::{HOLDING_SCHEMA, NAMING_SCHEMA, Note, PacedTerms, Record, Taken, close, is_unborn};
pub use lines::{LEDGER_SCHEMA, hex, sha256_hex};
pub use nights::{LedgerNight, LifetimeState};
use opening::{check_header, check_version, corrupt, header, mend, now};
use replay::{Chain, Replayed, Tail, replay};
use store::Store;
pub use summary::{LedgerEntry, LedgerNote, LedgerSummary};

/// The account book of one data set: a plan is paid here before any noise is drawn.
///
/// ```text
/// budget                what has to hold before a plan is paid
/// Budget::new           Σ mu^2 <= mu_B^2        over all releases ever reserved and the plan's
/// Budget::rdp           Σ D_α <= B_α            the same, α fixed when the ledger is made
/// Budget::schedule      ε(plan) <= ε_B          and nothing is or ever was reserved
/// ```
///
/// each at [`crate::usable_delta`]. The first two are filters, valid under full adaptivity: each
/// plan may depend on everything released before; see [`crate::GaussianFilter`] and
/// [`crate::RdpFilter`] for budgets and sources. The third takes any mechanisms, sampled ones
/// included, because the one plan is fixed before anything is released. The noise draws of all releases
/// together must fit [`crate::DELTA_RESERVE`].
///
/// # File
/// One JSON object a line. The first names schema, data set, adjacency, epsilon, delta and the kind
/// of budget; each further line pays for one release or hands out a held one, and every line carries
/// the SHA-256 hash of itself and of the line before. The lines of a plan are written in one write and flushed to the device before
/// the first [`Spend`] exists, so a crash can count a release that never happened but not miss
/// one that did. There are no refunds.
///
/// [`reserve`](Self::reserve) hands out the spends at once. [`hold`](Self::hold) pays for the same
/// lines, marked as held, and hands out nothing: a run that has to survive a crash takes the spends one
/// by one with [`take`](Self::take), each after a line of its own is durable that names the release.
/// Taking costs nothing. A release whose taking returned is never handed out again, by whichever
/// process; what was not taken can be, after [`held`](Self::held) has found it by its ids.
///
/// A crash during a write can leave whole lines, which are counted, and a last line without its
/// end. If that line is whole but for its newline it is counted. If it breaks off earlier, its
/// write never returned and nothing was handed out for it, unless the file has lost bytes that were
/// durable; so it is counted too if its event and draws can be read, and a held release counts as
/// taken if its id can be read. The remains are kept and a seal
/// that names their length and hash is appended on the same line. Anything else that is malformed or
/// breaks the chain is [`Error::LedgerCorrupt`]. The chain guards against accidents and careless
/// edits; whoever can rewrite or roll back the whole file is not stopped by it. A crash that leaves
/// the first lines of a schedule counts the whole schedule as reserved.
///
/// A ledger is made on purpose, by [`create`](Self::create), and gets its name when its first line is durable. An existing file that is empty
/// or breaks off in its first line has lost what was spent, and is refused. The path must go on naming the file that was opened: before
/// and after each write device, inode, length and last line are compared. A copy that a program put in the file's place is locked and
/// read; an older one gets the lines that it lacks. Where neither is possible, nothing is handed out any more ([`Error::LedgerReplaced`]). What
/// remains: a process that dies after its file was replaced by an older copy cannot mend it, and two processes that have one of two
/// copies each find out only at their next payment.
///
/// Each release has a name of 256 random bits, which is what certificates show: nothing can be learned from it about the
/// lines of the file.
///
/// [`reserve_lifetime`](Self::reserve_lifetime) pays for one event whose nights [`take_night`](Self::take_night) hands out, each after a line
/// of its own.
///
/// New files are of version 5. Those of version 1, all Gaussian, and of version 2, which have no held releases, of version 3,
/// where a release is named by the hash of its line, and of version 4, which have no paced lifetimes, are opened and go on in their own format;
/// [`upgrade`](Self::upgrade) rewrites them.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Error, Ledger, Plan, ReleaseRequest};
/// use dp_core::{Adjacency, ApproxDp, ReplaceFactor};
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let requests = [ReleaseRequest::new("sum", 1.0, ReplaceFactor::Two, 100)];
/// let plan = Plan::calibrate(target, Adjacency::AddRemoveUser, &requests)?;
///
/// let mut ledger = Ledger::in_memory("ratings", Budget::new(target, Adjacency::AddRemoveUser)?)?;
/// let spends = ledger.reserve(&plan)?;
/// assert_eq!(spends.len(), 1);
/// assert!(matches!(ledger.reserve(&plan), Err(Error::BudgetSpent { .. })));
///
/// // a run that can be resumed pays first and takes each release when it is due
/// let mut ledger = Ledger::in_memory("ratings", Budget::new(target, Adjacency::AddRemoveUser)?)?;
/// let ids = ledger.hold(&plan)?.release_ids().to_vec(); // kept with the run's state
/// let reservation = ledger.held(&ids)?;
/// let spend = ledger.take(&reservation, 0)?;
/// assert_eq!(spend.release_id(), ids[0]);
/// assert!(matches!(ledger.take(&reservation, 0), Err(Error::AlreadyTaken { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ledger {
    budget: Budget,
    data_set_id: String,
    schema_version: u32,
    created: u64,
    chain: Chain,
    contents: Contents,
    run: Option<String>,
    store: Option<Store>,
}

impl Ledger {
    /// Opens the ledger of `data_set_id` at `path`, with the budget that it was made with. The file
    /// stays locked until the ledger is dropped. Never makes a file.
    ///
    /// # Errors
    /// [`Error::LedgerMissing`] where there is none, [`Error::LedgerCutOff`] where it is empty or lacks a part of its first line;
    /// [`Error::LedgerLocked`] while another writer has it; [`Error::LedgerMismatch`] when it was
    /// made for another data set or adjacency, or by a newer schema version;
    /// [`Error::LedgerCorrupt`] when it is damaged; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>, data_set_id: &str, adjacency: Adjacency) -> Result<Self> {
        let path = path.as_ref();
        Self::of_file(path, |found| {
            // the neighbours are never taken over from the file
            let budget = found.budget;
            let expected = Budget::of_kind(budget.target(), adjacency, budget.kind())?;
            check_header(found, data_set_id, expected, path)
        })
    }

    /// Makes the ledger of `data_set_id` at `path`, where nothing may be. The file gets its name
    /// when its first line is durable, so a crash leaves a whole ledger or none.
    ///
    /// # Errors
    /// [`Error::LedgerExists`], also for an empty file; [`Error::Param`] for a budget whose delta is too small to
    /// aim at, or whose order has no budget; [`Error::EntropyUnavailable`]; [`Error::Io`].
    pub fn create(path: impl AsRef<Path>, data_set_id: &str, budget: Budget) -> Result<Self> {
        let (mut ledger, line) = Self::begun(data_set_id, budget)?;
        ledger.store = Some(Store::create(path.as_ref(), line.as_bytes())?);
        Ok(ledger)
    }

    /// A ledger without a file, and the line that its file would begin with.
    fn begun(data_set_id: &str, budget: Budget) -> Result<(Self, String)> {
        let (account, created) = (Account::new(&budget)?, now());
        let (line, hash) = close(&header(data_set_id, budget, created));
        let ledger = Self {
            budget,
            data_set_id: data_set_id.to_owned(),
            schema_version: LEDGER_SCHEMA,
            created,
            chain: Chain::after_header(hash, account),
            contents: Contents::default(),
            run: None,
            store: None,
        };
        Ok((ledger, line))
    }

    /// Opens the ledger of `data_set_id` at `path`, which must have been made with `budget`, or makes
    /// it where there is no file.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create), and [`Error::LedgerMismatch`] for another
    /// epsilon, delta or kind.
    pub fn open_or_create(
        path: impl AsRef<Path>,
        data_set_id: &str,
        budget: Budget,
    ) -> Result<Self> {
        let path = path.as_ref();
        Account::new(&budget)?;
        let open = || Self::of_file(path, |found| check_header(found, data_set_id, budget, path));
        match open() {
            Err(Error::LedgerMissing { .. }) => {}
            outcome => return outcome,
        }
        match Self::create(path, data_set_id, budget) {
            // somebody else was faster
            Err(Error::LedgerExists { .. }) => open(),
            outcome => outcome,
        }
    }

    fn of_file(path: &Path, check: impl FnOnce(&Replayed<'_>) -> Result<()>) -> Result<Self> {
        let (store, bytes) = Store::open(path)?;
        Self::of_bytes(store, &bytes, None, check)
    }

    /// `check` refuses files before anything in them is mended. A closed ledger is read for its `heir` alone, the ledger that it
    /// was closed for, and must not be written to.
    fn of_bytes(
        mut store: Store,
        bytes: &[u8],
        heir: Option<&str>,
        check: impl FnOnce(&Replayed<'_>) -> Result<()>,
    ) -> Result<Self> {
        if is_unborn(bytes) {
            return Err(Error::LedgerCutOff {
                path: store.path().to_owned(),
                length: bytes.len(),
            });
        }
        let found = replay(bytes).map_err(|bad| corrupt(store.path(), bad.0))?;
        check_version(&found, store.path())?;
        check(&found)?;
        if let Some(successor) = &found.chain.successor
            && (heir != Some(successor) || matches!(found.tail, Tail::Torn(_)))
        {
            return Err(Error::LedgerClosed {
                path: store.path().to_owned(),
                successor: successor.clone(),
            });
        }
        let chain = mend(&mut store, found.chain, &found.tail)?;
        Ok(Self {
            budget: found.budget,
            data_set_id: found.header.data_set,
            schema_version: found.header.schema_version,
            created: found.header.created,
            chain,
            contents: found.contents,
            run: None,
            store: Some(store),
        })
    }

    /// Brings the state up to what the path names now. A synchronising program may have put a copy in the
    /// file's place; the copy is locked and read, with what others added to it, if it goes on from what this
    /// ledger knows. An older copy first gets the lines that it lacks from the file that it displaced, which is still open here.
    fn refresh(&mut self) -> Result<()> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        store.check_health()?;
        if store.is_bound()? {
            return Ok(());
        }
        let (mut reopened, mut bytes) = match store.reopen() {
            Err(Error::LedgerMissing { .. }) => {
                return Err(store.replaced("no file has its name any more"));
            }
            outcome => outcome?,
        };
        let known = store
            .known_part(&bytes)
            .and_then(|known| replay(known).ok());
        if known.is_none_or(|known| known.chain.head != self.chain.head) {
            bytes = store.complete(&mut reopened, &bytes)?;
        }
        let mut found = Self::of_bytes(reopened, &bytes, None, |_| Ok(()))?;
        found.run = self.run.clone();
        self.store = None; // what is dropped here has nothing left to refresh
        *self = found;
        Ok(())
    }

    /// Makes sure that everything that this ledger handed out is in the file that its path names now. Call it before
    /// anything leaves the machine that was paid for a while ago: a file can be replaced at any moment, after a payment too. An
    /// older copy that took the file's place gets the lines that it lacks. Dropping a ledger does the same as far as
    /// it can, and says nothing.
    ///
    /// # Errors
    /// [`Error::LedgerReplaced`] when the file lacks lines of this ledger; [`Error::LedgerLocked`] when a copy
    /// took its place and another writer has it; [`Error::LedgerPoisoned`]; [`Error::Io`].
    pub fn confirm(&mut self) -> Result<()> {
        self.refresh()
    }

    /// Reads the ledger at `path` without locking, mending or changing it: for auditors, and while
    /// a writer is at work. A line that a crash tore is no release, but counts as by
    /// [`open`](Self::open).
    ///
    /// # Errors
    /// [`Error::LedgerCorrupt`] when it is damaged or no ledger; [`Error::Io`].
    pub fn audit(path: impl AsRef<Path>) -> Result<LedgerSummary> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|source| Error::Io {
            path: path.to_owned(),
            source,
        })?;
        LedgerSummary::of(&bytes, path)
    }

    /// A ledger that forgets when the process ends, for experiments and tests. Whoever runs it
    /// twice on one data set must add the two budgets.
    ///
    /// # Errors
    /// [`Error::Param`] for a budget whose delta is too small to aim at, or whose order has none.
    pub fn in_memory(data_set_id: &str, budget: Budget) -> Result<Self> {
        Ok(Self::begun(data_set_id, budget)?.0)
    }

    /// Pays for every release of `plan`, or for none, and hands out one [`Spend`] a release in
    /// the plan's order.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`], [`Error::ScheduleReserved`], [`Error::SamplerAllowance`],
    /// [`Error::AdjacencyMismatch`] and an event that the budget's kind cannot count
    /// ([`Error::UnsupportedEvent`]) leave the ledger as it was. [`Error::Io`] means that the write failed: nothing is handed out,
    /// what reached the disk will be counted when the ledger is opened again, and until then
    /// every call gives [`Error::LedgerPoisoned`].
    pub fn reserve(&mut self, plan: &Plan) -> Result<Vec<Spend>> {
        self.refresh()?;
        let ids = self.pay(plan, false, None)?;
        let releases = plan.releases().iter().cloned();
        Ok(releases
            .zip(ids)
            .map(|(release, id)| self.spend(release, id))
            .collect())
    }

    /// Pays for every release of `plan`, or for none, and hands out nothing: each release is handed
    /// out by [`take`](Self::take) when it is due, once, by this process or a later one. This is how a
    /// whole schedule is paid by a run that may have to be resumed. What is never taken stays spent.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), and [`Error::CannotHold`] for a file of version 1 or 2.
    pub fn hold(&mut self, plan: &Plan) -> Result<Reservation> {
        if self.schema_version < HOLDING_SCHEMA {
            return Err(Error::CannotHold {
                found: self.schema_version,
                needed: HOLDING_SCHEMA,
            });
        }
        self.refresh()?;
        let ids = self.pay(plan, true, None)?;
        Ok(self.reservation(plan.releases().to_vec(), ids))
    }

    /// Hands out release `index` of `reservation`, counted from 0, after a line that names it as
    /// taken is durable. It was paid for when it was held and costs nothing more.
    ///
    /// # Errors
    /// [`Error::AlreadyTaken`] when it was handed out before, whenever and by whom;
    /// [`Error::NotHeld`] when this ledger holds no such release. Both leave the ledger as it was.
    /// [`Error::Io`] means that the write failed: nothing is handed out, whether the release counts as
    /// taken shows when the ledger is opened again, and until then every call gives
    /// [`Error::LedgerPoisoned`].
    pub fn take(&mut self, reservation: &Reservation, index: usize) -> Result<Spend> {
        let id = reservation
            .release_ids()
            .get(index)
            .ok_or_else(|| Error::NotHeld {
                release: index.to_string(),
                reason: "the reservation has fewer releases",
            })?;
        self.refresh()?;
        let entry = self.held_entry(id)?;
        let is_taken = entry.standing == Standing::Taken;
        #[cfg(privacy_mutants)]
        let is_taken = dp_core::mutants::pick("held-release-taken-twice", is_taken, false);
        if is_taken {
            return Err(Error::AlreadyTaken {
                label: entry.release.label.clone(),
            });
        }
        let release = planned(&entry.release);
        let time = self.time();
        let (line, hash) = close(&Taken {
            taken: id.clone(),
            time,
            previous_hash: self.chain.head.clone(),
        });
        self.append(&line)?;
        self.chain.head = hash;
        self.contents.mark_taken(id, time);
        Ok(self.spend(release, id.clone()))
    }

    /// Finds held releases again by their ids, in the order of the ids, taken ones included.
    ///
    /// # Errors
    /// [`Error::NotHeld`] for an id that is no release of this ledger, and for a release that was
    /// handed out when it was paid.
    pub fn held(&self, release_ids: &[String]) -> Result<Reservation> {
        let releases = release_ids
            .iter()
            .map(|id| self.held_entry(id).map(|entry| planned(&entry.release)))
            .collect::<Result<_>>()?;
        Ok(self.reservation(releases, release_ids.to_vec()))
    }

    /// The releases that a ledger for one schedule holds for `plan`, when it holds exactly those and has handed out none: what a run
    /// left that ended between its payment and its first release.
    #[must_use]
    pub fn untouched(&self, plan: &Plan) -> Option<Reservation> {
        if self.budget.kind() != BudgetKind::Schedule {
            return None;
        }
        let ids = self.contents.ids(Standing::Held);
        if ids.len() as u64 != self.n_releases() {
            return None;
        }
        let reservation = self.held(&ids).ok()?;
        let same = reservation.releases() == plan.releases() && !plan.releases().is_empty();
        same.then_some(reservation)
    }

    /// Whether a held release has been handed out; `None` when the ledger does not know the id, or
    /// the release was never held.
    #[must_use]
    pub fn is_taken(&self, release_id: &str) -> Option<bool> {
        let entry = self.held_entry(release_id).ok()?;
        Some(entry.standing == Standing::Taken)
    }

    /// Whether this is the id of a release that this ledger paid for, held or not.
    #[must_use]
    pub fn contains(&self, release_id: &str) -> bool {
        self.contents.get(release_id).is_some()
    }

    /// The release of an id, if it is or was held.
    fn held_entry(&self, id: &str) -> Result<&Entry> {
        let reason = match self.contents.get(id) {
            Some(entry) if matches!(entry.standing, Standing::Held | Standing::Taken) => {
                return Ok(entry);
            }
            Some(entry) if entry.paced.is_some() => {
                "it is a paced lifetime, of which each night is taken by itself"
            }
            Some(_) => "it was handed out when it was paid",
            None => "no line has its id",
        };
        Err(Error::NotHeld {
            release: id.to_owned(),
            reason,
        })
    }

    /// Names the run that what follows is paid for, in lines of version 4: a public text, such as the hash of the run's
    /// settings.
    pub fn set_run(&mut self, run: Option<String>) {
        self.run = run;
    }

    /// Appends a line that says `text` about `name`, costs nothing and is durable when this returns. The file is the operator's own:
    /// no certificate shows a line of it or its hash.
    ///
    /// # Errors
    /// [`Error::LedgerVersion`] up to version 3; those of writing, as [`reserve`](Self::reserve).
    pub fn note(&mut self, name: &str, text: &str) -> Result<()> {
        self.refresh()?;
        if self.schema_version < NAMING_SCHEMA {
            return Err(Error::LedgerVersion {
                found: self.schema_version,
                needed: NAMING_SCHEMA,
                what: "notes",
            });
        }
        let note = LedgerNote {
            name: name.to_owned(),
            text: text.to_owned(),
            time: now(),
        };
        let (line, hash) = close(&Note {
            note: note.name.clone(),
            text: note.text.clone(),
            time: note.time,
            previous_hash: self.chain.head.clone(),
        });
        self.append(&line)?;
        self.chain.head = hash;
        self.contents.notes.push(note);
        Ok(())
    }

    /// What was noted, in order.
    #[must_use]
    pub fn notes(&self) -> &[LedgerNote] {
        &self.contents.notes
    }

    /// The time that lines of this version have.
    fn time(&self) -> Option<u64> {
        (self.schema_version >= NAMING_SCHEMA).then(now)
    }

    /// Whether the budget has room for `plan` now, without paying for it.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), but for those of writing.
    pub fn affords(&self, plan: &Plan) -> Result<()> {
        self.costs(plan).map(|_| ())
    }

    /// What `plan` costs here, in the measure of [`balance`](Self::balance), rounded up, whether there is room for it or not.
    ///
    /// # Errors
    /// As [`Budget::cost`].
    pub fn cost(&self, plan: &Plan) -> Result<f64> {
        self.budget.cost(plan)
    }

    /// What each release of `plan` costs, if the budget has room for it.
    fn costs(&self, plan: &Plan) -> Result<Vec<f64>> {
        if plan.adjacency() != self.budget.adjacency() {
            return Err(Error::AdjacencyMismatch {
                found: plan.adjacency(),
                expected: self.budget.adjacency(),
            });
        }
        self.check_schedule_is_free()?;
        let before = &self.chain.account;
        let costs = before.costs(plan)?;
        let mut after = *before;
        costs.iter().for_each(|&cost| after.count(cost));
        before.check(&after, plan)?;
        let n_draws = self.chain.n_draws.saturating_add(plan.n_draws());
        check_draws(self.budget.filter_target(), n_draws)?;
        Ok(costs)
    }

    /// Pays for every release of `plan`, or for none; returns their ids once they are durable.
    fn pay(&mut self, plan: &Plan, held: bool, paced: Option<&PacedTerms>) -> Result<Vec<String>> {
        if plan.releases().is_empty() && plan.adjacency() == self.budget.adjacency() {
            return Ok(Vec::new());
        }
        let costs = self.costs(plan)?;
        let paid = self.entries(plan.releases(), &costs, (held, paced))?;
        let ids = paid.iter().map(|line| line.id()).collect();
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("ledger-written-after-the-release") {
            self.enter(paid);
            return Ok(ids);
        }
        let text: String = paid.iter().map(|line| line.text.as_str()).collect();
        self.append(&text)?;
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("ledger-forgets") {
            return Ok(ids);
        }
        self.enter(paid);
        Ok(ids)
    }

    /// The lines that pay for `releases`.
    fn entries(
        &self,
        releases: &[PlannedRelease],
        costs: &[f64],
        (held, paced): (bool, Option<&PacedTerms>),
    ) -> Result<Vec<PaidLine>> {
        let (mut head, mut seq) = (self.chain.head.clone(), self.chain.next_seq);
        let (is_named, time) = (self.schema_version >= NAMING_SCHEMA, self.time());
        let mut lines = Vec::with_capacity(releases.len());
        for (release, &cost) in releases.iter().zip(costs) {
            let record = Record {
                seq,
                id: is_named.then(ids::release_id).transpose()?,
                time,
                data_set: self.data_set_id.clone(),
                label: release.label().to_owned(),
                event: release.event().clone(),
                n_draws: release.n_draws(),
                mu_squared: matches!(self.chain.account, Account::Gaussian(_)).then_some(cost),
                rdp: matches!(self.chain.account, Account::Rdp(_)).then_some(cost),
                held,
                paced: paced.cloned(),
                run: self.run.clone().filter(|_| is_named),
                paid_by: None,
                previous_hash: head,
            };
            let line = PaidLine::new(record, cost);
            head = line.hash.clone();
            seq += 1;
            lines.push(line);
        }
        Ok(lines)
    }

    /// Counts lines that are durable.
    fn enter(&mut self, lines: Vec<PaidLine>) {
        for line in lines {
            self.chain
                .add(line.cost, line.record.n_draws, line.hash.clone());
            self.contents.add(line.record, line.cost, line.hash);
        }
    }

    /// Makes lines durable; in memory there is nothing to do.
    fn append(&mut self, lines: &str) -> Result<()> {
        match &mut self.store {
            Some(store) => store.append(lines.as_bytes()),
            None => Ok(()),
        }
    }

    /// The right to make a release whose line is durable.
    fn spend(&self, release: PlannedRelease, id: String) -> Spend {
        Spend::new(
            release,
            id,
            self.data_set_id.clone(),
            self.budget.adjacency(),
        )
    }

    fn reservation(&self, releases: Vec<PlannedRelease>, ids: Vec<String>) -> Reservation {
        let adjacency = self.budget.adjacency();
        Reservation::new(releases, ids, self.data_set_id.clone(), adjacency)
    }

    /// A ledger for one schedule pays once.
    fn check_schedule_is_free(&self) -> Result<()> {
        // the readable remains of an interrupted line count as well
        if self.budget.kind() == BudgetKind::Schedule && self.balance().spent > 0.0 {
            return Err(Error::ScheduleReserved {
                n_releases: self.n_releases(),
            });
        }
        Ok(())
    }

    /// What has been reserved so far and what the budget allows, in the measure that this kind of
    /// budget counts in.
    #[must_use]
    pub fn balance(&self) -> Balance {
        self.chain.account.balance()
    }

    /// What has been reserved so far, rounded up.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] unless the budget is Gaussian.
    pub fn spent(&self) -> Result<Gdp> {
        self.gaussian().map(GaussianFilter::spent)
    }

    /// What Gaussian releases can still be reserved, rounded down: `sqrt(mu_B^2 - mu_spent^2)`, and in a ledger of
    /// mixed mechanisms `sqrt(2 (B_α - D_α) / α)`. What else is left there, [`affords`](Self::affords) and [`balance`](Self::balance) tell.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] where the ledger pays for one schedule.
    pub fn remaining(&self) -> Result<Gdp> {
        match (&self.chain.account, self.budget.kind()) {
            (Account::Rdp(_), BudgetKind::Rdp { order }) => {
                // a hair less than the cost of a Gaussian release, which is rounded up
                let left = self.balance().left() * (1.0 - 1e-12);
                let mu = (left / div_up(order, 2.0)).next_down().max(0.0).sqrt();
                Ok(Gdp {
                    mu: mu.next_down().max(0.0),
                })
            }
            _ => self.gaussian().map(GaussianFilter::remaining),
        }
    }

    fn gaussian(&self) -> Result<&GaussianFilter> {
        match &self.chain.account {
            Account::Gaussian(filter) => Ok(filter),
            Account::Rdp(_) | Account::Schedule { .. } => Err(Error::NotGaussian {
                what: format!("the ledger's budget ({})", self.budget.kind()),
            }),
        }
    }

    /// The budget.
    #[must_use]
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The data set that the budget belongs to.
    #[must_use]
    pub fn data_set_id(&self) -> &str {
        &self.data_set_id
    }

    /// Number of releases paid for so far, held ones included.
    #[must_use]
    pub const fn n_releases(&self) -> u64 {
        self.chain.next_seq
    }

    /// The ids of all releases paid for so far, in the order of payment, which [`upgrade`](Self::upgrade) keeps.
    pub fn release_ids(&self) -> impl Iterator<Item = &str> {
        let entries = self.contents.entries.iter();
        entries.map(|entry| entry.release.release_id.as_str())
    }

    /// Number of held releases that have been handed out.
    #[must_use]
    pub fn n_taken(&self) -> usize {
        let entries = self.contents.entries.iter();
        let taken = entries.filter(|entry| entry.standing == Standing::Taken);
        taken.count()
    }
}

fn planned(record: &ReleaseRecord) -> PlannedRelease {
    PlannedRelease::new(record.label.clone(), record.event.clone(), record.n_draws)
}

impl Drop for Ledger {
    /// Mends what a replacement of the file lost, as [`confirm`](Self::confirm) does.
    fn drop(&mut self) {
        let _ = self.refresh();
    }
}

/// A line that pays for a release, before or after it is written.
struct PaidLine {
    record: Record,
    cost: f64,
    text: String,
    hash: String,
}

impl PaidLine {
    fn new(record: Record, cost: f64) -> Self {
        let (text, hash) = close(&record);
        Self {
            record,
            cost,
            text,
            hash,
        }
    }

    fn id(&self) -> String {
        self.record.id.clone().unwrap_or_else(|| self.hash.clone())
    }
}
