//! The list of releases: everything that a run has made public so far, in memory or in a file that
//! grows.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use dp_accounting::{Plan, sha256_hex};
use serde::{Deserialize, Serialize};

use crate::{Error, Grid, Result};

/// Version of the format of lists of releases.
pub const RELEASE_LIST_SCHEMA: u32 = 2;
const NAME: &str = "dp-personal";

/// The form of a release, all of it public before the release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseForm {
    /// The kind of kernel release: what the integers are.
    pub kind: ReleaseKind,
    /// Labels in the plan of the releases that it makes: two for matrices with right-hand sides,
    /// otherwise one.
    pub labels: Vec<String>,
    /// The grid of each label's integers; none for a selection.
    pub grids: Vec<GridForm>,
    /// Number of integers.
    pub n_integers: usize,
    /// Number of candidates of a selection; 0 for sums.
    #[serde(default)]
    pub n_candidates: usize,
    /// Number of the night, if it is a night of a paced lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub night: Option<u32>,
}

/// Kinds of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseKind {
    /// A vector sum with floored Gaussian noise.
    Vector,
    /// One night of a paced lifetime: a vector sum in which each user is limited to the bound for
    /// their age, with floored Gaussian noise.
    Night,
    /// The packed upper triangle of one symmetric matrix.
    Triangle,
    /// The packed upper triangle of one symmetric matrix, with larger off-diagonal noise than
    /// necessary.
    TriangleFullNoise,
    /// One packed matrix per item, then the right-hand sides of all items.
    Grams,
    /// One packed matrix for all items, then the right-hand sides of all items.
    PooledGrams,
    /// The index of a selected candidate or grid point.
    Selection,
}

/// A grid, as recorded in a list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridForm {
    /// Noise multiplier, at least the one charged.
    pub noise_multiplier: f64,
    /// Bound on one user's norm, in data units.
    pub clip_norm: f64,
    /// log2 of the noise scale in grid steps.
    pub log2_sigma: u32,
    /// Bound on one user's integer norm.
    pub l2_bound: u64,
}

impl From<&Grid> for GridForm {
    fn from(grid: &Grid) -> Self {
        Self {
            noise_multiplier: grid.noise_multiplier(),
            clip_norm: grid.clip_norm(),
            log2_sigma: grid.log2_sigma(),
            l2_bound: grid.l2_bound(),
        }
    }
}

/// A ledger line that a release was charged to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaidLine {
    /// The account that was charged, from 0: more than one if batches of users have their own.
    pub account: usize,
    /// The ledger's data set.
    pub data_set: String,
    /// The id of the ledger's line: random since version 4 of ledgers, before that the line's hash.
    pub release_id: String,
}

/// One release in a list. Everything in it is public.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseEntry {
    head: Head,
    integers: Vec<i64>,
    /// The integers in the form used in a file.
    packed: Vec<u8>,
    hash: String,
}

/// Everything in an entry except its integers: one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    step: usize,
    release: ReleaseForm,
    paid: Vec<PaidLine>,
    insecure: bool,
    /// Bytes per integer, the smallest number sufficient for all of them.
    width: usize,
    integers_sha256: String,
    previous_hash: String,
}

impl ReleaseEntry {
    pub(super) fn new(
        form: ReleaseForm,
        paid: Vec<PaidLine>,
        insecure: bool,
        integers: Vec<i64>,
        (step, previous_hash): (usize, &str),
    ) -> Result<Self> {
        let width = width_of(&integers);
        let packed = pack(&integers, width);
        let head = Head {
            step,
            release: form,
            paid,
            insecure,
            width,
            integers_sha256: sha256_hex(&packed),
            previous_hash: previous_hash.to_owned(),
        };
        let hash = hash_of(&head)?;
        Ok(Self {
            head,
            integers,
            packed,
            hash,
        })
    }

    /// Position in the list, from 0.
    #[must_use]
    pub const fn step(&self) -> usize {
        self.head.step
    }

    /// Labels, grids and length.
    #[must_use]
    pub const fn form(&self) -> &ReleaseForm {
        &self.head.release
    }

    /// The ledger lines that it was charged to.
    #[must_use]
    pub fn paid(&self) -> &[PaidLine] {
        &self.head.paid
    }

    /// Whether the noise was repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.head.insecure
    }

    /// The released integers: sums with their noise, modulo 2^64, or one index.
    #[must_use]
    pub fn integers(&self) -> &[i64] {
        &self.integers
    }

    /// SHA-256 over everything in the entry and the hash of the entry before it.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn previous_hash(&self) -> &str {
        &self.head.previous_hash
    }

    pub(super) fn into_integers(self) -> Vec<i64> {
        self.integers
    }

    /// The entry in the form used in a file and on a link: a line of JSON with its hash, then the
    /// integers in two's complement, little-endian, each in the number of bytes given in the line,
    /// and a newline.
    ///
    /// # Errors
    /// [`Error::List`] if a number in the form is not finite.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.packed.len().saturating_add(1 << 10));
        self.write_to(&mut bytes).map_err(list_error)?;
        Ok(bytes)
    }

    /// Writes [`to_bytes`](Self::to_bytes).
    fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut head = serde_json::to_vec(&self.head)?;
        head.push(b'\t');
        head.extend(self.hash.as_bytes());
        head.push(b'\n');
        out.write_all(&head)?;
        out.write_all(&self.packed)?;
        out.write_all(b"\n")
    }

    /// Reads the output of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`Error::List`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        match read_entry(&mut rest) {
            Ok(Some(entry)) if rest.is_empty() => Ok(entry),
            _ => Err(Error::List {
                what: "an entry that is not whole".to_owned(),
            }),
        }
    }
}

/// The first line of a list: which run the releases belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    releases: String,
    schema_version: u32,
    run: String,
    plan_sha256: String,
}

/// The releases that a run has made, chained by hashes.
///
/// A run appends each release as soon as it is made and before it is shown to anybody. A list that
/// was opened from a file is replayed first: a release that is in the list is returned and not made
/// again.
///
/// # File
/// One line of JSON names the schema, the run and the plan. Each entry is a line of JSON with
/// labels, grids, ledger lines and the hash of the entry before it, a tab and the hash of that
/// JSON, followed by the released integers. An entry is flushed to the device before the release
/// leaves the kernel. An entry truncated by a crash was seen by nobody: it is moved to a separate
/// file when the list is opened again, and its charge stays spent. Anything else that does not fit
/// the chain is an error.
///
/// # Privacy
/// The list contains released values, which everybody may know under the run's guarantee, and no
/// key, coin or exact sum.
#[derive(Debug)]
pub struct ReleaseList {
    run: String,
    /// Hash of the last entry, or of the header before the first entry.
    head: String,
    n_entries: usize,
    /// The entries from before this run.
    before: Before,
    store: Store,
    replay: Replay,
    /// The next of them, if it was already read ahead.
    next: Option<ReleaseEntry>,
    /// Whether a list that was only read has bytes after its last complete entry.
    cut_off: bool,
    /// Whether a write failed, so that the file may end in an incomplete entry.
    poisoned: bool,
}

/// Summary of the releases from before this run.
#[derive(Debug, Default)]
struct Before {
    /// Ledger lines that they were charged to.
    paid: Vec<PaidLine>,
    /// Hash of the last of them.
    last: Option<String>,
}

impl Before {
    fn add(&mut self, entry: &ReleaseEntry) {
        self.paid.extend_from_slice(entry.paid());
        self.last = Some(entry.hash.clone());
    }
}

#[derive(Debug)]
enum Store {
    /// Only hashes.
    None,
    File {
        file: File,
        path: PathBuf,
    },
}

/// Entries from before this run that it has not reached yet.
#[derive(Debug)]
enum Replay {
    None,
    Memory(std::vec::IntoIter<ReleaseEntry>),
    File(BufReader<File>),
}

impl ReleaseList {
    fn begun(run: &str, plan: &Plan, store: Store) -> Result<Self> {
        Ok(Self {
            run: run.to_owned(),
            head: hash_of(&header(run, plan)?)?,
            n_entries: 0,
            before: Before::default(),
            store,
            replay: Replay::None,
            next: None,
            cut_off: false,
            poisoned: false,
        })
    }

    /// A list that keeps hashes but no releases: for runs that are not resumed.
    ///
    /// # Errors
    /// [`Error::List`] if the plan cannot be written.
    pub fn hashes_only(run: &str, plan: &Plan) -> Result<Self> {
        Self::begun(run, plan, Store::None)
    }

    /// A list of these releases in memory: a run along `plan` replays them first.
    ///
    /// # Errors
    /// [`Error::List`] if they are not the first releases of such a run.
    pub fn of_entries(run: &str, plan: &Plan, entries: Vec<ReleaseEntry>) -> Result<Self> {
        let mut list = Self::hashes_only(run, plan)?;
        let mut checked = ChainCheck::from(list.head.clone());
        for entry in &entries {
            checked.next(entry)?;
            list.before.add(entry);
        }
        list.replay = Replay::Memory(entries.into_iter());
        Ok(list)
    }

    /// Opens the list at `path` for the run named `run`: it is created if there is no file, and
    /// otherwise continued from its releases. The file stays locked until the list is dropped.
    ///
    /// `run` is any text that identifies everything public that shapes the run in addition to its
    /// plan (settings, catalogue, split); a list of another run is rejected.
    ///
    /// # Errors
    /// [`Error::ListOfAnotherRun`] if the file was written for another run, plan or schema;
    /// [`Error::List`] if it is damaged or another process is writing to it; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>, run: &str, plan: &Plan) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| io_error(path, error);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(damaged(path, "another process is writing it"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let header = header(run, plan)?;
        let mut list = Self::begun(run, plan, Store::None)?;
        let mut reader = BufReader::new(file.try_clone().map_err(failed)?);
        let begins = read_line(&mut reader).map_err(failed)?;
        let end = match begins {
            None => {
                let mut line = json(&header)?;
                line.push(b'\n');
                let mut file = &file;
                // a first line truncated by a crash, as opposed to an unrelated file
                let mut found = Vec::new();
                file.seek(SeekFrom::Start(0)).map_err(failed)?;
                file.read_to_end(&mut found).map_err(failed)?;
                if !line.starts_with(&found) {
                    return Err(damaged(path, "not a list of releases"));
                }
                file.set_len(0).map_err(failed)?;
                file.seek(SeekFrom::Start(0)).map_err(failed)?;
                file.write_all(&line).map_err(failed)?;
                file.sync_all().map_err(failed)?;
                sync_folder_of(path).map_err(failed)?;
                line.len() as u64
            }
            Some(line) => {
                check_header(&line, &header)?;
                let first = reader.stream_position().map_err(failed)?;
                let head = list.head.clone();
                let end = whole_entries(&mut reader, head, path, &mut list.before)?;
                if end < file.metadata().map_err(failed)?.len() {
                    keep_torn(path, end).map_err(failed)?;
                    file.set_len(end).map_err(failed)?; // drops a release that nobody has seen
                    file.sync_all().map_err(failed)?;
                }
                if end > first {
                    // a separate handle, because cloned handles share their position
                    let mut replayed = File::open(path).map_err(failed)?;
                    replayed.seek(SeekFrom::Start(first)).map_err(failed)?;
                    list.replay = Replay::File(BufReader::new(replayed));
                }
                end
            }
        };
        let mut at_end = &file;
        at_end.seek(SeekFrom::Start(end)).map_err(failed)?;
        let path = path.to_owned();
        list.store = Store::File { file, path };
        Ok(list)
    }

    /// Reads the list at `path` in order to rebuild its model: nothing is locked or changed, and
    /// nothing can be appended. An incomplete last entry is left out, which
    /// [`is_cut_off`](Self::is_cut_off) reports.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn read(path: impl AsRef<Path>, run: &str, plan: &Plan) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| io_error(path, error);
        let mut reader = BufReader::new(File::open(path).map_err(failed)?);
        let mut list = Self::begun(run, plan, Store::None)?;
        let line = read_line(&mut reader).map_err(failed)?;
        check_header(&line.unwrap_or_default(), &header(run, plan)?)?;
        let first = reader.stream_position().map_err(failed)?;
        let head = list.head.clone();
        let end = whole_entries(&mut reader, head, path, &mut list.before)?;
        let n_bytes = reader.get_ref().metadata().map_err(failed)?.len();
        list.cut_off = end < n_bytes;
        reader.seek(SeekFrom::Start(first)).map_err(failed)?;
        list.replay = Replay::File(reader);
        Ok(list)
    }

    /// Whether a list that was only [read](Self::read) has bytes after its last complete release,
    /// which no finished run leaves.
    #[must_use]
    pub const fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// The name of the run.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Number of releases so far, without those that are still to be replayed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.n_entries
    }

    /// Whether there is no release yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n_entries == 0
    }

    /// Hash of the last release, which identifies the whole list.
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The ledger lines that the releases from before this run were charged to.
    #[must_use]
    pub fn paid_before(&self) -> &[PaidLine] {
        &self.before.paid
    }

    /// Hash of the last release from before this run, if there was one.
    #[must_use]
    pub fn last_before(&self) -> Option<&str> {
        self.before.last.as_deref()
    }

    /// The next release from before this run.
    pub(super) fn next_replayed(&mut self) -> Result<Option<ReleaseEntry>> {
        let entry = match self.next.take() {
            Some(entry) => Some(entry),
            None => self.read_next()?,
        };
        let Some(entry) = entry else {
            self.replay = Replay::None;
            return Ok(None);
        };
        ChainCheck {
            head: self.head.clone(),
            n_entries: self.n_entries,
        }
        .next(&entry)?;
        entry.hash.clone_into(&mut self.head);
        self.n_entries = self.n_entries.saturating_add(1);
        Ok(Some(entry))
    }

    fn read_next(&mut self) -> Result<Option<ReleaseEntry>> {
        match &mut self.replay {
            Replay::None => Ok(None),
            Replay::Memory(entries) => Ok(entries.next()),
            Replay::File(reader) => read_entry(reader).map_err(|error| Error::List {
                what: error.to_string(),
            }),
        }
    }

    /// The number of integers in the next release from before this run.
    pub(super) fn next_len(&mut self) -> Result<Option<usize>> {
        if self.next.is_none() {
            self.next = self.read_next()?;
        }
        Ok(self.next.as_ref().map(|entry| entry.integers.len()))
    }

    /// Whether releases from before this run are left.
    pub(super) fn is_replaying(&mut self) -> Result<bool> {
        let is_left = match &mut self.replay {
            _ if self.next.is_some() => true,
            Replay::None => false,
            Replay::Memory(entries) => entries.len() > 0,
            Replay::File(reader) => {
                let next = reader.fill_buf();
                !next.map_err(list_error)?.is_empty()
            }
        };
        if !is_left {
            // what is appended to the file from now on belongs to this run
            self.replay = Replay::None;
        }
        Ok(is_left)
    }

    /// Adds a release that was just made; returns when it is durable.
    pub(super) fn append(&mut self, entry: &ReleaseEntry) -> Result<()> {
        ChainCheck {
            head: self.head.clone(),
            n_entries: self.n_entries,
        }
        .next(entry)?;
        match &mut self.store {
            Store::None => {}
            Store::File { file, path } => {
                if self.poisoned {
                    return Err(damaged(path, "an earlier write failed: open it again"));
                }
                self.poisoned = true;
                let written = entry.write_to(file).and_then(|()| file.sync_data());
                written.map_err(|error| io_error(path, error))?;
                self.poisoned = false;
            }
        }
        entry.hash.clone_into(&mut self.head);
        self.n_entries = self.n_entries.saturating_add(1);
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
impl ReleaseList {
    /// Replaces the file by another one, such as a device that is always full.
    pub(super) fn write_to(&mut self, other: &str) -> io::Result<()> {
        if let Store::File { file, .. } = &mut self.store {
            *file = OpenOptions::new().append(true).open(other)?;
        }
        Ok(())
    }
}

/// Moves the truncated end of a list to a separate file, so that it can be inspected.
fn keep_torn(path: &Path, end: u64) -> io::Result<()> {
    let mut list = File::open(path)?;
    list.seek(SeekFrom::Start(end))?;
    let numbered = (2_u32..).map(|n| format!("torn-{n}"));
    let mut names = std::iter::once("torn".to_owned()).chain(numbered);
    let mut torn = loop {
        let name = names.next().ok_or(io::ErrorKind::AlreadyExists)?;
        match File::create_new(path.with_extension(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => break made?,
        }
    };
    io::copy(&mut list, &mut torn)?;
    torn.sync_all()
}

/// Verifies the chain of hashes.
struct ChainCheck {
    head: String,
    n_entries: usize,
}

impl From<String> for ChainCheck {
    fn from(head: String) -> Self {
        Self { head, n_entries: 0 }
    }
}

impl ChainCheck {
    fn next(&mut self, entry: &ReleaseEntry) -> Result<()> {
        if entry.step() != self.n_entries || entry.previous_hash() != self.head {
            return Err(Error::List {
                what: format!("release {} does not follow the one before it", entry.step()),
            });
        }
        entry.hash.clone_into(&mut self.head);
        self.n_entries = self.n_entries.saturating_add(1);
        Ok(())
    }
}

fn header(run: &str, plan: &Plan) -> Result<Header> {
    let mut releases = Vec::new();
    for release in plan.releases() {
        releases.push((release.label(), release.event(), release.n_draws()));
    }
    let target = plan.target();
    let whole = (plan.adjacency(), target.epsilon, target.delta, releases);
    Ok(Header {
        releases: NAME.to_owned(),
        schema_version: RELEASE_LIST_SCHEMA,
        run: run.to_owned(),
        plan_sha256: hash_of(&whole)?,
    })
}

fn check_header(line: &[u8], expected: &Header) -> Result<()> {
    let what = match serde_json::from_slice::<Header>(line) {
        Err(_) => "something else",
        Ok(found) if found == *expected => return Ok(()),
        Ok(found) if found.schema_version != expected.schema_version => "another version",
        Ok(found) if found.run != expected.run => "other settings or other public inputs",
        Ok(_) => "another plan",
    };
    Err(Error::ListOfAnotherRun { what })
}

/// Reads the entries from here on and returns the position where the last complete one ends.
fn whole_entries(
    reader: &mut BufReader<File>,
    head: String,
    path: &Path,
    before: &mut Before,
) -> Result<u64> {
    let failed = |error| io_error(path, error);
    let mut chain = ChainCheck::from(head);
    let mut end = reader.stream_position().map_err(failed)?;
    loop {
        match read_entry(reader) {
            Ok(Some(entry)) => {
                chain.next(&entry)?;
                before.add(&entry);
            }
            Ok(None) => return Ok(end),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(end),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                // either what a crash left at the end, or damage
                reader.seek(SeekFrom::Start(end)).map_err(failed)?;
                return match later_entry(reader).map_err(failed)? {
                    false => Ok(end),
                    true => Err(damaged(path, &error.to_string())),
                };
            }
            Err(error) => return Err(failed(error)),
        }
        end = reader.stream_position().map_err(failed)?;
    }
}

/// Whether there is a line of an entry anywhere after the one that begins here. In that case
/// inconsistent bytes here were not left by a crash at the end.
fn later_entry(reader: &mut impl BufRead) -> io::Result<bool> {
    let first = read_line(reader)?;
    let own = first.as_deref().and_then(head_of).map(|head| head.step);
    while let Some(line) = read_line(reader)? {
        // the integers before a line may contain any bytes, including newlines
        let starts = line
            .windows(HEAD_START.len())
            .rposition(|at| at == HEAD_START);
        let head = starts.and_then(|at| line.get(at..)).and_then(head_of);
        if head.is_some_and(|head| Some(head.step) != own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The beginning of every entry's line.
const HEAD_START: &[u8] = br#"{"step":"#;

/// Reads one entry; `None` at the end. `UnexpectedEof` if the input ends within it, `InvalidData`
/// if it is inconsistent.
fn read_entry(reader: &mut impl BufRead) -> io::Result<Option<ReleaseEntry>> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let line = read_line(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    // its length is trusted only after its hash has been verified
    let head = head_of(&line).ok_or_else(|| invalid("an entry's line cannot be read"))?;
    if !(1..=WIDEST).contains(&head.width) {
        return Err(invalid("an entry's integers are of no known width"));
    }
    let expected = head.release.n_integers.saturating_mul(head.width) as u64;
    let mut bytes = Vec::new();
    reader.by_ref().take(expected).read_to_end(&mut bytes)?;
    let mut newline = [0];
    reader.read_exact(&mut newline)?;
    if newline != *b"\n" || sha256_hex(&bytes) != head.integers_sha256 {
        return Err(invalid("an entry's integers are not those that it names"));
    }
    let integers = unpack(&bytes, head.width);
    if width_of(&integers) != head.width {
        return Err(invalid("an entry's integers would fit into fewer bytes"));
    }
    let hash = hash_of(&head).map_err(io::Error::other)?;
    Ok(Some(ReleaseEntry {
        integers,
        head,
        packed: bytes,
        hash,
    }))
}

/// Everything in an entry except its integers, if the line is complete: JSON, a tab and the hash of
/// the JSON.
fn head_of(line: &[u8]) -> Option<Head> {
    let tab = line.iter().rposition(|&byte| byte == b'\t')?;
    let (text, hash) = line.split_at_checked(tab)?;
    if hash.get(1..)? != sha256_hex(text).as_bytes() {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// A line without its newline; `None` if the input ends before one.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}

/// Maximum number of bytes per integer.
const WIDEST: usize = size_of::<i64>();

/// The smallest number of bytes that holds each of the integers in two's complement.
fn width_of(integers: &[i64]) -> usize {
    // z and !z need the same number of bits, and one of them is not negative
    let all = integers.iter().fold(0, |all, &z| all | (z ^ (z >> 63)));
    let bits = i64::BITS
        .saturating_sub(all.leading_zeros())
        .saturating_add(1);
    bits.div_ceil(8) as usize
}

/// The integers, in `width` bytes each.
fn pack(integers: &[i64], width: usize) -> Vec<u8> {
    match width {
        1 => packed::<1>(integers),
        2 => packed::<2>(integers),
        3 => packed::<3>(integers),
        4 => packed::<4>(integers),
        5 => packed::<5>(integers),
        6 => packed::<6>(integers),
        7 => packed::<7>(integers),
        _ => packed::<WIDEST>(integers),
    }
}

fn packed<const W: usize>(integers: &[i64]) -> Vec<u8> {
    let mut bytes = vec![0; integers.len().saturating_mul(W)];
    let (places, _) = bytes.as_chunks_mut::<W>();
    for (place, z) in places.iter_mut().zip(integers) {
        let word = z.to_le_bytes();
        if let Some(low) = word.first_chunk() {
            *place = *low;
        }
    }
    bytes
}

/// The inverse of [`pack`].
fn unpack(bytes: &[u8], width: usize) -> Vec<i64> {
    let words = bytes.chunks_exact(width.max(1)).map(|packed| {
        let is_negative = packed.last().is_some_and(|top| top >> 7 == 1);
        let mut word = [if is_negative { u8::MAX } else { 0 }; WIDEST];
        for (byte, low) in word.iter_mut().zip(packed) {
            *byte = *low;
        }
        i64::from_le_bytes(word)
    });
    words.collect()
}

pub(crate) fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::List {
        what: error.to_string(),
    })
}

fn hash_of<T: Serialize>(value: &T) -> Result<String> {
    Ok(sha256_hex(&json(value)?))
}

#[cfg(unix)]
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_folder_of(_: &Path) -> io::Result<()> {
    Ok(()) // folders cannot be synced on this system
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::List {
        what: format!("{}: {what}", path.display()),
    }
}

fn list_error(error: io::Error) -> Error {
    Error::List {
        what: error.to_string(),
    }
}
