//! `dp train --resume`: a run whose list of releases is on disk as it grows.

use std::path::PathBuf;

use dp_accounting::Plan;
use dp_core::{Interactions, Private};
use dp_mechanism::{NoiseSource, ReleaseList, Run, RunFolder};
use dp_multitask::{Error as TrainingError, FactorModel, Fitted, MatrixFactorization, Trainer};

use crate::error::{Error, Result};
use crate::output::warn;
use crate::settings::ResumeSettings;
use crate::watch::{Watch, Watched};
use crate::workflows::ledger::Account;

/// What earlier versions kept in the folder instead of a list.
const OLD_STATE: &str = "checkpoint.json";

/// A run that goes on from its list of releases.
pub(crate) struct Resume {
    path: PathBuf,
    folder: RunFolder,
}

impl Resume {
    /// The run of the folder that was named, if one was.
    pub(crate) fn open(args: &ResumeSettings) -> Result<Option<Self>> {
        let Some(path) = &args.resume else {
            return Ok(None);
        };
        if path.is_file() {
            return Err(Error::write(path, std::io::ErrorKind::NotADirectory.into()));
        }
        let folder = RunFolder::new(path);
        let old = path.join(OLD_STATE);
        if !folder.is_begun() && old.exists() {
            let reason = "the state of a run that an earlier version of dp began; finish it with that version, or \
                          give --resume another folder for a new run, which is paid for anew";
            return Err(Error::model(&old, reason));
        }
        let path = path.clone();
        Ok(Some(Self { path, folder }))
    }

    /// Whether the folder holds a run already.
    pub(crate) fn is_begun(&self) -> bool {
        self.folder.is_begun()
    }

    /// Makes what is left of the plan and pays for it release by release. Where the ledger has no room for the rest and a round was
    /// made, the model is that of the rounds made. `run` stands for what is public beside the plan.
    pub(crate) fn fit(
        self,
        fit: &MatrixFactorization,
        (plan, run): (&Plan, &str),
        account: &mut Account,
        data: &Private<Interactions>,
        watch: &mut dyn Watch,
    ) -> Result<Fitted<FactorModel>> {
        if self.is_begun() {
            let list = ReleaseList::open(self.folder.list_path(), run, plan);
            let list = list.map_err(TrainingError::from)?;
            if self.ends_here(fit, plan, account, &list)? {
                warn(
                    "the ledger has no room for the rest of this run (a step lost in a crash stays \
                     paid): finishing with the rounds already made",
                );
                let replay = Run::replay(plan, list).map_err(TrainingError::from)?;
                return Ok(fit.run(data, replay)?);
            }
        }
        let mut watched = Watched::begin(watch, plan)?;
        let (ledgers, noise) = (
            std::slice::from_mut(account.ledger()?),
            &mut NoiseSource::operating_system(),
        );
        Ok(self
            .folder
            .train(fit, data, plan, ledgers, run, noise, &mut watched)?)
    }

    /// Whether the rounds made must do, because the account has no room for the rest.
    fn ends_here(
        &self,
        fit: &MatrixFactorization,
        plan: &Plan,
        account: &Account,
        list: &ReleaseList,
    ) -> Result<bool> {
        let made = list.paid_before();
        if !account.has_paid(made) {
            let reason = format!(
                "--resume {}: this ledger did not pay for the releases of that run; give the ledger that the run was \
                 begun with, or name another folder for a new run",
                self.path.display()
            );
            return Err(Error::Usage(reason));
        }
        let rest = plan.releases().get(made.len()..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let (delta, adjacency) = (plan.target().delta, plan.adjacency());
        let rest = Plan::with_noise_multipliers(delta, adjacency, rest.to_vec())?;
        match account.check(&rest) {
            Err(Error::Budget(_)) if fit.n_rounds_after(made.len()) > 0 => Ok(true),
            outcome => outcome.map(|()| false),
        }
    }
}
