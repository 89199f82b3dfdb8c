//! Files that take the place of older ones in a folder that stays.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Name, content, and whether the file is for its owner's eyes only.
pub(crate) type Replacement<'a> = (&'a str, Vec<u8>, bool);

/// Writes every file beside its place, flushed to disk, and moves them there only when all are whole. What stood
/// there before goes; nothing is ever half-written, and after a failure to write nothing has changed.
pub(crate) fn replace_files(folder: &Path, files: &[Replacement<'_>]) -> Result<()> {
    let mut partial = Partial(Vec::new());
    for (name, bytes, internal) in files {
        tracing::debug!(file = name, "writing");
        let path = folder.join(format!(".{name}.{}.partial", std::process::id()));
        partial.0.push(path.clone());
        write(&path, bytes, *internal).map_err(|e| Error::write(&folder.join(name), e))?;
    }
    for ((name, _, _), path) in files.iter().zip(&partial.0) {
        let target = folder.join(name);
        fs::rename(path, &target).map_err(|e| Error::write(&target, e))?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8], internal: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if internal {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = internal; // modes are a Unix notion
    let mut file: File = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes what was not moved.
struct Partial(Vec<PathBuf>);

impl Drop for Partial {
    fn drop(&mut self) {
        for path in &self.0 {
            // those that were moved are gone, and one that cannot be removed is hidden
            let _ = fs::remove_file(path);
        }
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
        assert!(replace_files(dir.path(), &files).is_err());
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        replace_files(dir.path(), &files[..1]).unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn what_is_internal_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("internal.html");
        fs::write(&path, "old and open").unwrap();
        replace_files(dir.path(), &[("internal.html", b"new".to_vec(), true)]).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
