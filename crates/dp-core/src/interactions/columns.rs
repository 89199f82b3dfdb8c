//! Items and values of all records of a table, in memory or in unnamed memory-mapped files.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

use crate::{Result, ScratchError, params};

/// A folder for the records of tables that are larger than memory.
///
/// Everything derived from a table on disk ([`super::Interactions::partition`]) is on disk too.
/// Records are written once, to unnamed files: each file is created readable by its owner only, and
/// its name is removed before anything is written, so nothing is left in the folder when the
/// process ends, however it ends. The files are then memory-mapped, and passes over the users in
/// order release the pages that they have already read.
///
/// # Privacy
/// The files hold the records unencrypted. Use a disk on which the data may be stored.
///
/// # Examples
/// ```
/// use dp_core::{InteractionsBuilder, Scratch};
/// let mut builder = InteractionsBuilder::new(3).on_disk(Scratch::new(std::env::temp_dir(), 1 << 30)?);
/// builder.push(0, 2, 4.0)?;
/// let (table, _) = builder.try_build()?;
/// assert_eq!(table.user(0).values(), [4.0]);
/// # Ok::<(), dp_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    folder: PathBuf,
    memory: usize,
}

impl Scratch {
    /// The smallest allowed memory, in bytes.
    pub const LEAST_MEMORY: usize = 1_000_000;

    /// Sets a folder and approximately how many bytes of records are held in memory at a time. What
    /// is held for each user (8 bytes here, and the ids that a reader keeps) comes on top.
    ///
    /// # Errors
    /// [`ScratchError`] if a file cannot be created there, [`crate::ParamError`] if `memory` is
    /// below [`LEAST_MEMORY`](Self::LEAST_MEMORY).
    pub fn new(folder: impl Into<PathBuf>, memory: usize) -> Result<Self> {
        let least = Self::LEAST_MEMORY;
        params::in_range("memory", memory, least, usize::MAX, "1 MB or more")?;
        let scratch = Self {
            folder: folder.into(),
            memory,
        };
        scratch.file()?;
        Ok(scratch)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of records that are collected before they are written: half of the memory, with each
    /// record counted twice because the buffers in which they are collected are half empty at
    /// worst.
    pub(super) const fn records_collected(&self) -> usize {
        self.memory / 2 / (2 * (size_of::<(u32, f32)>() + size_of::<(u16, u16)>()))
    }

    /// Number of records in a block of users: each takes 8 bytes in the listing by item and 8 in
    /// mapped pages.
    pub(super) fn records_of_block(&self) -> usize {
        (self.memory / 64).min(MOST_OF_BLOCK)
    }

    /// Number of records, as a power of 2, between two positions at which pages are released: three
    /// stretches of 8 bytes per record stay mapped, for each of a few tables.
    fn stretch(&self) -> u32 {
        (self.memory / 384).clamp(1 << 12, 1 << 22).ilog2()
    }

    /// Creates an unnamed file.
    pub(super) fn file(&self) -> Result<File, ScratchError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".dp-scratch-{}-{number}", std::process::id());
            let path = self.folder.join(name);
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(&path) {
                Ok(file) => {
                    std::fs::remove_file(&path)?;
                    return Ok(file);
                }
                // an empty file left by a process that was killed at this point
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

const MOST_OF_BLOCK: usize = 1 << 24;
const BUFFER: usize = 1 << 18;

/// Items and values of all records, with users in order.
#[derive(Clone)]
pub(super) enum Columns {
    Memory { items: Vec<u32>, values: Vec<f32> },
    Disk(DiskColumns),
}

impl Columns {
    pub(super) const fn empty() -> Self {
        Self::Memory {
            items: Vec::new(),
            values: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Memory { items, .. } => items.len(),
            Self::Disk(disk) => disk.range.len(),
        }
    }

    /// Items and values of the records of one user.
    #[inline]
    pub(super) fn get(&self, range: Range<usize>) -> (&[u32], &[f32]) {
        match self {
            Self::Memory { items, values } => (&items[range.clone()], &values[range]),
            Self::Disk(disk) => disk.get(range),
        }
    }

    /// Some of the records as separate columns; files on disk are shared.
    pub(super) fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Memory { .. } => {
                let (items, values) = self.get(range);
                Self::Memory {
                    items: items.to_vec(),
                    values: values.to_vec(),
                }
            }
            Self::Disk(disk) => {
                assert!(range.end <= disk.range.len());
                let start = disk.range.start;
                Self::Disk(DiskColumns {
                    range: start + range.start..start + range.end,
                    ..disk.clone()
                })
            }
        }
    }

    pub(super) fn scratch(&self) -> Option<&Scratch> {
        match self {
            Self::Memory { .. } => None,
            Self::Disk(disk) => Some(&disk.scratch),
        }
    }
}

/// Columns in mapped files.
#[derive(Clone)]
pub(super) struct DiskColumns {
    scratch: Scratch,
    items: Arc<Mapped<u32>>,
    values: Arc<Mapped<f32>>,
    /// The range within all records of the files.
    range: Range<usize>,
    /// Number of records in a stretch, as a power of 2.
    stretch: u32,
}

impl DiskColumns {
    #[inline]
    fn get(&self, range: Range<usize>) -> (&[u32], &[f32]) {
        assert!(range.end <= self.range.len());
        let (start, end) = (self.range.start + range.start, self.range.start + range.end);
        if start >> self.stretch != end >> self.stretch {
            self.keep_near(start, end);
        }
        (
            &self.items.as_slice()[start..end],
            &self.values.as_slice()[start..end],
        )
    }

    /// Releases the pages that are not close to the border between two stretches; a pass over the
    /// users crosses every border once. This affects only speed: a page that another thread still
    /// reads is mapped again.
    #[cold]
    fn keep_near(&self, start: usize, end: usize) {
        let first = (start >> self.stretch).saturating_sub(1) << self.stretch;
        let last = ((end >> self.stretch) + 1) << self.stretch;
        self.items.keep(first..last);
        self.values.keep(first..last);
    }
}

/// Writes columns record by record.
pub(super) enum ColumnsWriter {
    Memory(Vec<u32>, Vec<f32>),
    Disk {
        scratch: Scratch,
        items: BufWriter<File>,
        values: BufWriter<File>,
        len: usize,
    },
}

impl ColumnsWriter {
    /// Writes into memory with the given capacity, or to disk.
    pub(super) fn new(scratch: Option<&Scratch>, capacity: usize) -> Result<Self> {
        let Some(scratch) = scratch else {
            let (items, values) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
            return Ok(Self::Memory(items, values));
        };
        let buffered = |file| BufWriter::with_capacity(BUFFER, file);
        Ok(Self::Disk {
            items: buffered(scratch.file()?),
            values: buffered(scratch.file()?),
            len: 0,
            scratch: scratch.clone(),
        })
    }

    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Memory(items, _) => items.len(),
            Self::Disk { len, .. } => *len,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, item: u32, value: f32) -> Result<(), ScratchError> {
        match self {
            Self::Memory(items, values) => {
                items.push(item);
                values.push(value);
            }
            Self::Disk {
                items, values, len, ..
            } => {
                items.write_all(&item.to_ne_bytes())?;
                values.write_all(&value.to_ne_bytes())?;
                *len += 1;
            }
        }
        Ok(())
    }

    pub(super) fn extend(&mut self, items: &[u32], values: &[f32]) -> Result<(), ScratchError> {
        match self {
            Self::Memory(all_items, all_values) => {
                all_items.extend_from_slice(items);
                all_values.extend_from_slice(values);
            }
            Self::Disk { .. } => {
                for (&item, &value) in items.iter().zip(values) {
                    self.push(item, value)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Columns> {
        let whole = |file: BufWriter<File>| file.into_inner().map_err(|of| of.into_error());
        Ok(match self {
            Self::Memory(items, values) => Columns::Memory { items, values },
            Self::Disk {
                scratch,
                items,
                values,
                len,
            } => {
                let items = Mapped::new(&whole(items).map_err(ScratchError::from)?)?;
                let values = Mapped::new(&whole(values).map_err(ScratchError::from)?)?;
                Columns::Disk(DiskColumns {
                    stretch: scratch.stretch(),
                    scratch,
                    items: Arc::new(items),
                    values: Arc::new(values),
                    range: 0..len,
                })
            }
        })
    }
}

/// Byte runs that are written to an unnamed file and read back later.
pub(super) struct SpillFile {
    file: BufWriter<File>,
    end: u64,
}

impl SpillFile {
    pub(super) fn new(scratch: &Scratch) -> Result<Self, ScratchError> {
        Ok(Self {
            file: BufWriter::with_capacity(BUFFER, scratch.file()?),
            end: 0,
        })
    }

    /// Number of bytes in the file.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ScratchError> {
        self.file.write_all(bytes)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Reads bytes from `start` on.
    pub(super) fn read(&mut self, start: u64, bytes: &mut [u8]) -> Result<(), ScratchError> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(start))?;
        Ok(file.read_exact(bytes)?)
    }
}

/// Number types for which every bit pattern is valid.
trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for f32 {}

/// The numbers of a file that is not written to any more.
struct Mapped<T> {
    /// `None` for an empty file.
    map: Option<Mmap>,
    holds: std::marker::PhantomData<T>,
}

#[allow(
    unsafe_code,
    reason = "mapping a file and giving its pages back have no safe form"
)]
impl<T: Plain> Mapped<T> {
    fn new(file: &File) -> Result<Self, ScratchError> {
        // a disk that is full or broken is reported here, before any budget is spent, and not when
        // a page is read
        file.sync_data()?;
        let map = match file.metadata()?.len() {
            0 => None,
            // SAFETY: the file has no name and was written by this process, so nobody else can open
            // it. The only handle is closed by the caller without further writes, so the bytes do
            // not change any more.
            _ => Some(unsafe { Mmap::map(file) }?),
        };
        Ok(Self {
            map,
            holds: std::marker::PhantomData,
        })
    }

    #[inline]
    fn as_slice(&self) -> &[T] {
        let Some(map) = &self.map else {
            return &[];
        };
        // SAFETY: a mapping starts at a page boundary, so it is aligned for any number. It has
        // `len` bytes, which live as long as `self`, and every bit pattern is a valid `T`.
        unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), map.len() / size_of::<T>()) }
    }

    /// Releases the pages of all numbers outside `range`.
    fn keep(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(map) = &self.map {
            let len = map.len();
            let start = (range.start * size_of::<T>()).min(len);
            let end = (range.end * size_of::<T>()).min(len);
            for (from, to) in [(0, start), (end, len)] {
                if from < to {
                    let advice = memmap2::UncheckedAdvice::DontNeed;
                    // SAFETY: the mapping is shared and read-only, so a released page is read again
                    // from the file, where the bytes are the same. If the advice is not taken,
                    // nothing changes.
                    let _ = unsafe { map.unchecked_advise_range(advice, from, to - from) };
                }
            }
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}
