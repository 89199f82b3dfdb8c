//! Files that are replaced, truncated, rolled back or corrupted while a ledger has them open.
//!
//! Replacing the file by a copy, even an older one, loses nothing. If the file itself has lost
//! lines, the ledger cannot restore them; then nothing is handed out until they have been restored
//! from outside.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dp_accounting::{Error, Ledger};

use super::{check_counted, patiently, plan};
use crate::shared::draw::Draw;
use crate::shared::memory_folder::memory_folder;

fn ids(spends: &[dp_accounting::Spend]) -> Vec<String> {
    spends
        .iter()
        .map(|spend| spend.release_id().to_owned())
        .collect()
}

/// One charge: handed out at once, or held and taken in part.
fn pay(ledger: &mut Ledger, draw: &mut Draw) -> dp_accounting::Result<Vec<String>> {
    let plan = plan(&"x".repeat(draw.below(40)), 1 + draw.below(3));
    if draw.below(2) == 0 {
        return Ok(ids(&ledger.reserve(&plan)?));
    }
    let reservation = ledger.hold(&plan)?;
    let taken = ledger.take(&reservation, draw.below(reservation.len()))?;
    Ok(ids(&[taken]))
}

fn put_in_place(path: &Path, bytes: &[u8]) {
    let copy = path.with_extension("copy");
    fs::write(&copy, bytes).unwrap();
    fs::rename(copy, path).unwrap();
}

/// Replaces the file by a copy of itself repeatedly, with random delays in between.
fn synchronise_until(stop: &AtomicBool, path: &Path, mut draw: Draw) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(bytes) = fs::read(path) {
            std::thread::sleep(Duration::from_micros(draw.below(300) as u64));
            put_in_place(path, &bytes);
        }
        std::thread::sleep(Duration::from_micros(draw.below(300) as u64));
    }
}

/// Runs during which a program synchronises the file all the time.
#[cfg(unix)]
fn synchronised(n_runs: usize, seed: u64) {
    let mut draw = Draw(seed);
    let (mut n_refused, mut n_ids) = (0, 0);
    for _ in 0..n_runs {
        let folder = memory_folder();
        let path = folder.path().join("ledger.jsonl");
        let mut ledger = patiently(&path).unwrap();
        let (stop, mut handed_out) = (AtomicBool::new(false), Vec::new());
        std::thread::scope(|scope| {
            let other = Draw(draw.bits() | 1);
            scope.spawn(|| synchronise_until(&stop, &path, other));
            for _ in 0..12 {
                match pay(&mut ledger, &mut draw) {
                    Ok(more) => handed_out.extend(more),
                    Err(Error::LedgerReplaced { .. }) => n_refused += 1,
                    Err(other) => panic!("{other}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        // half of the runs confirm what they spent, the others just end
        if draw.below(2) == 0 {
            ledger.confirm().unwrap();
            assert!(ledger.n_releases() >= handed_out.len() as u64);
        }
        drop(ledger);
        n_ids += handed_out.len();
        check_counted(&path, &handed_out);
    }
    assert!(n_ids > 8 * n_runs, "{n_ids} spends, {n_refused} refusals");
}

#[test]
#[cfg(unix)]
fn sixty_runs_on_a_synchronised_file_lose_nothing() {
    synchronised(60, 8);
}

#[test]
#[cfg(unix)]
#[ignore = "long form: a minute"]
fn long_a_thousand_runs_on_a_synchronised_file_lose_nothing() {
    synchronised(1000, 9);
}

/// What happens to the file between two charges of a run, and whether the ledger can repair it.
fn spoil(path: &Path, whole: &[u8], older: &[u8], draw: &mut Draw) -> bool {
    let mut spoilt = whole.to_vec();
    match draw.below(8) {
        // another file replaces it, which may be an incomplete copy
        0 => put_in_place(path, whole),
        1 => put_in_place(path, older),
        2 => {
            let header = 1 + whole.iter().position(|&byte| byte == b'\n').unwrap();
            let cut = draw.below(whole.len() + 1);
            put_in_place(path, &whole[..cut]);
            return cut >= header;
        }
        // the file itself
        kind => {
            match kind {
                3 => spoilt = older.to_vec(),
                4 => spoilt.truncate(draw.below(whole.len())),
                5 => spoilt.extend(b"{\"seq\":1}\n"),
                _ => {
                    let at = whole.len() - 1 - draw.below(60);
                    spoilt[at] ^= 1 << draw.below(7);
                }
            }
            if kind == 7 {
                fs::remove_file(path).unwrap();
            } else {
                fs::write(path, &spoilt).unwrap();
            }
            return kind != 7 && spoilt == whole;
        }
    }
    true
}

/// Runs whose file is replaced, truncated, rolled back, corrupted or deleted between charges, and
/// sometimes restored.
#[cfg(unix)]
fn rolled_back(n_runs: usize, seed: u64) {
    let folder = memory_folder();
    let path = folder.path().join("ledger.jsonl");
    let mut draw = Draw(seed);
    let (mut n_mended, mut n_refused) = (0, 0);
    for _ in 0..n_runs {
        let mut ledger = patiently(&path).unwrap();
        let mut handed_out = pay(&mut ledger, &mut draw).unwrap();
        let older = fs::read(&path).unwrap();
        for _ in 0..draw.below(4) {
            handed_out.extend(pay(&mut ledger, &mut draw).unwrap());
        }
        let whole = fs::read(&path).unwrap();
        if spoil(&path, &whole, &older, &mut draw) {
            n_mended += 1;
        } else {
            n_refused += 1;
            for _ in 0..3 {
                let refused = pay(&mut ledger, &mut draw);
                assert!(
                    refused.is_err(),
                    "{refused:?} was not paid for in a file that anybody finds"
                );
                assert!(ledger.confirm().is_err());
            }
            fs::write(&path, &whole).unwrap();
        }
        handed_out.extend(pay(&mut ledger, &mut draw).unwrap());
        drop(ledger);
        check_counted(&path, &handed_out);
        fs::remove_file(&path).unwrap();
    }
    let least = n_runs / 5;
    assert!(
        n_mended > least && n_refused > least,
        "{n_mended} {n_refused}"
    );
}

#[test]
#[cfg(unix)]
fn two_hundred_files_that_are_rolled_back_in_a_run_lose_nothing() {
    rolled_back(200, 10);
}

#[test]
#[cfg(unix)]
#[ignore = "long form: a minute"]
fn long_two_thousand_files_that_are_rolled_back_in_a_run_lose_nothing() {
    rolled_back(2000, 11);
}
