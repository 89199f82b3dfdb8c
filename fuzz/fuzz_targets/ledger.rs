//! Ledger files from anybody: an error or a summary, never a panic.

#![no_main]

use dp_accounting::LedgerSummary;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(summary) = LedgerSummary::from_bytes(bytes) {
        assert!(summary.balance.spent >= 0.0);
    }
});
