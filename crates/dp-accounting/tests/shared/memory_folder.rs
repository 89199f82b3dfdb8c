//! A folder in memory if the system has one: thousands of flushes take seconds on a disk.

use std::path::PathBuf;

use tempfile::TempDir;

pub(crate) fn memory_folder() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    tempfile::tempdir_in(parent).unwrap()
}
