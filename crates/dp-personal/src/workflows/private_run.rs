//! The one way in which a workflow trains: paid for, listed as it goes, and gone on with after a crash.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dp_accounting::{Error as AccountingError, Plan, sha256_hex};
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

/// Version of what shapes a run: a newer program goes on with no run of an older one that would be another one today.
const RUN_SCHEMA: u32 = 4;
/// Under which name the values of the settings stand.
pub(crate) const GIVEN: &str = "given";

/// What a training run opens before it reads the data.
pub(crate) struct Opening<'a> {
    /// The table of private data.
    pub(crate) data: &'a TableSource,
    /// The public list of items, and which columns of the data name users and items.
    pub(crate) catalogue: Option<(&'a Path, [Option<&'a String>; 2])>,
    /// The other files that it reads.
    pub(crate) inputs: Vec<&'a Path>,
    pub(crate) ledger: &'a LedgerSettings,
    pub(crate) resume: &'a ResumeSettings,
    pub(crate) output: &'a OutputSettings,
}

impl<'a> Opening<'a> {
    /// Refuses an output folder whose replacement would delete what the run needs, or the current folder.
    pub(crate) fn protect(&self) -> Result<()> {
        let output = self.output;
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

    /// Refuses a catalogue that shows of itself that it was made from the data.
    pub(crate) fn check_catalogue(&self) -> Result<()> {
        let check = |(items, columns): (&Path, [Option<&String>; 2])| {
            let columns = columns.map(|name| name.map(String::as_str));
            dp_data::check_catalogue(items, self.data, columns)
        };
        Ok(self.catalogue.map_or(Ok(()), check)?)
    }

    /// Opens the account and makes the folder. `draft` has the cost of the run, which does not depend on the data; what the ledger
    /// has no room for is refused, unless an interrupted run goes on: that has paid for a part of it. A worker opens nothing.
    ///
    /// # Errors
    /// [`Error::Recovered`] when a run that was killed had released its model and its ledger has all releases;
    /// [`Error::ReleasesMissing`] when it has not.
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
            Place::Worker(worker) => return Ok(unbound(Side::Worker(worker))),
        };
        let pool = pool.map(|(workers, dealing)| Pool { workers, dealing });
        self.protect()?;
        let may_recover = |left: &Path| refuse_unpaid(ledger, left);
        OutputFolder::recover(&output.out, output.force, &may_recover)?;
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

/// Who pays and writes, and who only sums.
enum Side<'a, A> {
    /// With workers, if there are any.
    Keeper(Keeper<A>, Option<Pool<'a>>),
    Worker(Worker<'a>),
}

/// Where a run writes, and what pays for it.
struct Keeper<A> {
    folder: OutputFolder,
    account: A,
}

/// What a run has opened before the users of its data are known to be those of its ledger.
pub(crate) struct Unbound<'a> {
    about: (String, ApproxDp, Adjacency),
    side: Side<'a, Account>,
    data: &'a TableSource,
    output: &'a OutputSettings,
}

impl<'a> Unbound<'a> {
    /// The same once they are: what this returns can pay.
    ///
    /// # Errors
    /// [`Error::OtherUsers`], [`Error::Binding`] and [`Error::LedgerLost`]: told to the operator alone, before anything is paid.
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

/// The path without links, also of a file that does not exist yet.
fn absolute(path: &Path) -> Option<PathBuf> {
    let whole = path.canonicalize();
    whole
        .or_else(|_| output::folder_of(path).canonicalize())
        .ok()
}

/// A run that may begin.
pub(crate) struct Opened<'a> {
    /// The name of the data set, and the guarantee of the run.
    about: (String, ApproxDp, Adjacency),
    side: Side<'a, BoundAccount>,
    data: &'a TableSource,
    output: &'a OutputSettings,
    /// What follows from settings alone: public.
    warnings: Vec<String>,
    /// Hashes of the files that settings name. They never leave the run: what a run does not use of a public file may come from
    /// the data.
    files: Map<String, Value>,
    /// What internal files say beside figures.
    aside: Aside,
}

impl Opened<'_> {
    /// Everything public that shapes a run beside its plan, and names it: all settings of the table but those that are marked as
    /// shaping nothing and those that name files, what the operator answers for, and `own`, what the model is made again from and
    /// what stands for the used parts of files.
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

    /// Deals users to the processes of the run that `public` shapes. `data` of all users, at a worker of its own alone; beside it the
    /// part of this process's shard, where that is not all there is. `of_users` picks users by their [keys](dp_data::user_key).
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
            // the worker was given its own alone, which the run checks
            Dealing::ById | Dealing::Silos => of_users(&data, &|_| true),
        };
        Ok(match self.is_worker() {
            true => (own, None),
            false => (data, Some(own)),
        })
    }

    /// How users are dealt to processes, if they are.
    pub(crate) fn dealing(&self) -> Dealing {
        match &self.side {
            Side::Keeper(_, pool) => pool.map(|pool| pool.dealing).unwrap_or_default(),
            Side::Worker(worker) => worker.dealing,
        }
    }

    /// What is taken on trust of users that are dealt to processes, in the words of all of them.
    pub(crate) fn dealing_assumptions(
        &self,
        ledger: &LedgerSettings,
    ) -> impl Iterator<Item = String> + use<> {
        let in_silos = self.dealing() == Dealing::Silos;
        let in_silos = in_silos.then_some("no user has records in two silos");
        let are_elsewhere = self.dealing() != Dealing::ByRun;
        let on_trust = (ledger.has_file() && are_elsewhere).then_some(
            "the ledger is that of these users, as the operator says: they were at workers and were not compared with it",
        );
        in_silos.into_iter().chain(on_trust).map(str::to_owned)
    }

    /// Whether the users are at workers, none of them here.
    pub(crate) fn has_no_users(&self) -> bool {
        !self.is_worker() && self.dealing() != Dealing::ByRun
    }

    /// Whether this process sums and does nothing else.
    pub(crate) const fn is_worker(&self) -> bool {
        matches!(self.side, Side::Worker(_))
    }

    /// The run of a plan that `public` shapes.
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

    /// Keeps what records say of themselves for the internal files.
    pub(crate) fn found(&mut self, more: Vec<String>) {
        self.aside.warnings.extend(more);
    }

    /// Writes what may be published.
    pub(crate) fn write(&self, release: &impl Release) -> Result<()> {
        let Side::Keeper(Keeper { folder, .. }, _) = &self.side else {
            return Err(Error::WorkerDone);
        };
        let written = release.write(folder, self.output.publish_releases, &self.warnings);
        written.map_err(|error| folder.after_payment(error))
    }

    /// Puts a model that was released into place after `measure` said what is internal: from here on it stays, whatever
    /// happens. The object for programs, the summary in words, and the verdict.
    ///
    /// # Errors
    /// [`Error::ReleasesMissing`] when the ledger was replaced or rolled back since it paid: before the move, the model stays in the
    /// hidden folder.
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

/// Takes the times of the parts of a run, one after the other.
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

/// What makes records one user's: a column by its name.
pub(crate) fn unit_of(user_col: Option<&String>) -> String {
    match user_col {
        Some(name) => format!("a user is whoever shares a value of the column `{name}`"),
        None => "a user is whoever shares a value of the user column".to_owned(),
    }
}

/// Refuses to go on with a run that was begun with something else, and names what.
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

/// What is said of each member that two objects do not share.
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

/// A run that pays out of an account and keeps its releases in a folder until both are done, or a worker's side of one.
pub(crate) struct PrivateRun<'a> {
    side: RunSide<'a>,
    /// The table of private data.
    data: &'a TableSource,
    /// What it will release.
    plan: &'a Plan,
    /// Everything public that shapes it beside the plan.
    public: &'a Value,
    /// Hashes of the files that settings name.
    files: &'a Map<String, Value>,
    /// Whether figures that nobody pays for are printed when it is done, or decide the exit code.
    reveals_internal: bool,
}

enum RunSide<'a> {
    /// Where the list of releases grows, what pays for it, and the workers.
    Keeper(&'a OutputFolder, &'a mut BoundAccount, Option<Pool<'a>>),
    Worker(Worker<'a>),
}

/// Training data with the table that shards of users are checked by; none where users are not dealt to processes.
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
    /// Trains, or goes on from the releases that are there. Where the ledger has no room for what is left and
    /// `has_model_after` so many releases, the model is that of the releases made.
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
        let coordinator = pool.map(|pool| match pool.has_first_shard() {
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
                "going on with the interrupted run: {} of its {} releases were paid for, and what was made of them stays",
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

/// The certificate of a run, with what was looked at before it by what its ledger notes.
fn certified_after<M>(mut fitted: Fitted<M>, account: &Account, run: &str) -> Fitted<M> {
    let certificate = fitted
        .certificate
        .after_explorations(&account.explorations(run));
    fitted.certificate = if account.has_file() {
        certificate
    } else {
        certificate.with_assumption(
            "no ledger notes whether figures of this data set were looked at before the settings were chosen",
        )
    };
    fitted
}

/// Whether the releases made must do, because the account has no room for the rest.
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

/// What the lines of a ledger call a run: its command, and a random number that keeps it apart from other runs.
pub(crate) fn name_in_ledger(public: &Value) -> Result<String> {
    let command = public.get("command").and_then(Value::as_str);
    let number = random_bits()?;
    Ok(format!("{} {number:016x}", command.unwrap_or("run")))
}

/// The name of a run in its list of releases: the SHA-256 of everything public that shapes it.
pub(crate) fn run_name(public: &Value) -> Result<String> {
    Ok(sha256_hex(&serde_json::to_vec(public)?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::output::TrainReport;
    use crate::settings::{Given, TrainSettings};

    /// What happens to the file of a ledger while a model that it paid for is measured: the error, and whether the model is in its place.
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
        assert!(matches!(error, Some(Error::Cancelled)) && is_in_place);
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
