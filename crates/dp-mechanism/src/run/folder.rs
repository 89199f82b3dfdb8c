//! A run that can be interrupted: its list of releases in a folder, and payments that no crash
//! repeats.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;

use dp_accounting::{BudgetKind, Error as AccountingError, Ledger, Plan, Reservation, Spend};

use super::{Fitted, Observer, PaidLine, Payer, ReleaseList, Run, Trainer, io_error};
use crate::{Error, InProcess, NoiseSource, Result, SumBackend};

const LIST: &str = "releases.list";
const HELD: &str = "held.json";

/// A folder with everything that a run needs to continue after an interruption: its list of
/// releases and, if its whole plan was reserved in advance, which of the ledger's lines belong to
/// it.
///
/// How a run is charged follows from its plan and ledger:
///
/// | ledger | plan | charged | cost of a crash |
/// |---|---|---|---|
/// | Gaussian or Renyi budget | any that it can count, all users | release by release, each before its noise | a release that was charged and not yet listed |
/// | the same, or one schedule | with samples | as a whole, before the first coin; each release is taken from the ledger before its coins or noise | a release that was taken and not yet listed: it is charged again, and the run ends if the ledger has no room. A crash between the reservation and the note of its ledger lines costs the whole plan, unless the ledger is for one schedule |
///
/// # Privacy
/// The folder contains released values and ids of ledger lines. Not covered: someone who restores
/// an older copy of folder *and* ledger can make releases again with other noise. If only the
/// folder is copied, this is impossible, because no ledger line can be used twice.
///
/// # Examples
/// ```no_run
/// # use dp_accounting::{Ledger, Plan};
/// # use dp_mechanism::{Fitted, NoiseSource, RunFolder, Trainer};
/// # fn example<T: Trainer>(trainer: &T, users: &T::Data, plan: &Plan, ledger: Ledger)
/// # -> Result<Fitted<T::Model>, T::Error> {
/// let folder = RunFolder::new("run");
/// // the same call starts a run, and goes on with it after a crash
/// let everything_public = "settings, catalogue and split, or a hash of them";
/// let noise = &mut NoiseSource::operating_system();
/// folder.train(trainer, users, plan, &mut [ledger], everything_public, noise, &mut ())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// The folder at `path`, which is created when a run begins.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the list of releases.
    #[must_use]
    pub fn list_path(&self) -> PathBuf {
        self.path.join(LIST)
    }

    /// Whether a run was begun here.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.list_path().exists()
    }

    /// Trains, or continues the run that was begun here. There is one ledger for each account of
    /// the trainer.
    ///
    /// `run` identifies everything public that shapes the run in addition to its plan; a folder of
    /// another run is rejected.
    ///
    /// # Errors
    /// Those of [`Trainer::run`]; [`Error::ListOfAnotherRun`], [`Error::List`] if the list names
    /// ledger lines that the ledgers do not have; [`Error::Accounting`] if the budget has no room
    /// for the missing releases: this is checked before anything is charged.
    #[allow(clippy::too_many_arguments, reason = "what a run is made of")]
    pub fn train<T: Trainer>(
        &self,
        trainer: &T,
        data: &T::Data,
        plan: &Plan,
        ledgers: &mut [Ledger],
        run: &str,
        noise: &mut NoiseSource,
        observer: &mut dyn Observer,
    ) -> Result<Fitted<T::Model>, T::Error> {
        let parts = (ledgers, noise, observer);
        self.train_with(trainer, data, plan, run, &InProcess, parts)
    }

    /// [`train`](Self::train) with sums computed by `backend`.
    ///
    /// # Errors
    /// As [`train`](Self::train), and the errors of the backend.
    pub fn train_with<T: Trainer>(
        &self,
        trainer: &T,
        data: &T::Data,
        plan: &Plan,
        run: &str,
        backend: &dyn SumBackend,
        (ledgers, noise, observer): (&mut [Ledger], &mut NoiseSource, &mut dyn Observer),
    ) -> Result<Fitted<T::Model>, T::Error> {
        fs::create_dir_all(&self.path).map_err(|source| io_error(&self.path, source))?;
        if ledgers.len() != trainer.n_accounts() {
            return Err(Error::from(dp_core::ShapeError {
                name: "ledgers",
                found: ledgers.len(),
                expected: trainer.n_accounts(),
            })
            .into());
        }
        let list = ReleaseList::open(self.list_path(), run, plan)?;
        let mut payer = self.payer(plan, ledgers, &list)?;
        #[cfg(privacy_mutants)]
        let mut restored = NoiseSource::insecure_seeded(self.path.as_os_str().len() as u64);
        #[cfg(privacy_mutants)]
        let noise = dp_core::mutants::pick("key-reused-on-resume", noise, &mut restored);
        let made = Run::paying(plan, &mut payer, noise)?
            .listed_in(list)
            .summed_by(backend)
            .observed_by(observer);
        let fitted = trainer.run(data, made)?;
        // a file that was replaced since the last charge must contain all lines before the model is
        // released
        for ledger in ledgers {
            ledger.confirm().map_err(Error::from)?;
        }
        Ok(fitted)
    }

    /// The payer of a run along `plan` that continues from `list`, as used by
    /// [`train`](Self::train): for callers that drive a [`Run`] round by round. There is one ledger
    /// for each account.
    ///
    /// # Errors
    /// As [`train`](Self::train), before any release.
    pub fn payer<'l>(
        &self,
        plan: &Plan,
        ledgers: &'l mut [Ledger],
        list: &ReleaseList,
    ) -> Result<LedgerPayer<'l>> {
        let n_listed = |account| {
            let lines = list.paid_before().iter();
            lines.filter(|line| line.account == account).count()
        };
        check_paid(list, ledgers)?;
        let mut held = self.held()?;
        for (account, ledger) in ledgers.iter_mut().enumerate() {
            if held.contains_key(&account) {
                continue;
            }
            let missing = plan.part(n_listed(account)..plan.releases().len())?;
            if pays_release_by_release(plan, ledger) {
                ledger.affords(&missing)?;
            } else if n_listed(account) == 0 {
                // left by a run that ended before it could record which lines belong to it
                let untouched = ledger.untouched(plan);
                let reservation = untouched.map_or_else(|| ledger.hold(plan), Ok)?;
                held.insert(account, reservation.release_ids().to_vec());
                self.keep_held(&held)?;
            } else {
                return Err(Error::List {
                    what: format!("{HELD}, which names the run's ledger lines, is missing"),
                });
            }
        }
        let mut reservations = BTreeMap::new();
        for (account, ids) in held {
            if let Some(ledger) = ledgers.get(account) {
                reservations.insert(account, ledger.held(&ids)?);
            }
        }
        Ok(LedgerPayer {
            ledgers,
            reservations,
        })
    }

    fn held(&self) -> Result<BTreeMap<usize, Vec<String>>> {
        let path = self.path.join(HELD);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| Error::List {
                what: format!("{} is damaged", path.display()),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(source) => Err(io_error(&path, source)),
        }
    }

    /// Records which ledger lines belong to the run, durably.
    fn keep_held(&self, held: &BTreeMap<usize, Vec<String>>) -> Result<()> {
        let path = self.path.join(HELD);
        let bytes = serde_json::to_vec(held).map_err(|error| Error::List {
            what: error.to_string(),
        })?;
        let partial = path.with_extension("json.partial");
        let write = || -> io::Result<()> {
            let mut file = File::create(&partial)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            super::sync_folder_of(&path)
        };
        write().map_err(|source| io_error(&path, source))
    }
}

/// The error that ends a run whose release was taken before a crash: `lost` if the ledger has no
/// room for it a second time, but not if it failed for another reason.
pub(super) fn if_no_room(lost: AccountingError, again: AccountingError) -> AccountingError {
    match again {
        AccountingError::BudgetSpent { .. }
        | AccountingError::ScheduleReserved { .. }
        | AccountingError::ScheduleInParts => lost,
        other => other,
    }
}

/// Every release in the list must have been charged to these ledgers.
fn check_paid(list: &ReleaseList, ledgers: &[Ledger]) -> Result<()> {
    let paid = list.paid_before().iter().all(|line| {
        let ledger = ledgers.get(line.account);
        ledger.is_some_and(|ledger| ledger.has_paid(line))
    });
    if paid {
        return Ok(());
    }
    Err(Error::List {
        what: "it names releases that this ledger did not pay for".to_owned(),
    })
}

/// Whether each release can be charged when the run reaches it: a filter counts it, and no sample
/// needs a reservation in advance.
fn pays_release_by_release(plan: &Plan, ledger: &Ledger) -> bool {
    ledger.budget().kind() != BudgetKind::Schedule && plan.mu_squared().is_ok()
}

/// Pays from ledgers: release by release, or by taking what they hold for the run.
#[derive(Debug)]
pub struct LedgerPayer<'l> {
    ledgers: &'l mut [Ledger],
    reservations: BTreeMap<usize, Reservation>,
}

impl Payer for LedgerPayer<'_> {
    fn pay(
        &mut self,
        plan: &Plan,
        releases: Range<usize>,
        account: usize,
    ) -> dp_accounting::Result<Vec<Spend>> {
        let Some(ledger) = self.ledgers.get_mut(account) else {
            return Ok(Vec::new()); // the run rejects this number of spends
        };
        let Some(reservation) = self.reservations.get(&account) else {
            return ledger.pay(plan, releases, account);
        };
        let mut spends = Vec::with_capacity(releases.len());
        for release in releases {
            match ledger.take(reservation, release) {
                Ok(spend) => spends.push(spend),
                // taken before a crash and never listed: it stays spent, and is charged again if
                // there is room
                Err(lost @ AccountingError::AlreadyTaken { .. }) => {
                    let again = release..release.saturating_add(1);
                    let paid = ledger.pay(plan, again, account);
                    spends.extend(paid.map_err(|error| if_no_room(lost, error))?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(spends)
    }

    fn has_paid(&self, line: &PaidLine) -> bool {
        let ledger = self.ledgers.get(line.account);
        ledger.is_some_and(|ledger| ledger.has_paid(line))
    }
}
