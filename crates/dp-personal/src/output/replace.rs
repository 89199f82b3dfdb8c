//! Files that replace older ones in an existing folder.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::folder::{folder_of, remove_if_present, sync_folder};
use crate::error::{Error, Result};

/// Name, content, and whether only the owner may read the file.
pub type Replacement<'a> = (&'a str, Vec<u8>, bool);

const PARTIAL: &str = ".partial";

/// Writes every file under a temporary name, flushed to disk, and moves them into place only when
/// all are complete; then removes `gone`, which an earlier report may have left. Existing files are
/// replaced; no file is ever half-written, and after a failed write nothing has changed.
///
/// The temporary name begins with the file's own name: what a killed run leaves of an internal file
/// still begins with `internal`. The next run removes it.
///
/// # Errors
/// When a file cannot be written; the old files are then still there.
pub fn replace_files(folder: &Path, files: &[Replacement<'_>], gone: &[&str]) -> Result<()> {
    let mut partial = Vec::with_capacity(files.len());
    for (name, bytes, internal) in files {
        tracing::debug!(file = name, "writing");
        let failed = |e| Error::write(&folder.join(name), e);
        sweep(folder, name).map_err(failed)?;
        let path = folder.join(partial_name(name));
        partial.push(Partial::write(path, bytes, *internal).map_err(failed)?);
    }
    for ((name, _, _), partial) in files.iter().zip(&partial) {
        let target = folder.join(name);
        fs::rename(&partial.path, &target).map_err(|e| Error::write(&target, e))?;
    }
    for name in gone {
        let path = folder.join(name);
        remove_if_present(&path).map_err(|e| Error::write(&path, e))?;
    }
    sync_folder(folder);
    Ok(())
}

/// Replaces one private file, completely or not at all.
///
/// # Errors
/// As [`replace_files`], and when its name is not valid text.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| {
        let reason = "the name is not UTF-8";
        Error::write(path, io::Error::new(io::ErrorKind::InvalidInput, reason))
    })?;
    replace_files(folder_of(path), &[(name, bytes.to_vec(), true)], &[])
}

/// Temporary name of a file.
fn partial_name(name: &str) -> String {
    format!("{name}.{}{PARTIAL}", std::process::id())
}

/// Whether a killed run may have left `found` as a partial file of `name`.
fn is_partial(found: &str, name: &str) -> bool {
    let process = found
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('.')?.strip_suffix(PARTIAL));
    process.is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
}

/// Removes partial files that killed runs left, but none that a running process is writing.
fn sweep(folder: &Path, name: &str) -> io::Result<()> {
    // if the folder does not exist, writing the file itself fails
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry?;
        let is_file = entry.file_type()?.is_file();
        if is_file && is_partial(&entry.file_name().to_string_lossy(), name) {
            let held = File::open(entry.path())?.try_lock();
            if !matches!(held, Err(TryLockError::WouldBlock)) {
                remove_if_present(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// A complete file that has not been moved into place yet; removed unless it is moved, and locked
/// until then.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    /// Existing files are never changed or, on a failure, removed.
    fn write(path: PathBuf, bytes: &[u8], internal: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if internal {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        #[cfg(not(unix))]
        let _ = internal; // file modes exist on Unix only
        let file = options.open(&path)?;
        let mut partial = Self { path, file };
        partial.file.lock()?;
        partial.file.write_all(bytes)?;
        partial.file.sync_all()?;
        Ok(partial)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // a file that was moved is gone, and one that cannot be removed is removed by the next run
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_changes_nothing_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        let files = [
            ("a", b"new".to_vec(), false),
            ("no/where", b"new".to_vec(), false),
        ];
        assert!(replace_files(dir.path(), &files, &["a"]).is_err());
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        replace_files(dir.path(), &files[..1], &["b"]).unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        replace_files(dir.path(), &[], &["a"]).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_left_is_internal_by_name_and_swept() {
        let name = "internal.html";
        assert!(
            partial_name(name).starts_with("internal") && is_partial(&partial_name(name), name)
        );
        let dir = tempfile::tempdir().unwrap();
        let kept = [
            "internal.html.7.partial.md",
            "internal.html.x.partial",
            "internal.md.7.partial",
        ];
        for stale in ["internal.html.7.partial"].iter().chain(&kept) {
            fs::write(dir.path().join(stale), "1.25").unwrap();
        }
        replace_files(dir.path(), &[(name, b"new".to_vec(), true)], &[]).unwrap();
        let left = fs::read_dir(dir.path()).unwrap();
        let mut left: Vec<_> = left
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = [&kept[..], &[name]].concat();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn what_a_living_process_writes_stays() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("a.4000000000.partial");
        let held = Partial::write(other.clone(), b"theirs", false).unwrap();
        replace_files(dir.path(), &[("a", b"ours".to_vec(), false)], &[]).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        // a file that was not created here is not removed after the failure either
        assert!(Partial::write(other.clone(), b"ours", false).is_err());
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        drop(held);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn what_is_internal_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("internal.html");
        fs::write(&path, "old and open").unwrap();
        replace_files(dir.path(), &[("internal.html", b"new".to_vec(), true)], &[]).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
