//! The common training path of all workflows: the run is paid for, its releases are listed, and it
//! can be resumed after a crash.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dp_accounting::{Certificate, Error as AccountingError, Plan, sha256_hex};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, UserSamples};
use dp_data::TableSource;
use dp_mechanism::{
    Coordinator, Dealing, Error as KernelError, Fitted, InProcess, NoiseSource, Observer,
    ReleaseList, Run, Shard, SumBackend, Trainer,
};
use serde_json::{Map, Value, json};

use super::ledger::{
    Account, BoundAccount, Comparison, HasUsers, data_set_id, is_paid_by_ledger, random_bits,
    refuse_unpaid,
};
use crate::error::{Error, Result};
use crate::output::{
    self, Aside, OutputFolder, Release, RunReport, internal_folder_of, tell, warn,
};
use crate::quality::Verdict;
use crate::settings::{LedgerSettings, OutputSettings, ResumeSettings, Settings, Shapes};
use crate::warnings;
use crate::workers::{self, Place, Pool, Worker};

/// Version of the inputs that determine a run: a newer program does not resume a run of an older
/// one that would be a different run today.
const RUN_SCHEMA: u32 = 5;
/// Key of the values of the settings.
pub(crate) const GIVEN: &str = "given";

/// The inputs that a training run opens before it reads the data.
pub(crate) struct Opening<'a> {
    /// The table of private data.
    pub(crate) data: &'a TableSource,
    /// The public list of items, and the user and item columns of the data.
    pub(crate) catalogue: Option<(&'a Path, [Option<&'a String>; 2])>,
    /// The other files that it reads.
    pub(crate) inputs: Vec<&'a Path>,
    pub(crate) ledger: &'a LedgerSettings,
    pub(crate) resume: &'a ResumeSettings,
    pub(crate) output: &'a OutputSettings,
}

impl<'a> Opening<'a> {
    /// Refuses a ledger that would pay for noise that anybody can repeat, and an output folder if replacing it would delete
    /// what the run needs, or the current folder.
    pub(crate) fn protect(&self) -> Result<()> {
        let output = self.output;
        if output.insecure_seed.is_some() && self.ledger.has_file() {
            let text = "`insecure_seed` cannot be used with `ledger`: a run with seeded noise has no guarantee to pay for";
            return Err(Error::Usage(text.to_owned()));
        }
        for folder in [output.out.clone(), internal_folder_of(&output.out)] {
            let out = match folder.canonicalize() {
                Ok(out) if output.force => out,
                Ok(_) | Err(_) => continue, // will not be replaced, or does not exist
            };
            let own = self.data.file().into_iter().chain([Path::new(".")]);
            let own = own.chain(self.ledger.file());
            for input in own.chain(self.inputs.iter().copied()) {
                if absolute(input).is_some_and(|path| path.starts_with(&out)) {
                    let (input, out) = (input.display(), folder.display());
                    return Err(Error::Usage(format!(
                        "{input} is inside the output folder {out}, which would be replaced; choose another \
                         `out`"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Refuses a catalogue that was evidently made from the data.
    pub(crate) fn check_catalogue(&self) -> Result<()> {
        let check = |(items, columns): (&Path, [Option<&String>; 2])| {
            let columns = columns.map(|name| name.map(String::as_str));
            dp_data::check_catalogue(items, self.data, columns)
        };
        Ok(self.catalogue.map_or(Ok(()), check)?)
    }

    /// Opens the account and creates the folder. `draft` has the cost of the run, which does not
    /// depend on the data; if it exceeds the ledger's budget, the run is refused, unless an
    /// interrupted run is resumed, which has paid for a part of it. A worker opens nothing.
    ///
    /// # Errors
    /// [`Error::Recovered`] if a killed run had released its model and its ledger has all releases;
    /// [`Error::ReleasesMissing`] if it has not.
    pub(crate) fn open(self, draft: &Plan, place: Place<'a>) -> Result<Unbound<'a>> {
        let (output, ledger, data) = (self.output, self.ledger, self.data);
        let data_set = data_set_id(ledger, data);
        let about = (data_set.clone(), draft.target(), draft.adjacency());
        let unbound = |side| Unbound {
            about,
            side,
            data,
            output,
        };
        let pool = match place {
            Place::Alone => None,
            Place::Coordinator(workers) => Some((workers, Dealing::ByRun)),
            Place::Driver(workers, dealing) => Some((workers, dealing)),
            Place::Devices(_) => {
                let text = "only `federate` and `items` learn from users on devices";
                return Err(Error::Usage(text.to_owned()));
            }
            Place::Worker(worker) => return Ok(unbound(Side::Worker(worker))),
        };
        let pool = pool.map(|(workers, dealing)| Pool { workers, dealing });
        self.protect()?;
        let may_recover = |left: &Path| refuse_unpaid(ledger, left);
        OutputFolder::recover(&output.out, output.force, &may_recover)?;
        let has_ledger = ledger.file().is_some_and(Path::exists);
        if let (None, Some(path), true) = (&pool, data.file(), has_ledger) {
            // a mistyped name is not a ledger of other data
            path.metadata().map_err(|source| dp_data::Error::Open {
                path: path.display().to_string(),
                source,
            })?;
        }
        let account = Account::open(ledger, data_set, draft)?;
        let resume = self.resume.resume;
        if !(resume && OutputFolder::is_interrupted(&output.out)) {
            account.check(draft)?;
        }
        self.check_catalogue()?;
        let folder =
            OutputFolder::create_or_resume(&output.out, output.force, resume, &may_recover)?;
        Ok(unbound(Side::Keeper(Keeper { folder, account }, pool)))
    }
}

/// The side that pays and writes, or the side that only sums.
enum Side<'a, A> {
    /// With workers, if there are any.
    Keeper(Keeper<A>, Option<Pool<'a>>),
    Worker(Worker<'a>),
}

/// The output folder of a run, and the account that pays for it.
struct Keeper<A> {
    folder: OutputFolder,
    account: A,
}

/// An opened run, before the users of its data are known to be those of its ledger.
pub(crate) struct Unbound<'a> {
    about: (String, ApproxDp, Adjacency),
    side: Side<'a, Account>,
    data: &'a TableSource,
    output: &'a OutputSettings,
}

impl<'a> Unbound<'a> {
    /// Checks this; the result can pay.
    ///
    /// # Errors
    /// [`Error::OtherUsers`], [`Error::Binding`] and [`Error::LedgerLost`]: shown to the operator
    /// only, before anything is paid.
    pub(crate) fn bind(self, data: &impl HasUsers) -> Result<Opened<'a>> {
        Ok(Opened {
            about: self.about,
            side: match self.side {
                Side::Keeper(Keeper { folder, account }, pool) => {
                    let are_elsewhere = pool.is_some_and(|pool| !pool.has_first_shard());
                    if are_elsewhere {
                        account.check_users_elsewhere(data)?;
                    }
                    let comparison = match are_elsewhere {
                        true => Comparison::Elsewhere,
                        false => Comparison::Refuse,
                    };
                    let account = account.bind(data, comparison)?;
                    Side::Keeper(Keeper { folder, account }, pool)
                }
                Side::Worker(worker) => Side::Worker(worker),
            },
            data: self.data,
            output: self.output,
            warnings: Vec::new(),
            files: Map::new(),
            aside: Aside::default(),
        })
    }
}

/// The path without links, also for a file that does not exist yet.
fn absolute(path: &Path) -> Option<PathBuf> {
    let whole = path.canonicalize();
    whole
        .or_else(|_| output::folder_of(path).canonicalize())
        .ok()
}

/// A run that is ready to begin.
pub(crate) struct Opened<'a> {
    /// The name of the data set, and the guarantee of the run.
    about: (String, ApproxDp, Adjacency),
    side: Side<'a, BoundAccount>,
    data: &'a TableSource,
    output: &'a OutputSettings,
    /// Warnings that follow from settings alone: public.
    warnings: Vec<String>,
    /// Hashes of the files that settings name. They never leave the run: the parts of a public file
    /// that a run does not use may come from the data.
    files: Map<String, Value>,
    /// Entries of internal files in addition to the measurements.
    aside: Aside,
}

impl Opened<'_> {
    /// All public inputs that determine a run in addition to its plan, and name it: all settings of
    /// the table except those marked as not affecting a run and those that name files, the
    /// operator's assumptions, and `own`, which contains the inputs to rebuild the model and
    /// represents the used parts of files.
    pub(crate) fn public<S: Settings>(
        &mut self,
        command: &str,
        args: &S,
        assumptions: &[String],
        own: Value,
    ) -> Result<Value> {
        let (data_set, target, adjacency) = &self.about;
        let names_file = |name: &str| {
            let mut table = S::table().into_iter();
            table.any(|setting| setting.name == name && setting.shapes == Shapes::ByContents)
        };
        let shaping = args.shaping()?.into_iter();
        let shaping = shaping.map(|(name, value)| (name.to_owned(), value));
        let given: Map<String, Value>;
        (self.files, given) = shaping.partition(|(name, _)| names_file(name));
        let n_users = given.get("n_users").and_then(Value::as_f64);
        self.warnings = warnings::of_settings(*target, n_users);
        self.warnings.iter().for_each(|text| warn(text));
        let mut public = json!({
            "run_schema": RUN_SCHEMA,
            "command": command,
            "data_set": data_set,
            "target": target,
            "adjacency": adjacency,
            "assumptions": assumptions,
            GIVEN: given,
        });
        if let (Value::Object(all), Value::Object(own)) = (&mut public, own) {
            all.extend(own);
        }
        Ok(public)
    }

    /// Distributes users over the processes of the run that `public` determines. `data` contains
    /// all users, or at a worker only its own; also returned is the part in this process's shard,
    /// if that is not everything. `of_users` selects users by their [keys](dp_data::user_key).
    pub(crate) fn deal<D>(
        &self,
        public: &Value,
        data: D,
        of_users: impl FnOnce(&D, &dyn Fn(u128) -> bool) -> D,
    ) -> Result<(D, Option<D>)> {
        let (number, n_shards) = match &self.side {
            Side::Keeper(_, Some(pool)) if pool.has_first_shard() => (0, pool.workers.n_shards()),
            Side::Keeper(..) => return Ok((data, None)),
            Side::Worker(worker) => (worker.shard, worker.n_shards),
        };
        let shard = Shard::new(run_name(public)?, number, n_shards)?;
        let own = match self.dealing() {
            Dealing::ByRun => of_users(&data, &shard.owner()),
            // the worker received only its own users, which the run checks
            Dealing::ById | Dealing::Silos | Dealing::Devices => of_users(&data, &|_| true),
        };
        Ok(match self.is_worker() {
            true => (own, None),
            false => (data, Some(own)),
        })
    }

    /// The unit of protection as text, by the column that users were read from. Silos with tables of
    /// their own may have found it under other names; these agree on the given one.
    pub(crate) fn unit(&self, read_from: Option<&str>, given: Option<&String>) -> String {
        match self.dealing() {
            Dealing::ByRun | Dealing::ById => unit_of(read_from),
            Dealing::Silos | Dealing::Devices => unit_of(given.map(String::as_str)),
        }
    }

    /// How users are distributed over processes, if they are.
    pub(crate) fn dealing(&self) -> Dealing {
        match &self.side {
            Side::Keeper(_, pool) => pool.map(|pool| pool.dealing).unwrap_or_default(),
            Side::Worker(worker) => worker.dealing,
        }
    }

    /// The assumptions about users that are distributed over processes, as all processes state
    /// them.
    pub(crate) fn dealing_assumptions(
        &self,
        ledger: &LedgerSettings,
    ) -> impl Iterator<Item = String> + use<> {
        let of_parts = match self.dealing() {
            Dealing::Silos => Some("no user has records in two silos"),
            Dealing::Devices => {
                Some("whoever carries or stores the messages of devices is part of the server")
            }
            Dealing::ByRun | Dealing::ById => None,
        };
        let on_trust = match self.dealing() {
            Dealing::ByRun => None,
            Dealing::ById | Dealing::Silos => Some(
                "the ledger is that of these users, as the operator says: they were at workers and were not compared with it",
            ),
            Dealing::Devices => Some(
                "the ledger is that of these users, as the operator says: they were on devices and were not compared with it",
            ),
        };
        let on_trust = on_trust.filter(|_| ledger.has_file());
        of_parts.into_iter().chain(on_trust).map(str::to_owned)
    }

    /// Whether all users are at workers.
    pub(crate) fn has_no_users(&self) -> bool {
        !self.is_worker() && self.dealing() != Dealing::ByRun
    }

    /// The last release that its ledger file paid for, if there is one: a random text.
    pub(crate) fn last_paid(&self) -> Option<String> {
        match &self.side {
            Side::Keeper(Keeper { account, .. }, _) => account.last_paid(),
            Side::Worker(_) => None,
        }
    }

    /// Whether this process only sums.
    pub(crate) const fn is_worker(&self) -> bool {
        matches!(self.side, Side::Worker(_))
    }

    /// The run of a plan that `public` determines.
    pub(crate) fn run<'r>(&'r mut self, plan: &'r Plan, public: &'r Value) -> PrivateRun<'r> {
        PrivateRun {
            side: match &mut self.side {
                Side::Keeper(Keeper { folder, account }, pool) => {
                    RunSide::Keeper(folder, account, *pool)
                }
                Side::Worker(worker) => RunSide::Worker(worker.borrowed()),
            },
            data: self.data,
            plan,
            public,
            files: &self.files,
            reveals_internal: self.output.reveals_internal(),
        }
    }

    /// Stores warnings about the records for the internal files.
    pub(crate) fn found(&mut self, more: Vec<String>) {
        self.aside.warnings.extend(more);
    }

    /// Writes the files that may be published.
    pub(crate) fn write(&self, release: &impl Release) -> Result<()> {
        let Side::Keeper(Keeper { folder, .. }, _) = &self.side else {
            return Err(Error::WorkerDone);
        };
        let written = release.write(folder, self.output.publish_releases, &self.warnings);
        written.map_err(|error| folder.after_payment(error))
    }

    /// Moves a released model into place after `measure` has computed the internal results: from
    /// here on it is kept, whatever happens. Returns the object for programs, the summary as text,
    /// and the verdict.
    ///
    /// # Errors
    /// [`Error::ReleasesMissing`] if the ledger was replaced or rolled back since it paid: this is
    /// checked before the move, and the model stays in the hidden folder.
    pub(crate) fn close<R: RunReport>(
        self,
        plan: &Plan,
        measure: impl FnOnce() -> Result<R>,
    ) -> Result<(Value, String, Option<Verdict>)> {
        let Side::Keeper(
            Keeper {
                folder,
                mut account,
            },
            _,
        ) = self.side
        else {
            return Err(Error::WorkerDone);
        };
        let mut aside = self.aside;
        aside.ledger = account.path();
        let report = folder.commit_after(
            |folder| {
                let report = measure()?;
                report.write_internal(folder, &aside)?;
                Ok(report)
            },
            |hidden| account.confirm(hidden),
        )?;
        account.confirm(&self.output.out)?;
        let balance = account.balance(plan);
        let summary = report.summary(self.output, balance.as_deref());
        Ok((
            report.json(self.output),
            summary,
            report.verdict(self.output),
        ))
    }
}

/// Measures the times of the parts of a run.
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the last lap.
    pub(crate) fn lap(&mut self) -> f64 {
        let since = std::mem::replace(&mut self.0, Instant::now());
        since.elapsed().as_secs_f64()
    }
}

/// The unit of protection as text: the column that users' ids were read from, in a file without
/// header its number.
pub(crate) fn unit_of(user_column: Option<&str>) -> String {
    match user_column {
        Some(name) => format!("{UNIT}`{name}`"),
        None => "a user is whoever shares a value of the user column".to_owned(),
    }
}

const UNIT: &str = "a user is whoever shares a value of the column ";

/// The column of users' ids that a certificate names.
pub(crate) fn user_column_of(certificate: &Certificate) -> Option<&str> {
    let units = certificate.assumptions.iter();
    let mut named =
        units.filter_map(|of| of.strip_prefix(UNIT)?.strip_prefix('`')?.strip_suffix('`'));
    named.next()
}

/// Refuses to resume a run that was begun with other inputs, and names them.
fn refuse_another(begun: &Value, now: &Value) -> Result<()> {
    let had_ledger = |of: &Value| {
        let assumptions = of["assumptions"].as_array().into_iter().flatten();
        is_paid_by_ledger(assumptions.filter_map(Value::as_str))
    };
    if !had_ledger(begun) && had_ledger(now) {
        let reason = "`resume`: the interrupted run had no ledger, so there is no record of what it paid for; omit `resume` \
                      for a new run";
        return Err(Error::Usage(reason.to_owned()));
    }
    let mut differing = differences(&begun[GIVEN], &now[GIVEN], |name, was, is| {
        format!("`{name}` was {}, and is {}", shown(was), shown(is))
    });
    if differing.is_empty() {
        differing = differences(begun, now, |name, _, _| name.replace('_', " "));
    }
    if differing.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "`resume`: the interrupted run had other settings or other public inputs: {}; give the same, or leave `resume` out for a new \
         run",
        differing.join("; ")
    )))
}

/// The differences between two objects, one text per member.
fn differences(
    begun: &Value,
    now: &Value,
    say: impl Fn(&str, &Value, &Value) -> String,
) -> Vec<String> {
    let names = [begun, now].into_iter().filter_map(Value::as_object);
    let names: BTreeSet<&String> = names.flat_map(Map::keys).collect();
    let all = names
        .into_iter()
        .map(|name| (name, &begun[name], &now[name]));
    let differ = all.filter(|(_, was, is)| was != is);
    differ.map(|(name, was, is)| say(name, was, is)).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not given".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A run that pays from an account and stores its releases in a folder until both are done, or a
/// worker's side of one.
pub(crate) struct PrivateRun<'a> {
    side: RunSide<'a>,
    /// The table of private data.
    data: &'a TableSource,
    /// The releases it will make.
    plan: &'a Plan,
    /// All public inputs that determine it in addition to the plan.
    public: &'a Value,
    /// Hashes of the files that settings name.
    files: &'a Map<String, Value>,
    /// Whether results without payment are printed when it is done, or determine the exit code.
    reveals_internal: bool,
}

enum RunSide<'a> {
    /// The folder of the growing release list, the account that pays, and the workers.
    Keeper(&'a OutputFolder, &'a mut BoundAccount, Option<Pool<'a>>),
    Worker(Worker<'a>),
}

/// Training data with the table against which shards of users are checked; none if users are not
/// distributed over processes.
pub(crate) trait HasTable {
    fn table(&self) -> Option<&Private<Interactions>>;
}

impl HasTable for Private<Interactions> {
    fn table(&self) -> Option<&Private<Interactions>> {
        Some(self)
    }
}

impl HasTable for UserSamples {
    fn table(&self) -> Option<&Private<Interactions>> {
        Some(self.table())
    }
}

impl PrivateRun<'_> {
    /// Trains, or resumes from existing releases. If the ledger's budget does not cover the rest
    /// and there are at least `has_model_after` releases, the model is that of the existing
    /// releases.
    ///
    /// # Errors
    /// [`Error::WorkerDone`] at a worker that has sent its sums.
    pub(crate) fn train<T: Trainer>(
        self,
        trainer: &T,
        data: &T::Data,
        noise: &mut NoiseSource,
        observer: &mut dyn Observer,
        has_model_after: impl Fn(usize) -> bool,
    ) -> Result<Fitted<T::Model>>
    where
        T::Data: HasTable,
        Error: From<T::Error>,
    {
        let Self {
            side,
            data: source,
            plan,
            public,
            files,
            reveals_internal,
        } = self;
        let mut shaping = public.clone();
        if let Some(given) = shaping.get_mut(GIVEN).and_then(Value::as_object_mut) {
            given.extend(files.clone());
        }
        let run = run_name(public)?;
        let (folder, account, pool) = match side {
            RunSide::Keeper(folder, account, pool) => (folder, account, pool),
            RunSide::Worker(mut worker) => {
                worker.ready(&workers::agreement(&shaping, source, worker.dealing)?)?;
                return worker.train(trainer, data, plan, &run);
            }
        };
        if let Some(pool) = pool {
            if pool.has_first_shard() {
                let first = Shard::new(&*run, 0, pool.workers.n_shards())?;
                first.check(workers::table_of(data)?.expose())?;
            }
            let agreement = workers::agreement(&shaping, source, pool.dealing)?;
            workers::begin(pool, &agreement)?;
        }
        // without workers, the trainer has what is summed
        let workers = pool.filter(|pool| pool.workers.n_shards() > 0);
        let coordinator = workers.map(|pool| match pool.has_first_shard() {
            true => Coordinator::with_first_shard(pool.workers),
            false => Coordinator::new(pool.workers),
        });
        let backend: &dyn SumBackend = match &coordinator {
            Some(coordinator) => coordinator,
            None => &InProcess,
        };
        let releases = folder.releases();
        let begun = folder.begun_with()?;
        if let Some(begun) = &begun {
            refuse_another(begun, &shaping)?;
        }
        let failed = |error: KernelError| Error::from(T::Error::from(error));
        if releases.is_begun() {
            let list = ReleaseList::open(releases.list_path(), &run, plan).map_err(failed)?;
            tell(&format!(
                "resuming the interrupted run: {} of its {} releases were paid for and are kept",
                list.paid_before().len(),
                plan.releases().len()
            ));
            if ends_here(account, plan, &list, has_model_after)? {
                warn(
                    "the ledger has no room for the rest of this run (a step lost in a crash stays \
                     paid): finishing with the rounds already made",
                );
                let name = folder.mark_paid(&name_in_ledger(public)?)?;
                if reveals_internal {
                    account.note_figures_of(&name)?;
                }
                pool.map_or(Ok(()), workers::end)?;
                let replay = Run::replay(plan, list).map_err(failed)?;
                let fitted = trainer.run(data, replay.observed_by(observer))?;
                return Ok(certified_after(fitted, account, &name));
            }
        }
        let name = folder.mark_paid(&name_in_ledger(public)?)?;
        if account.has_file() {
            folder.keep_for_resuming();
        }
        account.announce(plan);
        if reveals_internal {
            account.note_figures_of(&name)?;
        }
        let ledger = account.ledger()?;
        ledger.set_run(Some(name.clone()));
        if begun.is_none() {
            folder.begin_with(&shaping)?;
        }
        let n_paid = ledger.n_releases();
        let parts = (std::slice::from_mut(ledger), noise, observer);
        let fitted = releases.train_with(trainer, data, plan, &run, backend, parts);
        match fitted {
            Ok(fitted) => Ok(certified_after(fitted, account, &name)),
            Err(error) => Err(match error.into() {
                Error::Accounting(error @ AccountingError::BudgetSpent { .. }) => {
                    account.explained(error, plan)
                }
                other if account.n_paid() > n_paid => folder.after_payment(other),
                other => other,
            }),
        }
    }
}

/// The certificate of a run, with the explorations before it that its ledger records.
fn certified_after<M>(mut fitted: Fitted<M>, account: &Account, run: &str) -> Fitted<M> {
    let certificate = fitted
        .certificate
        .after_explorations(&account.explorations(run));
    let certificate =
        (account.doubts().into_iter()).fold(certificate, Certificate::with_assumption);
    fitted.certificate = if account.has_file() {
        certificate
    } else {
        certificate.with_assumption(
            "no ledger notes whether figures of this data set were looked at before the settings were chosen",
        )
    };
    fitted
}

/// Whether the existing releases must suffice, because the account's budget does not cover the
/// rest.
fn ends_here(
    account: &Account,
    plan: &Plan,
    list: &ReleaseList,
    has_model_after: impl Fn(usize) -> bool,
) -> Result<bool> {
    let made = list.paid_before();
    if !account.has_paid(made) {
        let reason = "`resume`: this ledger did not pay for the releases of the interrupted run; give the ledger that \
                      the run was begun with, or leave `resume` out for a new run";
        return Err(Error::Usage(reason.to_owned()));
    }
    let rest = plan.releases().get(made.len()..).unwrap_or_default();
    if rest.is_empty() || made.is_empty() || !account.pays_by_release(plan) {
        return Ok(false);
    }
    match account.check(&plan.part(made.len()..plan.releases().len())?) {
        Err(Error::Budget(_)) if has_model_after(made.len()) => Ok(true),
        outcome => outcome.map(|()| false),
    }
}

/// The name of a run in its ledger: its command, and a random number that distinguishes it from
/// other runs.
pub(crate) fn name_in_ledger(public: &Value) -> Result<String> {
    let command = public.get("command").and_then(Value::as_str);
    let number = random_bits()?;
    Ok(format!("{} {number:016x}", command.unwrap_or("run")))
}

/// The name of a run in its release list: the SHA-256 of all public inputs that determine it.
pub(crate) fn run_name(public: &Value) -> Result<String> {
    Ok(sha256_hex(&serde_json::to_vec(public)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::output::TrainReport;
    use crate::settings::{Given, TrainSettings};

    /// Changes a ledger file while the model that it paid for is measured; returns the error, and
    /// whether the model is in place.
    fn while_measured(deed: impl FnOnce(&Path)) -> (Option<Error>, bool) {
        let dir = tempfile::tempdir().unwrap();
        let [data, out, ledger] =
            ["ratings.csv", "model", "l.ledger"].map(|at| dir.path().join(at));
        let rows = (0..40).map(|row| format!("{},{},3\n", row / 4, row % 5));
        fs::write(
            &data,
            "user,item,rating\n".to_owned() + &rows.collect::<String>(),
        )
        .unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let given = Given::default()
            .with("ratings", text(&data))
            .with("out", text(&out))
            .with("ledger", text(&ledger))
            .with("new_ledger", "true")
            .with("item_ids_are_public", "true")
            .with("epsilon", "1")
            .with("delta", "1e-5");
        let args: TrainSettings = given.settings().unwrap();
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        let requests = dp_multitask::FactorizationParams::for_target(target);
        let plan = requests
            .check()
            .unwrap()
            .plan(5, target, Adjacency::AddRemoveUser)
            .unwrap();
        let opening = Opening {
            data: &args.ratings,
            catalogue: None,
            inputs: Vec::new(),
            ledger: &args.ledger,
            resume: &args.resume,
            output: &args.output,
        };
        let unbound = opening.open(&plan, Place::Alone).unwrap();
        let ratings =
            crate::workflows::input::read(&args.ratings, &args.input, &args.feedback, None);
        let mut opened = unbound.bind(&ratings.unwrap()).unwrap();
        let Side::Keeper(keeper, _) = &mut opened.side else {
            panic!("all users are here");
        };
        keeper.account.ledger().unwrap().reserve(&plan).unwrap();
        keeper.folder.write("model.bin", b"paid").unwrap();
        let closed = opened.close::<TrainReport<'_>>(&plan, || {
            deed(&ledger);
            Err(Error::Cancelled)
        });
        (closed.err(), out.exists())
    }

    #[test]
    fn a_ledger_that_loses_releases_while_their_model_is_measured_keeps_it_back() {
        let (error, is_in_place) = while_measured(|_| ());
        assert!(matches!(error, Some(Error::Unmeasured { .. })) && is_in_place);
        let rolled_back = |ledger: &Path| {
            let text = fs::read_to_string(ledger).unwrap();
            let older: String = text.split_inclusive('\n').take(2).collect();
            fs::write(ledger, older).unwrap();
        };
        let deeds: [fn(&Path); 3] = [
            rolled_back,
            |ledger| fs::remove_file(ledger).unwrap(),
            |ledger| {
                fs::write(ledger.with_extension("new"), "{}\n").unwrap();
                fs::rename(ledger.with_extension("new"), ledger).unwrap();
            },
        ];
        for deed in deeds {
            let (error, is_in_place) = while_measured(deed);
            let error = error.unwrap();
            assert!(matches!(error, Error::ReleasesMissing { .. }), "{error}");
            assert_eq!(error.kind(), crate::error::ErrorKind::Ledger);
            assert!(
                error.to_string().contains("l.ledger") && !is_in_place,
                "{error}"
            );
        }
    }
}
