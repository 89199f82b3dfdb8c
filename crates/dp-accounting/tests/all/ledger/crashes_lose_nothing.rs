//! A crash at any byte never loses a spend.

use std::fs;
use std::path::Path;

use super::support::{history, mu_squared, open, plan, scratch};

/// A repaired file can be opened, charged and opened again.
fn check_that_it_goes_on(path: &Path, counted: f64) {
    let mut ledger = open(path).unwrap();
    assert!((mu_squared(&ledger) - counted).abs() < 1e-15);
    let extra = plan(0.1);
    assert_eq!(ledger.reserve(&extra).unwrap().len(), 2);
    drop(ledger);
    let again = mu_squared(&open(path).unwrap());
    assert!((again - counted - extra.mu_squared().unwrap()).abs() < 1e-14);
}

#[test]
fn crash_at_any_byte_never_loses_a_spend() {
    let (_folder, path) = scratch();
    let (bytes, handed_out) = history(&path);
    let total = handed_out[2].1;
    let header = 1 + bytes.iter().position(|&byte| byte == b'\n').unwrap();
    for cut in header..=bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let due = handed_out
            .iter()
            .rfind(|(length, _)| *length <= cut)
            .unwrap()
            .1;
        let ledger = open(&path).unwrap();
        let counted = mu_squared(&ledger);
        assert!(
            counted >= due * (1.0 - 1e-15),
            "cut at {cut}: {counted} < {due}"
        );
        assert!(counted <= total * (1.0 + 1e-15), "cut at {cut}");
        drop(ledger);
        if cut % 13 == 0 || bytes.get(cut) == Some(&b'\n') {
            check_that_it_goes_on(&path, counted);
        }
    }
}

#[test]
fn crash_while_mending_is_mended_too() {
    let (_folder, path) = scratch();
    let (bytes, handed_out) = history(&path);
    let torn = &bytes[..bytes.len() - 40];
    fs::write(&path, torn).unwrap();
    let counted = mu_squared(&open(&path).unwrap());
    // only a part of the torn line's hash is missing, so it counts
    assert!(counted > handed_out[1].1 && (counted - handed_out[2].1).abs() < 1e-15);
    let mended = fs::read(&path).unwrap();
    assert_eq!(&mended[..torn.len()], torn);
    for cut in torn.len()..=mended.len() {
        fs::write(&path, &mended[..cut]).unwrap();
        assert!(
            (mu_squared(&open(&path).unwrap()) - counted).abs() < 1e-15,
            "cut at {cut}"
        );
        assert!(
            (mu_squared(&open(&path).unwrap()) - counted).abs() < 1e-15,
            "cut at {cut}"
        );
    }
}
