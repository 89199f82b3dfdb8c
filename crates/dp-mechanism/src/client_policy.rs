//! The client's policy, and the client's own record of what it has answered.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dp_accounting::GaussianFilter;
use dp_core::{Adjacency, ApproxDp, DpEvent, Gdp, params};
use serde::{Deserialize, Serialize};

use crate::run::{io_error, sync_folder_of};
use crate::{Error, Result};

/// Version of the format of a client's record.
const SCHEMA: u32 = 1;

/// The limits within which a client takes part, whatever a server asks for. Every client of this
/// workspace applies one through a [`ClientRecord`].
///
/// # Privacy
/// A client cannot verify that the server adds the announced noise, nor how it samples. The policy
/// bounds the client's participation under the assumption that the announced noise is added. It
/// counts no amplification by sampling, so it needs no assumption about the sample. All decisions
/// depend on the server's messages and on what the client sent before, never on the client's data,
/// so a refusal reveals nothing about its records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPolicy {
    /// Smallest noise multiplier of a release that the client contributes to.
    pub least_noise_multiplier: f64,
    /// Largest bound on one message, in the units of the message: the clip norm of a gradient, or
    /// the bound on a vector or a label.
    pub largest_clip_norm: f64,
    /// Maximum number of rounds of one run, numbered from 1, in which the client takes part.
    pub most_rounds: u32,
    /// Maximum number of runs in which the client takes part over its lifetime.
    pub most_runs: usize,
    /// The names of the allowed runs; all runs if absent.
    #[serde(default)]
    pub allowed_runs: Option<Vec<String>>,
    /// The guarantee for all messages of the client together, over its lifetime; unlimited if
    /// absent.
    #[serde(default)]
    pub lifetime: Option<Lifetime>,
}

/// A client's own budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lifetime {
    /// The guarantee.
    pub target: ApproxDp,
    /// The adjacency of the guarantee.
    pub adjacency: Adjacency,
}

impl ClientPolicy {
    /// Accepts everything, without limits and without a budget. Only repeated requests are still
    /// rejected. For tests, for audits, and for the case that client and server are operated by the
    /// same people, so that the server's own ledger is the limit.
    #[must_use]
    pub const fn trusting() -> Self {
        Self {
            least_noise_multiplier: 0.0,
            largest_clip_norm: f64::MAX,
            most_rounds: u32::MAX,
            most_runs: usize::MAX,
            allowed_runs: None,
            lifetime: None,
        }
    }

    fn check(&self) -> Result<()> {
        params::finite_non_negative("least_noise_multiplier", self.least_noise_multiplier)?;
        params::finite_positive("largest_clip_norm", self.largest_clip_norm)?;
        params::at_least_one("most_rounds", self.most_rounds as usize)?;
        params::at_least_one("most_runs", self.most_runs)?;
        Ok(())
    }

    /// Whether the policy allows taking part in such a round at all, regardless of earlier answers.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn admits(&self, round: &AskedRound<'_>) -> Result<()> {
        let least = self.least_noise_multiplier;
        let noise = round.noise_multipliers.iter().copied();
        // false for NaN
        let is_enough = |found: &f64| *found >= least;
        let fits = round.clip_norm <= self.largest_clip_norm;
        let allowed = self.allowed_runs.as_ref();
        let refusals = [
            noise
                .into_iter()
                .find(|found| !is_enough(found))
                .map(|found| Refusal::Noise { found, least }),
            (!fits).then_some(Refusal::ClipNorm {
                found: round.clip_norm,
                most: self.largest_clip_norm,
            }),
            (round.number > self.most_rounds).then_some(Refusal::Round {
                found: round.number,
                most: self.most_rounds,
            }),
            allowed
                .is_some_and(|runs| !runs.iter().any(|run| run == round.run))
                .then_some(Refusal::Run),
        ];
        match refusals.into_iter().flatten().next() {
            Some(refusal) => Err(Error::Refused(refusal)),
            None => Ok(()),
        }
    }
}

/// A round as announced by a server. Public.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AskedRound<'a> {
    /// The name of the run.
    pub run: &'a str,
    /// Number of the round, from 1.
    pub number: u32,
    /// Noise multipliers of the releases that the client's message contributes to.
    pub noise_multipliers: &'a [f64],
    /// Bound on the message.
    pub clip_norm: f64,
}

/// Why a client does not take part.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The release would have too little noise.
    #[error("the noise multiplier is {found}, and the client wants {least} or more")]
    Noise {
        /// The announced value.
        found: f64,
        /// The policy's limit.
        least: f64,
    },
    /// The bound on the message is too large.
    #[error("the clip norm is {found}, and the client allows {most} at most")]
    ClipNorm {
        /// The announced value.
        found: f64,
        /// The policy's limit.
        most: f64,
    },
    /// The run has too many rounds.
    #[error("this is round {found}, and the client takes part in {most} of a run")]
    Round {
        /// The announced value.
        found: u32,
        /// The policy's limit.
        most: u32,
    },
    /// The run is not one of those that the client takes part in.
    #[error("the client takes no part in this run")]
    Run,
    /// The client has taken part in the maximum number of runs.
    #[error("the client has been in {most} runs, and takes part in no other")]
    Runs {
        /// The policy's limit.
        most: usize,
    },
    /// The client has already answered this round, or a later one of the run, and the new request
    /// is not the same.
    #[error("the client has answered this round before")]
    Answered,
    /// The message would exceed the client's own budget.
    #[error("the client's own budget is spent")]
    Lifetime,
}

/// What a client knows about a run when a server announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownRun {
    /// Not seen before.
    New,
    /// The run that the client currently takes part in.
    Current,
    /// A run that the client took part in before the current one, and which has ended for it.
    Left,
}

/// A client's own record under its [`ClientPolicy`]: the runs it took part in, the last round it
/// answered in each, and the total cost of its answers.
///
/// ```text
/// answers with noise multipliers z_1, ..., z_k:   mu^2 = sum_i 1 / z_i^2 under add/remove,  sum_i 4 / z_i^2 under replacement
/// ```
///
/// counted by a [`GaussianFilter`] against [`lifetime`](ClientPolicy::lifetime).
///
/// # File
/// JSON, with mode 0600 on Unix, always replaced as a whole: the new text is written to a temporary
/// file, flushed to the device and renamed before [`answer`](Self::answer) returns, so no message
/// leaves a client that could forget it. A second file with the extension `.lock` is locked while
/// the record is in use. Restoring an older copy makes the client forget its later answers, so only
/// the client itself should have access to the file.
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_mechanism::{AskedRound, ClientPolicy, ClientRecord, Lifetime};
///
/// let lifetime = Lifetime { target: ApproxDp::target(3.0, 1e-6)?, adjacency: Adjacency::AddRemoveUser };
/// let policy = ClientPolicy {
///     least_noise_multiplier: 2.0,
///     largest_clip_norm: 1.0,
///     most_rounds: 10,
///     most_runs: 2,
///     allowed_runs: None,
///     lifetime: Some(lifetime),
/// };
/// let mut record = ClientRecord::in_memory(policy)?; // a device: ClientRecord::create(path, policy), later open
/// let round = AskedRound { run: "run 1", number: 1, noise_multipliers: &[2.0], clip_norm: 1.0 };
/// record.enter(&round)?;
/// record.answer(&round)?; // the message may leave
/// assert!(record.answer(&round).is_err()); // once
/// let less_noise = AskedRound { number: 2, noise_multipliers: &[1.0], ..round };
/// assert!(record.enter(&less_noise).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ClientRecord {
    policy: ClientPolicy,
    state: State,
    filter: Option<GaussianFilter>,
    /// Whether earlier answers cost more than the policy's budget, which happens if the policy
    /// became stricter.
    is_overdrawn: bool,
    store: Option<Store>,
}

/// The stored state, all of it public to the client.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    schema_version: u32,
    /// The run that the client currently takes part in.
    current: Option<String>,
    /// Every run that the client took part in, with the last round that it answered, or 0 for none.
    runs: BTreeMap<String, u32>,
    /// Noise multipliers of all answers, each with its count.
    spent: Vec<(f64, u32)>,
}

#[derive(Debug)]
struct Store {
    path: PathBuf,
    /// Held for its lock.
    _lock: File,
    /// Whether a write failed, so that the contents of the disk are unknown.
    poisoned: bool,
}

impl ClientRecord {
    /// A record that exists only in memory: for tests, and for clients whose process lasts exactly
    /// one run.
    ///
    /// # Errors
    /// [`Error::Param`] for limits out of range; [`Error::Accounting`] for a budget that no filter
    /// supports.
    pub fn in_memory(policy: ClientPolicy) -> Result<Self> {
        let state = State {
            schema_version: SCHEMA,
            ..State::default()
        };
        Self::of(policy, state, None)
    }

    /// Creates a record in a file that does not exist yet.
    ///
    /// # Errors
    /// As [`in_memory`](Self::in_memory); [`Error::Io`], also if the file exists: a record is never
    /// overwritten by accident.
    pub fn create(path: impl Into<PathBuf>, policy: ClientPolicy) -> Result<Self> {
        let mut record = Self::in_memory(policy)?;
        let store = Store::lock(path.into())?;
        if store.path.exists() {
            return Err(store.failed(io::ErrorKind::AlreadyExists.into()));
        }
        record.store = Some(store);
        record.save()?;
        Ok(record)
    }

    /// Opens the record in a file, under a policy that may differ from the previous one. Earlier
    /// answers remain recorded.
    ///
    /// # Errors
    /// As [`in_memory`](Self::in_memory); [`Error::Io`] if there is no file or it cannot be read;
    /// [`Error::ClientRecord`] if it is empty, damaged, of another version, or in use.
    pub fn open(path: impl Into<PathBuf>, policy: ClientPolicy) -> Result<Self> {
        let path = path.into();
        let failed = |source| io_error(&path, source);
        fs::metadata(&path).map_err(failed)?; // checked before a lock file is created for it
        let store = Store::lock(path.clone())?;
        let bytes = fs::read(&path).map_err(failed)?;
        let state: State =
            serde_json::from_slice(&bytes).map_err(|_| unusable(&path, "it is damaged"))?;
        if state.schema_version != SCHEMA {
            return Err(unusable(&path, "it was written by another version"));
        }
        let in_range = |&(z, _): &(f64, u32)| z.is_finite() && z > 0.0;
        if !state.spent.iter().all(in_range) {
            return Err(unusable(&path, "it is damaged"));
        }
        Self::of(policy, state, Some(store))
    }

    fn of(policy: ClientPolicy, state: State, store: Option<Store>) -> Result<Self> {
        policy.check()?;
        let lifetime = policy.lifetime.as_ref();
        let filter = lifetime.map(|of| GaussianFilter::new(of.target, of.adjacency));
        let mut filter = filter.transpose()?;
        let mut is_overdrawn = false;
        if let Some(filter) = &mut filter {
            let all = state.spent.iter();
            let mut all = all.flat_map(|&(z, times)| (0..times).map(move |_| DpEvent::gaussian(z)));
            is_overdrawn = all.any(|answer| filter.spend(&answer).is_err());
        }
        Ok(Self {
            policy,
            filter,
            is_overdrawn,
            state,
            store,
        })
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &ClientPolicy {
        &self.policy
    }

    /// The total cost of all answers, if the policy has a budget.
    #[must_use]
    pub fn spent(&self) -> Option<Gdp> {
        self.filter.as_ref().map(GaussianFilter::spent)
    }

    /// The last round that was answered in a run, or 0 for none.
    #[must_use]
    pub fn last_answered(&self, run: &str) -> u32 {
        self.state.runs.get(run).copied().unwrap_or(0)
    }

    /// Registers an announced round, whether or not the client is asked to answer. A new run
    /// becomes the current one, durably, and the previous one has ended for good.
    ///
    /// # Errors
    /// [`Error::Refused`] if the policy does not allow the round, or no further run; [`Error::Io`]
    /// and [`Error::ClientRecord`] if the record cannot be written.
    pub fn enter(&mut self, round: &AskedRound<'_>) -> Result<KnownRun> {
        self.policy.admits(round)?;
        if self.state.current.as_deref() == Some(round.run) {
            return Ok(KnownRun::Current);
        }
        if self.state.runs.contains_key(round.run) {
            return Ok(KnownRun::Left);
        }
        let most = self.policy.most_runs;
        if self.state.runs.len() >= most {
            return Err(Error::Refused(Refusal::Runs { most }));
        }
        self.state.runs.insert(round.run.to_owned(), 0);
        self.state.current = Some(round.run.to_owned());
        self.save()?;
        Ok(KnownRun::New)
    }

    /// Charges the answer to a round that was [entered](Self::enter), once. The answer may be sent
    /// when this returns.
    ///
    /// # Errors
    /// [`Error::Refused`] if this round or a later one of the run was answered, the run is not the
    /// current one, or the budget does not allow it; [`Error::Param`] for a round without a noise
    /// multiplier, which would cost nothing; [`Error::Io`] and [`Error::ClientRecord`] if the
    /// record cannot be written: the charge then counts as spent.
    pub fn answer(&mut self, round: &AskedRound<'_>) -> Result<()> {
        self.policy.admits(round)?;
        params::at_least_one("noise_multipliers", round.noise_multipliers.len())?;
        let current = self.state.current.as_deref() == Some(round.run);
        if !current || round.number <= self.last_answered(round.run) {
            return Err(Error::Refused(Refusal::Answered));
        }
        if self.is_overdrawn {
            return Err(Error::Refused(Refusal::Lifetime));
        }
        let mut after = self.filter;
        for &z in round.noise_multipliers {
            let event = DpEvent::gaussian(params::finite_positive("noise_multiplier", z)?);
            if after
                .as_mut()
                .is_some_and(|filter| filter.spend(&event).is_err())
            {
                return Err(Error::Refused(Refusal::Lifetime));
            }
        }
        self.filter = after;
        for &z in round.noise_multipliers {
            let same = |entry: &&mut (f64, u32)| entry.0.to_bits() == z.to_bits();
            match self.state.spent.iter_mut().find(same) {
                Some((_, times)) => *times = times.saturating_add(1),
                None => self.state.spent.push((z, 1)),
            }
        }
        self.state.runs.insert(round.run.to_owned(), round.number);
        self.save()
    }

    fn save(&mut self) -> Result<()> {
        match &mut self.store {
            Some(store) => store.replace(&self.state),
            None => Ok(()),
        }
    }
}

impl Store {
    fn lock(path: PathBuf) -> Result<Self> {
        let beside = with_ending(&path, ".lock");
        let failed = |source| io_error(&beside, source);
        let mut options = private_file();
        let lock = options.create(true).truncate(false).open(&beside);
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(unusable(&path, "another process uses it"));
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        Ok(Self {
            path,
            _lock: lock,
            poisoned: false,
        })
    }

    /// Replaces the stored text; the new one is durable when this returns.
    fn replace(&mut self, state: &State) -> Result<()> {
        if self.poisoned {
            return Err(unusable(
                &self.path,
                "an earlier write failed: open it again",
            ));
        }
        let bytes =
            serde_json::to_vec(state).map_err(|_| unusable(&self.path, "it cannot be written"))?;
        let partial = with_ending(&self.path, ".partial");
        self.poisoned = true;
        let write = || -> io::Result<()> {
            match fs::remove_file(&partial) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = private_file().create_new(true).open(&partial)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&partial, &self.path)?;
            sync_folder_of(&self.path)
        };
        write().map_err(|source| self.failed(source))?;
        self.poisoned = false;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> Error {
        io_error(&self.path, source)
    }
}

/// Options for opening files for writing that nobody else may read.
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The path with `ending` appended.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn unusable(path: &Path, what: &'static str) -> Error {
    Error::ClientRecord {
        path: path.to_owned(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(epsilon: f64) -> ClientPolicy {
        let target = ApproxDp::target(epsilon, 1e-6).unwrap();
        let adjacency = Adjacency::ReplaceUser;
        ClientPolicy {
            lifetime: Some(Lifetime { target, adjacency }),
            ..ClientPolicy::trusting()
        }
    }

    fn asked(number: u32) -> AskedRound<'static> {
        AskedRound {
            run: "a run",
            number,
            noise_multipliers: &[4.0, 8.0],
            clip_norm: 1.0,
        }
    }

    #[test]
    fn what_was_answered_is_on_disk_for_nobody_else_to_read_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        assert!(ClientRecord::open(&path, policy(9.0)).is_err());
        assert!(!path.exists());
        let mut record = ClientRecord::create(&path, policy(9.0)).unwrap();
        assert_eq!(record.enter(&asked(1)).unwrap(), KnownRun::New);
        let free = AskedRound {
            noise_multipliers: &[],
            ..asked(1)
        };
        assert!(matches!(record.answer(&free), Err(Error::Param(_))));
        record.answer(&asked(1)).unwrap();
        record.answer(&asked(3)).unwrap();
        // under replacement: 2 (4/16 + 4/64)
        let spent = record.spent().unwrap().mu;
        assert!((spent.powi(2) - 0.625).abs() < 1e-12, "{spent}");
        let in_use = ClientRecord::open(&path, policy(9.0)).unwrap_err();
        assert!(in_use.to_string().contains("another process"), "{in_use}");
        #[cfg(unix)]
        for name in ["record", "record.lock"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(folder.path().join(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        drop(record);

        assert!(ClientRecord::create(&path, policy(9.0)).is_err());
        let mut again = ClientRecord::open(&path, policy(9.0)).unwrap();
        assert_eq!(again.spent().unwrap().mu.to_bits(), spent.to_bits());
        assert_eq!(again.enter(&asked(1)).unwrap(), KnownRun::Current);
        for round in 1..=3 {
            let refused = again.answer(&asked(round));
            assert!(matches!(refused, Err(Error::Refused(Refusal::Answered))));
        }
        again.answer(&asked(4)).unwrap();
        drop(again);
        // a budget that is stricter than what was spent allows nothing more
        let mut strict = ClientRecord::open(&path, policy(0.1)).unwrap();
        let cheap = AskedRound {
            noise_multipliers: &[1e6],
            ..asked(5)
        };
        let refused = strict.answer(&cheap);
        assert!(matches!(refused, Err(Error::Refused(Refusal::Lifetime))));
        drop(strict);
        for bytes in [
            &b""[..],
            b"{",
            b"{\"schema_version\":2,\"current\":null,\"runs\":{},\"spent\":[]}",
        ] {
            fs::write(&path, bytes).unwrap();
            let damaged = ClientRecord::open(&path, policy(9.0));
            assert!(matches!(damaged, Err(Error::ClientRecord { .. })));
        }
    }

    #[test]
    fn a_record_that_cannot_be_written_lets_no_message_leave() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let mut record = ClientRecord::create(&path, policy(9.0)).unwrap();
        record.enter(&asked(1)).unwrap();
        folder.close().unwrap();
        assert!(matches!(record.answer(&asked(1)), Err(Error::Io { .. })));
        // what did not reach the disk counts as spent anyway, and the contents of the disk are
        // unknown
        assert_eq!(record.last_answered("a run"), 1);
        let later = record.answer(&asked(2));
        assert!(matches!(later, Err(Error::ClientRecord { .. })));
    }

    #[test]
    fn limits_out_of_range_are_no_policy() {
        for bad in [
            ClientPolicy {
                least_noise_multiplier: f64::NAN,
                ..ClientPolicy::trusting()
            },
            ClientPolicy {
                least_noise_multiplier: -1.0,
                ..ClientPolicy::trusting()
            },
            ClientPolicy {
                largest_clip_norm: 0.0,
                ..ClientPolicy::trusting()
            },
            ClientPolicy {
                most_rounds: 0,
                ..ClientPolicy::trusting()
            },
            ClientPolicy {
                most_runs: 0,
                ..ClientPolicy::trusting()
            },
            policy(1.0).with_epsilon(0.0),
        ] {
            assert!(ClientRecord::in_memory(bad).is_err());
        }
        let mut record = ClientRecord::in_memory(ClientPolicy::trusting()).unwrap();
        let nan = AskedRound {
            noise_multipliers: &[f64::NAN],
            ..asked(1)
        };
        assert!(record.enter(&nan).is_err());
        let nan = AskedRound {
            clip_norm: f64::NAN,
            ..asked(1)
        };
        assert!(record.enter(&nan).is_err());
    }

    impl ClientPolicy {
        fn with_epsilon(mut self, epsilon: f64) -> Self {
            if let Some(lifetime) = &mut self.lifetime {
                lifetime.target.epsilon = epsilon;
            }
            self
        }
    }
}
