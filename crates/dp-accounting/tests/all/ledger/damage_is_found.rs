//! Changed bytes, missing lines and lines of another ledger are detected.

use std::fs;

use dp_accounting::Error;

use super::support::{history, open, plan, scratch};

#[test]
fn any_changed_byte_is_detected() {
    let (_folder, path) = scratch();
    let (whole, _) = history(&path);
    fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    drop(open(&path).unwrap());
    let mut ledger = open(&path).unwrap();
    let _spends = ledger.reserve(&plan(0.1)).unwrap();
    drop(ledger);
    // a header, complete records, a sealed line and records after it
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x2a] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            fs::write(&path, &damaged).unwrap();
            let line = bytes[..at].iter().filter(|&&b| b == b'\n').count() + 1;
            match open(&path) {
                Err(Error::LedgerCorrupt { line: found, .. }) => assert_eq!(found, line, "{at}"),
                other => panic!("byte {at} changed unnoticed: {other:?}"),
            }
        }
    }
}

#[test]
fn removed_or_swapped_lines_are_detected() {
    let (_folder, path) = scratch();
    let (bytes, _) = history(&path);
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for order in [
        vec![0, 2, 3, 4],
        vec![0, 1, 3, 4],
        vec![0, 2, 1, 3, 4],
        vec![0, 1, 1, 2],
    ] {
        let changed: String = order.iter().map(|&i| format!("{}\n", lines[i])).collect();
        fs::write(&path, changed).unwrap();
        assert!(
            matches!(open(&path), Err(Error::LedgerCorrupt { .. })),
            "{order:?}"
        );
    }
}

#[test]
fn line_of_another_ledger_is_detected() {
    let (_folder, path) = scratch();
    let (_other_folder, other_path) = scratch();
    let bytes = history(&path).0;
    let other = history(&other_path).0;
    // Same data set, plan and sequence number; only the preceding hash differs.
    let last_line = |b: &[u8]| b[..b.len() - 1].iter().rposition(|&c| c == b'\n').unwrap() + 1;
    let mut spliced = bytes[..last_line(&bytes)].to_vec();
    spliced.extend(&other[last_line(&other)..]);
    assert_ne!(spliced, bytes);
    fs::write(&path, spliced).unwrap();
    assert!(matches!(
        open(&path),
        Err(Error::LedgerCorrupt { line: 5, .. })
    ));
}
