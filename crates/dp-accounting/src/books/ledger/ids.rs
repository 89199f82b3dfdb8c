//! Names that say nothing about what they name.

use std::fmt::Write;

use crate::{Error, Result};

/// `n_bytes` bytes from the operating system, in lowercase hexadecimal.
pub(super) fn random_hex(n_bytes: usize) -> Result<String> {
    let mut bytes = vec![0; n_bytes];
    getrandom::fill(&mut bytes).map_err(|_| Error::EntropyUnavailable)?;
    let mut text = String::with_capacity(2 * n_bytes);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
