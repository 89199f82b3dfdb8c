//! The account that pays for a training run.

mod binding;
mod commands;
mod explorations;

use std::ffi::OsStr;
use std::path::Path;

use dp_accounting::{
    Balance, Budget, BudgetKind, Error as AccountingError, Ledger, LedgerNote, Plan, gdp,
    usable_delta, utc,
};
use dp_core::{Adjacency, ApproxDp};
use dp_data::TableSource;
use dp_mechanism::{PacedLifetime, PaidLine};

use self::binding::{ANEW, Binding, MISSING, REBOUND, Recorded, rollbacks};
pub(crate) use self::binding::{Comparison, HasUsers, is_bound, random_bits};
pub use self::binding::{audit_current, record, refuse_leftovers, refuse_older_copy};
pub(crate) use self::commands::ledger_blocks;
pub use self::commands::{LedgerReport, accept_rollback, create, merge, show, upgrade};
pub(crate) use self::explorations::{UNNOTED, last_of, note_exploration, note_exploration_of};
use crate::error::{Error, Result, Shortfall};
use crate::output::{CERTIFICATE, folder_of, read_certificate, rounded_down, rounded_up};
use crate::settings::{LedgerChoice, LedgerFile, LedgerKind, LedgerSettings, ONE_LEDGER};

/// A ledger that is opened before the data are read and, if it is new, created only when something
/// is paid: a run that fails on its input must not fix a budget.
pub(crate) struct Account {
    file: Option<LedgerFile>,
    data_set: String,
    /// The budget of a new ledger.
    new_budget: Budget,
    ledger: Option<Ledger>,
}

impl Account {
    /// The account of a run that will make the releases of `draft`, except for their numbers of
    /// draws.
    ///
    /// An existing ledger keeps its budget and kind, which must match the settings if these give
    /// any. A new one is created if the settings request it, with their budget or otherwise the
    /// run's. Its kind follows from the run: Gaussian releases add up exactly; for others a mixed
    /// ledger is created if a budget for several runs is given, and otherwise a ledger for this one
    /// run.
    ///
    /// # Errors
    /// When the ledger is missing or unsuitable; [`Error::GaussianLedger`] for releases that are
    /// not Gaussian.
    pub(crate) fn open(args: &LedgerSettings, data_set: String, draft: &Plan) -> Result<Self> {
        let file = match &args.account {
            LedgerChoice::Ledger(file) => Some(file.clone()),
            LedgerChoice::NoLedger => None,
        };
        let new_budget = new_budget(file.as_ref(), draft)?;
        let ledger = match &file {
            None => Some(Ledger::in_memory(&data_set, new_budget)?),
            Some(file) => open_ledger(file, &data_set, draft.adjacency())?,
        };
        let account = Self {
            file,
            data_set,
            new_budget,
            ledger,
        };
        let counts_gaussians = account.budget().kind() == BudgetKind::Gaussian;
        match &account.file {
            Some(file) if counts_gaussians && !is_gaussian(draft) => Err(Error::GaussianLedger {
                ledger: file.path.clone(),
                is_new: account.ledger.is_none(),
            }),
            _ => Ok(account),
        }
    }

    /// Refuses early what the payment would refuse after reading the data.
    pub(crate) fn check(&self, plan: &Plan) -> Result<()> {
        let affords = match &self.ledger {
            Some(ledger) => ledger.affords(plan),
            None => Ledger::in_memory(&self.data_set, self.new_budget)?.affords(plan),
        };
        let total = self.budget().target().epsilon;
        affords.map_err(|error| match error {
            // the run itself would leave room for its draws: its plan was made
            AccountingError::SamplerAllowance { n_draws, allowed } if self.ledger.is_none() && total > plan.target().epsilon => {
                Error::Usage(format!(
                    "`ledger_epsilon` {total} is too large: noise is exact up to a part of delta that shrinks with epsilon, and covers {allowed} of the \
                     {n_draws} draws of this run; choose a smaller `ledger_epsilon` or a larger `ledger_delta`"
                ))
            }
            error => self.explained(error, plan),
        })
    }

    /// Explains a ledger's refusal of a plan, with numbers that the operator can act on.
    pub(crate) fn explained(&self, error: AccountingError, plan: &Plan) -> Error {
        let AccountingError::BudgetSpent {
            requested,
            spent,
            budget,
            ..
        } = error
        else {
            return error.into();
        };
        let kept = self.budget();
        let needed = kept.epsilon_for(spent + requested).ok();
        let left = epsilon_left(kept, (budget - spent).max(0.0), plan.target().delta);
        Error::Budget(Box::new(Shortfall {
            ledger: self.file.as_ref().map_or_else(
                || "the ledger".to_owned(),
                |file| format!("the ledger {}", file.path.display()),
            ),
            data_set: self.data_set.clone(),
            asked: plan.target(),
            left,
            needed: needed.filter(|_| !is_gaussian(plan)),
            total: kept.target(),
            n_releases: self.ledger.as_ref().map_or(0, Ledger::n_releases),
        }))
    }

    fn budget(&self) -> &Budget {
        let kept = self.ledger.as_ref().map(Ledger::budget);
        kept.unwrap_or(&self.new_budget)
    }

    /// Announces the payment.
    pub(crate) fn announce(&self, plan: &Plan) {
        let (n_releases, target) = (plan.releases().len(), plan.target());
        tracing::info!(
            n_releases,
            epsilon = target.epsilon,
            delta = target.delta,
            "paying for the plan"
        );
        for release in plan.releases() {
            tracing::trace!(label = release.label(), "planned release");
        }
    }

    /// Number of releases paid for, by any run.
    pub(crate) fn n_paid(&self) -> u64 {
        self.ledger.as_ref().map_or(0, Ledger::n_releases)
    }

    /// The last release that the ledger file paid for, by any run, if there is one: a random text.
    pub(crate) fn last_paid(&self) -> Option<String> {
        let ledger = self.ledger.as_ref().filter(|_| self.has_file());
        ledger?.release_ids().last().map(str::to_owned)
    }

    /// What is known of payments that are missing from the ledger, if any are.
    pub(crate) fn lost_payments(&self) -> Option<String> {
        self.ledger.as_ref().and_then(lost_payments)
    }

    /// What certificates say of a ledger that may lack payments.
    pub(crate) fn doubts(&self) -> Vec<String> {
        self.ledger.as_ref().map_or_else(Vec::new, ledger_doubts)
    }

    /// Whether payments are on disk.
    pub(crate) const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the releases of a plan are paid for one by one instead of all at once.
    pub(crate) fn pays_by_release(&self, plan: &Plan) -> bool {
        self.budget().kind() != BudgetKind::Schedule && is_gaussian(plan)
    }

    /// Whether the ledger contains all of these lines.
    pub(crate) fn has_paid(&self, lines: &[PaidLine]) -> bool {
        let ledger = self.ledger.as_ref();
        lines.iter().all(|line| {
            ledger.is_some_and(|ledger| {
                ledger.data_set_id() == line.data_set && ledger.contains(&line.release_id)
            })
        })
    }

    /// If all users of a run are at workers, refuses settings that require knowing them here.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are users here, or for a ledger whose users the operator has not
    /// vouched for.
    pub(crate) fn check_users_elsewhere(&self, data: &impl HasUsers) -> Result<()> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        if !data.user_ids().expose().is_empty() {
            return usage(
                "users are at the workers of this run: give the process that coordinates an empty table",
            );
        }
        match &self.file {
            Some(file) if !file.same_data_set => usage(
                "users are at the workers of this run, so the ledger cannot be compared with them: say `same_data_set` if it is theirs",
            ),
            _ => Ok(()),
        }
    }

    /// The account after checking that the users of the run are those of its ledger: only such an
    /// account pays.
    ///
    /// # Errors
    /// As [`Binding::check`].
    pub(crate) fn bind(self, data: &impl HasUsers, comparison: Comparison) -> Result<BoundAccount> {
        let binding = match &self.file {
            None => None,
            Some(file) => {
                let recorded = self.ledger.as_ref().map(Recorded::of);
                let users = data.user_ids();
                let users = (&users, comparison);
                let same = file.same_data_set;
                let checked = Binding::check(&file.path, recorded.as_ref(), users, same)?;
                Some(checked)
            }
        };
        Ok(BoundAccount {
            account: self,
            binding,
        })
    }

    /// The account before there are any users: its ledger is bound to those of the first run that
    /// has some.
    ///
    /// # Errors
    /// [`Error::Binding`] if the file of an earlier run's users is damaged.
    pub(crate) fn before_users(self) -> Result<BoundAccount> {
        if let Some(file) = &self.file {
            binding::check_readable(&file.path)?;
        }
        Ok(BoundAccount {
            account: self,
            binding: None,
        })
    }

    /// The balance of the file after the run, or a text that there is no file.
    pub(crate) fn balance(&self, plan: &Plan) -> Option<String> {
        let Some(file) = &self.file else {
            let epsilon = rounded_up(plan.target().epsilon);
            return Some(format!(
                "epsilon {epsilon} for this run alone; no ledger: nothing adds it to other runs on these data"
            ));
        };
        let ledger = self.ledger.as_ref()?;
        let file = file.path.display();
        if ledger.budget().kind() == BudgetKind::Schedule {
            return Some(format!(
                "{file}: spent on this run; it was made for one run"
            ));
        }
        let total = ledger.budget().target();
        let balance = ledger.balance();
        let more = match runs_left(balance, ledger.budget().cost(plan).ok()?) {
            m if m < 1.0 => "not enough for another run like this".to_owned(),
            m if m < 2.0 => "enough for 1 more run like this".to_owned(),
            m => format!("enough for {m:.0} more runs like this"),
        };
        Some(format!(
            "{file}: epsilon {} of {} left at delta {:e}, {more}",
            rounded_down(epsilon_left(ledger.budget(), balance.left(), total.delta)),
            total.epsilon,
            total.delta,
        ))
    }
}

/// An account whose ledger has been matched with the users of the run.
pub(crate) struct BoundAccount {
    account: Account,
    binding: Option<Binding>,
}

impl std::ops::Deref for BoundAccount {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.account
    }
}

impl BoundAccount {
    /// Checks that the ledger's file contains everything that was paid for the model in this
    /// folder.
    pub(crate) fn confirm(&mut self, model: &Path) -> Result<()> {
        let account = &mut self.account;
        let (Some(ledger), Some(file)) = (&mut account.ledger, &account.file) else {
            return Ok(());
        };
        ledger.confirm().map_err(|source| Error::ReleasesMissing {
            ledger: file.path.clone(),
            model: model.to_owned(),
            source: Box::new(source),
        })
    }

    /// What certificates say of a ledger that may lack payments, including what the payment of this
    /// run will note.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = self.account.doubts();
        let known = self.account.ledger.as_ref();
        let known = known.and_then(|ledger| users_keys(ledger.notes()).last());
        let key = self.binding.as_ref().map(Binding::key_hash);
        if known.is_some_and(|known| key.is_some_and(|key| key != known)) {
            doubts.push(ANEW.to_owned());
        }
        doubts
    }

    /// Whether fewer than half of the users were charged for before: private.
    pub(crate) fn has_other_users(&self) -> bool {
        let binding = self.binding.as_ref();
        binding.is_some_and(Binding::has_other_users)
    }

    /// Lends the ledger to a paced lifetime, and takes it back.
    pub(crate) fn lifetime<T>(
        &mut self,
        open: impl FnOnce(Ledger) -> dp_mechanism::Result<PacedLifetime>,
        work: impl FnOnce(&mut PacedLifetime) -> Result<T>,
    ) -> Result<T> {
        self.ledger()?;
        self.lend(open, work)
    }

    /// Lends it for checks, before the users of this run are recorded with it.
    pub(crate) fn lend<T>(
        &mut self,
        open: impl FnOnce(Ledger) -> dp_mechanism::Result<PacedLifetime>,
        work: impl FnOnce(&mut PacedLifetime) -> Result<T>,
    ) -> Result<T> {
        let ledger = self.account.ledger.take();
        let ledger =
            ledger.ok_or_else(|| Error::Usage("the ledger was lent already".to_owned()))?;
        let mut lifetime = open(ledger)?;
        let done = work(&mut lifetime);
        self.account.ledger = Some(lifetime.into_ledger());
        done
    }

    /// The ledger, which is created if it does not exist, with the users of this run among its
    /// recorded users.
    pub(crate) fn ledger(&mut self) -> Result<&mut Ledger> {
        let account = &mut self.account;
        let ledger = match (account.ledger.take(), &account.file) {
            (Some(ledger), _) => ledger,
            (None, Some(file)) => {
                Ledger::create(&file.path, &account.data_set, account.new_budget)?
            }
            (None, None) => Ledger::in_memory(&account.data_set, account.new_budget)?,
        };
        let ledger = account.ledger.insert(ledger);
        if let Some(binding) = &mut self.binding {
            binding.write(&Recorded::of(ledger))?;
            let key = binding.key_hash();
            let before = users_keys(ledger.notes()).last();
            if before != Some(&key) {
                let anew = before.is_some().then_some((REBOUND, ANEW));
                for (name, text) in anew.into_iter().chain([(USERS_KEY, &*key)]) {
                    match ledger.note(name, text) {
                        // a file of an older version has no notes: only the files next to it
                        // record this
                        Err(AccountingError::LedgerVersion { .. }) | Ok(()) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                binding.write(&Recorded::of(ledger))?;
            }
        }
        Ok(ledger)
    }
}

/// What certificates say of a ledger that may lack payments: its operator has accepted that some are
/// missing, or its users were recorded anew, and nothing showed whether it was an older copy then.
#[must_use]
pub fn ledger_doubts(ledger: &Ledger) -> Vec<String> {
    let anew = ledger.notes().iter().filter(|note| note.name == REBOUND);
    [lost_payments(ledger), on_days(ANEW, anew)]
        .into_iter()
        .flatten()
        .collect()
}

fn lost_payments(ledger: &Ledger) -> Option<String> {
    on_days(MISSING, rollbacks(ledger.notes()))
}

/// A text with the days of the notes that say it, if there are any.
fn on_days<'a>(text: &str, notes: impl Iterator<Item = &'a LedgerNote>) -> Option<String> {
    let mut days: Vec<String> = notes
        .map(|note| utc(note.time / 1_000_000_000))
        .filter_map(|time| Some(time.split('T').next()?.to_owned()))
        .collect();
    days.dedup();
    (!days.is_empty()).then(|| format!("{text}, as noted in it on {}", days.join(" and ")))
}

/// Whether a run with these assumptions states that a ledger paid for it.
pub(crate) fn is_paid_by_ledger<'a>(assumptions: impl IntoIterator<Item = &'a str>) -> bool {
    assumptions.into_iter().any(|text| text == ONE_LEDGER)
}

/// Refuses a model that a killed run left if its ledger does not have all of its releases: the run
/// was paid for, and the current file lacks the payment. A folder without a certificate was not
/// paid for. Otherwise records the state of the ledger next to it, as that run would have done.
pub(crate) fn refuse_unpaid(args: &LedgerSettings, left: &Path) -> Result<()> {
    let path = left.join(CERTIFICATE);
    if !path.exists() {
        return Ok(());
    }
    let certificate = read_certificate(&path)?;
    let Some(ledger) = args.file() else {
        return match is_paid_by_ledger(certificate.assumptions.iter().map(|text| &**text)) {
            true => Err(Error::Usage(format!(
                "the model in {} was paid for from a ledger: give `ledger`, which shows whether it may be released",
                left.display()
            ))),
            false => Ok(()),
        };
    };
    let audited =
        Ledger::audit(ledger).and_then(|found| found.covers(&certificate).map(|()| found));
    let found = audited.map_err(|source| Error::ReleasesMissing {
        ledger: ledger.to_owned(),
        model: left.to_owned(),
        source: Box::new(source),
    })?;
    // whoever has the ledger open records its state
    if let Ok(opened) = Ledger::open(ledger, &found.data_set_id, found.budget.adjacency())
        && refuse_older_copy(ledger, &opened).is_ok()
    {
        record(ledger, &opened);
    }
    Ok(())
}

impl Drop for BoundAccount {
    /// Records the state of the ledger next to it, while it is still locked, if that state is known
    /// to be in the file.
    fn drop(&mut self) {
        let account = &mut self.account;
        let Some(ledger) = account.ledger.as_mut() else {
            return;
        };
        if ledger.confirm().is_err() {
            return;
        }
        match (&mut self.binding, &account.file) {
            (Some(binding), _) => binding.close(&Recorded::of(ledger)),
            (None, Some(file)) => record(&file.path, ledger),
            (None, None) => {}
        }
    }
}

/// The note of a ledger that names the key of its users.
const USERS_KEY: &str = "users-key";

/// The hashes of the keys that the ledger was bound with, in order.
fn users_keys(notes: &[LedgerNote]) -> impl Iterator<Item = &str> {
    let keys = notes.iter().filter(|note| note.name == USERS_KEY);
    keys.map(|note| note.text.as_str())
}

/// Whether a ledger names the users of earlier runs; false for one that cannot be read.
pub(crate) fn names_users(path: &Path) -> bool {
    Ledger::audit(path).is_ok_and(|found| users_keys(&found.notes).next().is_some())
}

/// The ledger of a file, if it exists; otherwise its creation must have been requested.
fn open_ledger(file: &LedgerFile, data_set: &str, adjacency: Adjacency) -> Result<Option<Ledger>> {
    let path = &file.path;
    if path.symlink_metadata().is_err() {
        let folder = folder_of(path);
        if !folder.is_dir() {
            let (path, folder) = (path.display(), folder.display());
            let reason = format!("`ledger` {path}: there is no folder {folder}");
            return Err(Error::Usage(reason));
        }
        if !file.is_new && file.epsilon.is_none() {
            return Err(AccountingError::LedgerMissing { path: path.clone() }.into());
        }
        refuse_leftovers(path)?;
        return Ok(None);
    }
    if file.is_new {
        return Err(AccountingError::LedgerExists { path: path.clone() }.into());
    }
    let ledger = Ledger::open(path, data_set, adjacency)?;
    refuse_older_copy(path, &ledger)?;
    let budget = ledger.budget();
    let found = budget.target();
    let is_other =
        |asked: Option<f64>, found: f64| asked.filter(|asked| asked.to_bits() != found.to_bits());
    let differing = [
        (
            "epsilon",
            is_other(file.epsilon, found.epsilon),
            found.epsilon,
        ),
        ("delta", is_other(file.delta, found.delta), found.delta),
    ];
    let mismatch = |field, found: String, expected: String| {
        Err(AccountingError::LedgerMismatch {
            path: path.clone(),
            field,
            found,
            expected,
        }
        .into())
    };
    for (field, asked, found) in differing {
        if let Some(asked) = asked {
            return mismatch(field, found.to_string(), asked.to_string());
        }
    }
    match file.kind {
        Some(kind) if Some(kind) != LedgerKind::of(budget.kind()) => {
            mismatch("kind", budget.kind().to_string(), kind.name().to_owned())
        }
        _ => Ok(Some(ledger)),
    }
}

impl LedgerKind {
    /// The kind of a budget; none for a ledger of one run.
    pub(crate) const fn of(kind: BudgetKind) -> Option<Self> {
        match kind {
            BudgetKind::Gaussian => Some(Self::Gaussian),
            BudgetKind::Rdp { .. } => Some(Self::Mixed),
            BudgetKind::Schedule => None,
        }
    }
}

/// The budget of a ledger that is created for a run.
fn new_budget(file: Option<&LedgerFile>, draft: &Plan) -> Result<Budget> {
    let (run, adjacency) = (draft.target(), draft.adjacency());
    let (epsilon, delta) = file.map_or((None, None), |file| (file.epsilon, file.delta));
    let total = ApproxDp::target(epsilon.unwrap_or(run.epsilon), delta.unwrap_or(run.delta));
    let total = total.map_err(|mut error| {
        error.name = match error.name {
            "epsilon" => "ledger_epsilon",
            _ => "ledger_delta",
        };
        error
    })?;
    let kind = match file.and_then(|file| file.kind) {
        Some(kind) => Some(kind),
        None if is_gaussian(draft) => Some(LedgerKind::Gaussian),
        None => epsilon.map(|_| LedgerKind::Mixed),
    };
    Ok(match kind {
        Some(LedgerKind::Gaussian) => Budget::new(total, adjacency)?,
        Some(LedgerKind::Mixed) => Budget::rdp_for(total, adjacency, &[(draft, 1)])?,
        None => Budget::schedule(total, adjacency)?,
    })
}

fn is_gaussian(plan: &Plan) -> bool {
    plan.mu_squared().is_ok()
}

/// The largest epsilon at `delta` of a Gaussian run for a remaining budget, given in its measure.
fn epsilon_left(budget: &Budget, left: f64, delta: f64) -> f64 {
    let mu = match budget.kind() {
        BudgetKind::Gaussian => left.sqrt(),
        // a Gaussian mechanism has the divergence order * mu^2 / 2; a part in 10^12 allows for
        // rounding
        BudgetKind::Rdp { order } => (2.0 * left / order).sqrt() * (1.0 - 1e-12),
        BudgetKind::Schedule => return left,
    };
    gdp::epsilon(mu, usable_delta(delta))
}

/// How many runs of a given cost the remaining budget pays for.
fn runs_left(balance: Balance, cost: f64) -> f64 {
    // a run that fits exactly must not be refused because of rounding
    (balance.left() / cost * (1.0 + 1e-12)).floor()
}

/// The name of a data set: the given one, otherwise that of its file or table. A ledger that has
/// the file's name without its extension keeps its own name.
pub(crate) fn data_set_id(args: &LedgerSettings, data: &TableSource) -> String {
    if let Some(name) = &args.data_set {
        return name.clone();
    }
    let path = match data {
        TableSource::File(path) => path,
        TableSource::Memory(table) => return table.name().to_owned(),
    };
    let name = |text: &OsStr| text.to_string_lossy().into_owned();
    let whole = name(path.file_name().unwrap_or(path.as_os_str()));
    let plain = Path::new(whole.strip_suffix(".gz").unwrap_or(&whole));
    // a ledger that cannot be read is refused when it is opened
    let own = args.file().and_then(|path| Ledger::audit(path).ok());
    let own = own.map(|found| found.data_set_id);
    own.filter(|own| plain.file_stem().map(name).as_ref() == Some(own))
        .unwrap_or(whole)
}
