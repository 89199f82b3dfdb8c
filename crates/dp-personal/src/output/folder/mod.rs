//! An output folder that appears whole or not at all.

mod paths;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use dp_accounting::Certificate;
use dp_mechanism::RunFolder;

use crate::error::{Error, Result};
use crate::output::warn;

pub use self::paths::folder_of;
pub(crate) use self::paths::make_folder;
use self::paths::{LOCK, Parents, is_present, sibling, take_over};
pub(super) use self::paths::{remove_if_present, sync_folder};

/// Says that what is made there is paid for.
const PAID: &str = ".paid";
/// Says that what was paid for is there, whole.
const RELEASED: &str = ".released";
/// The list of releases while the run goes on, and where it is published.
pub(crate) const RELEASES: &str = "releases.list";
/// The same where it is not published.
pub(crate) const INTERNAL_RELEASES: &str = "internal-releases.list";
/// Which lines of the ledger are the run's, where its whole plan was paid at once.
const HELD: &str = "held.json";

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
    /// Whether a run that failed may go on from what is there.
    resumable: Cell<bool>,
    _lock: File,
    _parents: Parents,
}

impl OutputFolder {
    /// Makes the hidden folder, so that a path that cannot be written fails before any work.
    pub(crate) fn create(target: &Path, replace: bool) -> Result<Self> {
        Self::create_or_resume(target, replace, false)
    }

    /// The same, which with `resume` keeps the releases of a run that was interrupted there.
    pub(crate) fn create_or_resume(target: &Path, replace: bool, resume: bool) -> Result<Self> {
        if target.file_name().is_none() {
            let reason = format!(
                "`out` {} does not name a folder to be made",
                target.display()
            );
            return Err(Error::Usage(reason));
        }
        Self::recover(target, replace)?;
        refuse_present(target, replace)?;
        let staged = Self::staged(target, replace)?;
        if staged.has(RELEASED) {
            return Err(staged.put_into_place()?); // killed a moment ago
        }
        if resume && has_releases(&staged.staging) {
            return staged.resumed();
        }
        staged.empty()
    }

    /// Whether a run was interrupted on its way to `target` after its first payment, and can go on.
    pub(crate) fn is_interrupted(target: &Path) -> bool {
        target.file_name().is_some() && has_releases(&sibling(target, "partial"))
    }

    /// The hidden folder, made or as a killed process left it.
    fn staged(target: &Path, replace: bool) -> Result<Self> {
        let staging = sibling(target, "partial");
        let parents = Parents::make(folder_of(target))?;
        Ok(Self {
            target: target.to_owned(),
            replace,
            keep: true,
            resumable: Cell::new(false),
            _lock: take_over(&staging, target)?,
            _parents: parents,
            staging,
        })
    }

    /// Removes what a killed process left, and says so if it was paid for.
    fn empty(mut self) -> Result<Self> {
        if self.has(PAID) {
            warn(
                "an earlier run into this folder ended while it paid or trained, and what it released is discarded; what \
                 its ledger counts for it stays spent",
            );
        }
        self.remove_all_but(&[LOCK])?;
        self.keep = false;
        Ok(self)
    }

    /// What an interrupted run goes on from; files of the model that it may have begun to write go.
    fn resumed(mut self) -> Result<Self> {
        let (internal, list) = (self.path(INTERNAL_RELEASES), self.path(RELEASES));
        if !is_present(&list) {
            fs::rename(&internal, &list).map_err(|e| Error::write(&list, e))?;
        }
        self.remove_all_but(&[LOCK, PAID, RELEASES, HELD])?;
        self.keep = false;
        self.resumable.set(true);
        Ok(self)
    }

    fn remove_all_but(&self, kept: &[&str]) -> Result<()> {
        let failed = |e| Error::write(&self.staging, e);
        for entry in fs::read_dir(&self.staging).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !kept.iter().any(|name| entry.file_name() == *name) {
                remove_if_present(&entry.path()).map_err(failed)?;
            }
        }
        Ok(())
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
        let mut found = Self::staged(target, replace)?;
        if !found.has(RELEASED) {
            found.keep = false; // another process has just done it
            return Ok(());
        }
        refuse_present(target, replace)?;
        Err(found.put_into_place()?)
    }

    /// Commits what a killed process released, without the internal files, which may be half-written.
    fn put_into_place(self) -> Result<Error> {
        let failed = |e| Error::write(&self.staging, e);
        for entry in fs::read_dir(&self.staging).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            // the list of releases was whole before the model was
            if name != INTERNAL_RELEASES && name.to_string_lossy().starts_with("internal") {
                remove_if_present(&entry.path()).map_err(failed)?;
            }
        }
        let path = self.target.clone();
        self.commit().map(|()| Error::Recovered { path })
    }

    /// The folder's own name, without what it lies in.
    pub(crate) fn name(&self) -> String {
        let name = self.target.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Where one of its files stands until the folder is committed.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.staging.join(name)
    }

    /// Where the list of releases grows.
    pub(crate) fn releases(&self) -> RunFolder {
        RunFolder::new(&self.staging)
    }

    /// From here on the folder stays when the run fails after its first payment, so that it can be resumed.
    pub(crate) fn keep_for_resuming(&self) {
        self.resumable.set(true);
    }

    /// Puts the list of releases where the finished output has it: among the internal files, or bound to the certificate.
    pub(crate) fn settle_releases(
        &self,
        publish: bool,
        certificate: Certificate,
    ) -> Result<Certificate> {
        let (list, internal) = (self.path(RELEASES), self.path(INTERNAL_RELEASES));
        if publish {
            let bytes = fs::read(&list).map_err(|e| Error::read(&list, e))?;
            return Ok(certificate.with_artifact(RELEASES, &bytes));
        }
        if is_present(&list) {
            let hide = || {
                #[cfg(unix)]
                {
                    use std::os::unix::fs::PermissionsExt;
                    fs::set_permissions(&list, fs::Permissions::from_mode(0o600))?;
                }
                fs::rename(&list, &internal)
            };
            hide().map_err(|e| Error::write(&internal, e))?;
        }
        Ok(certificate)
    }

    /// Notes that from here on the run may be paid for: whoever finds the folder without its process says so. Returns the name
    /// that the run has in its ledger, `name` unless it goes on under an earlier one.
    pub(crate) fn mark_paid(&self, name: &str) -> Result<String> {
        if !self.has(PAID) {
            self.write(PAID, name.as_bytes())?;
        }
        sync_folder(&self.staging);
        sync_folder(folder_of(&self.staging));
        let path = self.path(PAID);
        fs::read_to_string(&path).map_err(|e| Error::read(&path, e))
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
        match self.write(RELEASED, b"") {
            Ok(()) => sync_folder(&self.staging),
            // the move needs no room on the disk
            Err(error) => warn(&format!(
                "{error}; if this process is killed now, its model is lost"
            )),
        }
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
        for mark in [PAID, RELEASED, HELD, LOCK] {
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
        if self.resumable.get() && has_releases(&self.staging) {
            warn(
                "the run ended before its model was made; what it has released and paid for is kept, and the same command \
                 with `resume` goes on with it",
            );
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

/// Whether a run has paid for something here: its list has an entry, or the ledger holds its plan.
fn has_releases(folder: &Path) -> bool {
    let is_begun = |name: &str| {
        let mut file = File::open(folder.join(name)).map(BufReader::new).ok()?;
        let mut header = Vec::new();
        file.read_until(b'\n', &mut header).ok()?;
        file.fill_buf().ok().map(|rest| !rest.is_empty())
    };
    is_present(&folder.join(HELD))
        || [RELEASES, INTERNAL_RELEASES]
            .into_iter()
            .any(|name| is_begun(name) == Some(true))
}

fn refuse_present(target: &Path, replace: bool) -> Result<()> {
    if is_present(target) && !replace {
        return Err(Error::OutputExists {
            path: target.to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
