//! Random identifiers, which reveal nothing about what they identify.

use crate::books::ledger::lines::hex;
use crate::{Error, Result};

/// `n_bytes` random bytes from the operating system, in lowercase hexadecimal.
pub(super) fn random_hex(n_bytes: usize) -> Result<String> {
    let mut bytes = vec![0; n_bytes];
    getrandom::fill(&mut bytes).map_err(|_| Error::EntropyUnavailable)?;
    Ok(hex(&bytes))
}

/// Creates a release id: 256 random bits, in the same form as a line hash, which older files use.
pub(super) fn release_id() -> Result<String> {
    random_hex(32)
}

/// Whether a text has the form of a release id.
pub(super) fn is_release_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
