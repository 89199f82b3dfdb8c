//! A run that can be interrupted: its released state on disk after each step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dp_accounting::{LedgerSummary, Plan, ReleaseRecord};
use dp_core::{Adjacency, ApproxDp, Interactions, Private};
use dp_mechanism::NoiseSource;

use super::fit::FittedModel;
use super::params::{FactorizationParams, MatrixFactorization};
use super::run::{Pay, Progress, Run, certificate};
use super::state::TrainingState;
use crate::{Error, Result};

/// Version of the file's format.
const CHECKPOINT_SCHEMA: u32 = 1;
const FILE: &str = "checkpoint.json";
const PARTIAL: &str = "checkpoint.json.partial";

/// The state of an interrupted run: settings, released values, and the ledger lines that paid for
/// them.
///
/// # Privacy
/// Holds public and released values only, so it may be read by whoever may read the released model.
/// No key, seed of noise or generator position is in it: a run that goes on draws fresh keys from the
/// operating system, as every release does. It holds no right to a release either: whatever is not in it is paid
/// for (again).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    schema_version: u32,
    params: FactorizationParams,
    n_items: usize,
    adjacency: Adjacency,
    epsilon: f64,
    delta: f64,
    data_set_id: String,
    /// Releases made, in plan order, named by the hashes of their ledger lines.
    releases: Vec<ReleaseRecord>,
    state: TrainingState,
}

impl Checkpoint {
    /// The releases made so far, with their names in the ledger.
    #[must_use]
    pub fn releases(&self) -> &[ReleaseRecord] {
        &self.releases
    }

    /// Rounds made so far.
    #[must_use]
    pub fn n_rounds(&self) -> usize {
        self.state.n_rounds()
    }

    /// Checks that this ledger paid for every release in the checkpoint: going on with another
    /// ledger would leave them out of its total.
    ///
    /// # Errors
    /// [`Error::CheckpointMismatch`].
    pub fn check_paid(&self, ledger: &LedgerSummary) -> Result<()> {
        let paid = self.releases.iter().all(|made| {
            let line = ledger
                .releases
                .iter()
                .find(|line| line.release_id == made.release_id);
            line == Some(made)
        });
        if paid && (self.releases.is_empty() || ledger.data_set_id == self.data_set_id) {
            return Ok(());
        }
        Err(Error::CheckpointMismatch { what: "the ledger" })
    }

    /// Refuses a state of another run, and one that no run can be in.
    fn check(&self, fit: &MatrixFactorization, plan: &Plan, n_items: usize) -> Result<()> {
        let made = plan.releases().iter().zip(&self.releases);
        let follows = made.filter(|(planned, made)| {
            made.label == planned.label()
                && made.event == *planned.event()
                && made.n_draws == planned.n_draws()
        });
        let target = ApproxDp {
            epsilon: self.epsilon,
            delta: self.delta,
        };
        for (what, holds) in [
            (
                "the file's version",
                self.schema_version == CHECKPOINT_SCHEMA,
            ),
            ("the settings", self.params == *fit.params()),
            ("the number of items", self.n_items == n_items),
            (
                "the target",
                target == plan.target() && self.adjacency == plan.adjacency(),
            ),
            ("the plan", follows.count() == self.releases.len()),
            (
                "the number of releases",
                self.state
                    .is_consistent(fit.params(), n_items, self.releases.len()),
            ),
        ] {
            if !holds {
                return Err(Error::CheckpointMismatch { what });
            }
        }
        Ok(())
    }
}

/// The part of a checkpoint that every version has.
#[derive(serde::Deserialize)]
struct Version {
    schema_version: u32,
}

/// The folder that holds a run's checkpoint.
///
/// Each save writes a new file, flushes it to the device and renames it over the old one, so that
/// the folder holds one whole checkpoint at any moment.
#[derive(Debug, Clone)]
pub struct CheckpointFolder {
    path: PathBuf,
}

impl CheckpointFolder {
    /// Uses the folder at `path`; it is made when it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        fs::create_dir_all(&path).map_err(|e| io_error(&path, e))?;
        Ok(Self { path })
    }

    /// The checkpoint, or nothing when no step has been saved.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::CheckpointDamaged`] when the file is no checkpoint; [`Error::CheckpointMismatch`] when
    /// another version of this crate wrote it.
    pub fn load(&self) -> Result<Option<Checkpoint>> {
        let path = self.path.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&path, error)),
        };
        let version =
            serde_json::from_slice(&bytes).map(|Version { schema_version }| schema_version);
        if version.is_ok_and(|found| found != CHECKPOINT_SCHEMA) {
            let what = "the file's version";
            return Err(Error::CheckpointMismatch { what });
        }
        match serde_json::from_slice(&bytes) {
            Ok(checkpoint) => Ok(Some(checkpoint)),
            Err(_) => Err(Error::CheckpointDamaged { path }),
        }
    }

    fn save(&self, checkpoint: &Checkpoint) -> Result<()> {
        let (partial, path) = (self.path.join(PARTIAL), self.path.join(FILE));
        let bytes = serde_json::to_vec(checkpoint)
            .map_err(|error| io_error(&path, io::Error::other(error)))?;
        write_durably(&partial, &bytes).map_err(|e| io_error(&partial, e))?;
        fs::rename(&partial, &path).map_err(|e| io_error(&path, e))?;
        sync_folder(&self.path).map_err(|e| io_error(&self.path, e))
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(()) // folders cannot be synced here
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}

impl MatrixFactorization {
    /// Trains as [`fit`](Self::fit) does, but pays for each step just before it, saves the state to
    /// `folder` just after it, and begins where the folder's checkpoint ends.
    ///
    /// ```text
    /// per step:  pay (durable) -> sum, noise -> save (durable) -> progress
    /// ```
    ///
    /// # Arguments
    /// * `pay` - `|plan| ledger.reserve(plan)`, of a ledger file; called with one step of `plan` at a
    ///   time. Check beforehand that the ledger has room for all that is left: steps that other runs have
    ///   eaten up in the meantime end this run with the ledger's error
    /// * the others as in [`fit`](Self::fit)
    ///
    /// # Privacy
    /// The guarantee of [`fit`](Self::fit): the budget's filter is valid when each step depends on what
    /// was released before. A step in the checkpoint is not paid for or made again. A crash between payment
    /// and save leaves a step paid that is made again under a fresh key and a new payment: the ledger then
    /// counts one step too many, never one too few. Nothing of the lost step left the process, and
    /// had it been seen, its payment stands.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Accounting`] when `pay` fails; [`Error::CheckpointMismatch`] when
    /// the checkpoint is of another run, [`Error::CheckpointDamaged`], [`Error::Io`];
    /// [`Error::SeededCheckpoint`] for repeatable noise, which would start again from its beginning.
    pub fn fit_with_checkpoints<'a>(
        &self,
        data: &Private<Interactions>,
        plan: &'a Plan,
        pay: &'a mut Pay<'a>,
        noise: &mut NoiseSource,
        folder: &CheckpointFolder,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<FittedModel> {
        if noise.is_insecure() {
            return Err(Error::SeededCheckpoint);
        }
        let n_items = data.expose().n_items();
        self.check_plan(plan, n_items)?;
        let found = folder.load()?;
        if let Some(checkpoint) = &found {
            checkpoint.check(self, plan, n_items)?;
        }
        // a generator that begins anew in every process of a run
        #[cfg(privacy_mutants)]
        let mut restored = NoiseSource::insecure_seeded(folder.path.as_os_str().len() as u64);
        #[cfg(privacy_mutants)]
        let noise = dp_core::mutants::pick("key-reused-on-resume", noise, &mut restored);
        let (releases, data_set_id, state) = found.map_or_else(Default::default, |found| {
            (found.releases, found.data_set_id, found.state)
        });
        let mut run = Run::by_step(plan, pay, releases, data_set_id, progress);
        let mut save = |state: &TrainingState, run: &Run<'_>| {
            folder.save(&self.checkpoint(n_items, state, run))
        };
        let state = self.train(data, state, &mut run, noise, &mut save)?;
        self.fitted(state, run.certificate(self.assumptions(), false)?, false)
    }

    fn checkpoint(&self, n_items: usize, state: &TrainingState, run: &Run<'_>) -> Checkpoint {
        let target = run.plan().target();
        Checkpoint {
            schema_version: CHECKPOINT_SCHEMA,
            params: self.params().clone(),
            n_items,
            adjacency: run.plan().adjacency(),
            epsilon: target.epsilon,
            delta: target.delta,
            data_set_id: run.data_set_id().to_owned(),
            releases: run.records().to_vec(),
            state: state.clone(),
        }
    }

    /// The model after the rounds in `checkpoint`, for a run that cannot go on, for example because
    /// its ledger has no room for a step that a crash made it pay twice. Post-processing of what was
    /// released; the certificate lists the releases that were made.
    ///
    /// # Errors
    /// [`Error::CheckpointMismatch`] when the checkpoint is of another run than `plan`;
    /// [`Error::Shape`] when no round was made.
    pub fn model_so_far(&self, checkpoint: Checkpoint, plan: &Plan) -> Result<FittedModel> {
        checkpoint.check(self, plan, checkpoint.n_items)?;
        let n_made = checkpoint.releases.len();
        let planned = plan.releases().iter().take(n_made).cloned().collect();
        let made = Plan::with_noise_multipliers(checkpoint.delta, checkpoint.adjacency, planned)?;
        let (id, records) = (checkpoint.data_set_id, checkpoint.releases);
        let certificate = certificate(&made, id, records, self.assumptions(), false)?;
        self.fitted(checkpoint.state, certificate, false)
    }
}
