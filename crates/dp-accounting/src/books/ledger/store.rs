//! The ledger's file: created explicitly, one writer, append only, durable before a write returns,
//! and bound to the file that its path names.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::{Error, Result};

/// How often opening is retried if the file is replaced between being opened and being locked.
const OPENINGS: usize = 16;

/// How many of the file's last bytes are compared before it is written to. They include the hash
/// that ends every line.
const ENDING: usize = 80;

/// A locked file, and its state after the last access.
#[derive(Debug)]
pub(super) struct Store {
    file: File,
    path: PathBuf,
    /// Number of bytes that were read or written.
    length: u64,
    /// The last of these bytes.
    ending: Vec<u8>,
    /// Set while a write is in progress, and permanently once one fails.
    poisoned: bool,
    /// Whether lines were written that no reader counted, because the path already named another
    /// file.
    displaced: bool,
    /// Receives the writes instead of the file.
    #[cfg(all(test, target_os = "linux"))]
    full_device: Option<File>,
}

impl Store {
    /// Opens the file at `path`, locks it and reads it; never creates one.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<u8>)> {
        let io = |source| io_error(path, source);
        for _ in 0..OPENINGS {
            let found = fs::metadata(path).map_err(|source| missing_or_io(path, source))?;
            if !found.is_file() {
                return Err(io(not_a_file(&found)));
            }
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .map_err(|source| missing_or_io(path, source))?;
            lock(&file, path)?;
            // whoever held the lock may have replaced the file
            let locked = file.metadata().map_err(io)?;
            if fs::metadata(path).is_ok_and(|named| is_same_file(&locked, &named)) {
                return Self::read(file, path);
            }
        }
        Err(Error::LedgerReplaced {
            path: path.to_owned(),
            reason: "another file took its place while it was being opened",
        })
    }

    fn read(mut file: File, path: &Path) -> Result<(Self, Vec<u8>)> {
        let mut bytes = Vec::new();
        file.rewind()
            .and_then(|()| file.read_to_end(&mut bytes))
            .map_err(|source| io_error(path, source))?;
        let mut store = Self {
            file,
            path: path.to_owned(),
            length: 0,
            ending: Vec::new(),
            poisoned: false,
            displaced: false,
            #[cfg(all(test, target_os = "linux"))]
            full_device: None,
        };
        store.remember(&bytes);
        Ok((store, bytes))
    }

    /// Creates the file at `path`, which must not exist, with `contents`. It gets its name when it
    /// is complete and durable, so a crash leaves it complete or not at all.
    pub(super) fn create(path: &Path, contents: &[u8]) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(already_there(path));
        }
        let (file, name) = write_pending(path, contents)?;
        let pending = Pending {
            file,
            name,
            contents: contents.to_vec(),
        };
        let name = pending.name.clone();
        let named = pending.named(path);
        if named.is_err() {
            let _ = fs::remove_file(name);
        }
        named
    }

    /// Whether the open file is still the one that the path names, and ends as it did after the
    /// last access.
    pub(super) fn is_bound(&mut self) -> Result<bool> {
        if self.displaced {
            return Ok(false);
        }
        let io = |source| io_error(&self.path, source);
        let held = self.file.metadata().map_err(io)?;
        let named = match fs::metadata(&self.path) {
            Ok(named) => named,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(io(error)),
        };
        let is_as_long = held.len() == self.length && named.len() == self.length;
        if !is_as_long || !is_same_file(&held, &named) {
            return Ok(false);
        }
        let mut ending = vec![0; self.ending.len()];
        let start = self.length - self.ending.len() as u64;
        self.file
            .seek(SeekFrom::Start(start))
            .and_then(|_| self.file.read_exact(&mut ending))
            .map_err(io)?;
        Ok(ending == self.ending)
    }

    /// Opens and reads again what the path names now; locks it if it is another file.
    pub(super) fn reopen(&self) -> Result<(Self, Vec<u8>)> {
        self.check_health()?;
        let io = |source| io_error(&self.path, source);
        let held = self.file.metadata().map_err(io)?;
        if fs::metadata(&self.path).is_ok_and(|named| is_same_file(&held, &named)) {
            return Self::read(self.file.try_clone().map_err(io)?, &self.path);
        }
        Self::open(&self.path)
    }

    /// The beginning of a file that was read again, as many bytes as were known before.
    pub(super) fn known_part<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        bytes.get(..usize::try_from(self.length).ok()?)
    }

    /// Rejects a file whose state on disk is unknown.
    pub(super) fn check_health(&self) -> Result<()> {
        if self.poisoned {
            return Err(Error::LedgerPoisoned {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    /// Appends `bytes` to the file that the path names and waits until they are durable. After a
    /// failure the contents of the disk are unknown, so every later call fails until the file is
    /// opened and read again. A file that was replaced or changed is rejected. If this is noticed
    /// before the write, nothing is written; if after, what was written must not be relied on until
    /// it is read again, see [`reopen`](Self::reopen).
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_health()?;
        if !self.is_bound()? {
            return Err(self.replaced("it is not the file that was opened, or not as it was left"));
        }
        self.poisoned = true;
        let end = self.length;
        self.file
            .seek(SeekFrom::Start(end))
            .and_then(|_| self.sink().write_all(bytes))
            .and_then(|()| self.sink().sync_data())
            .map_err(|source| io_error(&self.path, source))?;
        self.remember(bytes);
        #[cfg(test)]
        tests::between_write_and_check(&self.path);
        let is_bound = self.is_bound()?;
        self.poisoned = false;
        if !is_bound {
            self.displaced = true;
            return Err(self.replaced("it was replaced or changed while it was written to"));
        }
        Ok(())
    }

    /// Completes `copy`, an older copy of this file that replaced it and contains `bytes`, with
    /// what it lacks. Returns its whole contents after that.
    ///
    /// # Errors
    /// [`Error::LedgerReplaced`] if it is not such a copy, or this file has changed as well; the
    /// errors of [`append`](Self::append).
    pub(super) fn complete(&self, copy: &mut Self, bytes: &[u8]) -> Result<Vec<u8>> {
        let again = self.file.try_clone();
        let (_, own) = Self::read(again.map_err(|e| io_error(&self.path, e))?, &self.path)?;
        let is_whole = own.len() as u64 == self.length && own.ends_with(&self.ending);
        let has_header = bytes.contains(&b'\n');
        if !(is_whole && has_header && own.starts_with(bytes)) {
            return Err(self.replaced("the file that has its name lacks lines of it"));
        }
        copy.append(&own[bytes.len()..])?;
        Ok(own)
    }

    /// Replaces this file by a file with `contents`, in one step. The old file is kept under the
    /// name that is returned. Its last line is `last_line`, even if something fails after the
    /// replacement.
    pub(super) fn replace_with(&mut self, contents: &[u8], last_line: &[u8]) -> Result<PathBuf> {
        self.check_health()?;
        if !self.is_bound()? {
            return Err(self.replaced("it is not the file that was opened, or not as it was left"));
        }
        let (_, pending) = write_pending(&self.path, contents)?;
        let backup = self.link_backup();
        let renamed = backup.and_then(|backup| {
            fs::rename(&pending, &self.path).map_err(|source| {
                let _ = fs::remove_file(&backup);
                io_error(&self.path, source)
            })?;
            Ok(backup)
        });
        if renamed.is_err() {
            let _ = fs::remove_file(&pending);
            return renamed;
        }
        let finished = self.finish(last_line);
        sync_folder_of(&self.path)?;
        finished.and(renamed)
    }

    /// Gives the file a second name.
    fn link_backup(&self) -> Result<PathBuf> {
        for n in 1_u32.. {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".bak-{n}"));
            let backup = PathBuf::from(name);
            match fs::hard_link(&self.path, &backup) {
                Ok(()) => return Ok(backup),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // a file system without hard links
                Err(_) => {
                    let bytes = fs::read(&self.path).map_err(|e| io_error(&self.path, e))?;
                    match write_new(&backup, &bytes, &self.path) {
                        Ok(_) => return Ok(backup),
                        Err(Error::LedgerExists { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Err(already_there(&self.path))
    }

    /// Appends the final line of this file, whatever its name is by now.
    fn finish(&mut self, line: &[u8]) -> Result<()> {
        self.check_health()?;
        self.poisoned = true;
        self.file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| self.sink().write_all(line))
            .and_then(|()| self.sink().sync_data())
            .map_err(|source| io_error(&self.path, source))
    }

    pub(super) fn replaced(&self, reason: &'static str) -> Error {
        Error::LedgerReplaced {
            path: self.path.clone(),
            reason,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn remember(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.ending
            .extend(&bytes[bytes.len().saturating_sub(ENDING)..]);
        let surplus = self.ending.len().saturating_sub(ENDING);
        self.ending.drain(..surplus);
    }

    #[cfg(not(all(test, target_os = "linux")))]
    const fn sink(&mut self) -> &mut File {
        &mut self.file
    }

    #[cfg(all(test, target_os = "linux"))]
    fn sink(&mut self) -> &mut File {
        self.full_device.as_mut().unwrap_or(&mut self.file)
    }

    /// Redirects all further writes to a device that is always full.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn fill_disk(&mut self) -> io::Result<()> {
        self.full_device = Some(OpenOptions::new().write(true).open("/dev/full")?);
        Ok(())
    }
}

/// A complete, durable and locked file under a hidden name, in the folder of the path that will
/// name it.
pub(super) struct Pending {
    file: File,
    name: PathBuf,
    contents: Vec<u8>,
}

impl Pending {
    /// Writes a file that [`find`](Self::find) finds again after a crash. Removes what an earlier
    /// attempt left there.
    pub(super) fn write(path: &Path, contents: &[u8]) -> Result<Self> {
        let name = Self::name_for(path)?;
        match Store::open(&name) {
            Ok(_) => fs::remove_file(&name).map_err(|e| io_error(&name, e))?,
            Err(Error::LedgerMissing { .. }) => {}
            Err(error) => return Err(error),
        }
        let file = write_new(&name, contents, path)?;
        sync_folder_of(path)?;
        Ok(Self {
            file,
            name,
            contents: contents.to_vec(),
        })
    }

    /// Finds the file that was written for `path`.
    ///
    /// # Errors
    /// [`Error::LedgerMissing`] if there is none; the errors of [`Store::open`].
    pub(super) fn find(path: &Path) -> Result<Self> {
        let name = Self::name_for(path)?;
        let (Store { file, .. }, contents) = Store::open(&name)?;
        Ok(Self {
            file,
            name,
            contents,
        })
    }

    fn name_for(path: &Path) -> Result<PathBuf> {
        Ok(path.with_file_name(hidden_name(path, "merge")?))
    }

    pub(super) fn contents(&self) -> &[u8] {
        &self.contents
    }

    /// Whether `bytes`, the contents of the file at `path`, begin with the complete contents of the
    /// pending file for that path, if it still exists.
    pub(super) fn is_within(path: &Path, bytes: &[u8]) -> Result<bool> {
        let name = Self::name_for(path)?;
        match fs::read(&name) {
            Ok(contents) => Ok(bytes.starts_with(&contents)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(io_error(&name, error)),
        }
    }

    /// Removes the pending file for `path`, after it has been given its name.
    pub(super) fn clear(path: &Path) -> Result<()> {
        let _ = fs::remove_file(Self::name_for(path)?);
        Ok(())
    }

    /// Gives the file its name, which must not exist yet. The hidden name is removed only when this
    /// is durable.
    pub(super) fn named(self, path: &Path) -> Result<Store> {
        let file = match fs::hard_link(&self.name, path) {
            Ok(()) => self.file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(already_there(path));
            }
            // a file system without hard links: a crash in between leaves a file that is rejected
            Err(_) => write_new(path, &self.contents, path)?,
        };
        sync_folder_of(path)?;
        let _ = fs::remove_file(&self.name);
        Ok(Store::read(file, path)?.0)
    }
}

/// `.NAME.WORD.pending` for a path that ends in NAME.
fn hidden_name(path: &Path, word: &str) -> Result<std::ffi::OsString> {
    let name = path.file_name().ok_or_else(|| {
        io_error(
            path,
            io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"),
        )
    })?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{word}.pending"));
    Ok(hidden)
}

/// Writes a file under another name in the folder of `path`, durably, and locks it.
fn write_pending(path: &Path, contents: &[u8]) -> Result<(File, PathBuf)> {
    let pending = path.with_file_name(hidden_name(path, &super::ids::random_hex(8)?)?);
    let written = write_new(&pending, contents, path);
    if written.is_err() {
        let _ = fs::remove_file(&pending);
    }
    Ok((written?, pending))
}

/// Creates the file `at`, locks it and writes it durably; errors name `path`.
fn write_new(at: &Path, contents: &[u8], path: &Path) -> Result<File> {
    let io = |source| io_error(path, source);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(at)
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_there(path),
            _ => io(error),
        })?;
    lock(&file, path)?;
    file.write_all(contents)
        .and_then(|()| file.sync_all())
        .map_err(io)?;
    Ok(file)
}

fn already_there(path: &Path) -> Error {
    Error::LedgerExists {
        path: path.to_owned(),
    }
}

/// Locks a file, or fails if it stays locked for a fifth of a second. One attempt is not enough: a
/// process that starts another shares its locks with it for an instant, even if it closes the file
/// meanwhile.
fn lock(file: &File, path: &Path) -> Result<()> {
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if tries < 20 => {
                tries += 1;
                thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::LedgerLocked {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(io_error(path, source)),
        }
    }
}

#[cfg(unix)]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// On systems where files have no inode number, their creation times are compared.
#[cfg(not(unix))]
fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    a.len() == b.len() && a.created().ok() == b.created().ok()
}

/// Makes the name of a file durable.
#[cfg(unix)]
pub(super) fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|opened| opened.sync_all())
        .map_err(|source| io_error(folder, source))
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "folders cannot be synced here")]
pub(super) fn sync_folder_of(_: &Path) -> Result<()> {
    Ok(())
}

fn missing_or_io(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::LedgerMissing {
            path: path.to_owned(),
        },
        _ => io_error(path, source),
    }
}

/// The error of a path at which there is no regular file.
pub(super) fn not_a_file(found: &fs::Metadata) -> io::Error {
    match found.is_dir() {
        true => io::Error::new(io::ErrorKind::IsADirectory, "a folder, not a ledger"),
        false => io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"),
    }
}

pub(super) fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    type Deed = Box<dyn FnOnce(&Path)>;

    thread_local! {
        static DEED: RefCell<Option<Deed>> = const { RefCell::new(None) };
    }

    /// Test hook that runs once, right after a write.
    pub(super) fn between_write_and_check(path: &Path) {
        if let Some(deed) = DEED.with_borrow_mut(Option::take) {
            deed(path);
        }
    }

    #[test]
    fn a_file_that_is_replaced_during_a_write_is_refused_until_it_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut store = Store::create(&path, b"one\n").unwrap();
        store.append(b"two\n").unwrap();
        DEED.set(Some(Box::new(|path: &Path| {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        })));
        let refused = store.append(b"three\n");
        assert!(matches!(refused, Err(Error::LedgerReplaced { .. })));
        let refused = store.append(b"four\n");
        assert!(matches!(refused, Err(Error::LedgerReplaced { .. })));
        let (mut again, bytes) = store.reopen().unwrap();
        assert_eq!(bytes, b"one\ntwo\nthree\n");
        again.append(b"four\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\nfour\n");
    }

    #[test]
    fn an_older_copy_gets_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut store = Store::create(&path, b"one\n").unwrap();
        let copy = path.with_extension("copy");
        fs::copy(&path, &copy).unwrap();
        store.append(b"two\n").unwrap();
        let (copy_path, other) = (copy.clone(), path.with_extension("other"));
        DEED.set(Some(Box::new(move |path: &Path| {
            fs::copy(&copy_path, &other).unwrap();
            fs::rename(&other, path).unwrap();
        })));
        assert!(store.append(b"three\n").is_err());
        let (mut again, bytes) = store.reopen().unwrap();
        assert_eq!(bytes, b"one\n");
        assert_eq!(
            store.complete(&mut again, &bytes).unwrap(),
            b"one\ntwo\nthree\n"
        );
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\nthree\n");
        for no_copy in [&b""[..], b"one", b"two\n", b"one\ntwo\nthree\nfour\n"] {
            assert!(store.complete(&mut again, no_copy).is_err());
        }
    }

    #[test]
    fn a_file_is_made_whole_and_over_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        drop(Store::create(&path, b"one\n").unwrap());
        let again = Store::create(&path, b"two\n");
        assert!(matches!(again, Err(Error::LedgerExists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"one\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
