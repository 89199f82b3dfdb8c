//! `dp train --resume`: a run whose state is on disk after every release.

use std::path::{Path, PathBuf};

use dp_accounting::{Ledger, Plan};
use dp_core::{Interactions, Private};
use dp_mechanism::NoiseSource;
use dp_multitask::{
    Checkpoint, CheckpointFolder, Error as TrainingError, FittedModel, MatrixFactorization,
};

use crate::error::{Error, Result};
use crate::output::warn;
use crate::settings::{LedgerSettings, ResumeSettings};
use crate::watch::{Stage, Watch, made};
use crate::workflows::ledger::Account;

/// Where a run's checkpoint is, and what was found there.
pub(crate) struct Resume {
    folder: PathBuf,
    found: Option<Checkpoint>,
    /// Set when the ledger has no room for the rest of the plan: the rounds made must do.
    ends_here: bool,
}

impl Resume {
    /// Reads the checkpoint, if a folder was named. The ledger must be the one that paid for it.
    pub(crate) fn open(args: &ResumeSettings, ledger: &LedgerSettings) -> Result<Option<Self>> {
        let (Some(path), Some(ledger)) = (&args.resume, &ledger.ledger) else {
            return Ok(None);
        };
        let found = if path.exists() {
            let found = opened(path)?.load();
            found.map_err(|error| unreadable(path, error))?
        } else {
            None // made when something is to be put into it
        };
        if let Some(checkpoint) = &found {
            check_paid(checkpoint, ledger)?;
        }
        Ok(Some(Self {
            folder: path.clone(),
            found,
            ends_here: false,
        }))
    }

    /// Checks that the account has room for what is left of the plan. Where it has not and a round
    /// was made, the run ends with the model so far.
    pub(crate) fn check(&mut self, plan: &Plan, account: &Account) -> Result<()> {
        let n_made = self
            .found
            .as_ref()
            .map_or(0, |found| found.releases().len());
        let left: Vec<_> = plan.releases().iter().skip(n_made).cloned().collect();
        if left.is_empty() {
            return Ok(());
        }
        let left = Plan::with_noise_multipliers(plan.target().delta, plan.adjacency(), left)?;
        match account.check(&left) {
            Err(Error::Budget(_)) if self.found.as_ref().is_some_and(|f| f.n_rounds() > 0) => {
                warn(
                    "the ledger has no room for the rest of this run (a step lost in a crash stays \
                     paid): finishing with the rounds already made",
                );
                self.ends_here = true;
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Pays for and makes what is left, step by step.
    pub(crate) fn fit(
        self,
        fit: &MatrixFactorization,
        plan: &Plan,
        account: &mut Account,
        data: &Private<Interactions>,
        watch: &mut dyn Watch,
    ) -> Result<FittedModel> {
        if let (true, Some(checkpoint)) = (self.ends_here, self.found) {
            return Ok(fit.model_so_far(checkpoint, plan)?);
        }
        let folder = opened(&self.folder)?;
        watch.progress(Stage::Releases, 0, plan.releases().len());
        let mut pay = |step: &Plan| account.reserve_step(step);
        let mut noise = NoiseSource::operating_system();
        let mut progress = |done| made(watch, done);
        Ok(fit.fit_with_checkpoints(data, plan, &mut pay, &mut noise, &folder, &mut progress)?)
    }
}

/// The folder, which is made where there is none.
fn opened(path: &Path) -> Result<CheckpointFolder> {
    if path.is_file() {
        return Err(Error::write(path, std::io::ErrorKind::NotADirectory.into()));
    }
    CheckpointFolder::open(path).map_err(|error| match error {
        TrainingError::Io { path, source } => Error::write(&path, source),
        other => other.into(),
    })
}

/// A state that cannot be read or is none.
fn unreadable(folder: &Path, error: TrainingError) -> Error {
    match error {
        TrainingError::Io { path, source } => Error::read(&path, source),
        TrainingError::CheckpointDamaged { path } => {
            let folder = folder.display();
            let reason = format!("not a state of `dp train --resume {folder}`, or damaged");
            Error::model(&path, reason)
        }
        other => other.into(),
    }
}

fn check_paid(checkpoint: &Checkpoint, ledger: &Path) -> Result<()> {
    if !ledger.exists() && !checkpoint.releases().is_empty() {
        return Err(TrainingError::CheckpointMismatch { what: "the ledger" }.into());
    }
    if ledger.exists() {
        checkpoint.check_paid(&Ledger::audit(ledger)?)?;
    }
    Ok(())
}
