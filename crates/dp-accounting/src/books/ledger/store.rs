//! The ledger's file: one writer, append only, durable before it returns.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A locked file, positioned at its end.
#[derive(Debug)]
pub(super) struct Store {
    file: File,
    path: PathBuf,
    /// Set while a write is under way, and for good once one fails.
    poisoned: bool,
}

impl Store {
    /// Opens or creates `path`, locks it and reads it.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<u8>)> {
        let io = |source| io_error(path, source);
        if path.exists() && !path.is_file() {
            return Err(io(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            )));
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Error::LedgerLocked {
                path: path.to_owned(),
            },
            TryLockError::Error(source) => io(source),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let store = Self {
            file,
            path: path.to_owned(),
            poisoned: false,
        };
        Ok((store, bytes))
    }

    /// Writes the first line of a file from which nothing was ever handed out, and makes the
    /// file's name durable as well.
    pub(super) fn begin(&mut self, header: &[u8]) -> Result<()> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .map_err(|source| io_error(&self.path, source))?;
        self.append(header)?;
        self.sync_folder()
    }

    /// Appends `bytes` and waits until they are durable. After a failure nobody knows what is on
    /// disk, so every later call fails until the file is opened and read again.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.poisoned {
            return Err(Error::LedgerPoisoned {
                path: self.path.clone(),
            });
        }
        self.poisoned = true;
        self.file
            .write_all(bytes)
            .and_then(|()| self.file.sync_data())
            .map_err(|source| io_error(&self.path, source))?;
        self.poisoned = false;
        Ok(())
    }

    #[cfg(unix)]
    fn sync_folder(&self) -> Result<()> {
        let folder = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|opened| opened.sync_all())
            .map_err(|source| io_error(folder, source))
    }

    #[cfg(not(unix))]
    #[allow(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "folders cannot be synced here"
    )]
    fn sync_folder(&self) -> Result<()> {
        Ok(())
    }

    /// Swaps the file for a device that is always full.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn fill_disk(&mut self) -> io::Result<()> {
        self.file = OpenOptions::new().write(true).open("/dev/full")?;
        Ok(())
    }
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::Io {
        path: path.to_owned(),
        source,
    }
}
