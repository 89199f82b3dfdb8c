//! Binding of a ledger to its data set: a keyed sketch of its users, in two files next to the
//! ledger.
//!
//! A file name does not identify a data set: two different files may be called `ratings.csv.gz`. A
//! ledger `L` is therefore bound to the users that it was charged for. `L.key` contains a random
//! key of 32 bytes, `L.users` the smallest [`KEPT`] of the values HMAC-SHA256(key, user id),
//! truncated to 128 bits, over all users of any run with this ledger. Both files are accessible to
//! their owner only (mode 0600), and no published hash covers them.
//!
//! Before it pays, a run compares its users with the sketch. Below the largest value of a full
//! sketch, all recorded users are known, so the two sets are compared exactly there; with fewer
//! than [`KEPT`] users that is everywhere. The measure is the overlap coefficient
//! `|A ∩ B| / min(|A|, |B|)`: it stays 1 for data that grow, and for a part of the data. If it is
//! below one half, the run is refused.
//!
//! `L.users` also records the state of the ledger when it was last used ([`Seen`]). A ledger with
//! fewer releases was truncated or is an older copy, and is refused until `dp ledger
//! accept-rollback` notes in it that payments are missing. The file is written before a payment and
//! again at the end of a run: after a crash it may record less than the ledger has, never more.
//!
//! The file always has [`KEPT`] values, some of which may belong to no user, and every run that
//! pays rewrites it, so neither its length nor its time reveals the number of users or when that
//! number changed.
//!
//! # Privacy
//! Whether the run is refused depends on private records; nights after the first, whose absence
//! would be visible, are not refused for this reason ([`Comparison::Tell`]). The refusal is shown
//! to the operator of the workflow, who has the records; it comes before anything is paid or
//! released, and nothing that is released depends on it. It states no numbers.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dp_accounting::{Error as AccountingError, Ledger, LedgerNote, LedgerSummary, hex, sha256_hex};
use dp_core::Private;
use dp_data::{Ratings, SampleTable};
use hmac::{Hmac, KeyInit, Mac};
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::output::{replace_private, warn};

use super::{USERS_KEY, users_keys};

/// Number of hashes in a sketch: the standard error of a share of users is below 1.6 %.
const KEPT: usize = 1024;
/// Minimum number of users for a comparison if one of the two sets is known by its sketch alone.
const COMPARED: usize = 16;
/// Version of the key's file.
const SCHEMA: u32 = 1;
/// Version of the users' file. Version 1 has neither values of no user nor the recorded state of
/// the ledger.
const USERS_SCHEMA: u32 = 2;

/// The first 128 bits of a user id's HMAC. Such values do not collide.
type UserHash = [u8; 16];

/// Data with users.
pub(crate) trait HasUsers {
    /// The ids of its users, also of those whose records a run leaves out.
    fn user_ids(&self) -> Private<Vec<&str>>;
}

impl HasUsers for Ratings {
    fn user_ids(&self) -> Private<Vec<&str>> {
        let ids = self.user_ids().expose().iter();
        let ids = ids.chain(self.left_out_users().expose());
        Private::new(ids.map(String::as_str).collect())
    }
}

impl HasUsers for SampleTable {
    fn user_ids(&self) -> Private<Vec<&str>> {
        let users = self.users().expose().iter();
        Private::new(users.map(|user| user.id()).collect())
    }
}

/// The ledger's information about its binding.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded<'a> {
    /// The hashes of the keys that lines of the ledger name, in order; the last one is in use.
    pub(crate) keys: Vec<&'a str>,
    /// Whether anything was ever paid.
    pub(crate) has_paid: bool,
    /// The releases paid for, in order.
    pub(crate) release_ids: Vec<&'a str>,
    /// Number of held releases that were handed out.
    pub(crate) n_taken: usize,
    /// The notes, as hashes of all that they say.
    pub(crate) notes: Vec<String>,
    /// Number of nights of all paced lifetimes.
    pub(crate) n_nights: usize,
    /// Whether another ledger replaced it.
    pub(crate) is_closed: bool,
}

impl<'a> Recorded<'a> {
    pub(crate) fn of(ledger: &'a Ledger) -> Self {
        let paid = (ledger.release_ids().collect(), ledger.balance().spent);
        let lifetimes = ledger.lifetimes().filter_map(|id| ledger.lifetime(id).ok());
        Self {
            n_taken: ledger.n_taken(),
            n_nights: lifetimes.map(|of| of.n_nights).sum(),
            ..Self::with(paid, ledger.notes())
        }
    }

    pub(crate) fn of_summary(found: &'a LedgerSummary) -> Self {
        let releases = found.releases.iter();
        let paid = (
            releases.map(|release| &*release.release_id).collect(),
            found.balance.spent,
        );
        let nights = found.nights.iter().flat_map(|(_, nights)| nights);
        Self {
            n_taken: found.taken.len(),
            n_nights: nights.filter(|night| night.number.is_some()).count(),
            is_closed: found.successor.is_some(),
            ..Self::with(paid, &found.notes)
        }
    }

    fn with((release_ids, spent): (Vec<&'a str>, f64), notes: &'a [LedgerNote]) -> Self {
        Self {
            keys: users_keys(notes).collect(),
            // the readable part of an interrupted line is paid for and is not a release
            has_paid: !release_ids.is_empty() || spent > 0.0 || rollbacks(notes).next().is_some(),
            release_ids,
            n_taken: 0,
            notes: notes.iter().map(hash_of).collect(),
            n_nights: 0,
            is_closed: false,
        }
    }
}

fn hash_of(note: &LedgerNote) -> String {
    sha256_hex(format!("{} {} {}", note.time, note.name, note.text).as_bytes())
}

/// The name of notes about payments that are missing from a ledger.
const ROLLBACK: &str = "rollback";
/// Their text. How many payments, and whether a torn line counted a part of them, is not known.
pub(super) const MISSING: &str = "payments are missing from the ledger and may not be counted";

/// The name of notes about users that were recorded anew.
pub(super) const REBOUND: &str = "users";
/// Their text.
pub(super) const ANEW: &str = "the ledger's users were recorded anew without their earlier files, so it may have been an older copy";

/// Notes of payments that are missing from a ledger.
pub(crate) fn rollbacks(notes: &[LedgerNote]) -> impl Iterator<Item = &LedgerNote> {
    notes.iter().filter(|note| note.name == ROLLBACK)
}

/// The recorded state of a ledger. A ledger only ever advances from there, even when
/// `dp ledger upgrade` rewrites it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    n_releases: usize,
    /// SHA-256 of the id of the last release; the id itself is published.
    last_release: Option<String>,
    n_taken: usize,
    /// Whether a line named the key of this file, or before `notes` was recorded, any key.
    names_key: bool,
    /// Number of notes, and the hash of the last one.
    #[serde(default)]
    notes: Option<(usize, Option<String>)>,
    /// Number of nights of all paced lifetimes.
    #[serde(default)]
    n_nights: usize,
    /// Whether another ledger replaced it.
    #[serde(default)]
    is_closed: bool,
}

impl Seen {
    /// For a file of users with this key.
    fn of(recorded: &Recorded<'_>, key: &str) -> Self {
        Self {
            n_releases: recorded.release_ids.len(),
            last_release: recorded
                .release_ids
                .last()
                .map(|id| sha256_hex(id.as_bytes())),
            n_taken: recorded.n_taken,
            names_key: recorded.keys.contains(&key),
            notes: Some((recorded.notes.len(), recorded.notes.last().cloned())),
            n_nights: recorded.n_nights,
            is_closed: recorded.is_closed,
        }
    }

    /// Whether a ledger contains all of it, with the key of the file that it is from.
    fn is_in(&self, recorded: &Recorded<'_>, key: &str) -> bool {
        // a merged ledger may have releases and notes of other ledgers before it
        let since = recorded
            .release_ids
            .get(self.n_releases.saturating_sub(1)..);
        let is_there = |last: &String| {
            since.is_some_and(|ids| ids.iter().any(|id| sha256_hex(id.as_bytes()) == *last))
        };
        let (has_notes, has_key) = match &self.notes {
            None => (true, !recorded.keys.is_empty()),
            Some((n_notes, last)) => {
                let since = recorded.notes.get(n_notes.saturating_sub(1)..);
                let has = last
                    .as_ref()
                    .is_none_or(|last| since.is_some_and(|notes| notes.contains(last)));
                (has, recorded.keys.contains(&key))
            }
        };
        self.last_release.as_ref().is_none_or(is_there)
            && self.n_taken <= recorded.n_taken
            && self.n_nights <= recorded.n_nights
            && has_notes
            && (!self.names_key || has_key)
            && (!self.is_closed || recorded.is_closed)
    }
}

/// Whether a ledger that is only read has everything that the file of its users records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// It has, or it was never bound to its users.
    Current,
    /// It lacks something.
    Older,
    /// The file is missing or cannot be read.
    Unchecked,
}

/// A ledger that is only read, and whether it is an older copy.
pub(crate) fn audit(ledger: &Path) -> Result<(LedgerSummary, Age)> {
    let files = Files::of(ledger);
    // first, because a run may be writing both
    let users = files.recorded_users();
    let found = Ledger::audit(ledger)?;
    let recorded = Recorded::of_summary(&found);
    let (age, why) = match users {
        Ok(None) if recorded.keys.is_empty() => (Age::Current, ""),
        Ok(None) => (Age::Unchecked, "is not next to it"),
        Ok(Some(users)) if users.is_newer_than(&recorded) => (Age::Older, ""),
        Ok(Some(_)) => (Age::Current, ""),
        Err(_) => (Age::Unchecked, "cannot be read"),
    };
    if age == Age::Unchecked {
        let (users, ledger) = (files.users.display(), ledger.display());
        warn(&format!(
            "{users} {why}, so nothing shows whether {ledger} is an older copy: check it where that file is"
        ));
    }
    Ok((found, age))
}

/// A ledger that is only read and is not an older copy.
///
/// # Errors
/// [`Error::LedgerCut`]; when the ledger cannot be read.
pub fn audit_current(ledger: &Path) -> Result<LedgerSummary> {
    match audit(ledger)? {
        (_, Age::Older) => Err(Files::of(ledger).is_cut()),
        (found, Age::Current | Age::Unchecked) => Ok(found),
    }
}

/// Refuses a ledger that lacks what the file of its users records, before anything is paid from it.
///
/// # Errors
/// [`Error::LedgerCut`].
pub fn refuse_older_copy(path: &Path, ledger: &Ledger) -> Result<()> {
    Files::of(path).refuse_older_copy(&Recorded::of(ledger))
}

/// Refuses a file of users that cannot be read.
///
/// # Errors
/// [`Error::Binding`], or when reading fails.
pub(super) fn check_readable(path: &Path) -> Result<()> {
    Files::of(path).recorded_users().map(drop)
}

/// Notes in a ledger that payments are missing from it, and records its state as the current one:
/// later runs may use it, and their certificates repeat the note.
///
/// # Errors
/// [`Error::Usage`] if nothing is missing; [`Error::Binding`] as for a run; when the ledger cannot
/// be written or has a version without notes.
pub(super) fn accept_rollback(ledger: &Path) -> Result<()> {
    let found = Ledger::audit(ledger)?;
    let open = || Ledger::open(ledger, &found.data_set_id, found.budget.adjacency());
    let mut opened = open()?;
    let files = Files::of(ledger);
    let users = files.recorded_users()?;
    let Some(users) = users.filter(|users| users.is_newer_than(&Recorded::of(&opened))) else {
        return Err(Error::Usage(format!(
            "{} has everything that the file of its users records: there is nothing to accept",
            ledger.display()
        )));
    };
    if users.seen.as_ref().is_some_and(|seen| seen.is_closed) {
        return Err(Error::Usage(format!(
            "{} was merged into another ledger, which has its payments: use that one",
            ledger.display()
        )));
    }
    if let Err(error) = opened.note(ROLLBACK, MISSING) {
        if !matches!(error, AccountingError::LedgerVersion { .. }) {
            return Err(error.into());
        }
        // a version without notes
        drop(opened);
        Ledger::upgrade(ledger, found.budget.kind(), found.budget.target())?;
        opened = open()?;
        opened.note(ROLLBACK, MISSING)?;
    }
    if !users_keys(opened.notes()).any(|key| key == users.key_sha256) {
        opened.note(USERS_KEY, &users.key_sha256)?;
    }
    files.record(&Recorded::of(&opened))
}

/// Records next to an open ledger what it contains now, if there is a file of its users. Only warns
/// if that fails: the file then records less.
pub fn record(path: &Path, ledger: &Ledger) {
    record_as(path, &Recorded::of(ledger));
}

/// The same for a ledger that was closed.
pub(super) fn record_closed(path: &Path) -> Result<()> {
    record_as(path, &Recorded::of_summary(&Ledger::audit(path)?));
    Ok(())
}

fn record_as(path: &Path, recorded: &Recorded<'_>) {
    let files = Files::of(path);
    if let Err(error) = files.record(recorded) {
        tracing::warn!(file = %files.users.display(), %error, "the .users file does not record the last changes of the ledger");
    }
}

/// A ledger's key and the users of all its runs, including this one: checked, and written before
/// the run pays.
pub(crate) struct Binding {
    files: Files,
    key: Key,
    /// Whether the key's file has yet to be written.
    is_new: bool,
    sketch: Sketch,
    /// Whether fewer than half of the users were charged for before.
    has_other_users: bool,
    /// The recorded state of the ledger in the users' file, once it was written.
    seen: Option<Seen>,
}

/// Purpose of comparing the users of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Refuse other users.
    Refuse,
    /// Users are at workers: there is nothing to compare.
    Elsewhere,
    /// Report it without refusing: whether there is a night is visible to everybody, and must not
    /// follow from how many users are known.
    Tell,
}

impl Binding {
    /// Compares the users of a run with those that the ledger was charged for. If the users are at
    /// workers, `same_data_set` replaces that comparison and nothing else: such runs always set it.
    ///
    /// # Errors
    /// [`Error::OtherUsers`] if too few are the same, unless `same_data_set`; [`Error::LedgerCut`]
    /// if the ledger has less than is recorded; [`Error::Binding`] if a file of the binding is
    /// missing or damaged, which `same_data_set` recreates; [`Error::LedgerLost`] if such files
    /// exist without a ledger.
    pub(crate) fn check(
        ledger: &Path,
        recorded: Option<&Recorded<'_>>,
        (users, comparison): (&Private<Vec<&str>>, Comparison),
        same_data_set: bool,
    ) -> Result<Self> {
        let users = Some(users).filter(|_| comparison != Comparison::Elsewhere);
        let same_data_set = same_data_set && users.is_some();
        let files = Files::of(ledger);
        let (key, remembered) = match recorded {
            None => {
                files.refuse_leftovers()?;
                (None, None)
            }
            // created before its first run, or that run ended before it recorded any user
            Some(recorded) if !recorded.has_paid && !is_there(&files.users) => (None, None),
            Some(recorded) => {
                files.refuse_older_copy(recorded)?;
                match files.read(recorded) {
                    Err(Error::Binding { .. }) if same_data_set => (None, None),
                    read => match read? {
                        None => (None, None),
                        // before anything is paid, the ledger is not tied to any data
                        Some(read) => (
                            Some(read.key),
                            Some(read.sketch).filter(|_| recorded.has_paid),
                        ),
                    },
                }
            }
        };
        let is_new = key.is_none();
        let key = key.map_or_else(Key::random, Ok)?;
        let now = key.hashes(users.map_or(&[], |users| users.expose()));
        let has_other_users = !same_data_set
            && users.is_some()
            && remembered.as_ref().is_some_and(|of| !of.is_of(&now));
        if has_other_users && comparison == Comparison::Refuse {
            return Err(Error::OtherUsers {
                ledger: files.ledger,
            });
        }
        let sketch = Sketch::of(now).joined(remembered.as_ref());
        Ok(Self {
            files,
            key,
            is_new,
            sketch,
            has_other_users,
            seen: None,
        })
    }

    /// Whether fewer than half of the users were charged for before: private.
    pub(crate) const fn has_other_users(&self) -> bool {
        self.has_other_users
    }

    /// The hash of the key, which a ledger may name.
    pub(crate) fn key_hash(&self) -> String {
        self.key.hash()
    }

    /// Makes what was checked durable, with the current state of the ledger. It comes before the
    /// payment: after a crash in between, users may be recorded who were not charged for, but never
    /// the reverse.
    pub(crate) fn write(&mut self, recorded: &Recorded<'_>) -> Result<()> {
        if std::mem::take(&mut self.is_new) {
            let file = KeyFile {
                ledger_key: NAME.to_owned(),
                schema_version: SCHEMA,
                key: hex(&self.key.0),
            };
            replace_private(&self.files.key, &line(&file)?)?;
            tracing::info!(file = %self.files.key.display(), "bound the ledger to its users; back this key up with the ledger");
        }
        let seen = Seen::of(recorded, &self.key.hash());
        if self.seen.as_ref() != Some(&seen) {
            let mut hashes = self.sketch.0.clone();
            let nobody = self.key.hashes_of_nobody();
            hashes.extend(nobody.take(KEPT - self.sketch.0.len()));
            hashes.sort_unstable();
            let file = UsersFile {
                ledger_users: NAME.to_owned(),
                schema_version: USERS_SCHEMA,
                key_sha256: self.key.hash(),
                smallest: hashes.iter().map(|hash| hex(hash)).collect(),
                seen: Some(seen.clone()),
            };
            replace_private(&self.files.users, &line(&file)?)?;
            self.seen = Some(seen);
        }
        Ok(())
    }

    /// Records the current state of the ledger, if anything was written before. If that fails, the
    /// file records less.
    pub(crate) fn close(&mut self, recorded: &Recorded<'_>) {
        if self.seen.is_some()
            && let Err(error) = self.write(recorded)
        {
            tracing::warn!(file = %self.files.users.display(), %error, "the .users file does not record the last payments");
        }
    }
}

/// Refuses a new ledger in place of one that was lost.
///
/// # Errors
/// [`Error::LedgerLost`] if files of its users are there.
pub fn refuse_leftovers(ledger: &Path) -> Result<()> {
    Files::of(ledger).refuse_leftovers()
}

/// Whether both files of a binding exist.
pub(crate) fn is_bound(ledger: &Path) -> bool {
    let files = Files::of(ledger);
    is_there(&files.key) && is_there(&files.users)
}

/// Gives a ledger that continues others the binding of the one whose key it names. If that is
/// missing or damaged, it warns, and runs are refused until the operator restores it or passes
/// `--same-data-set`. Returns the old ledger; the users of the others cannot be added, because each
/// ledger has another key.
pub(super) fn carry_over<'a>(
    old: &'a [PathBuf],
    new: &Path,
    recorded: &Recorded<'_>,
) -> Result<Option<&'a Path>> {
    for path in old {
        let files = Files::of(path);
        if let Ok(Some(Read { key, sketch, .. })) = files.read(recorded) {
            let mut binding = Binding {
                files: Files::of(new),
                key,
                is_new: true,
                sketch,
                has_other_users: false,
                seen: None,
            };
            binding.write(recorded)?;
            return Ok(Some(path));
        }
    }
    let new = new.display();
    warn(&format!(
        "the `.key` or `.users` file of the last ledger that was bound to its users is missing or damaged: restore both and run the same merge \
         again; until then runs with {new} are refused, or need --same-data-set"
    ));
    Ok(None)
}

/// The files of a binding.
struct Files {
    ledger: PathBuf,
    key: PathBuf,
    users: PathBuf,
}

const NAME: &str = "dp-personal";

#[derive(Serialize, Deserialize)]
struct KeyFile {
    ledger_key: String,
    schema_version: u32,
    key: String,
}

#[derive(Serialize, Deserialize)]
struct UsersFile {
    ledger_users: String,
    schema_version: u32,
    key_sha256: String,
    smallest: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Seen>,
}

/// The contents of the files of a binding.
struct Read {
    key: Key,
    sketch: Sketch,
}

impl Files {
    /// The files of a ledger; a link is resolved.
    fn of(ledger: &Path) -> Self {
        let whole = ledger.canonicalize();
        let ledger = match whole {
            Ok(whole) if ledger.is_symlink() => whole,
            Ok(_) | Err(_) => ledger.to_owned(),
        };
        let file = |end: &str| {
            let mut name = OsString::from(&ledger);
            name.push(end);
            PathBuf::from(name)
        };
        Self {
            key: file(".key"),
            users: file(".users"),
            ledger,
        }
    }

    /// If a ledger is missing although its users are recorded, it was lost, and a new one would not
    /// count what was spent.
    fn refuse_leftovers(&self) -> Result<()> {
        let left = [&self.users, &self.key];
        let left = left.into_iter().find(|path| is_there(path));
        left.map_or(Ok(()), |left| {
            Err(Error::LedgerLost {
                ledger: self.ledger.clone(),
                users: left.clone(),
            })
        })
    }

    /// The file of the users, if it exists.
    ///
    /// # Errors
    /// When it cannot be read.
    fn recorded_users(&self) -> Result<Option<UsersFile>> {
        match is_there(&self.users) {
            true => self.read_file(&self.users).map(Some),
            false => Ok(None),
        }
    }

    fn refuse_older_copy(&self, recorded: &Recorded<'_>) -> Result<()> {
        match self.recorded_users() {
            Ok(Some(users)) if users.is_newer_than(recorded) => Err(self.is_cut()),
            // a damaged file is refused where the users are compared
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Writes the state of the ledger into the file of its users, if that exists.
    fn record(&self, recorded: &Recorded<'_>) -> Result<()> {
        let Some(mut users) = self.recorded_users()? else {
            return Ok(());
        };
        users.schema_version = USERS_SCHEMA;
        users.seen = Some(Seen::of(recorded, &users.key_sha256));
        replace_private(&self.users, &line(&users)?)
    }

    fn is_cut(&self) -> Error {
        Error::LedgerCut {
            ledger: self.ledger.clone(),
            users: self.users.clone(),
        }
    }

    fn broken(&self, reason: &str) -> Error {
        Error::Binding {
            ledger: self.ledger.clone(),
            reason: reason.to_owned(),
        }
    }

    /// The key and the users, if the ledger was bound.
    fn read(&self, recorded: &Recorded<'_>) -> Result<Option<Read>> {
        if recorded.keys.is_empty() && !is_there(&self.users) {
            return Ok(None); // created before ledgers were bound, or interrupted
        }
        let key: KeyFile = self.read_file(&self.key)?;
        let users: UsersFile = self.read_file(&self.users)?;
        let is_whole = key.ledger_key == NAME
            && users.ledger_users == NAME
            && key.schema_version == SCHEMA
            && (1..=USERS_SCHEMA).contains(&users.schema_version)
            && users.seen.is_some() == (users.schema_version > 1);
        let (key, mut hashes) = match (unhex(&key.key), users.hashes()) {
            (Some(key), Some(hashes)) if is_whole => (Key(key), hashes),
            _ => return Err(self.broken("its `.key` or `.users` file was not written by this program; restore both from a backup")),
        };
        let hash = key.hash();
        if users.key_sha256 != hash
            || recorded
                .keys
                .last()
                .is_some_and(|recorded| *recorded != hash)
        {
            return Err(self.broken("its `.key` and `.users` files are those of another ledger; restore both from a backup"));
        }
        let nobody: HashSet<UserHash> = key.hashes_of_nobody().collect();
        hashes.retain(|hash| !nobody.contains(hash));
        Ok(Some(Read {
            key,
            sketch: Sketch(hashes),
        }))
    }

    fn read_file<T: DeserializeOwned>(&self, path: &Path) -> Result<T> {
        let name = path.display();
        let bytes = fs::read(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.broken(&format!(
                "{name} is missing, which says which data it belongs to; restore it from a backup"
            )),
            _ => Error::read(path, error),
        })?;
        warn_if_open(path);
        serde_json::from_slice(&bytes)
            .map_err(|_| self.broken(&format!("{name} is damaged; restore it from a backup")))
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// A restored copy may have other permissions.
fn warn_if_open(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path).map(|found| found.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            let name = path.display();
            warn(&format!(
                "{name} can be read by others than its owner: chmod 600 {name}"
            ));
        }
    }
    #[cfg(not(unix))]
    let _ = path; // file modes exist on Unix only
}

fn line<T: Serialize>(file: &T) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(file)?;
    bytes.push(b'\n');
    Ok(bytes)
}

impl UsersFile {
    /// Whether a ledger lacks something that the file records.
    fn is_newer_than(&self, recorded: &Recorded<'_>) -> bool {
        // version 1 only records that users were about to be charged
        let is_in = |seen: &Seen| seen.is_in(recorded, &self.key_sha256);
        !self.seen.as_ref().map_or(recorded.has_paid, is_in)
    }

    /// The hashes, which must be sorted.
    fn hashes(&self) -> Option<Vec<UserHash>> {
        let hashes = self.smallest.iter().map(|text| unhex(text));
        let hashes: Vec<UserHash> = hashes.collect::<Option<_>>()?;
        let is_sketch = hashes.len() <= KEPT && hashes.is_sorted_by(|a, b| a < b);
        is_sketch.then_some(hashes)
    }
}

/// 64 bits from the operating system.
pub(crate) fn random_bits() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| AccountingError::EntropyUnavailable)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The key of a ledger.
struct Key([u8; 32]);

impl Key {
    fn random() -> Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| AccountingError::EntropyUnavailable)?;
        Ok(Self(bytes))
    }

    fn hash(&self) -> String {
        sha256_hex(&self.0)
    }

    /// The users' hashes, sorted and without repeats.
    fn hashes(&self, ids: &[&str]) -> Vec<UserHash> {
        let keyed = self.keyed();
        let hash = |id: &&str| cut(keyed.clone().chain_update(id.as_bytes()));
        let mut hashes: Vec<UserHash> = ids.par_iter().map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    /// [`KEPT`] hashes that belong to no user: an id is UTF-8, in which no byte is 0xff.
    fn hashes_of_nobody(&self) -> impl Iterator<Item = UserHash> {
        let keyed = self.keyed().chain_update([0xff]);
        (0..KEPT as u64).map(move |at| cut(keyed.clone().chain_update(at.to_le_bytes())))
    }

    fn keyed(&self) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key")
    }
}

fn cut(keyed: Hmac<Sha256>) -> UserHash {
    let whole = keyed.finalize();
    std::array::from_fn(|at| whole.as_bytes()[at])
}

/// The smallest hashes of a set of users, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sketch(Vec<UserHash>);

impl Sketch {
    fn of(mut hashes: Vec<UserHash>) -> Self {
        hashes.truncate(KEPT);
        Self(hashes)
    }

    /// The sketch of both sets of users.
    fn joined(mut self, other: Option<&Self>) -> Self {
        if let Some(other) = other {
            self.0.extend_from_slice(&other.0);
            self.0.sort_unstable();
            self.0.dedup();
        }
        Self::of(self.0)
    }

    /// Whether at least half of the smaller set of users is in the larger one. `now` is sorted. If
    /// a ledger has no recorded users, because those of all its runs were at workers, no users
    /// match it.
    fn is_of(&self, now: &[UserHash]) -> bool {
        if self.0.is_empty() && !now.is_empty() {
            return false;
        }
        let largest = self.0.last().filter(|_| self.0.len() == KEPT);
        let n_compared = largest.map_or(now.len(), |largest| now.partition_point(|h| h <= largest));
        let now = &now[..n_compared];
        let n_common = now.iter().filter(|hash| self.0.binary_search(hash).is_ok());
        let n_common = n_common.count();
        let smaller = now.len().min(self.0.len());
        let is_enough = largest.is_none() || smaller >= COMPARED;
        is_enough && 2 * n_common >= smaller
    }
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(of: std::ops::Range<u32>) -> Vec<String> {
        of.map(|user| format!("user-{user}")).collect()
    }

    /// A ledger that has already paid.
    fn paid() -> Recorded<'static> {
        Recorded {
            has_paid: true,
            ..Recorded::default()
        }
    }

    /// A run with a ledger that has already paid, and its users once they are written.
    fn run(ledger: &Path, users: std::ops::Range<u32>, same_data_set: bool) -> Result<()> {
        let recorded = paid();
        run_with(ledger, Some(recorded), users, same_data_set).map(|_| ())
    }

    fn run_with(
        ledger: &Path,
        recorded: Option<Recorded<'_>>,
        users: std::ops::Range<u32>,
        same_data_set: bool,
    ) -> Result<String> {
        let ids = ids(users);
        let ids = Private::new(ids.iter().map(String::as_str).collect());
        let users = (&ids, Comparison::Refuse);
        let mut binding = Binding::check(ledger, recorded.as_ref(), users, same_data_set)?;
        binding.write(&recorded.unwrap_or_default())?;
        Ok(binding.key_hash())
    }

    fn is_other(found: &Result<()>) -> bool {
        matches!(found, Err(Error::OtherUsers { .. }))
    }

    #[test]
    fn data_grow_night_after_night_and_other_data_are_refused() {
        // exact below 1024 users, by the sketch above
        for n in [40, 5000] {
            let dir = tempfile::tempdir().unwrap();
            let ledger = dir.path().join("l");
            run(&ledger, 0..n, false).unwrap();
            for night in 1..6 {
                run(&ledger, 0..n + night * n / 2, false).unwrap();
            }
            assert!(is_other(&run(&ledger, 10 * n..11 * n, false)), "{n}");
            // nothing of the refused data is recorded
            assert!(is_other(&run(&ledger, 10 * n..11 * n, false)), "{n}");
            // a third of the users left and as many were added
            run(&ledger, n..4 * n, false).unwrap();
        }
    }

    #[test]
    fn nights_go_on_with_any_users_and_remember_them() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        run(&ledger, 0..300, false).unwrap();
        let tell = |users: std::ops::Range<u32>| {
            let ids = ids(users);
            let ids = Private::new(ids.iter().map(String::as_str).collect());
            let users = (&ids, Comparison::Tell);
            let mut binding = Binding::check(&ledger, Some(&paid()), users, false).unwrap();
            binding.write(&paid()).unwrap();
            binding.has_other_users()
        };
        assert!(tell(299..900));
        assert!(!tell(299..900));
        run(&ledger, 299..900, false).unwrap();
    }

    #[test]
    fn a_part_of_the_data_is_the_same_data() {
        for n in [40, 5000] {
            let dir = tempfile::tempdir().unwrap();
            let ledger = dir.path().join("l");
            run(&ledger, 0..n, false).unwrap();
            run(&ledger, 0..n / 4, false).unwrap();
            // two fifths of these users are new, three fifths were present before
            run(&ledger, 2 * n / 5..7 * n / 5, false).unwrap();
            assert!(is_other(&run(&ledger, 3 * n / 2..3 * n, false)));
        }
    }

    #[test]
    fn the_operator_can_say_that_renamed_users_are_the_same_data() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        run(&ledger, 0..3000, false).unwrap();
        assert!(is_other(&run(&ledger, 5000..8000, false)));
        run(&ledger, 5000..8000, true).unwrap();
        // both are recorded
        run(&ledger, 0..3000, false).unwrap();
        run(&ledger, 5000..8000, false).unwrap();
    }

    #[test]
    fn runs_whose_users_are_at_workers_waive_the_comparison_of_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        let elsewhere = |recorded: Option<&Recorded<'_>>| {
            let users = (&Private::new(Vec::new()), Comparison::Elsewhere);
            let mut binding = Binding::check(&ledger, recorded, users, true)?;
            binding.write(&recorded.cloned().unwrap_or_default())?;
            Ok(binding.key_hash())
        };
        let key = elsewhere(None).unwrap();
        let releases = |ids: &[&'static str]| Recorded {
            has_paid: true,
            release_ids: ids.to_vec(),
            ..Recorded::default()
        };
        elsewhere(Some(&releases(&["a", "b"]))).unwrap();
        // an older copy of the ledger
        let cut = elsewhere(Some(&releases(&["a"])));
        assert!(matches!(cut, Err(Error::LedgerCut { .. })), "{cut:?}");
        // it records no users, so no data are known to be its own
        let with_users = |same| run_with(&ledger, Some(releases(&["a", "b"])), 0..50, same);
        assert!(is_other(&with_users(false).map(drop)));
        with_users(true).unwrap();
        with_users(false).unwrap();
        std::fs::remove_file(Files::of(&ledger).users).unwrap();
        let lost = elsewhere(Some(&Recorded {
            keys: vec![&key],
            ..releases(&["a", "b"])
        }));
        assert!(matches!(lost, Err(Error::Binding { .. })), "{lost:?}");
    }

    #[test]
    fn few_users_beside_a_full_sketch_are_not_enough_to_tell() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        run(&ledger, 0..200_000, false).unwrap();
        assert!(is_other(&run(&ledger, 0..20, false)));
        run(&ledger, 0..20, true).unwrap();
    }

    #[test]
    fn a_binding_that_is_lost_is_not_made_anew_in_silence() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        let users = || 0..100;
        run_with(&ledger, None, users(), false).unwrap();
        let hash = run_with(&ledger, Some(paid()), users(), false).unwrap();
        let recorded = || {
            Some(Recorded {
                keys: vec![&hash],
                ..paid()
            })
        };
        for name in ["l.key", "l.users"] {
            let path = dir.path().join(name);
            let bytes = fs::read(&path).unwrap();
            for damaged in [None, Some(&bytes[..9]), Some(b"{}")] {
                match damaged {
                    None => fs::remove_file(&path).unwrap(),
                    Some(part) => fs::write(&path, part).unwrap(),
                }
                let found = run_with(&ledger, recorded(), users(), false);
                let text = found.unwrap_err().to_string();
                assert!(text.contains("restore"), "{text}");
            }
            fs::write(&path, bytes).unwrap();
        }
        run_with(&ledger, recorded(), users(), false).unwrap();
        // the files of another ledger
        let other = dir.path().join("other");
        run(&other, users(), false).unwrap();
        fs::copy(dir.path().join("other.key"), dir.path().join("l.key")).unwrap();
        assert!(run_with(&ledger, recorded(), users(), false).is_err());
        fs::copy(dir.path().join("other.users"), dir.path().join("l.users")).unwrap();
        assert!(run_with(&ledger, recorded(), users(), false).is_err());
        let anew = run_with(&ledger, recorded(), users(), true).unwrap();
        assert_ne!(anew, hash);
    }

    #[test]
    fn a_ledger_that_is_gone_while_its_users_are_there_is_not_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        run(&ledger, 0..9, false).unwrap();
        for same_data_set in [false, true] {
            let found = run_with(&ledger, None, 0..9, same_data_set);
            let text = found.unwrap_err().to_string();
            assert!(text.contains("restore the ledger"), "{text}");
        }
        fs::remove_file(dir.path().join("l.users")).unwrap();
        let text = run_with(&ledger, None, 0..9, false)
            .unwrap_err()
            .to_string();
        assert!(text.contains("l.key"), "{text}");
        fs::remove_file(dir.path().join("l.key")).unwrap();
        run_with(&ledger, None, 0..9, false).unwrap();
    }

    #[test]
    fn a_ledger_with_less_than_was_seen_of_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        let with = |release_ids: &[&'static str], n_taken, key: Option<&'static str>| Recorded {
            keys: key.into_iter().collect(),
            has_paid: !release_ids.is_empty(),
            release_ids: release_ids.to_vec(),
            n_taken,
            notes: vec!["a note".to_owned()],
            n_nights: 3,
            is_closed: false,
        };
        let go = |recorded, same| run_with(&ledger, Some(recorded), 0..9, same).map(|_| ());
        let key = run_with(&ledger, Some(with(&[], 0, None)), 0..9, false).unwrap();
        let key: &'static str = key.leak();
        let key = Some(key);
        // a crash before the first payment, with and without the line that names the key
        go(with(&[], 0, None), false).unwrap();
        go(with(&[], 0, key), false).unwrap();
        let is_cut = |outcome| matches!(outcome, Err(Error::LedgerCut { .. }));
        assert!(is_cut(go(with(&[], 0, None), false)));
        go(with(&["a", "b"], 1, key), false).unwrap();
        for less in [
            with(&[], 0, key),
            with(&["a"], 1, key),
            with(&["a", "c"], 1, key),
            with(&["a", "b"], 0, key),
            with(&["a", "b", "c"], 2, None),
            Recorded {
                notes: Vec::new(),
                ..with(&["a", "b", "c"], 2, key)
            },
            // another one in its place
            Recorded {
                notes: vec!["another".to_owned(), "more".to_owned()],
                ..with(&["a", "b", "c"], 2, key)
            },
            Recorded {
                n_nights: 2,
                ..with(&["a", "b", "c"], 2, key)
            },
            with(
                &["a", "b", "c"],
                2,
                Some("the key of before it was recorded anew"),
            ),
        ] {
            assert!(is_cut(go(less.clone(), false)), "{less:?}");
            assert!(is_cut(go(less.clone(), true)), "{less:?}");
        }
        // what could not be recorded because of a crash is no reason to refuse
        go(with(&["a", "b", "c"], 2, key), false).unwrap();
        // without its key, the file shows it all the same
        fs::remove_file(Files::of(&ledger).key).unwrap();
        for same in [false, true] {
            assert!(is_cut(go(with(&["a"], 2, key), same)));
            assert!(is_cut(go(with(&[], 0, None), same)));
        }
        go(with(&["a", "b", "c"], 2, key), true).unwrap();
    }

    #[test]
    fn the_file_of_users_does_not_tell_their_number() {
        let dir = tempfile::tempdir().unwrap();
        let read = |ledger: &Path| Files::of(ledger).read(&paid()).unwrap().unwrap();
        for n in [1, 40, 1023, 1024, 3000] {
            let ledger = dir.path().join(n.to_string());
            run(&ledger, 0..n, false).unwrap();
            let bytes = fs::read(Files::of(&ledger).users).unwrap();
            let file: UsersFile = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(file.smallest.len(), KEPT, "{n}");
            assert_eq!(read(&ledger).sketch.0.len(), KEPT.min(n as usize));
        }
        // a file of version 1, which contains only users
        let ledger = dir.path().join("old");
        run(&ledger, 0..40, false).unwrap();
        let Read { key, sketch, .. } = read(&ledger);
        let old = UsersFile {
            ledger_users: NAME.to_owned(),
            schema_version: 1,
            key_sha256: key.hash(),
            smallest: sketch.0.iter().map(|hash| hex(hash)).collect(),
            seen: None,
        };
        fs::write(Files::of(&ledger).users, line(&old).unwrap()).unwrap();
        assert_eq!(read(&ledger).sketch, sketch);
        run(&ledger, 0..40, false).unwrap();
        fs::write(Files::of(&ledger).users, line(&old).unwrap()).unwrap();
        let unpaid = run_with(&ledger, Some(Recorded::default()), 0..40, false);
        assert!(matches!(unpaid, Err(Error::LedgerCut { .. })));
    }

    #[test]
    #[cfg(unix)]
    fn both_files_are_for_their_owner_alone_and_hold_no_id() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        run(&ledger, 0..9, false).unwrap();
        for name in ["l.key", "l.users"] {
            let path = dir.path().join(name);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
            assert!(!fs::read_to_string(&path).unwrap().contains("user-"));
        }
        // under another key the same users have other hashes
        let other = dir.path().join("other");
        run(&other, 0..9, false).unwrap();
        let hashes = |name: &str| {
            let bytes = fs::read(dir.path().join(name)).unwrap();
            serde_json::from_slice::<UsersFile>(&bytes)
                .unwrap()
                .smallest
        };
        assert!(
            hashes("l.users")
                .iter()
                .all(|hash| !hashes("other.users").contains(hash))
        );
    }

    #[test]
    fn user_hashes_are_hmac_sha256() {
        // RFC 4231, case 1, with its key padded to 32 bytes: HMAC pads shorter keys with zeros
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let found = Key(key).hashes(&["Hi There"]);
        assert_eq!(hex(&found[0]), "b0344c61d8db38535ca8afceaf0bf12b");
    }
}
