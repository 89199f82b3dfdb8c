//! An output folder that appears whole or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::output::warn;

/// Says in the hidden folder that a living process writes there.
const LOCK: &str = ".lock";
/// Says that what is made there is paid for.
const PAID: &str = ".paid";
/// Says that what was paid for is there, whole.
const RELEASED: &str = ".released";

/// Files are written into a hidden folder beside the final one and moved by one rename.
///
/// Until [`commit`](Self::commit) the final path is untouched; when the value is dropped before,
/// the hidden folder is removed. What a killed process left is taken over by the next one, unless it is a whole model that was paid for: then the next
/// one moves that into place and stops.
pub(crate) struct OutputFolder {
    target: PathBuf,
    staging: PathBuf,
    replace: bool,
    keep: bool,
    _lock: File,
}

impl OutputFolder {
    /// Makes the hidden folder, so that a path that cannot be written fails before any work.
    pub(crate) fn create(target: &Path, replace: bool) -> Result<Self> {
        if target.file_name().is_none() {
            let reason = format!(
                "--out {} does not name a folder to be made",
                target.display()
            );
            return Err(Error::Usage(reason));
        }
        Self::recover(target, replace)?;
        refuse_present(target, replace)?;
        Self::staged(target, replace)?.empty()
    }

    /// The hidden folder, made or as a killed process left it.
    fn staged(target: &Path, replace: bool) -> Result<Self> {
        let staging = sibling(target, "partial");
        make_folder(folder_of(target))?;
        Ok(Self {
            target: target.to_owned(),
            replace,
            keep: true,
            _lock: take_over(&staging, target)?,
            staging,
        })
    }

    /// Removes what a killed process left, and says so if it was paid for.
    fn empty(mut self) -> Result<Self> {
        if self.has(PAID) {
            warn(
                "an earlier run into this folder ended while it paid or trained, and released nothing; what its ledger \
                 counts for it stays spent",
            );
        }
        let failed = |e| Error::write(&self.staging, e);
        for entry in fs::read_dir(&self.staging).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() != LOCK {
                remove_if_present(&entry.path()).map_err(failed)?;
            }
        }
        self.keep = false;
        Ok(self)
    }

    fn has(&self, name: &str) -> bool {
        is_present(&self.staging.join(name))
    }

    /// Moves the model of a run that was killed after it had released it into place. Ask before anything is paid for another one.
    ///
    /// # Errors
    /// [`Error::Recovered`] when there was such a model.
    pub(crate) fn recover(target: &Path, replace: bool) -> Result<()> {
        let left = sibling(target, "partial");
        if target.file_name().is_none() || !is_present(&left.join(RELEASED)) {
            return Ok(());
        }
        let found = Self::staged(target, replace)?;
        if !found.has(RELEASED) {
            return Ok(()); // another process has just done it
        }
        refuse_present(target, replace)?;
        found.commit()?;
        Err(Error::Recovered {
            path: target.to_owned(),
        })
    }

    /// Notes that from here on the run may be paid for: whoever finds the folder without its process says so.
    pub(crate) fn mark_paid(&self) -> Result<()> {
        self.write(PAID, b"")?;
        sync_folder(&self.staging);
        Ok(())
    }

    /// Writes one file that anybody may read and waits until it is on disk.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.write_with(OpenOptions::new(), name, bytes)
    }

    /// Writes one file for the eyes of its owner.
    pub(crate) fn write_internal(&self, name: &str, bytes: &[u8]) -> Result<()> {
        #[cfg_attr(not(unix), allow(unused_mut, reason = "modes are a Unix notion"))]
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        self.write_with(options, name, bytes)
    }

    fn write_with(&self, mut options: OpenOptions, name: &str, bytes: &[u8]) -> Result<()> {
        tracing::debug!(file = name, "writing");
        let path = self.staging.join(name);
        let open = options.write(true).create_new(true).open(&path);
        let write = |mut file: File| {
            file.write_all(bytes)?;
            file.sync_all()
        };
        let written = open.and_then(write);
        written.map_err(|e| {
            // half a file is worse than none
            let _ = fs::remove_file(&path);
            Error::write(&path, e)
        })
    }

    /// Moves the folder to its final path, replacing an old one only now. When the move fails,
    /// the finished files stay where they are and the error says where: they cannot be made
    /// again without paying again.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.keep = true;
        tracing::info!(folder = %self.target.display(), "moving the finished folder into place");
        self.swap().map_err(|source| Error::Move {
            target: self.target.clone(),
            kept: self.staging.clone(),
            source,
        })
    }

    /// Does the rest of the work and moves the folder to its final path whether that failed or not: what was written
    /// before is paid for and stays. When the process is killed meanwhile, [`recover`](Self::recover) does it.
    pub(crate) fn commit_after<T>(mut self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        self.keep = true;
        self.write(RELEASED, b"")?;
        sync_folder(&self.staging);
        let done = work(&self);
        self.commit()?;
        done
    }

    /// Old folder out of the way, new one in; the old one comes back when the new one cannot.
    fn swap(&self) -> io::Result<()> {
        let retired = sibling(&self.target, "old");
        let old = self.replace && is_present(&self.target);
        if old {
            remove_if_present(&retired)?;
            fs::rename(&self.target, &retired)?;
        }
        if let Err(error) = fs::rename(&self.staging, &self.target) {
            if old {
                fs::rename(&retired, &self.target)?;
            }
            return Err(error);
        }
        // only now: a lock that vanished earlier would let another run empty the finished folder
        for mark in [PAID, RELEASED, LOCK] {
            if let Err(error) = remove_if_present(&self.target.join(mark)) {
                let path = self.target.display();
                warn(&format!("could not remove {mark} of {path}: {error}"));
            }
        }
        sync_folder(folder_of(&self.target));
        if let Err(error) = remove_if_present(&retired) {
            warn(&format!("could not remove {}: {error}", retired.display()));
        }
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Err(error) = remove_if_present(&self.staging) {
            warn(&format!(
                "could not remove {}: {error}",
                self.staging.display()
            ));
        }
    }
}

fn refuse_present(target: &Path, replace: bool) -> Result<()> {
    if is_present(target) && !replace {
        return Err(Error::OutputExists {
            path: target.to_owned(),
        });
    }
    Ok(())
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let made = fs::create_dir_all(folder).map_err(|error| match error.kind() {
        // what exists there is no folder, which says more
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    });
    made.map_err(|e| Error::write(folder, e))
}

/// Makes the hidden folder, or takes over the one that a killed process left.
fn take_over(staging: &Path, target: &Path) -> Result<File> {
    let failed = |e| Error::write(staging, e);
    match fs::create_dir(staging) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let lock = File::create(staging.join(LOCK)).map_err(failed)?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::OutputBusy {
            path: target.to_owned(),
        },
        TryLockError::Error(source) => failed(source),
    })?;
    Ok(lock)
}

/// Makes a rename durable, where the system can. The files themselves already are.
#[cfg_attr(
    not(unix),
    allow(unused_variables, reason = "only Unix syncs folders by opening them")
)]
pub(super) fn sync_folder(folder: &Path) {
    #[cfg(unix)]
    if let Err(error) = File::open(folder).and_then(|opened| opened.sync_all()) {
        warn(&format!("could not sync {}: {error}", folder.display()));
    }
}

/// Whether there is anything at `path`, a dangling link included.
fn is_present(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

pub(super) fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// `dir/.name.suffix` for `dir/name`.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{suffix}"))
}

/// The folder that holds `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
