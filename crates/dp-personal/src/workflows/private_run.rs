//! The one way in which a workflow trains: paid for, listed as it goes, and gone on with after a crash.

use std::collections::BTreeSet;

use dp_accounting::{Error as AccountingError, Plan};
use dp_core::ApproxDp;
use dp_mechanism::{Fitted, NoiseSource, Observer, ReleaseList, Run, Trainer};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::ledger::Account;
use super::train::ADJACENCY;
use crate::error::{Error, Result};
use crate::output::{OutputFolder, warn};
use crate::settings::Settings;

/// Version of what shapes a run: a newer program goes on with no run of an older one that would be another one today.
const RUN_SCHEMA: u32 = 2;
/// Under which name the values of the settings stand.
const GIVEN: &str = "given";

/// Everything public that shapes a run beside its plan, and names it: all settings of the table but those that are marked as
/// shaping nothing, what the operator answers for, and `own`, what the model is made again from.
pub(crate) fn public_run<S: Settings>(
    command: &str,
    args: &S,
    (data_set, target): (&str, ApproxDp),
    assumptions: &[String],
    own: Value,
) -> Result<Value> {
    let given = args.shaping()?.into_iter();
    let given: Map<String, Value> = given
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let mut public = json!({
        "run_schema": RUN_SCHEMA,
        "command": command,
        "data_set": data_set,
        "target": target,
        "adjacency": ADJACENCY,
        "assumptions": assumptions,
        GIVEN: given,
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut public, own) {
        all.extend(own);
    }
    Ok(public)
}

/// Refuses to go on with a run that was begun with something else, and names what.
fn refuse_another(begun: &Value, now: &Value) -> Result<()> {
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

/// A run that pays out of `account` and keeps its releases in `folder` until both are done.
pub(crate) struct PrivateRun<'a> {
    /// Where its list of releases grows.
    pub(crate) folder: &'a OutputFolder,
    /// What pays for it.
    pub(crate) account: &'a mut Account,
    /// What it will release.
    pub(crate) plan: &'a Plan,
    /// Everything public that shapes it beside the plan.
    pub(crate) public: &'a Value,
}

impl PrivateRun<'_> {
    /// Trains, or goes on from the releases that are there. Where the ledger has no room for what is left and
    /// `has_model_after` so many releases, the model is that of the releases made.
    pub(crate) fn train<T: Trainer>(
        self,
        trainer: &T,
        data: &T::Data,
        noise: &mut NoiseSource,
        observer: &mut dyn Observer,
        has_model_after: impl Fn(usize) -> bool,
    ) -> Result<Fitted<T::Model>>
    where
        Error: From<T::Error>,
    {
        let Self {
            folder,
            account,
            plan,
            public,
        } = self;
        let run = run_name(public)?;
        let releases = folder.releases();
        match folder.begun_with()? {
            Some(begun) => refuse_another(&begun, public)?,
            None => folder.begin_with(public)?,
        }
        let failed = |error: dp_mechanism::Error| Error::from(T::Error::from(error));
        if releases.is_begun() {
            let list = ReleaseList::open(releases.list_path(), &run, plan).map_err(failed)?;
            if ends_here(account, plan, &list, has_model_after)? {
                warn(
                    "the ledger has no room for the rest of this run (a step lost in a crash stays \
                     paid): finishing with the rounds already made",
                );
                let replay = Run::replay(plan, list).map_err(failed)?;
                return Ok(trainer.run(data, replay.observed_by(observer))?);
            }
        }
        folder.mark_paid()?;
        if account.has_file() {
            folder.keep_for_resuming();
        }
        account.announce(plan);
        let ledgers = std::slice::from_mut(account.ledger()?);
        let fitted = releases.train(trainer, data, plan, ledgers, &run, noise, observer);
        fitted.map_err(|error| match error.into() {
            Error::Accounting(AccountingError::BudgetSpent { .. }) => account.refused(plan),
            other => other,
        })
    }
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
    if rest.is_empty() || made.is_empty() || !account.pays_by_release() {
        return Ok(false);
    }
    let (delta, adjacency) = (plan.target().delta, plan.adjacency());
    let rest = Plan::with_noise_multipliers(delta, adjacency, rest.to_vec())?;
    match account.check(&rest) {
        Err(Error::Budget(_)) if has_model_after(made.len()) => Ok(true),
        outcome => outcome.map(|()| false),
    }
}

/// The name of a run in its list of releases: the SHA-256 of everything public that shapes it.
pub(crate) fn run_name(public: &Value) -> Result<String> {
    Ok(sha256(&serde_json::to_vec(public)?))
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
