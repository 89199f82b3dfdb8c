//! Which data set a ledger belongs to: a keyed sketch of its users, in two files beside the ledger.
//!
//! A file name says little: two different files are called `ratings.csv.gz`. A ledger `L` is therefore bound to the users
//! that it was charged for. `L.key` holds a random key of 32 bytes, `L.users` the smallest [`KEPT`] of the values
//! HMAC-SHA256(key, user id), cut to 128 bits, over all users that any run with this ledger had. Both files are for their
//! owner alone (mode 0600), and no hash that is published covers them.
//!
//! Before it pays, a run compares its users with the sketch. Below the largest value of a full sketch all remembered
//! users are known, so there the two sets are compared exactly; with fewer than [`KEPT`] users that is everywhere. The
//! measure is the overlap coefficient `|A ∩ B| / min(|A|, |B|)`: data that grow keep it at 1, and so does a part of the
//! data. Below one half the run is refused.
//!
//! `L.users` also remembers how far the ledger had come when it was last used ([`Seen`]). A ledger that has less was cut off or is an
//! older copy, and is refused. The file is written before a payment and again at the end of a run: after a crash it remembers less
//! than the ledger has, never more.
//!
//! The file always has [`KEPT`] values, in part of nobody, and every run that pays writes it anew, so that neither its length nor
//! its time tells how many users there are or when their number changed.
//!
//! # Privacy
//! Whether the run is refused depends on private records; nights after the first, whose absence shows, are not refused for it ([`Comparison::Tell`]). The refusal is told to whoever runs the workflow, who has the
//! records; it comes before anything is paid or released, and nothing that is released depends on it. It states no figure.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dp_accounting::{Error as AccountingError, Ledger, hex, sha256_hex};
use dp_core::Private;
use dp_data::{Ratings, SampleTable};
use hmac::{Hmac, KeyInit, Mac};
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::output::{replace_private, warn};

use super::users_key;

/// Hashes that a sketch keeps: the standard error of a share of users is below 1.6 %.
const KEPT: usize = 1024;
/// Fewest users that two sets are compared on where one is known by its sketch alone.
const COMPARED: usize = 16;
/// Of the key's file.
const SCHEMA: u32 = 1;
/// Of the users' file. Version 1 has neither values of nobody nor what was seen of the ledger.
const USERS_SCHEMA: u32 = 2;

/// The first 128 bits of a user id's HMAC. Such values do not collide.
type UserHash = [u8; 16];

/// Whose records a table holds.
pub(crate) trait HasUsers {
    /// The ids of its users.
    fn user_ids(&self) -> Private<Vec<&str>>;
}

impl HasUsers for Ratings {
    fn user_ids(&self) -> Private<Vec<&str>> {
        let ids = self.user_ids().expose().iter();
        Private::new(ids.map(String::as_str).collect())
    }
}

impl HasUsers for SampleTable {
    fn user_ids(&self) -> Private<Vec<&str>> {
        let users = self.users().expose().iter();
        Private::new(users.map(|user| user.id()).collect())
    }
}

/// What a ledger says of its binding.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded<'a> {
    /// The hash of the key, where a line of the ledger names one.
    pub(crate) key: Option<&'a str>,
    /// Whether anything was ever paid.
    pub(crate) has_paid: bool,
    /// The releases paid for, in order.
    pub(crate) release_ids: Vec<&'a str>,
    /// How many held releases were handed out.
    pub(crate) n_taken: usize,
}

impl<'a> Recorded<'a> {
    pub(crate) fn of(ledger: &'a Ledger) -> Self {
        Self {
            key: users_key(ledger.notes()),
            // the readable remains of an interrupted line are paid for and are no release
            has_paid: ledger.n_releases() > 0 || ledger.balance().spent > 0.0,
            release_ids: ledger.release_ids().collect(),
            n_taken: ledger.n_taken(),
        }
    }
}

/// How far a ledger had come. It only ever goes on from there, also when it is rewritten by `dp ledger upgrade`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Seen {
    n_releases: usize,
    /// SHA-256 of the id of the last one; the id itself is published.
    last_release: Option<String>,
    n_taken: usize,
    /// Whether a line named the key.
    names_key: bool,
}

impl Seen {
    fn of(recorded: &Recorded<'_>) -> Self {
        Self {
            n_releases: recorded.release_ids.len(),
            last_release: recorded
                .release_ids
                .last()
                .map(|id| sha256_hex(id.as_bytes())),
            n_taken: recorded.n_taken,
            names_key: recorded.key.is_some(),
        }
    }

    /// Whether a ledger has all of it.
    fn is_in(&self, recorded: &Recorded<'_>) -> bool {
        // a merged ledger may have releases of others before it
        let since = recorded
            .release_ids
            .get(self.n_releases.saturating_sub(1)..);
        let is_there = |last: &String| {
            since.is_some_and(|ids| ids.iter().any(|id| sha256_hex(id.as_bytes()) == *last))
        };
        self.last_release.as_ref().is_none_or(is_there)
            && self.n_taken <= recorded.n_taken
            && (!self.names_key || recorded.key.is_some())
    }
}

/// A ledger's key and the users of all its runs, this one's included: checked, and written before the run pays.
pub(crate) struct Binding {
    files: Files,
    key: Key,
    /// What the key's file does not have yet.
    is_new: bool,
    sketch: Sketch,
    /// Whether fewer than half of the users were charged for before.
    has_other_users: bool,
    /// What the users' file says of the ledger, once it was written.
    seen: Option<Seen>,
}

/// What the users of a run are compared for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Refuse other users.
    Refuse,
    /// Users are at workers: there is nothing to compare.
    Elsewhere,
    /// Say so: everybody sees whether there is a night, which must not follow from how many users are known.
    Tell,
}

impl Binding {
    /// Compares the users of a run with those that the ledger was charged for. Where they are at workers, `same_data_set` stands for that
    /// comparison and for nothing else: such runs always say it.
    ///
    /// # Errors
    /// [`Error::OtherUsers`] when too few are the same, and [`Error::LedgerCut`] when the ledger has less than is remembered of it,
    /// unless `same_data_set`; [`Error::Binding`] when a file of the binding is missing or damaged, which `same_data_set` makes anew;
    /// [`Error::LedgerLost`] when such files are there without a ledger.
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
            // made before its first run, or that run ended before it remembered anybody
            Some(recorded) if !recorded.has_paid && !is_there(&files.users) => (None, None),
            Some(recorded) => match files.read(recorded) {
                Err(Error::Binding { .. }) if same_data_set => (None, None),
                read => match read? {
                    None => (None, None),
                    Some(read) => {
                        // of version 1 nothing is known but that somebody was to be charged
                        let seen = read.seen.map(|seen| seen.is_in(recorded));
                        if !same_data_set && !seen.unwrap_or(recorded.has_paid) {
                            return Err(Error::LedgerCut {
                                ledger: files.ledger,
                                users: files.users,
                            });
                        }
                        // before anything is paid no data have a claim to the ledger
                        (
                            Some(read.key),
                            Some(read.sketch).filter(|_| recorded.has_paid),
                        )
                    }
                },
            },
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

    /// Makes what was checked durable, with what the ledger says now. It comes before the payment: a crash in between leaves users
    /// remembered who were not charged for, never users charged for who are not remembered.
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
        let seen = Seen::of(recorded);
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

    /// Remembers how far the ledger has come, if anything was written before. Where that fails, the file remembers less.
    pub(crate) fn close(&mut self, recorded: &Recorded<'_>) {
        if self.seen.is_some()
            && let Err(error) = self.write(recorded)
        {
            tracing::warn!(file = %self.files.users.display(), %error, "the .users file does not record the last payments");
        }
    }
}

/// Refuses a new ledger where another one was lost.
pub(super) fn refuse_leftovers(ledger: &Path) -> Result<()> {
    Files::of(ledger).refuse_leftovers()
}

/// Whether both files of a binding are there.
pub(crate) fn is_bound(ledger: &Path) -> bool {
    let files = Files::of(ledger);
    is_there(&files.key) && is_there(&files.users)
}

/// Gives a ledger that takes over from others the binding of the one whose key it names. Where that is missing or damaged, it
/// warns, and runs are refused until the operator restores it or says `--same-data-set`. Returns the old ledger; the users of the others cannot be joined to its own, since each ledger has another key.
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
        "the `.key` or `.users` file of the last ledger that was bound to its users is missing or damaged: runs with {new} are refused \
         until you put both beside it as {new}.key and {new}.users, or say --same-data-set"
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

/// What the files of a binding say.
struct Read {
    key: Key,
    sketch: Sketch,
    /// What was seen of the ledger, which version 1 does not say.
    seen: Option<Seen>,
}

impl Files {
    /// Those of a ledger, of which a link is another name.
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

    /// A ledger that is gone while its users are remembered was lost, and a new one would forget what was spent.
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

    fn broken(&self, reason: &str) -> Error {
        Error::Binding {
            ledger: self.ledger.clone(),
            reason: reason.to_owned(),
        }
    }

    /// The key and the users, where the ledger was bound.
    fn read(&self, recorded: &Recorded<'_>) -> Result<Option<Read>> {
        let none_is_there = !is_there(&self.key) || !is_there(&self.users);
        if recorded.key.is_none() && none_is_there {
            return Ok(None); // made before ledgers were bound, or ended on the way
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
        if users.key_sha256 != hash || recorded.key.is_some_and(|recorded| recorded != hash) {
            return Err(self.broken("its `.key` and `.users` files are those of another ledger; restore both from a backup"));
        }
        let nobody: HashSet<UserHash> = key.hashes_of_nobody().collect();
        hashes.retain(|hash| !nobody.contains(hash));
        Ok(Some(Read {
            key,
            sketch: Sketch(hashes),
            seen: users.seen,
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

/// A copy can come back with other rights.
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
    let _ = path; // modes are a Unix notion
}

fn line<T: Serialize>(file: &T) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(file)?;
    bytes.push(b'\n');
    Ok(bytes)
}

impl UsersFile {
    /// The hashes, which must be in order.
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

    /// The users' hashes, in order, each once.
    fn hashes(&self, ids: &[&str]) -> Vec<UserHash> {
        let keyed = self.keyed();
        let hash = |id: &&str| cut(keyed.clone().chain_update(id.as_bytes()));
        let mut hashes: Vec<UserHash> = ids.par_iter().map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    /// As many hashes as a sketch keeps which are those of no user: an id is UTF-8, where no byte is 0xff.
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

/// The smallest hashes of a set of users, in order.
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

    /// Whether at least half of the smaller set of users is in the larger one. `now` is in order. Of a ledger that remembers nobody, since users of all its
    /// runs were at workers, no users are known to be those.
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

    /// A ledger that has paid before.
    fn paid() -> Recorded<'static> {
        Recorded {
            has_paid: true,
            ..Recorded::default()
        }
    }

    /// A run with a ledger that has paid before, and its users once they are written.
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
            // nothing of the refused data is remembered
            assert!(is_other(&run(&ledger, 10 * n..11 * n, false)), "{n}");
            // a third of the users left and as many came
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
            // two fifths of these users are new ones, three fifths were there
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
        // both are remembered
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
        // it remembers nobody, so nobody's data are known to be its own
        let with_users = |same| run_with(&ledger, Some(releases(&["a", "b"])), 0..50, same);
        assert!(is_other(&with_users(false).map(drop)));
        with_users(true).unwrap();
        with_users(false).unwrap();
        std::fs::remove_file(Files::of(&ledger).users).unwrap();
        let lost = elsewhere(Some(&Recorded {
            key: Some(&key),
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
                key: Some(&hash),
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
        let with = |release_ids: &[&'static str], n_taken, key| Recorded {
            key,
            has_paid: !release_ids.is_empty(),
            release_ids: release_ids.to_vec(),
            n_taken,
        };
        let go = |recorded, same| run_with(&ledger, Some(recorded), 0..9, same).map(|_| ());
        let key = run_with(&ledger, Some(with(&[], 0, None)), 0..9, false).unwrap();
        let key = Some(key.as_str());
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
        ] {
            assert!(is_cut(go(less.clone(), false)), "{less:?}");
        }
        // what a crash kept from being remembered is no reason to refuse
        go(with(&["a", "b", "c"], 2, key), false).unwrap();
        go(with(&["a"], 1, key), true).unwrap();
        go(with(&["a", "d"], 1, key), false).unwrap();
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
        // a file of version 1, which has users alone
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
        // RFC 4231, case 1, with its key filled up to 32 bytes: HMAC pads shorter keys with zeros
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let found = Key(key).hashes(&["Hi There"]);
        assert_eq!(hex(&found[0]), "b0344c61d8db38535ca8afceaf0bf12b");
    }
}
