//! The one way in which a workflow trains: paid for, listed as it goes, and gone on with after a crash.

use dp_accounting::{Error as AccountingError, Plan};
use dp_mechanism::{Fitted, NoiseSource, Observer, ReleaseList, Run, Trainer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::ledger::{Account, BoundAccount};
use crate::error::{Error, Result};
use crate::output::{OutputFolder, warn};

/// A run that pays out of `account` and keeps its releases in `folder` until both are done.
pub(crate) struct PrivateRun<'a> {
    /// Where its list of releases grows.
    pub(crate) folder: &'a OutputFolder,
    /// What pays for it.
    pub(crate) account: &'a mut BoundAccount,
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
        let name = folder.mark_paid(&name_in_ledger(public)?)?;
        if account.has_file() {
            folder.keep_for_resuming();
        }
        account.announce(plan);
        let ledger = account.ledger()?;
        ledger.set_run(Some(name));
        let ledgers = std::slice::from_mut(ledger);
        let fitted = releases.train(trainer, data, plan, ledgers, &run, noise, observer);
        fitted.map_err(|error| match error.into() {
            Error::Accounting(error @ AccountingError::BudgetSpent { .. }) => {
                account.explained(error, plan)
            }
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
    if rest.is_empty() || made.is_empty() || !account.pays_by_release(plan) {
        return Ok(false);
    }
    let (delta, adjacency) = (plan.target().delta, plan.adjacency());
    let rest = Plan::with_noise_multipliers(delta, adjacency, rest.to_vec())?;
    match account.check(&rest) {
        Err(Error::Budget(_)) if has_model_after(made.len()) => Ok(true),
        outcome => outcome.map(|()| false),
    }
}

/// What the lines of a ledger call a run: its command, and a random number that keeps it apart from other runs.
fn name_in_ledger(public: &Value) -> Result<String> {
    let command = public.get("command").and_then(Value::as_str);
    let number = super::ledger::random_bits()?;
    Ok(format!("{} {number:016x}", command.unwrap_or("run")))
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
