//! Contents of a folder after failures, and with two concurrent writers.

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
fn folders_above_go_when_nothing_came_to_be_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old");
    fs::create_dir(&old).unwrap();
    let target = old.join("new/deep/model");
    drop(OutputFolder::create(&target, false).unwrap());
    assert!(old.exists() && !old.join("new").exists());
    let folder = OutputFolder::create(&target, false).unwrap();
    let beside = OutputFolder::create(&old.join("new/other"), false).unwrap();
    beside.write("a.txt", b"1").unwrap();
    drop(folder);
    assert!(old.join("new").exists());
    beside.commit().unwrap();
    assert!(old.join("new/other").exists());
}

#[test]
fn an_existing_folder_is_kept_until_the_new_one_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("old.txt"), "old").unwrap();
    let foreign = OutputFolder::create(&target, true);
    assert!(matches!(foreign, Err(Error::NotReplaced { .. })));
    fs::write(target.join(CERTIFICATE), "{}").unwrap();
    assert!(matches!(
        OutputFolder::create(&target, false),
        Err(Error::OutputExists { .. })
    ));
    let folder = OutputFolder::create(&target, true).unwrap();
    folder.write("new.txt", b"new").unwrap();
    assert!(target.join("old.txt").exists());
    folder.commit().unwrap();
    assert!(target.join("new.txt").exists() && !target.join("old.txt").exists());
    assert_eq!(names(dir.path()), BOTH);
}

const BOTH: [&str; 2] = ["model", "model-internal"];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn two_writers_to_one_folder_do_not_meet() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let first = OutputFolder::create(&target, false).unwrap();
    first.write("a.txt", b"1").unwrap();
    assert!(matches!(
        OutputFolder::create(&target, false),
        Err(Error::OutputBusy { .. })
    ));
    first.commit().unwrap();
    assert_eq!(fs::read(target.join("a.txt")).unwrap(), b"1");
}

#[test]
fn what_a_killed_process_left_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let folder = OutputFolder::create(&target, false).unwrap();
    folder.write("half.txt", b"1").unwrap();
    // a killed process runs no drop, and its locks are released
    folder._lock.unlock().unwrap();
    std::mem::forget(folder);
    let folder = OutputFolder::create(&target, false).unwrap();
    folder.write("whole.txt", b"2").unwrap();
    folder.commit().unwrap();
    assert_eq!(names(&target), ["whole.txt"]);
    assert_eq!(names(dir.path()), BOTH);
}

#[test]
fn a_finished_folder_that_cannot_be_moved_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let folder = OutputFolder::create(&target, false).unwrap();
    folder.write("a.txt", b"1").unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("other.txt"), "came in between").unwrap();
    let Err(Error::Move { kept, .. }) = folder.commit() else {
        panic!("moved over another folder");
    };
    assert_eq!(fs::read(kept.join("a.txt")).unwrap(), b"1");
    assert!(target.join("other.txt").exists());
}

#[test]
fn a_failure_of_the_work_after_it_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let folder = OutputFolder::create(&target, false).unwrap();
    folder.write("model.bin", b"paid").unwrap();
    let failed: Result<()> =
        folder.commit_after(|_| Err(Error::Usage("no".to_owned())), |_| Ok(()));
    assert!(matches!(failed, Err(Error::Unmeasured { model, .. }) if model == target));
    assert_eq!(fs::read(target.join("model.bin")).unwrap(), b"paid");
    assert_eq!(names(dir.path()), BOTH);
}

/// A process that is killed after its release.
fn killed_after_release(target: &Path) {
    let folder = OutputFolder::create(target, false).unwrap();
    folder.mark_paid("train 1").unwrap();
    folder.write(CERTIFICATE, b"paid").unwrap();
    folder.write(super::RELEASED, b"").unwrap();
    folder.write_internal(INTERNAL_RELEASES, b"whole").unwrap();
    folder.write_internal("internal.json", b"half").unwrap();
    folder._lock.unlock().unwrap();
    std::mem::forget(folder);
}

#[test]
fn what_was_released_before_a_kill_is_moved_into_place_once() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    killed_after_release(&target);
    assert!(matches!(
        OutputFolder::create(&target, false),
        Err(Error::Recovered { .. })
    ));
    assert_eq!(fs::read(target.join(CERTIFICATE)).unwrap(), b"paid");
    assert_eq!(names(&target), [CERTIFICATE]);
    assert_eq!(names(dir.path()), BOTH);
    let internal = dir.path().join("model-internal");
    assert_eq!(names(&internal), [INTERNAL_RELEASES]);
    OutputFolder::recover(&target, false, &|_| Ok(())).unwrap();
    OutputFolder::create(&target, true).unwrap();
}

/// What remains of a process that is killed after `n_moves` of the moves of its folders.
fn killed_while_it_moves(target: &Path, replace: bool, n_moves: usize) {
    let folder = OutputFolder::create(target, replace).unwrap();
    folder.write("new.bin", b"paid").unwrap();
    folder.write_internal("internal.json", b"whole").unwrap();
    folder.mark_moving(Some(&folder.staging.join(INTERNAL_PART)));
    let internal = internal_folder_of(target);
    let retired = |path: &Path| (path.to_owned(), sibling(path, "old"));
    let mut moves = Vec::new();
    if replace {
        moves.extend([retired(target), retired(&internal)]);
    }
    moves.push((folder.staging.join(INTERNAL_PART), internal));
    for (from, to) in moves.iter().take(n_moves) {
        fs::rename(from, to).unwrap();
    }
    folder._lock.unlock().unwrap();
    std::mem::forget(folder);
}

#[test]
fn after_a_kill_between_the_moves_both_folders_are_the_new_ones() {
    for (replace, most) in [(false, 1), (true, 3)] {
        for n_moves in 0..=most {
            let dir = tempfile::tempdir().unwrap();
            let target = dir.path().join("model");
            if replace {
                let old = OutputFolder::create(&target, false).unwrap();
                old.write(CERTIFICATE, b"old").unwrap();
                old.write_internal("internal.md", b"old").unwrap();
                old.commit().unwrap();
            }
            killed_while_it_moves(&target, replace, n_moves);
            let again = OutputFolder::create(&target, replace);
            assert!(
                matches!(again, Err(Error::Recovered { .. })),
                "{replace} {n_moves}"
            );
            assert_eq!(names(dir.path()), BOTH, "{replace} {n_moves}");
            assert_eq!(names(&target), ["new.bin"]);
            assert_eq!(names(&internal_folder_of(&target)), ["internal.json"]);
        }
    }
}

#[test]
fn a_move_that_fails_takes_the_others_back() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let folder = OutputFolder::create(&target, false).unwrap();
    folder.write("new.bin", b"paid").unwrap();
    folder.write_internal("internal.json", b"whole").unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("other.txt"), "came in between").unwrap();
    let Err(Error::Move { kept, .. }) = folder.commit() else {
        panic!("moved over another folder");
    };
    assert!(!internal_folder_of(&target).exists());
    assert!(kept.join("new.bin").exists() && kept.join("internal/internal.json").exists());
    // and they can be created again when there is space
    fs::remove_dir_all(&target).unwrap();
    assert!(matches!(
        OutputFolder::create(&target, false),
        Err(Error::Recovered { .. })
    ));
    assert_eq!(names(dir.path()), BOTH);
}

#[test]
fn figures_of_an_earlier_run_are_not_replaced_unasked_nor_stay_beside_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let internal = internal_folder_of(&target);
    fs::create_dir(&internal).unwrap();
    fs::write(internal.join("internal.md"), "old").unwrap();
    let Err(Error::OutputExists { path }) = OutputFolder::create(&target, false) else {
        panic!("figures of another run were taken over");
    };
    assert_eq!(path, internal);
    let folder = OutputFolder::create(&target, true).unwrap();
    folder.write("new.bin", b"paid").unwrap();
    folder.commit().unwrap();
    assert_eq!(names(dir.path()), BOTH);
    assert_eq!(names(&internal), [""; 0]);
}

#[test]
fn where_nothing_is_released_there_is_no_folder_to_be_published() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let folder = OutputFolder::create(&target, false).unwrap();
    folder.write_internal("internal.md", b"figures").unwrap();
    folder.commit().unwrap();
    assert_eq!(names(dir.path()), ["model-internal"]);
}

#[test]
#[cfg(unix)]
fn internal_files_are_for_their_owner_alone_on_the_way_too() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let folder = OutputFolder::create(&target, false).unwrap();
    folder.write("new.bin", b"paid").unwrap();
    folder.write_internal("internal.md", b"figures").unwrap();
    let part = folder.staging.join(INTERNAL_PART);
    assert_eq!(
        [mode(&part), mode(&part.join("internal.md"))],
        [0o700, 0o600]
    );
    folder.commit().unwrap();
    let internal = internal_folder_of(&target);
    assert_eq!(
        [mode(&internal), mode(&internal.join("internal.md"))],
        [0o700, 0o600]
    );
}

#[test]
fn what_a_living_process_releases_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    let folder = OutputFolder::create(&target, false).unwrap();
    let work = |folder: &OutputFolder| {
        folder.write("model.bin", b"paid")?;
        let other = OutputFolder::recover(&target, false, &|_| Ok(()));
        assert!(matches!(other, Err(Error::OutputBusy { .. })));
        Ok(())
    };
    folder.commit_after(work, |_| Ok(())).unwrap();
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
}

#[test]
#[cfg(unix)]
fn a_dangling_link_counts_as_existing() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &target).unwrap();
    assert!(matches!(
        OutputFolder::create(&target, false),
        Err(Error::OutputExists { .. })
    ));
}

#[test]
fn a_path_without_a_name_is_refused() {
    for path in ["", "/", "..", "a/.."] {
        assert!(matches!(
            OutputFolder::create(Path::new(path), true),
            Err(Error::Usage(_))
        ));
    }
}

#[test]
fn an_unwritable_place_fails_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(OutputFolder::create(&file.join("model"), false).is_err());
}

/// A run that is killed after its first release, with half of a model file.
fn killed_while_it_trains(target: &Path) {
    let folder = OutputFolder::create(target, false).unwrap();
    folder.mark_paid("train 1").unwrap();
    folder.write(RELEASES, b"header\nentry").unwrap();
    folder.write("half.txt", b"1").unwrap();
    folder._lock.unlock().unwrap();
    std::mem::forget(folder);
}

#[test]
fn an_interrupted_run_keeps_its_releases_when_it_is_resumed_and_loses_them_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    assert!(!OutputFolder::is_interrupted(&target));
    killed_while_it_trains(&target);
    assert!(OutputFolder::is_interrupted(&target));
    let resumed = OutputFolder::create_or_resume(&target, false, true, &|_| Ok(())).unwrap();
    assert_eq!(fs::read(resumed.path(RELEASES)).unwrap(), b"header\nentry");
    assert!(!resumed.path("half.txt").exists());
    // if a resumed run fails again, it can be resumed again
    drop(resumed);
    assert!(OutputFolder::is_interrupted(&target));
    let anew = OutputFolder::create(&target, false).unwrap();
    assert!(!anew.path(RELEASES).exists());
    drop(anew);
    assert!(!OutputFolder::is_interrupted(&target));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_list_that_was_settled_before_a_kill_is_resumed_too() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("model");
    killed_while_it_trains(&target);
    let staging = dir.path().join(".model.partial");
    fs::create_dir(staging.join(INTERNAL_PART)).unwrap();
    let hidden = staging.join(INTERNAL_PART).join(INTERNAL_RELEASES);
    fs::rename(staging.join(RELEASES), &hidden).unwrap();
    let resumed = OutputFolder::create_or_resume(&target, false, true, &|_| Ok(())).unwrap();
    assert!(resumed.path(RELEASES).exists() && !hidden.exists());
}

#[test]
fn a_folder_that_another_process_finished_is_not_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("state");
    fs::create_dir(&target).unwrap();
    let staged = || super::StagedFolder::open(&target, "begun");
    assert!(matches!(staged(), Err(Error::OutputExists { .. })));
    let begun = folder.path().join(".state.begun");
    assert!(!begun.exists());
    // a folder that may be paid for is not deleted
    fs::create_dir(&begun).unwrap();
    fs::write(begun.join("first-seen"), b"paid").unwrap();
    assert!(matches!(staged(), Err(Error::OutputExists { .. })));
    assert_eq!(fs::read(begun.join("first-seen")).unwrap(), b"paid");
}
