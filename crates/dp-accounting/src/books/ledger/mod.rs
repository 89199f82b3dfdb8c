//! Write-ahead accounting of privacy spending.

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
use store::{Store, io_error, not_a_file};
pub use summary::{LedgerEntry, LedgerNote, LedgerSummary};

/// The privacy ledger of one data set: every plan is charged here before any noise is drawn.
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
/// [`crate::RdpFilter`] for budgets and sources. The third accepts any mechanisms, including
/// sampled ones, because its only plan is fixed before anything is released. The noise draws of all
/// releases together must fit [`crate::DELTA_RESERVE`].
///
/// # File
/// One JSON object per line. The first line contains the schema, data set, adjacency, epsilon,
/// delta and the kind of budget; each further line charges one release or hands out a held one.
/// Every line contains its own SHA-256 hash and that of the previous line. The lines of a plan are
/// written in one write and flushed to the device before the first [`Spend`] exists, so a crash can
/// count a release that never happened but cannot miss one that did. There are no refunds.
///
/// [`reserve`](Self::reserve) hands out the spends at once. [`hold`](Self::hold) writes the same
/// charges, marked as held, and hands out nothing: a run that has to survive a crash takes the
/// spends one by one with [`take`](Self::take), which first writes a durable line that names the
/// release. Taking costs nothing. A release that was taken is never handed out again, by any
/// process. A release that was not taken can still be, after [`held`](Self::held) has looked it up
/// by its id.
///
/// A crash during a write can leave complete lines, which are counted, and an incomplete last line.
/// If only its newline is missing, the line is counted. If it breaks off earlier, its write never
/// returned and nothing was handed out for it, unless the file has lost bytes that were durable. So
/// it is counted, too, if its event and draws can be read, and a held release counts as taken if
/// its id can be read. The remains are kept, and a seal that records their length and hash is
/// appended on the same line. Anything else that is malformed or breaks the chain is
/// [`Error::LedgerCorrupt`]. The chain protects against accidents and careless edits; it cannot
/// stop anyone who can rewrite or roll back the whole file. A crash that leaves the first lines of
/// a schedule counts the whole schedule as reserved.
///
/// A ledger is created explicitly by [`create`](Self::create), and its file gets its name when the
/// first line is durable. An existing file that is empty or breaks off in its first line has lost
/// the record of what was spent, and is rejected. The path must keep naming the file that was
/// opened: before and after each write, device, inode, length and last line are compared. If a
/// program replaced the file by a copy, the copy is locked and read; an older copy is completed
/// with the lines that it lacks. If neither is possible, nothing is handed out any more
/// ([`Error::LedgerReplaced`]). Two risks remain: a process that dies after its file was replaced
/// by an older copy cannot repair it, and two processes that each have one of two copies notice it
/// only at their next charge.
///
/// Each release has an id of 256 random bits, which certificates show. The id reveals nothing about
/// the lines of the file.
///
/// [`reserve_lifetime`](Self::reserve_lifetime) charges one event whose nights are handed out by
/// [`take_night`](Self::take_night), each after a durable line of its own.
///
/// New files have version 5. Older files are opened and continued in their own format: version 1
/// (Gaussian only), version 2 (no held releases), version 3 (the id of a release is the hash of its
/// line) and version 4 (no paced lifetimes). [`upgrade`](Self::upgrade) rewrites them.
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
    /// Opens the ledger of `data_set_id` at `path`, with the budget that it was created with. The
    /// file stays locked until the ledger is dropped. Never creates a file.
    ///
    /// # Errors
    /// [`Error::LedgerMissing`] if there is no file, [`Error::LedgerCutOff`] if it is empty or its
    /// first line is incomplete; [`Error::LedgerLocked`] while another writer has it open;
    /// [`Error::LedgerMismatch`] if it was created for another data set or adjacency, or by a newer
    /// schema version; [`Error::LedgerCorrupt`] if it is damaged; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>, data_set_id: &str, adjacency: Adjacency) -> Result<Self> {
        let path = path.as_ref();
        Self::of_file(path, |found| {
            // the adjacency is never taken from the file
            let budget = found.budget;
            let expected = Budget::of_kind(budget.target(), adjacency, budget.kind())?;
            check_header(found, data_set_id, expected, path)
        })
    }

    /// Creates the ledger of `data_set_id` at `path`, where no file may exist. The file gets its
    /// name when its first line is durable, so a crash leaves a complete ledger or none.
    ///
    /// # Errors
    /// [`Error::LedgerExists`], also for an empty file; [`Error::Param`] for a budget whose delta
    /// is too small to be a target, or whose order has no budget; [`Error::EntropyUnavailable`];
    /// [`Error::Io`].
    pub fn create(path: impl AsRef<Path>, data_set_id: &str, budget: Budget) -> Result<Self> {
        let (mut ledger, line) = Self::begun(data_set_id, budget)?;
        ledger.store = Some(Store::create(path.as_ref(), line.as_bytes())?);
        Ok(ledger)
    }

    /// A ledger without a file, and the first line that its file would have.
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

    /// Opens the ledger of `data_set_id` at `path`, which must have been created with `budget`, or
    /// creates it if there is no file.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`create`](Self::create), and [`Error::LedgerMismatch`] for
    /// another epsilon, delta or kind.
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
            // another process was faster
            Err(Error::LedgerExists { .. }) => open(),
            outcome => outcome,
        }
    }

    fn of_file(path: &Path, check: impl FnOnce(&Replayed<'_>) -> Result<()>) -> Result<Self> {
        let (store, bytes) = Store::open(path)?;
        Self::of_bytes(store, &bytes, None, check)
    }

    /// `check` rejects unsuitable files before anything in them is repaired. A closed ledger is
    /// read only on behalf of `heir`, its successor, and must not be written to.
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
            created: found.header.created,
            data_set_id: found.header.data_set,
            schema_version: found.header.schema_version,
            chain,
            contents: found.contents,
            run: None,
            store: Some(store),
        })
    }

    /// Updates the state to the file that the path names now. A synchronising program may have
    /// replaced the file by a copy. If the copy continues from what this ledger knows, it is locked
    /// and read, including what others have added. An older copy is first completed with the lines
    /// that it lacks, from the displaced file, which is still open here.
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
        self.store = None; // what is dropped here must not be refreshed again
        *self = found;
        Ok(())
    }

    /// Makes sure that everything this ledger handed out is in the file that its path names now.
    /// Call it before anything that was charged some time ago leaves the machine: a file can be
    /// replaced at any moment, also after a charge. An older copy that replaced the file is
    /// completed with the lines that it lacks. Dropping a ledger does the same as far as possible,
    /// without reporting errors.
    ///
    /// # Errors
    /// [`Error::LedgerReplaced`] if the file lacks lines of this ledger; [`Error::LedgerLocked`] if
    /// a copy replaced it and another writer has that copy open; [`Error::LedgerPoisoned`];
    /// [`Error::Io`].
    pub fn confirm(&mut self) -> Result<()> {
        self.refresh()
    }

    /// Reads the ledger at `path` without locking, repairing or changing it: for auditors, and
    /// while a writer is active. A line torn by a crash is not listed as a release, but its cost
    /// counts, as in [`open`](Self::open).
    ///
    /// # Errors
    /// [`Error::LedgerCorrupt`] if it is damaged or not a ledger; [`Error::Io`].
    pub fn audit(path: impl AsRef<Path>) -> Result<LedgerSummary> {
        let path = path.as_ref();
        let found = std::fs::metadata(path).map_err(|source| io_error(path, source))?;
        if found.is_dir() {
            return Err(io_error(path, not_a_file(&found)));
        }
        let bytes = std::fs::read(path).map_err(|source| io_error(path, source))?;
        LedgerSummary::of(&bytes, path)
    }

    /// Creates a ledger that lasts only as long as the process, for experiments and tests. Whoever
    /// runs it twice on one data set must add the two budgets.
    ///
    /// # Errors
    /// [`Error::Param`] for a budget whose delta is too small to be a target, or whose order has no
    /// budget.
    pub fn in_memory(data_set_id: &str, budget: Budget) -> Result<Self> {
        Ok(Self::begun(data_set_id, budget)?.0)
    }

    /// Charges every release of `plan`, or none, and returns one [`Spend`] per release in the
    /// plan's order.
    ///
    /// # Errors
    /// [`Error::BudgetSpent`], [`Error::ScheduleReserved`], [`Error::SamplerAllowance`],
    /// [`Error::AdjacencyMismatch`] and [`Error::UnsupportedEvent`] (an event that the budget's
    /// kind cannot count) leave the ledger unchanged. [`Error::Io`] means that the write failed:
    /// nothing is handed out, what reached the disk will be counted when the ledger is opened
    /// again, and until then every call returns [`Error::LedgerPoisoned`].
    pub fn reserve(&mut self, plan: &Plan) -> Result<Vec<Spend>> {
        self.refresh()?;
        let ids = self.pay(plan, false, None)?;
        let releases = plan.releases().iter().cloned();
        Ok(releases
            .zip(ids)
            .map(|(release, id)| self.spend(release, id))
            .collect())
    }

    /// Charges every release of `plan`, or none, and hands out nothing. Each release is handed out
    /// once by [`take`](Self::take) when it is due, by this process or a later one. A run that may
    /// have to be resumed reserves its whole schedule in this way. Releases that are never taken
    /// stay spent.
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

    /// Hands out release `index` of `reservation`, counted from 0, after a line that marks it as
    /// taken is durable. It was charged when it was held and costs nothing more.
    ///
    /// # Errors
    /// [`Error::AlreadyTaken`] if it was handed out before, at any time and by any process;
    /// [`Error::NotHeld`] if this ledger holds no such release. Both leave the ledger unchanged.
    /// [`Error::Io`] means that the write failed: nothing is handed out, whether the release counts
    /// as taken is known when the ledger is opened again, and until then every call returns
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

    /// Looks up held releases by their ids, in the order of the ids, including taken ones.
    ///
    /// # Errors
    /// [`Error::NotHeld`] for an id that is not a release of this ledger, and for a release that
    /// was handed out when it was reserved.
    pub fn held(&self, release_ids: &[String]) -> Result<Reservation> {
        let releases = release_ids
            .iter()
            .map(|id| self.held_entry(id).map(|entry| planned(&entry.release)))
            .collect::<Result<_>>()?;
        Ok(self.reservation(releases, release_ids.to_vec()))
    }

    /// The reservation for `plan` in a ledger for one schedule, if the ledger holds exactly these
    /// releases and has handed out none of them. This is the state after a run that ended between
    /// its reservation and its first release.
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

    /// Whether a held release has been handed out; `None` if the ledger does not know the id or the
    /// release was never held.
    #[must_use]
    pub fn is_taken(&self, release_id: &str) -> Option<bool> {
        let entry = self.held_entry(release_id).ok()?;
        Some(entry.standing == Standing::Taken)
    }

    /// Whether this is the id of a release that was charged to this ledger, held or not.
    #[must_use]
    pub fn contains(&self, release_id: &str) -> bool {
        self.contents.get(release_id).is_some()
    }

    /// The release with this id, if it is or was held.
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

    /// Sets the run that later charges belong to, which is written in lines of version 4: a public
    /// text, such as the hash of the run's settings.
    pub fn set_run(&mut self, run: Option<String>) {
        self.run = run;
    }

    /// Appends a line with the note `text` about `name`, which costs nothing and is durable when
    /// this returns. The file is the operator's own: no certificate shows any of its lines or their
    /// hashes.
    ///
    /// # Errors
    /// [`Error::LedgerVersion`] up to version 3; write errors as for [`reserve`](Self::reserve).
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

    /// The notes, in order.
    #[must_use]
    pub fn notes(&self) -> &[LedgerNote] {
        &self.contents.notes
    }

    /// The notes that are not later than the line that charged a release; all of them if the time
    /// of that line is not known.
    pub fn notes_before(&self, release_id: &str) -> impl Iterator<Item = &LedgerNote> {
        let charged = self.contents.get(release_id).and_then(|entry| entry.time);
        let notes = self.contents.notes.iter();
        notes.filter(move |note| charged.is_none_or(|charged| note.time <= charged))
    }

    /// The time for new lines, if lines of this version have one.
    fn time(&self) -> Option<u64> {
        (self.schema_version >= NAMING_SCHEMA).then(now)
    }

    /// Checks whether the budget has room for `plan` now, without charging it.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), except for write errors.
    pub fn affords(&self, plan: &Plan) -> Result<()> {
        self.costs(plan).map(|_| ())
    }

    /// The cost of `plan` in this ledger, in the measure of [`balance`](Self::balance), rounded up,
    /// whether or not there is room for it.
    ///
    /// # Errors
    /// As [`Budget::cost`].
    pub fn cost(&self, plan: &Plan) -> Result<f64> {
        self.budget.cost(plan)
    }

    /// The cost of each release of `plan`, if the budget has room for it.
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

    /// Charges every release of `plan`, or none; returns their ids once the lines are durable.
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

    /// The lines that charge `releases`.
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

    /// Makes lines durable; does nothing for a ledger in memory.
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

    /// A ledger for one schedule accepts a single reservation.
    fn check_schedule_is_free(&self) -> Result<()> {
        // readable remains of an interrupted line count as well
        if self.budget.kind() == BudgetKind::Schedule && self.balance().spent > 0.0 {
            return Err(Error::ScheduleReserved {
                n_releases: self.n_releases(),
            });
        }
        Ok(())
    }

    /// What has been reserved so far and what the budget allows, in the measure of this kind of
    /// budget.
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

    /// The Gaussian releases that can still be reserved, as one mu, rounded down: `sqrt(mu_B^2 -
    /// mu_spent^2)`, and in a ledger for mixed mechanisms `sqrt(2 (B_α - D_α) / α)`. For other
    /// mechanisms, see [`affords`](Self::affords) and [`balance`](Self::balance).
    ///
    /// # Errors
    /// [`Error::NotGaussian`] if the ledger is for one schedule.
    pub fn remaining(&self) -> Result<Gdp> {
        match (&self.chain.account, self.budget.kind()) {
            (Account::Rdp(_), BudgetKind::Rdp { order }) => {
                // slightly less than the cost of a Gaussian release, which is rounded up
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

    /// Number of releases charged so far, including held ones.
    #[must_use]
    pub const fn n_releases(&self) -> u64 {
        self.chain.next_seq
    }

    /// The ids of all releases charged so far, in the order of the charges, which
    /// [`upgrade`](Self::upgrade) preserves.
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
    /// Repairs what a replacement of the file lost, as [`confirm`](Self::confirm) does.
    fn drop(&mut self) {
        let _ = self.refresh();
    }
}

/// A line that charges a release, before or after it is written.
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
