//! Ledger files from anybody: an error or a summary, never a panic.

#![no_main]

use dp_accounting::{Error, LedgerSummary};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let n_lines = bytes.split(|&byte| byte == b'\n').count();
    match LedgerSummary::from_bytes(bytes) {
        Ok(summary) => {
            assert!(summary.balance.spent >= 0.0 && summary.balance.budget >= 0.0);
            assert!(summary.releases.len() < n_lines);
        }
        Err(Error::LedgerCorrupt { line, .. }) => assert!((1..=n_lines).contains(&line)),
        Err(Error::LedgerMismatch { field, .. }) => assert_eq!(field, "schema_version"),
        Err(other) => panic!("{other:?}"),
    }
});
