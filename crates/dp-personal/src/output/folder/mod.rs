//! An output folder that appears completely or not at all, and a second folder for files that must
//! not be published.

mod paths;

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use dp_mechanism::RunFolder;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::output::{CERTIFICATE, INTERNAL_PREFIX, warn};

pub use self::paths::folder_of;
use self::paths::{LOCK, Parents, is_present, sibling, take_over};
pub(crate) use self::paths::{StagedFolder, internal_folder_of, make_folder, make_internal_folder};
pub(super) use self::paths::{remove_if_present, sync_folder};

/// Marks a folder whose contents are paid for.
const PAID: &str = ".paid";
/// Marks a folder that contains everything that was paid for.
const RELEASED: &str = ".released";
/// Marks a complete folder that is being moved to its final path.
const MOVING: &str = ".moving";
/// Location of internal files until the folder is committed.
const INTERNAL_PART: &str = "internal";
/// Files that a process may leave in a finished folder when it is killed as it ends: they belong to
/// no run, are never published, and are refused by `dp verify`, which cannot know their contents.
const MARKS: [&str; 6] = [PAID, RELEASED, HELD, RUN, LOCK, MOVING];
/// The release list while the run is in progress, and if it is published.
pub(crate) const RELEASES: &str = "releases.list";
/// The release list if it is not published.
pub(crate) const INTERNAL_RELEASES: &str = "internal-releases.list";
/// The end of the release list that a crash cut off, and its name among the internal files; if
/// there are several, a number follows.
const TORN: &str = "releases.torn";
const INTERNAL_TORN: &str = "internal-releases.torn";
/// The lines of the ledger that belong to the run, if its whole plan was paid at once.
const HELD: &str = "held.json";
/// The first bytes of a ledger file.
const LEDGER_START: &[u8; 23] = br#"{"ledger":"dp-personal""#;
/// The inputs that determine the run, until it is done.
const RUN: &str = "run.json";

/// Decides whether the results of a killed process may be moved into place: called with the hidden
/// folder before anything is moved.
pub(crate) type MayRecover<'a> = &'a dyn Fn(&Path) -> Result<()>;

/// Files are written into a hidden folder next to the final one, which is moved by one rename;
/// internal files go to a separate folder, which only its owner can open.
///
/// Until [`commit`](Self::commit) the final paths are unchanged; if the value is dropped before,
/// the hidden folder is removed. What a killed process left is taken over by the next one, unless
/// it is a complete model that was paid for: in that case the next process moves that model into
/// place and stops.
pub(crate) struct OutputFolder {
    target: PathBuf,
    /// Folder for internal files, if there are any.
    internal: Option<PathBuf>,
    staging: PathBuf,
    replace: bool,
    keep: bool,
    /// Whether a failed run can be resumed from the folder.
    resumable: Cell<bool>,
    _lock: File,
    _parents: Parents,
}

impl OutputFolder {
    /// Creates the hidden folder, so that a path that cannot be written fails before any work.
    pub(crate) fn create(target: &Path, replace: bool) -> Result<Self> {
        Self::create_or_resume(target, replace, false, &|_| Ok(()))
    }

    /// The same for a folder without internal files: nothing next to `target` is changed.
    pub(crate) fn create_released(target: &Path, replace: bool) -> Result<Self> {
        Self::make(target, None, replace, false, &|_| Ok(()))
    }

    /// The same as [`create`](Self::create); with `resume` it keeps the releases of an interrupted
    /// run.
    pub(crate) fn create_or_resume(
        target: &Path,
        replace: bool,
        resume: bool,
        may_recover: MayRecover<'_>,
    ) -> Result<Self> {
        let internal = Some(internal_folder_of(target));
        Self::make(target, internal, replace, resume, may_recover)
    }

    fn make(
        target: &Path,
        internal: Option<PathBuf>,
        replace: bool,
        resume: bool,
        may_recover: MayRecover<'_>,
    ) -> Result<Self> {
        if target.file_name().is_none() {
            let reason = format!(
                "`out` {} does not name a folder to be made",
                target.display()
            );
            return Err(Error::Usage(reason));
        }
        Self::recover_with(target, internal.clone(), replace, may_recover)?;
        for folder in [Some(target), internal.as_deref()].into_iter().flatten() {
            refuse_present(folder, replace)?;
        }
        let staged = Self::staged(target, internal, replace)?;
        if staged.is_whole() {
            return Err(staged.put_into_place(may_recover)?); // the process was killed a moment ago
        }
        if resume && has_releases(&staged.staging) {
            return staged.resumed();
        }
        staged.empty(resume)
    }

    /// Whether a run for `target` was interrupted after its first payment, and can be resumed.
    pub(crate) fn is_interrupted(target: &Path) -> bool {
        target.file_name().is_some() && has_releases(&sibling(target, "partial"))
    }

    /// The hidden folder, either new or as a killed process left it.
    fn staged(target: &Path, internal: Option<PathBuf>, replace: bool) -> Result<Self> {
        let staging = sibling(target, "partial");
        let parents = Parents::make(folder_of(target))?;
        Ok(Self {
            target: target.to_owned(),
            internal,
            replace,
            keep: true,
            resumable: Cell::new(false),
            _lock: take_over(&staging, target)?,
            _parents: parents,
            staging,
        })
    }

    /// Removes what a killed process left, and reports if it was paid for.
    fn empty(mut self, resume: bool) -> Result<Self> {
        if self.has(PAID) {
            let what = match resume {
                true => "kept none of its releases, so this is a new run",
                false => "its releases are discarded because `resume` was not given",
            };
            warn(&format!(
                "an earlier run into this folder ended while paying or training, and {what}; the budget that its ledger recorded stays spent"
            ));
        }
        self.remove_all_but(&[LOCK])?;
        self.keep = false;
        Ok(self)
    }

    /// Prepares the folder of an interrupted run; files of the model that it may have begun to
    /// write are removed.
    fn resumed(mut self) -> Result<Self> {
        let (internal, list) = (self.internal_path(INTERNAL_RELEASES), self.path(RELEASES));
        if !is_present(&list) {
            fs::rename(&internal, &list).map_err(|e| Error::write(&list, e))?;
        }
        self.remove_all_but(&[LOCK, PAID, RELEASES, HELD, RUN])?;
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

    /// Whether the released part is complete.
    fn is_whole(&self) -> bool {
        self.has(RELEASED) || self.has(MOVING)
    }

    /// If a run was killed after it had released its model, moves that model into place. Call it
    /// before anything is paid for another model.
    ///
    /// # Errors
    /// [`Error::Recovered`] if there was such a model; errors of `may_recover`, which leave it
    /// where it is.
    pub(crate) fn recover(target: &Path, replace: bool, may_recover: MayRecover<'_>) -> Result<()> {
        Self::recover_with(
            target,
            Some(internal_folder_of(target)),
            replace,
            may_recover,
        )
    }

    fn recover_with(
        target: &Path,
        internal: Option<PathBuf>,
        replace: bool,
        may_recover: MayRecover<'_>,
    ) -> Result<()> {
        let left = sibling(target, "partial");
        let is_whole = [RELEASED, MOVING].map(|mark| is_present(&left.join(mark)));
        if target.file_name().is_none() || is_whole == [false; 2] {
            return Ok(());
        }
        let mut found = Self::staged(target, internal, replace)?;
        if !found.is_whole() {
            found.keep = false; // another process has just done it
            return Ok(());
        }
        let moved = found.has(MOVING) && !found.has(INTERNAL_PART);
        let internal = found.internal.as_deref().filter(|_| !moved);
        for folder in [Some(target), internal].into_iter().flatten() {
            refuse_present(folder, replace)?;
        }
        Err(found.put_into_place(may_recover)?)
    }

    /// Commits what a killed process released; internal files that may be half-written are removed.
    fn put_into_place(self, may_recover: MayRecover<'_>) -> Result<Error> {
        may_recover(&self.staging)?;
        let internal = self.staging.join(INTERNAL_PART);
        let failed = |e| Error::write(&internal, e);
        if self.has(INTERNAL_PART) && !self.has(MOVING) {
            for entry in fs::read_dir(&internal).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                // the release list was complete before the model was
                if entry.file_name() != INTERNAL_RELEASES {
                    remove_if_present(&entry.path()).map_err(failed)?;
                }
            }
        }
        let path = self.target.clone();
        self.commit().map(|()| Error::Recovered { path })
    }

    /// The folder's own name, without its parent.
    pub(crate) fn name(&self) -> String {
        let name = self.target.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Path of one of its files until the folder is committed.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.staging.join(name)
    }

    fn internal_path(&self, name: &str) -> PathBuf {
        self.staging.join(INTERNAL_PART).join(name)
    }

    /// The folder of the growing release list.
    pub(crate) fn releases(&self) -> RunFolder {
        RunFolder::new(&self.staging)
    }

    /// The inputs of the run that was interrupted here, if any.
    pub(crate) fn begun_with(&self) -> Result<Option<Value>> {
        let path = self.path(RUN);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| Error::model(&path, format!("damaged: {e}"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::read(&path, error)),
        }
    }

    /// Stores the inputs that determine the run, for resuming.
    pub(crate) fn begin_with(&self, public: &Value) -> Result<()> {
        self.write(RUN, &serde_json::to_vec(public)?)
    }

    /// From here on, the folder is kept if the run fails after its first payment, so that it can be
    /// resumed.
    pub(crate) fn keep_for_resuming(&self) {
        self.resumable.set(true);
    }

    /// SHA-256 of the release list.
    pub(crate) fn release_list_sha256(&self) -> Result<String> {
        let list = self.path(RELEASES);
        hash_of(&list).map_err(|e| Error::read(&list, e))
    }

    /// Whether the run can be resumed after it has failed.
    fn is_resumable(&self) -> bool {
        self.resumable.get() && has_releases(&self.staging)
    }

    /// Wraps the error that ended a run that has paid, with how to resume it.
    pub(crate) fn after_payment(&self, error: Error) -> Error {
        Error::AfterPayment {
            error: Box::new(error),
            resumable: self.is_resumable(),
        }
    }

    /// Moves the release list to the internal files.
    pub(crate) fn hide_releases(&self) -> Result<()> {
        let (list, internal) = (self.path(RELEASES), self.internal_path(INTERNAL_RELEASES));
        if is_present(&list) {
            make_internal_folder(&self.staging.join(INTERNAL_PART))?;
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
        Ok(())
    }

    /// Moves what a crash cut off the list of releases to the internal files: the certificate does
    /// not cover it.
    pub(crate) fn hide_torn(&self) -> Result<()> {
        let failed = |e| Error::write(&self.staging, e);
        for entry in fs::read_dir(&self.staging).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(number) = name.to_string_lossy().strip_prefix(TORN) {
                make_internal_folder(&self.staging.join(INTERNAL_PART))?;
                let hidden = self.internal_path(&format!("{INTERNAL_TORN}{number}"));
                fs::rename(self.staging.join(&name), hidden).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Records that from here on the run may be paid for, so that any process that finds the folder
    /// without its process reports it. Returns the name that the run has in its ledger: `name`,
    /// unless it is resumed under an earlier one.
    pub(crate) fn mark_paid(&self, name: &str) -> Result<String> {
        if !self.has(PAID) {
            self.write(PAID, name.as_bytes())?;
        }
        sync_folder(&self.staging);
        sync_folder(folder_of(&self.staging));
        let path = self.path(PAID);
        fs::read_to_string(&path).map_err(|e| Error::read(&path, e))
    }

    /// Writes one public file and waits until it is on disk.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.write_with(OpenOptions::new(), &self.path(name), bytes)
    }

    /// Writes one private file.
    pub(crate) fn write_internal(&self, name: &str, bytes: &[u8]) -> Result<()> {
        #[cfg_attr(not(unix), allow(unused_mut, reason = "modes are a Unix notion"))]
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        make_internal_folder(&self.staging.join(INTERNAL_PART))?;
        self.write_with(options, &self.internal_path(name), bytes)
    }

    fn write_with(&self, mut options: OpenOptions, path: &Path, bytes: &[u8]) -> Result<()> {
        tracing::debug!(file = %path.display(), "writing");
        let open = options.write(true).create_new(true).open(path);
        let write = |mut file: File| {
            file.write_all(bytes)?;
            file.sync_all()
        };
        let written = open.and_then(write);
        written.map_err(|e| {
            // a partial file is worse than none
            let _ = fs::remove_file(path);
            Error::write(path, e)
        })
    }

    /// Moves the folders to their final paths; old ones are replaced only now. If a move fails, the
    /// finished files stay where they are and the error names the path: they cannot be recreated
    /// without paying again.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.keep = true;
        tracing::info!(folder = %self.target.display(), "moving the finished folder into place");
        self.swap().map_err(|source| Error::Move {
            target: self.target.clone(),
            kept: self.staging.clone(),
            source,
        })
    }

    /// Does the remaining work and then moves the folder to its final path, whether or not the work
    /// failed: what was written before is paid for and is kept. If the process is killed meanwhile,
    /// or `may_move` refuses the hidden folder, [`recover`](Self::recover) does it.
    pub(crate) fn commit_after<T>(
        mut self,
        work: impl FnOnce(&Self) -> Result<T>,
        may_move: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<T> {
        self.keep = true;
        match self.write(RELEASED, b"") {
            Ok(()) => sync_folder(&self.staging),
            // the move needs no disk space
            Err(error) => warn(&format!(
                "{error}; if this process is killed now, its model is lost"
            )),
        }
        let done = work(&self);
        may_move(&self.staging)?;
        let model = self.target.clone();
        self.commit()?;
        done.map_err(|error| Error::Unmeasured {
            error: Box::new(error),
            model,
        })
    }

    /// Moves old folders away and new ones in, the internal one first; if one cannot be moved, all
    /// are moved back. If the process is killed meanwhile, [`recover`](Self::recover) makes the
    /// remaining moves.
    fn swap(&self) -> io::Result<()> {
        let part = self.staging.join(INTERNAL_PART);
        let internal_moved = self.has(MOVING) && !is_present(&part);
        let internal = self.internal.as_deref().filter(|_| !internal_moved);
        self.mark_moving(internal.map(|_| part.as_path()));
        let finals = [Some(self.target.as_path()), internal]
            .into_iter()
            .flatten();
        let retired: Vec<(&Path, PathBuf)> = finals.map(|at| (at, sibling(at, "old"))).collect();
        let mut moves = Vec::new();
        for (old, away) in &retired {
            if self.replace && is_present(old) {
                remove_if_present(away)?;
                moves.push((*old, away.as_path()));
            }
        }
        if let Some(internal) = internal.filter(|_| is_present(&part)) {
            moves.push((&part, internal));
        }
        if self.releases_anything()? {
            moves.push((&self.staging, &self.target));
        }
        for (at, (from, to)) in moves.iter().enumerate() {
            if let Err(error) = fs::rename(from, to) {
                for (from, to) in moves[..at].iter().rev() {
                    fs::rename(to, from)?;
                }
                return Err(error);
            }
        }
        // only now: if a lock disappeared earlier, another run could empty the finished folder
        for folder in [&self.target, &self.staging] {
            for mark in MARKS {
                let path = folder.join(mark);
                if let Err(error) = remove_if_present(&path) {
                    warn(&format!("could not remove {}: {error}", path.display()));
                }
            }
        }
        sync_folder(folder_of(&self.target));
        let both = [Some(self.target.as_path()), self.internal.as_deref()];
        let left = both.into_iter().flatten().map(|at| sibling(at, "old"));
        for path in left.chain([self.staging.clone()]) {
            if let Err(error) = remove_if_present(&path) {
                warn(&format!("could not remove {}: {error}", path.display()));
            }
        }
        Ok(())
    }

    /// Marks the start of the moves, and makes sure that there is a folder of internal files to be
    /// moved: if there is none, it has already been moved.
    fn mark_moving(&self, part: Option<&Path>) {
        let mark = || {
            if let Some(part) = part {
                make_internal_folder(part)?;
            }
            match (self.has(MOVING), self.has(RELEASED)) {
                (true, _) => Ok(()),
                // needs no disk space
                (_, true) => fs::rename(self.path(RELEASED), self.path(MOVING))
                    .map_err(|e| Error::write(&self.path(MOVING), e)),
                _ => self.write(MOVING, b""),
            }
        };
        match mark() {
            Ok(()) => sync_folder(&self.staging),
            Err(error) => warn(&format!(
                "{error}; if this process is killed now, its output may be lost"
            )),
        }
    }

    /// Whether there is anything except internal files.
    fn releases_anything(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.staging)? {
            let name = entry?.file_name();
            if name != INTERNAL_PART && MARKS.iter().all(|mark| name != *mark) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if self.is_resumable() {
            if std::thread::panicking() {
                warn(
                    "the run ended before its model was made: the budget that it paid stays spent; run the same command with `resume` \
                     to continue from what it has released",
                );
            }
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
    let hidden = format!("{INTERNAL_PART}/{INTERNAL_RELEASES}");
    is_present(&folder.join(HELD))
        || [RELEASES, &hidden]
            .into_iter()
            .any(|name| is_begun(name) == Some(true))
}

/// Refuses existing output, unless it may be replaced and was created by a run.
fn refuse_present(target: &Path, replace: bool) -> Result<()> {
    if is_present(target) && !replace {
        return Err(Error::OutputExists {
            path: target.to_owned(),
        });
    }
    refuse_foreign(target)
}

/// Refuses to replace anything except an empty folder, released files with their certificate, and
/// internal files; always refuses a folder that contains a ledger, or the files that bind one to
/// its users.
fn refuse_foreign(target: &Path) -> Result<()> {
    let refused = |reason: String| {
        Err(Error::NotReplaced {
            path: target.to_owned(),
            reason,
        })
    };
    if !is_present(target) {
        return Ok(());
    }
    if !target.is_dir() {
        return refused("it is not a folder".to_owned());
    }
    let mut is_ours = true; // true for an empty folder
    for entry in fs::read_dir(target).map_err(|e| Error::read(target, e))? {
        let name = entry.map_err(|e| Error::read(target, e))?.file_name();
        is_ours = name == CERTIFICATE || name.to_string_lossy().starts_with(INTERNAL_PREFIX);
        if is_ours {
            break;
        }
    }
    if !is_ours {
        return refused(format!(
            "it contains files, but neither {CERTIFICATE} nor internal files of a run"
        ));
    }
    match ledger_in(target).map_err(|e| Error::read(target, e))? {
        Some(name) => refused(format!("{} belongs to a ledger", name.display())),
        None => Ok(()),
    }
}

/// A ledger, or a file that binds one to its users, anywhere in a folder.
fn ledger_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let (entry, mut start) = (entry?, [0; LEDGER_START.len()]);
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_internal_folder = path
            .extension()
            .is_some_and(|end| end == "key" || end == "users");
        let is_ledger = kind.is_file()
            && File::open(&path)?.read_exact(&mut start).is_ok()
            && start == *LEDGER_START;
        if is_internal_folder || is_ledger {
            return Ok(Some(path));
        }
        if kind.is_dir()
            && let Some(inside) = ledger_in(&path)?
        {
            return Ok(Some(inside));
        }
    }
    Ok(None)
}

/// SHA-256 of a file, read in pieces: a release list may be larger than memory.
fn hash_of(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(dp_accounting::hex(&hash.finalize())),
            n => hash.update(&piece[..n]),
        }
    }
}

#[cfg(test)]
mod tests;
