//! An output folder that appears whole or not at all.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Files are written into a hidden folder beside the final one and moved by one rename.
///
/// Until [`commit`](Self::commit) the final path is untouched; when the value is dropped before,
/// the hidden folder is removed.
pub(crate) struct OutputFolder {
    target: PathBuf,
    staging: PathBuf,
    replace: bool,
}

impl OutputFolder {
    /// Makes the hidden folder, so that a path that cannot be written fails before any work.
    pub(crate) fn create(target: &Path, replace: bool) -> Result<Self> {
        if target.exists() && !replace {
            return Err(Error::OutputExists {
                path: target.to_owned(),
            });
        }
        let staging = sibling(target, "partial");
        let parent = staging.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|e| Error::write(parent, e))?;
        if staging.exists() {
            fs::remove_dir_all(&staging).map_err(|e| Error::write(&staging, e))?;
        }
        fs::create_dir(&staging).map_err(|e| Error::write(&staging, e))?;
        Ok(Self {
            target: target.to_owned(),
            staging,
            replace,
        })
    }

    /// Writes one file and waits until it is on disk.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.staging.join(name);
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|e| Error::write(&path, e))
    }

    /// Moves the folder to its final path, replacing an old one only now.
    pub(crate) fn commit(self) -> Result<()> {
        let retired = sibling(&self.target, "old");
        let old = self.replace && self.target.exists();
        if old {
            remove_if_present(&retired).map_err(|e| Error::write(&retired, e))?;
            fs::rename(&self.target, &retired).map_err(|e| Error::write(&self.target, e))?;
        }
        fs::rename(&self.staging, &self.target).map_err(|e| Error::write(&self.target, e))?;
        if old {
            remove_if_present(&retired).map_err(|e| Error::write(&retired, e))?;
        }
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        // after a commit there is nothing left to remove; before one, leave no trace
        if let Err(error) = remove_if_present(&self.staging) {
            eprintln!("could not remove {}: {error}", self.staging.display());
        }
    }
}

fn remove_if_present(path: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// `dir/.name.suffix` for `dir/name`.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_appears_before_the_commit_and_nothing_stays_after_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        let folder = OutputFolder::create(&target, false).unwrap();
        folder.write("a.txt", b"1").unwrap();
        assert!(!target.exists());
        drop(folder);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_existing_folder_is_kept_until_the_new_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("model");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old.txt"), "old").unwrap();
        assert!(matches!(
            OutputFolder::create(&target, false),
            Err(Error::OutputExists { .. })
        ));
        let folder = OutputFolder::create(&target, true).unwrap();
        folder.write("new.txt", b"new").unwrap();
        assert!(target.join("old.txt").exists());
        folder.commit().unwrap();
        assert!(target.join("new.txt").exists() && !target.join("old.txt").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_unwritable_place_fails_before_any_work() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(OutputFolder::create(&file.join("model"), false).is_err());
    }
}
