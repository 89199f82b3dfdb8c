//! Folders and locks on the disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::output::warn;

/// Marks a hidden folder in which a running process is writing.
pub(super) const LOCK: &str = ".lock";

/// Parent folders of the output that were created for it, the deepest first. They are removed if
/// they remain empty.
pub(super) struct Parents(Vec<PathBuf>);

impl Parents {
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let named = folder
            .ancestors()
            .filter(|above| above.file_name().is_some());
        let missing = named.take_while(|above| !is_present(above));
        let made = Self(missing.map(Path::to_owned).collect());
        make_folder(folder).map(|()| made)
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        // a folder that is not empty is kept, which is not an error
        for folder in &self.0 {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Creates a folder and its parents.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let made = fs::create_dir_all(folder).map_err(|error| match error.kind() {
        // a path that exists and is not a folder gives a more precise error
        io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
        _ => error,
    });
    made.map_err(|e| Error::write(folder, e))
}

/// The folder of internal files that belongs to an output folder: `dir/name-internal` for
/// `dir/name`.
pub(crate) fn internal_folder_of(folder: &Path) -> PathBuf {
    let named = match folder.file_name() {
        Some(_) => folder.to_owned(),
        // `.` or `..`, which must exist to have a name
        None => folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
    };
    let mut name = named.file_name().unwrap_or_default().to_owned();
    name.push("-internal");
    named.with_file_name(name)
}

/// Creates a folder that only its owner can open, unless it exists.
pub(crate) fn make_internal_folder(folder: &Path) -> Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "modes are a Unix notion"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made.map_err(|e| Error::write(folder, e)),
    }
}

/// A folder that is created in steps under a hidden name next to its final path, accessible only to
/// its owner: it appears completely or not at all.
pub(crate) struct StagedFolder {
    pub(crate) path: PathBuf,
    target: PathBuf,
    lock: File,
}

impl StagedFolder {
    /// Creates it, or takes over the one that a killed process left.
    pub(crate) fn open(target: &Path, suffix: &str) -> Result<Self> {
        let path = sibling(target, suffix);
        make_internal_folder(&path)?;
        let lock = take_over(&path, target)?;
        // another process may have finished it since the caller checked
        if is_present(target) {
            // remove what this call created; a folder that contains anything is kept, because it
            // may be paid for
            let _ = fs::remove_file(path.join(LOCK));
            let _ = fs::remove_dir(&path);
            let path = target.to_owned();
            return Err(Error::OutputExists { path });
        }
        Ok(Self {
            lock,
            target: target.to_owned(),
            path,
        })
    }

    /// Moves it to its final path, once everything in it is durable.
    pub(crate) fn finish(self) -> Result<()> {
        sync_folder(&self.path);
        fs::rename(&self.path, &self.target).map_err(|e| Error::write(&self.target, e))?;
        drop(self.lock);
        sync_folder(folder_of(&self.target));
        let lock = self.target.join(LOCK);
        remove_if_present(&lock).map_err(|e| Error::write(&lock, e))
    }
}

/// Creates the hidden folder, or takes over the one that a killed process left.
pub(super) fn take_over(staging: &Path, target: &Path) -> Result<File> {
    let failed = |e| Error::write(staging, e);
    match fs::create_dir(staging) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let path = staging.join(LOCK);
    refuse_other(staging, fs::Metadata::is_dir)?;
    refuse_other(&path, fs::Metadata::is_file)?;
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    let lock = options.open(&path).map_err(failed)?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::OutputBusy {
            path: target.to_owned(),
        },
        TryLockError::Error(source) => failed(source),
    })?;
    Ok(lock)
}

/// A link would lead to files that must not be emptied here.
fn refuse_other(path: &Path, is_right: fn(&fs::Metadata) -> bool) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !is_right(&found) => {
            let reason = "a link, or something of another kind, is in its place; remove it";
            Err(Error::write(path, io::Error::other(reason)))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(path, error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes a rename durable, if the system supports it. The files themselves already are.
#[cfg_attr(
    not(unix),
    allow(unused_variables, reason = "only Unix syncs folders by opening them")
)]
pub(in crate::output) fn sync_folder(folder: &Path) {
    #[cfg(unix)]
    if let Err(error) = File::open(folder).and_then(|opened| opened.sync_all()) {
        warn(&format!("could not sync {}: {error}", folder.display()));
    }
}

/// Whether anything exists at `path`, including a dangling link.
pub(super) fn is_present(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

pub(in crate::output) fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// `dir/.name.suffix` for `dir/name`.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{suffix}"));
    path.with_file_name(name)
}

/// The parent folder of `path`.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
