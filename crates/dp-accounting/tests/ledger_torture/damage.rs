//! Truncated files and files with flipped bits.
//!
//! A crash can truncate an append that never returned: nothing may be lost then. Truncating durable
//! data is a roll-back, which no file can detect by itself; then at least every line that is still
//! complete must count. A flipped bit anywhere in a line breaks the chain, so the file is rejected.

use std::fs;
use std::ops::Range;
use std::path::Path;

use dp_accounting::{Error, Ledger};

use super::{check_counted, patiently, plan};
use crate::shared::draw::Draw;
use crate::shared::memory_folder::memory_folder;

/// A file, the ids of its durable lines with their positions, and an append that is interrupted by
/// a crash.
struct Book {
    durable: Vec<u8>,
    ids: Vec<(Range<usize>, String)>,
    interrupted: Vec<u8>,
}

fn write_book(path: &Path, draw: &mut Draw) -> Book {
    let mut reserve = |n_plans: usize| -> Vec<String> {
        let mut ledger = patiently(path).unwrap();
        let mut ids = Vec::new();
        for _ in 0..n_plans {
            let label = "}\"{ü".repeat(draw.below(20));
            let spends = ledger.reserve(&plan(&label, 1 + draw.below(3))).unwrap();
            ids.extend(spends.iter().map(|spend| spend.release_id().to_owned()));
        }
        ids
    };
    let ids = reserve(6);
    let durable = fs::read(path).unwrap();
    reserve(1);
    let interrupted = fs::read(path).unwrap().split_off(durable.len());
    let ends: Vec<usize> = (0..durable.len())
        .filter(|&at| durable[at] == b'\n')
        .collect();
    let ranges = ends.windows(2).map(|pair| pair[0] + 1..pair[1]);
    Book {
        ids: ranges.zip(ids).collect(),
        durable,
        interrupted,
    }
}

fn flip(bytes: &mut [u8], draw: &mut Draw) {
    let at = draw.below(bytes.len());
    bytes[at] ^= 1 << draw.below(8);
}

/// The ids of lines that lie completely within the first `length` bytes.
fn whole_before(book: &Book, length: usize) -> Vec<String> {
    let within = book.ids.iter().filter(|(range, _)| range.end <= length);
    within.map(|(_, id)| id.clone()).collect()
}

/// Tests one damaged file. Returns whether it could be opened.
fn run(path: &Path, book: &Book, kind: usize, draw: &mut Draw) -> bool {
    let mut bytes = book.durable.clone();
    let mut owed = whole_before(book, bytes.len());
    match kind {
        // a crash: none, part or all of the last append
        0 => bytes.extend(&book.interrupted[..draw.below(book.interrupted.len() + 1)]),
        // the same, with flipped bits in the append that never returned
        1 => {
            let mut tail = book.interrupted[..1 + draw.below(book.interrupted.len())].to_vec();
            flip(&mut tail, draw);
            bytes.extend(tail);
        }
        // rolled back
        2 => {
            bytes.truncate(draw.below(bytes.len()));
            owed = whole_before(book, bytes.len());
        }
        // flipped bits in durable lines, possibly in a file that also has a torn end
        _ => {
            for _ in 0..=draw.below(3) {
                flip(&mut bytes, draw);
            }
            if bytes != book.durable {
                bytes.extend(&book.interrupted[..draw.below(book.interrupted.len())]);
            }
        }
    }
    fs::write(path, &bytes).unwrap();
    let opened = patiently(path);
    match opened {
        Ok(mut ledger) => {
            assert!(ledger.n_releases() >= owed.len() as u64);
            let more = ledger.reserve(&plan("after", 1)).unwrap();
            drop(ledger);
            owed.extend(more.iter().map(|spend| spend.release_id().to_owned()));
            check_counted(path, &owed);
            assert!(
                kind != 3 || bytes.starts_with(&book.durable),
                "a flipped bit went unseen"
            );
            true
        }
        Err(
            Error::LedgerCorrupt { .. } | Error::LedgerMismatch { .. } | Error::LedgerCutOff { .. },
        ) => {
            assert!(kind != 0, "what a crash left was refused");
            assert!(Ledger::audit(path).is_err());
            assert_eq!(fs::read(path).unwrap(), bytes, "a refused file was changed");
            false
        }
        Err(other) => panic!("{other}"),
    }
}

fn damage(n_runs: usize, seed: u64) {
    let folder = memory_folder();
    let mut draw = Draw(seed);
    let mut opened = [0; 4];
    for start in (0..n_runs).step_by(40) {
        let book = write_book(&folder.path().join(format!("book-{start}")), &mut draw);
        for at in start..n_runs.min(start + 40) {
            let path = folder.path().join(format!("run-{at}"));
            let kind = at % 4;
            opened[kind] += usize::from(run(&path, &book, kind, &mut draw));
            fs::remove_file(path).unwrap();
        }
    }
    let quarter = n_runs / 4;
    assert!(
        opened[0] == quarter && opened[2] > quarter / 2,
        "{opened:?}"
    );
    assert!(
        opened[3] < quarter / 20,
        "flipped bits went unseen: {opened:?}"
    );
}

#[test]
fn eight_hundred_damaged_files_lose_nothing() {
    damage(800, 5);
}

#[test]
#[ignore = "long form: seconds"]
fn long_eight_thousand_damaged_files_lose_nothing() {
    damage(8000, 6);
}
