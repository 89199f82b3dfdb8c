//! No spend is lost if a ledger's file is replaced or changed while it is open.

use std::fs;
use std::path::Path;
use std::process::Command;

use dp_accounting::{Error, Ledger};

use super::support::{ADD_REMOVE, open, plan, scratch};

/// What file synchronisation programs do: copy the file, then replace it by the copy.
fn synchronise(path: &Path) {
    let script = "cp -p \"$1\" \"$1.sync\" && mv \"$1.sync\" \"$1\"";
    let outcome = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(path)
        .status();
    assert!(outcome.unwrap().success());
}

#[test]
#[cfg(unix)]
fn runs_on_a_ledger_that_is_replaced_during_each_load_pay_within_its_budget() {
    let (_folder, path) = scratch();
    let run = plan(0.7);
    let mut n_paid = 0;
    for _ in 0..3 {
        let mut ledger = open(&path).unwrap();
        synchronise(&path);
        n_paid += ledger.reserve(&run).map_or(0, |spends| spends.len());
        drop(ledger);
        assert_eq!(Ledger::audit(&path).unwrap().releases.len(), n_paid);
    }
    // one run fits
    assert_eq!(n_paid, 2);
}

#[test]
#[cfg(unix)]
fn a_copy_in_the_files_place_is_locked_and_read_before_it_is_written_to() {
    let (_folder, path) = scratch();
    let mut ledger = open(&path).unwrap();
    let reservation = ledger.hold(&plan(0.3)).unwrap();
    synchronise(&path);
    // no process has locked the copy yet, so another writer may take it, and the first one must
    // wait
    let mut other = open(&path).unwrap();
    let _spends = other.reserve(&plan(0.8)).unwrap();
    for refused in [
        ledger.reserve(&plan(0.1)).map(drop),
        ledger.hold(&plan(0.1)).map(drop),
        ledger.take(&reservation, 0).map(drop),
        ledger.confirm(),
    ] {
        assert!(matches!(refused, Err(Error::LedgerLocked { .. })));
    }
    drop(other);
    // afterwards it sees what the other one spent
    assert!(matches!(
        ledger.reserve(&plan(0.8)),
        Err(Error::BudgetSpent { .. })
    ));
    assert_eq!(ledger.n_releases(), 4);
    let _spend = ledger.take(&reservation, 0).unwrap();
    assert!(matches!(open(&path), Err(Error::LedgerLocked { .. })));
    drop(ledger);
    assert_eq!(Ledger::audit(&path).unwrap().taken.len(), 1);
}

#[test]
#[cfg(unix)]
fn an_older_copy_in_the_files_place_gets_the_lines_that_it_lacks() {
    let (_folder, path) = scratch();
    let older = path.with_extension("older");
    let mut ledger = open(&path).unwrap();
    fs::copy(&path, &older).unwrap();
    let put_back = || {
        fs::copy(&older, path.with_extension("copy")).unwrap();
        fs::rename(path.with_extension("copy"), &path).unwrap();
    };
    let _first = ledger.reserve(&plan(0.3)).unwrap();
    let whole = fs::read(&path).unwrap();
    // before the next charge, before something is published, and when the run ends
    put_back();
    let _second = ledger.reserve(&plan(0.3)).unwrap();
    assert!(fs::read(&path).unwrap().starts_with(&whole));
    let whole = fs::read(&path).unwrap();
    put_back();
    ledger.confirm().unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
    put_back();
    drop(ledger);
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert!(matches!(
        open(&path).unwrap().reserve(&plan(0.9)),
        Err(Error::BudgetSpent { .. })
    ));
}

#[test]
fn a_file_that_lacks_lines_is_refused_before_a_spend_exists() {
    let (_folder, path) = scratch();
    let backup = path.with_extension("backup");
    let mut ledger = open(&path).unwrap();
    let reservation = ledger.hold(&plan(0.3)).unwrap();
    fs::copy(&path, &backup).unwrap();
    let _spends = ledger.reserve(&plan(0.3)).unwrap();
    let whole = fs::read(&path).unwrap();
    let before = fs::read(&backup).unwrap();

    let mut other_text = whole.clone();
    let last = other_text.len() - 10;
    other_text[last] ^= 1;
    let mut longer = whole.clone();
    longer.extend(b"milk\n");
    type Deed<'a> = (&'a str, Box<dyn Fn(&Path) + 'a>);
    let deeds: [Deed<'_>; 5] = [
        (
            "rolled back in place",
            Box::new(|path| fs::write(path, &before).unwrap()),
        ),
        ("emptied", Box::new(|path| fs::write(path, "").unwrap())),
        ("deleted", Box::new(|path| fs::remove_file(path).unwrap())),
        (
            "changed at its end",
            Box::new(|path| fs::write(path, &other_text).unwrap()),
        ),
        (
            "appended to by another program",
            Box::new(|path| fs::write(path, &longer).unwrap()),
        ),
    ];
    for (name, deed) in deeds {
        deed(&path);
        let left = fs::read(&path).ok();
        for refused in [
            ledger.reserve(&plan(0.1)).map(drop),
            ledger.hold(&plan(0.1)).map(drop),
            ledger.take(&reservation, 0).map(drop),
            ledger.confirm(),
        ] {
            let is_said = matches!(
                refused,
                Err(Error::LedgerReplaced { .. }
                    | Error::LedgerCorrupt { .. }
                    | Error::LedgerCutOff { .. })
            );
            assert!(is_said, "{name}: {refused:?}");
        }
        assert_eq!(fs::read(&path).ok(), left, "{name}");
        // the file in its original state is accepted again, whichever inode it has
        fs::write(&path, &whole).unwrap();
        ledger.confirm().unwrap();
    }
    let _spend = ledger.take(&reservation, 0).unwrap();
    drop(ledger);
    assert!(Ledger::open(&path, "ratings", ADD_REMOVE).is_ok());
}

#[test]
fn a_line_that_was_appended_to_the_open_file_is_read_and_the_run_keeps_its_name() {
    let (_folder, path) = scratch();
    let copy = path.with_extension("copy");
    let mut ledger = open(&path).unwrap();
    ledger.set_run(Some("monday".to_owned()));
    // another program writes to the same file, ignoring any lock
    let append_a_note = || {
        fs::copy(&path, &copy).unwrap();
        open(&copy).unwrap().note("n", "t").unwrap();
        fs::write(&path, fs::read(&copy).unwrap()).unwrap();
    };
    append_a_note();
    let _spends = ledger.reserve(&plan(0.2)).unwrap();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"garbage\n"].concat()).unwrap();
    assert!(ledger.reserve(&plan(0.2)).is_err());
    fs::write(&path, whole).unwrap();
    let _spends = ledger.reserve(&plan(0.2)).unwrap();
    append_a_note();
    drop(ledger);
    let summary = Ledger::audit(&path).unwrap();
    assert_eq!((summary.releases.len(), summary.notes.len()), (4, 2));
    let mut runs = summary.entries.iter().map(|entry| entry.run.as_deref());
    assert!(runs.all(|run| run == Some("monday")));
}
