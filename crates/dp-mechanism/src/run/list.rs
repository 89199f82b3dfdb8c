//! The list of releases: what a run has made public so far, in memory or in a file that grows.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use dp_accounting::{Plan, sha256_hex};
use serde::{Deserialize, Serialize};

use crate::{Error, Grid, Result};

/// Version of the format of lists of releases.
pub const RELEASE_LIST_SCHEMA: u32 = 2;
const NAME: &str = "dp-personal";

/// What a release is made of, all of it public before the release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseForm {
    /// The kernel's release: what the integers are.
    pub kind: ReleaseKind,
    /// Labels in the plan of the releases that it makes: two for matrices with right-hand sides, else one.
    pub labels: Vec<String>,
    /// The grid of each label's integers; none for a selection.
    pub grids: Vec<GridForm>,
    /// How many integers there are.
    pub n_integers: usize,
    /// Of a selection, the number of candidates; 0 of sums.
    #[serde(default)]
    pub n_candidates: usize,
    /// Number of the night, where it is a night of a paced lifetime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub night: Option<u32>,
}

/// Kinds of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseKind {
    /// A vector sum with floored Gaussian noise.
    Vector,
    /// One night of a paced lifetime: a vector sum in which each user is held to the bound of their age, with floored Gaussian noise.
    Night,
    /// The packed upper triangle of one symmetric matrix.
    Triangle,
    /// The packed upper triangle of one symmetric matrix, off-diagonal noise larger than needed.
    TriangleFullNoise,
    /// One packed matrix for each item, then the right-hand sides of all items.
    Grams,
    /// One packed matrix for all items, then the right-hand sides of all items.
    PooledGrams,
    /// The index of a selected candidate or grid point.
    Selection,
}

/// A grid, as a list records it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridForm {
    /// Noise multiplier, at least the one paid for.
    pub noise_multiplier: f64,
    /// Bound of one user's norm, data units.
    pub clip_norm: f64,
    /// log2 of the noise scale in grid steps.
    pub log2_sigma: u32,
    /// Bound of one user's integer norm.
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

/// A ledger line that paid for a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaidLine {
    /// The account that was charged, from 0: more than one where batches of users have their own.
    pub account: usize,
    /// The ledger's data set.
    pub data_set: String,
    /// The id of the ledger's line: random since version 4 of ledgers, and the line's hash before.
    pub release_id: String,
}

/// One release in a list, public as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseEntry {
    head: Head,
    integers: Vec<i64>,
    /// The integers as they stand in a file.
    packed: Vec<u8>,
    hash: String,
}

/// Everything of an entry but its integers: one line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    step: usize,
    release: ReleaseForm,
    paid: Vec<PaidLine>,
    insecure: bool,
    /// Bytes of each integer, the fewest that hold all of them.
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

    /// Place in the list, from 0.
    #[must_use]
    pub const fn step(&self) -> usize {
        self.head.step
    }

    /// Labels, grids and length.
    #[must_use]
    pub const fn form(&self) -> &ReleaseForm {
        &self.head.release
    }

    /// The ledger lines that paid.
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

    /// The entry as it stands in a file and goes over a link: a line of JSON with its hash, then the integers in two's complement, little-endian, each in the
    /// number of bytes that the line gives, and a newline.
    ///
    /// # Errors
    /// [`Error::List`] where a number in the form is not finite.
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

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
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

/// What the first line of a list says: which run the releases are of.
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
/// A run appends each release as soon as it is made and before anybody is told. A list that was opened from a file is
/// replayed first: a release that is in the list is returned and not made again.
///
/// # File
/// One line of JSON names the schema, the run and the plan. Each entry is a line of JSON with labels, grids, ledger lines and the
/// hash of the entry before it, a tab and the hash of that JSON, followed by the released integers. An entry is flushed to the device
/// before the release leaves the kernel. An entry that a crash cut off was seen by nobody: it is moved to a file beside the list when that is opened again; what was
/// paid for it stays paid. Anything else that does not fit the chain is an error.
///
/// # Privacy
/// The list holds released values, which everybody may know under the run's guarantee, and no key, coin or exact sum.
#[derive(Debug)]
pub struct ReleaseList {
    run: String,
    /// Hash of the last entry, of the header before the first.
    head: String,
    n_entries: usize,
    /// What was there before the run.
    before: Before,
    store: Store,
    replay: Replay,
    /// The next of them, where somebody looked ahead.
    next: Option<ReleaseEntry>,
    /// Whether a list that was only read has bytes behind its last whole entry.
    cut_off: bool,
    /// Whether a write failed, so that the file may end in a part of an entry.
    poisoned: bool,
}

/// The releases that were there before a run, in short.
#[derive(Debug, Default)]
struct Before {
    /// Ledger lines that paid for them.
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
    /// Hashes alone.
    None,
    File {
        file: File,
        path: PathBuf,
    },
}

/// Entries that were there before the run, which it has not come to yet.
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

    /// A list that keeps hashes and no releases: for runs that are not resumed.
    ///
    /// # Errors
    /// [`Error::List`] where the plan cannot be written.
    pub fn hashes_only(run: &str, plan: &Plan) -> Result<Self> {
        Self::begun(run, plan, Store::None)
    }

    /// A list of these releases, from memory: a run along `plan` replays them first.
    ///
    /// # Errors
    /// [`Error::List`] where they are not the first releases of such a run.
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

    /// The list at `path` of the run named `run`: started where there is no file, else opened to go on from its releases. The file
    /// stays locked until the list is dropped.
    ///
    /// `run` is any text that stands for everything public that shapes the run beside its plan (settings, catalogue, split): a
    /// list of another run is refused.
    ///
    /// # Errors
    /// [`Error::ListOfAnotherRun`] when the file was written for another run, plan or schema; [`Error::List`] when it is
    /// damaged or another process writes it; [`Error::Io`].
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
                // a first line that a crash cut off, and nobody else's file
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
                    file.set_len(end).map_err(failed)?; // a release that nobody was told
                    file.sync_all().map_err(failed)?;
                }
                if end > first {
                    // a handle of its own, since handles made from one another share their position
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

    /// The list at `path`, to make its model again: nothing is locked or changed, and nothing can be appended. An entry that was
    /// cut off is left out, and the list [says so](Self::is_cut_off).
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

    /// Whether a list that was only [read](Self::read) has bytes behind its last whole release, as no run that ended leaves them.
    #[must_use]
    pub const fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// The name of the run.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Releases so far, those yet to be replayed not counted.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.n_entries
    }

    /// Whether there is no release yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n_entries == 0
    }

    /// Hash of the last release, which stands for the whole list.
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The ledger lines that paid for the releases which were there before the run.
    #[must_use]
    pub fn paid_before(&self) -> &[PaidLine] {
        &self.before.paid
    }

    /// Hash of the last release that was there before the run, if there was one.
    #[must_use]
    pub fn last_before(&self) -> Option<&str> {
        self.before.last.as_deref()
    }

    /// The next release that was there before the run.
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

    /// How many numbers the next release has that was there before the run.
    pub(super) fn next_len(&mut self) -> Result<Option<usize>> {
        if self.next.is_none() {
            self.next = self.read_next()?;
        }
        Ok(self.next.as_ref().map(|entry| entry.integers.len()))
    }

    /// Whether releases are left that were there before the run.
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
            // what is appended to the file from here on was not there before
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
    /// Swaps the file for another one, such as a device that is always full.
    pub(super) fn write_to(&mut self, other: &str) -> io::Result<()> {
        if let Store::File { file, .. } = &mut self.store {
            *file = OpenOptions::new().append(true).open(other)?;
        }
        Ok(())
    }
}

/// Puts what is cut off the end of a list beside it, for whoever wants to know what was there.
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

/// Follows the chain of hashes.
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

/// Reads the entries from here on and returns where the last whole one ends.
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
                // what a crash left at the end, or damage
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

/// Whether an entry's line stands anywhere behind the one that begins here, so that what does not hold together here is not what a crash left
/// at the end.
fn later_entry(reader: &mut impl BufRead) -> io::Result<bool> {
    let first = read_line(reader)?;
    let own = first.as_deref().and_then(head_of).map(|head| head.step);
    while let Some(line) = read_line(reader)? {
        // the integers before a line may hold any bytes, newlines too
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

/// How every entry's line begins.
const HEAD_START: &[u8] = br#"{"step":"#;

/// Reads one entry; nothing at the end. `UnexpectedEof` where the input ends within it, `InvalidData` where it does not hold together.
fn read_entry(reader: &mut impl BufRead) -> io::Result<Option<ReleaseEntry>> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let line = read_line(reader)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    // its length is believed only after its hash has been
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

/// Everything of an entry but its integers, if the line is whole: JSON, a tab and the hash of the JSON.
fn head_of(line: &[u8]) -> Option<Head> {
    let tab = line.iter().rposition(|&byte| byte == b'\t')?;
    let (text, hash) = line.split_at_checked(tab)?;
    if hash.get(1..)? != sha256_hex(text).as_bytes() {
        return None;
    }
    serde_json::from_slice(text).ok()
}

/// A line without its newline; nothing where the input ends before one.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}

/// Bytes that an integer has at most.
const WIDEST: usize = size_of::<i64>();

/// The fewest bytes that hold each of the integers in two's complement.
fn width_of(integers: &[i64]) -> usize {
    // z and !z need the same bits, one of them is not negative
    let all = integers.iter().fold(0, |all, &z| all | (z ^ (z >> 63)));
    let bits = i64::BITS
        .saturating_sub(all.leading_zeros())
        .saturating_add(1);
    bits.div_ceil(8) as usize
}

/// The integers in `width` bytes each.
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

/// The integers that [`pack`] made bytes of.
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
    Ok(()) // folders cannot be synced here
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
