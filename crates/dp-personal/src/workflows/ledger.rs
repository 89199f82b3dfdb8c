//! The account that pays for a training run.

use std::path::{Path, PathBuf};

use dp_accounting::{
    Budget, BudgetKind, Error as AccountingError, Ledger, Plan, gdp, usable_delta,
};
use dp_core::{Adjacency, ApproxDp};
use dp_mechanism::PaidLine;

use crate::error::{Error, Result, Shortfall};
use crate::output::{folder_of, rounded_down};
use crate::settings::LedgerSettings;

/// A ledger that is opened before the data is read and, where it is new, made only when
/// something is paid: a run that fails on its input must not fix anybody's budget.
pub(crate) struct Account {
    file: Option<PathBuf>,
    data_set: String,
    new_budget: Budget,
    ledger: Option<Ledger>,
}

impl Account {
    /// An existing ledger keeps the budget it was made with, which must be that of the flags where they name one. A
    /// new one is made where the flags ask for it, with their budget or else the run's.
    pub(crate) fn open(
        args: &LedgerSettings,
        data_set: String,
        run: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Self> {
        let budget = Budget::new(total(args, run)?, adjacency)?;
        Self::of(args, data_set, budget)
    }

    /// The same for releases that are not all Gaussian: such a ledger pays for one run, reserved whole.
    pub(crate) fn open_schedule(
        args: &LedgerSettings,
        data_set: String,
        run: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Self> {
        let budget = Budget::schedule(total(args, run)?, adjacency)?;
        Self::of(args, data_set, budget)
    }

    fn of(args: &LedgerSettings, data_set: String, new_budget: Budget) -> Result<Self> {
        let mut account = Self {
            file: args.ledger.clone(),
            data_set,
            new_budget,
            ledger: None,
        };
        match &args.ledger {
            None => account.ledger = Some(account.make_ledger()?),
            Some(path) if path.symlink_metadata().is_ok() => {
                account.ledger = Some(account.open_ledger(path, args)?);
            }
            Some(path) if !folder_of(path).is_dir() => {
                let folder = folder_of(path).display();
                let reason = format!("`ledger` {}: there is no folder {folder}", path.display());
                return Err(Error::Usage(reason));
            }
            Some(_) if args.new_ledger || args.ledger_epsilon.is_some() => {}
            Some(path) => return Err(AccountingError::LedgerMissing { path: path.clone() }.into()),
        }
        account.check_kind()?;
        Ok(account)
    }

    fn open_ledger(&self, path: &Path, args: &LedgerSettings) -> Result<Ledger> {
        if args.new_ledger {
            return Err(AccountingError::LedgerExists {
                path: path.to_owned(),
            }
            .into());
        }
        let ledger = Ledger::open(path, &self.data_set, self.new_budget.adjacency())?;
        let (found, asked) = (ledger.budget().target(), self.new_budget.target());
        for (field, is_asked, found, asked) in [
            (
                "epsilon",
                args.ledger_epsilon.is_some(),
                found.epsilon,
                asked.epsilon,
            ),
            (
                "delta",
                args.ledger_delta.is_some(),
                found.delta,
                asked.delta,
            ),
        ] {
            if is_asked && found.to_bits() != asked.to_bits() {
                return Err(AccountingError::LedgerMismatch {
                    path: path.to_owned(),
                    field,
                    found: found.to_string(),
                    expected: asked.to_string(),
                }
                .into());
            }
        }
        Ok(ledger)
    }

    /// A ledger keeps counting the way it was made to count.
    fn check_kind(&self) -> Result<()> {
        let (found, expected) = (self.budget().kind(), self.new_budget.kind());
        match &self.file {
            Some(path) if found != expected => Err(AccountingError::LedgerMismatch {
                path: path.clone(),
                field: "filter",
                found: found.to_string(),
                expected: expected.to_string(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    fn make_ledger(&self) -> dp_accounting::Result<Ledger> {
        match &self.file {
            None => Ledger::in_memory(&self.data_set, self.new_budget),
            Some(path) => Ledger::create(path, &self.data_set, self.new_budget),
        }
    }

    /// Refuses early what paying would refuse after the data was read.
    pub(crate) fn check(&self, plan: &Plan) -> Result<()> {
        if self.new_budget.kind() == BudgetKind::Schedule {
            return self.check_schedule(plan);
        }
        let left = match &self.ledger {
            Some(ledger) => ledger.remaining()?.mu,
            None => new_mu(self.new_budget)?,
        };
        // leaves the last few units in the last place to the ledger
        if plan.gdp()?.mu > left * (1.0 + 1e-12) {
            return Err(self.shortfall(plan, left));
        }
        Ok(())
    }

    fn check_schedule(&self, plan: &Plan) -> Result<()> {
        let n_releases = self.ledger.as_ref().map_or(0, Ledger::n_releases);
        if n_releases > 0 {
            return Err(AccountingError::ScheduleReserved { n_releases }.into());
        }
        let total = self.budget().target();
        let asked = plan.target();
        if asked.epsilon > total.epsilon || asked.delta > total.delta {
            return Err(self.shortfall_of(plan, total.epsilon));
        }
        Ok(())
    }

    fn budget(&self) -> &Budget {
        let kept = self.ledger.as_ref().map(Ledger::budget);
        kept.unwrap_or(&self.new_budget)
    }

    /// Says what is about to be paid for.
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

    /// What was looked at on this data set by others than the run of this name, as far as the ledger notes it.
    pub(crate) fn explorations(&self, run: &str) -> Vec<&str> {
        let notes = self.ledger.iter().flat_map(|ledger| ledger.notes());
        let all = notes.filter(|note| note.name == EXPLORATION);
        let others = all.filter(|note| !note.text.ends_with(&by_run(run)));
        let kind = |text: &'_ str| text.rfind(BY_RUN).unwrap_or(text.len());
        others.map(|note| &note.text[..kind(&note.text)]).collect()
    }

    /// Notes durably, once for a run, that it shows figures which nobody pays for. Nothing without a file.
    pub(crate) fn note_figures_of(&mut self, run: &str) -> Result<()> {
        let text = format!("figures that a run printed{}", by_run(run));
        if self.has_file() {
            let ledger = self.ledger()?;
            if ledger.notes().iter().all(|note| note.text != text) {
                ledger.note(EXPLORATION, &text)?;
            }
        }
        Ok(())
    }

    /// Releases paid for, by whichever run.
    pub(crate) fn n_paid(&self) -> u64 {
        self.ledger.as_ref().map_or(0, Ledger::n_releases)
    }

    /// Where the file is, whatever the current folder is later.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.file.as_ref()?.canonicalize().ok()
    }

    /// Whether what is paid is on disk.
    pub(crate) const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether releases are paid for one by one, and not the whole plan at once.
    pub(crate) fn pays_by_release(&self) -> bool {
        self.budget().kind() != BudgetKind::Schedule
    }

    /// The refusal of a plan that the ledger has no room for.
    pub(crate) fn refused(&self, plan: &Plan) -> Error {
        let left = self.ledger.as_ref().map(|ledger| ledger.remaining());
        let left = left.and_then(|left| left.ok()).map_or(0.0, |left| left.mu);
        self.shortfall(plan, left)
    }

    /// The ledger, which is made where there is none.
    pub(crate) fn ledger(&mut self) -> Result<&mut Ledger> {
        let ledger = match self.ledger.take() {
            Some(ledger) => ledger,
            None => self.make_ledger()?,
        };
        Ok(self.ledger.insert(ledger))
    }

    /// Whether the ledger has all of these lines.
    pub(crate) fn has_paid(&self, lines: &[PaidLine]) -> bool {
        let ledger = self.ledger.as_ref();
        lines.iter().all(|line| {
            ledger.is_some_and(|ledger| {
                ledger.data_set_id() == line.data_set && ledger.contains(&line.release_id)
            })
        })
    }

    /// What the file says after the run; nothing without a file.
    pub(crate) fn balance(&self, plan: &Plan) -> Option<String> {
        let (file, ledger) = (self.file.as_ref()?, self.ledger.as_ref()?);
        let total = ledger.budget().target();
        if ledger.budget().kind() == BudgetKind::Schedule {
            return Some(format!(
                "{}: spent on this run; a ledger of mixed mechanisms pays for one",
                file.display()
            ));
        }
        let left = ledger.remaining().ok()?.mu;
        let more = ((left / plan.gdp().ok()?.mu).powi(2) * (1.0 + 1e-12)).floor();
        let room = match more {
            m if m < 1.0 => "not enough for another run like this".to_owned(),
            m if m < 2.0 => "enough for 1 more run like this".to_owned(),
            m => format!("enough for {m:.0} more runs like this"),
        };
        Some(format!(
            "{}: epsilon {} of {} left at delta {:e}, {room}",
            file.display(),
            rounded_down(gdp::epsilon(left, usable_delta(total.delta))),
            total.epsilon,
            total.delta,
        ))
    }

    /// What is left is a `mu`.
    fn shortfall(&self, plan: &Plan, left: f64) -> Error {
        let left = gdp::epsilon(left, usable_delta(plan.target().delta));
        self.shortfall_of(plan, left)
    }

    fn shortfall_of(&self, plan: &Plan, left: f64) -> Error {
        Error::Budget(Box::new(Shortfall {
            ledger: self.file.as_ref().map_or_else(
                || "the ledger".to_owned(),
                |path| format!("the ledger {}", path.display()),
            ),
            data_set: self.data_set.clone(),
            asked: plan.target(),
            left,
            total: self.budget().target(),
            n_releases: self.ledger.as_ref().map_or(0, Ledger::n_releases),
        }))
    }
}

/// The name of a ledger's notes about figures that were looked at and not paid for.
const EXPLORATION: &str = "exploration";
/// Ends such a note where it is a run's, before the run's name.
const BY_RUN: &str = ", run ";

fn by_run(run: &str) -> String {
    format!("{BY_RUN}{run}")
}

/// Notes in a ledger, durably, that figures of its data set are looked at which nobody pays for; later certificates name it.
///
/// # Errors
/// Of a ledger that is missing or cannot be written, of another data set than `data_set`, or of a version that has no notes.
pub(crate) fn note_exploration(ledger: &Path, data_set: Option<&str>, kind: &str) -> Result<()> {
    if !ledger.exists() {
        let path = ledger.to_owned();
        return Err(AccountingError::LedgerMissing { path }.into());
    }
    let found = Ledger::audit(ledger)?;
    let data_set = data_set.unwrap_or(&found.data_set_id);
    let mut opened = Ledger::open(ledger, data_set, found.budget.adjacency())?;
    Ok(opened.note(EXPLORATION, kind)?)
}

/// The name of a data set: by flag, or that of its file.
pub(crate) fn data_set_id(args: &LedgerSettings, data: &Path) -> String {
    args.data_set.clone().unwrap_or_else(|| {
        let name = data.file_name().unwrap_or(data.as_os_str());
        name.to_string_lossy().into_owned()
    })
}

/// The budget that the flags name, or else the run's own target.
fn total(args: &LedgerSettings, run: ApproxDp) -> Result<ApproxDp> {
    let epsilon = args.ledger_epsilon.unwrap_or(run.epsilon);
    let delta = args.ledger_delta.unwrap_or(run.delta);
    ApproxDp::target(epsilon, delta).map_err(|mut error| {
        error.name = match error.name {
            "epsilon" => "ledger_epsilon",
            _ => "ledger_delta",
        };
        error.into()
    })
}

fn new_mu(budget: Budget) -> Result<f64> {
    let ApproxDp { epsilon, delta } = budget.target();
    let usable = ApproxDp {
        epsilon,
        delta: usable_delta(delta),
    };
    Ok(gdp::mu_for(usable)?)
}
