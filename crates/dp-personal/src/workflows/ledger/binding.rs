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
//! # Privacy
//! Whether the run is refused depends on private records. The refusal is told to whoever runs the workflow, who has the
//! records; it comes before anything is paid or released, and nothing that is released depends on it. It states no figure.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dp_accounting::Error as AccountingError;
use dp_core::Private;
use dp_data::{Ratings, SampleTable};
use hmac::{Hmac, KeyInit, Mac};
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::output::{replace_private, warn};
use crate::workflows::sha256;

/// Hashes that a sketch keeps: the standard error of a share of users is below 1.6 %.
const KEPT: usize = 1024;
/// Fewest users that two sets are compared on where one is known by its sketch alone.
const COMPARED: usize = 16;
const SCHEMA: u32 = 1;

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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorded<'a> {
    /// The hash of the key, where a line of the ledger names one.
    pub(crate) key: Option<&'a str>,
    /// Whether anything was ever paid.
    pub(crate) has_paid: bool,
}

/// A ledger's key and the users of all its runs, this one's included: checked, and written before the run pays.
pub(crate) struct Binding {
    files: Files,
    key: Key,
    /// What the key's file does not have yet.
    is_new: bool,
    sketch: Sketch,
    /// What the users' file does not have yet.
    has_grown: bool,
}

impl Binding {
    /// Compares the users of a run with those that the ledger was charged for.
    ///
    /// # Errors
    /// [`Error::OtherUsers`] when too few are the same, unless `same_data_set`; [`Error::Binding`] when a file of the
    /// binding is missing or damaged, which `same_data_set` makes anew.
    pub(crate) fn check(
        ledger: &Path,
        recorded: Option<Recorded<'_>>,
        users: &Private<Vec<&str>>,
        same_data_set: bool,
    ) -> Result<Self> {
        let files = Files::beside(ledger);
        let (key, remembered) = match recorded {
            None => {
                files.refuse_leftovers()?;
                (None, None)
            }
            // nothing was ever paid, so that no data have a claim to it
            Some(recorded) if !recorded.has_paid => (None, None),
            Some(recorded) => match files.read(recorded) {
                Err(Error::Binding { .. }) if same_data_set => (None, None),
                read => read?.map_or((None, None), |(key, sketch)| (Some(key), Some(sketch))),
            },
        };
        let is_new = key.is_none();
        let key = key.map_or_else(Key::random, Ok)?;
        let now = key.hashes(users.expose());
        if let Some(remembered) = &remembered
            && !same_data_set
            && !remembered.is_of(&now)
        {
            return Err(Error::OtherUsers {
                ledger: files.ledger,
            });
        }
        let sketch = Sketch::of(now).joined(remembered.as_ref());
        Ok(Self {
            has_grown: remembered.as_ref() != Some(&sketch),
            files,
            key,
            is_new,
            sketch,
        })
    }

    /// The hash of the key, which a ledger may name.
    pub(crate) fn key_hash(&self) -> String {
        self.key.hash()
    }

    /// Makes what was checked durable. It comes before the payment: a crash in between leaves users remembered who were
    /// not charged for, never users charged for who are not remembered.
    pub(crate) fn write(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_new) {
            let file = KeyFile {
                ledger_key: NAME.to_owned(),
                schema_version: SCHEMA,
                key: hex(&self.key.0),
            };
            replace_private(&self.files.key, &line(&file)?)?;
            tracing::info!(file = %self.files.key.display(), "bound the ledger to its users; back this key up with the ledger");
        }
        if std::mem::take(&mut self.has_grown) {
            let file = UsersFile {
                ledger_users: NAME.to_owned(),
                schema_version: SCHEMA,
                key_sha256: self.key.hash(),
                smallest: self.sketch.0.iter().map(|hash| hex(hash)).collect(),
            };
            replace_private(&self.files.users, &line(&file)?)?;
        }
        Ok(())
    }
}

/// Refuses a new ledger where another one was lost.
pub(super) fn refuse_leftovers(ledger: &Path) -> Result<()> {
    Files::beside(ledger).refuse_leftovers()
}

/// Whether both files of a binding are there.
pub(super) fn is_bound(ledger: &Path) -> bool {
    let files = Files::beside(ledger);
    is_there(&files.key) && is_there(&files.users)
}

/// Gives a ledger that takes over from others the binding of the one whose key it names. Where that is missing or damaged, it warns, and runs are
/// refused until the operator restores it or says `--same-data-set`.
pub(super) fn carry_over(old: &[PathBuf], new: &Path, key: &str) -> Result<()> {
    let recorded = Recorded {
        key: Some(key),
        has_paid: true,
    };
    let mut all = old.iter().map(|path| Files::beside(path));
    let Some(from) = all.find(|files| files.read(recorded).is_ok()) else {
        let new = new.display();
        warn(&format!(
            "the `.key` or `.users` file of the last ledger that was bound to its users is missing or damaged: runs with {new} are refused \
             until you put both beside it as {new}.key and {new}.users, or say --same-data-set"
        ));
        return Ok(());
    };
    let to = Files::beside(new);
    for (from, to) in [(&from.key, &to.key), (&from.users, &to.users)] {
        let bytes = fs::read(from).map_err(|e| Error::read(from, e))?;
        replace_private(to, &bytes)?;
    }
    Ok(())
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
}

impl Files {
    /// Those of a ledger, of which a link is another name.
    fn beside(ledger: &Path) -> Self {
        let whole = ledger.canonicalize();
        let ledger = match whole {
            Ok(whole) if ledger.is_symlink() => whole,
            Ok(_) | Err(_) => ledger.to_owned(),
        };
        let beside = |end: &str| {
            let mut name = OsString::from(&ledger);
            name.push(end);
            PathBuf::from(name)
        };
        Self {
            key: beside(".key"),
            users: beside(".users"),
            ledger,
        }
    }

    /// A ledger that is gone while its users are remembered was lost, and a new one would forget what was spent.
    fn refuse_leftovers(&self) -> Result<()> {
        if !is_there(&self.users) {
            return Ok(());
        }
        Err(Error::LedgerLost {
            ledger: self.ledger.clone(),
            users: self.users.clone(),
        })
    }

    fn broken(&self, reason: &str) -> Error {
        Error::Binding {
            ledger: self.ledger.clone(),
            reason: reason.to_owned(),
        }
    }

    /// The key and the users, where the ledger was bound.
    fn read(&self, recorded: Recorded<'_>) -> Result<Option<(Key, Sketch)>> {
        let none_is_there = !is_there(&self.key) || !is_there(&self.users);
        if recorded.key.is_none() && none_is_there {
            return Ok(None); // made before ledgers were bound, or ended on the way
        }
        let key: KeyFile = self.read_file(&self.key)?;
        let users: UsersFile = self.read_file(&self.users)?;
        let is_whole = key.ledger_key == NAME
            && users.ledger_users == NAME
            && [key.schema_version, users.schema_version] == [SCHEMA; 2];
        let (key, hashes) = match (unhex(&key.key), users.hashes()) {
            (Some(key), Some(hashes)) if is_whole => (Key(key), hashes),
            _ => return Err(self.broken("its `.key` or `.users` file was not written by this program; restore both from a backup")),
        };
        let hash = key.hash();
        if users.key_sha256 != hash || recorded.key.is_some_and(|recorded| recorded != hash) {
            return Err(self.broken("its `.key` and `.users` files are those of another ledger; restore both from a backup"));
        }
        Ok(Some((key, Sketch(hashes))))
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
        sha256(&self.0)
    }

    /// The users' hashes, in order, each once.
    fn hashes(&self, ids: &[&str]) -> Vec<UserHash> {
        let keyed = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key");
        let hash = |id: &&str| {
            let whole = keyed.clone().chain_update(id.as_bytes()).finalize();
            std::array::from_fn(|at| whole.as_bytes()[at])
        };
        let mut hashes: Vec<UserHash> = ids.par_iter().map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }
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

    /// Whether at least half of the smaller set of users is in the larger one. `now` is in order.
    fn is_of(&self, now: &[UserHash]) -> bool {
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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

    /// A run with a ledger that has paid before, and its users once they are written.
    fn run(ledger: &Path, users: std::ops::Range<u32>, same_data_set: bool) -> Result<()> {
        let recorded = Recorded {
            key: None,
            has_paid: true,
        };
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
        let mut binding = Binding::check(ledger, recorded, &ids, same_data_set)?;
        binding.write()?;
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
        let first = Recorded {
            key: None,
            has_paid: true,
        };
        let hash = run_with(&ledger, Some(first), users(), false).unwrap();
        let recorded = || {
            Some(Recorded {
                key: Some(&hash),
                has_paid: true,
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
        run_with(&ledger, None, 0..9, false).unwrap();
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
