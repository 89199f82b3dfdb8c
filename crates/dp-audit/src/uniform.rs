//! What one server of a secure sum sees.

use crate::Result;
use crate::frequencies::audit_frequencies;
use crate::report::Check;

/// Compares each of the eight bytes of the words with the uniform law, value by value.
///
/// One share of a vector has to be uniform modulo 2^64 whatever the vector is; so have to be the
/// differences of two clients' shares, and those of neighbouring coordinates.
///
/// # Errors
/// [`crate::Error::Param`] for no words.
///
/// # Examples
/// ```
/// let counting: Vec<i64> = (0..10_000).collect();
/// assert!(!dp_audit::audit_uniform_words("a counter", &counting, 1e-9)?.passed());
/// # Ok::<(), dp_audit::Error>(())
/// ```
pub fn audit_uniform_words(what: &str, words: &[i64], level: f64) -> Result<Check> {
    let mut counts = vec![0; 8 * 256];
    for word in words {
        for (byte, value) in word.to_le_bytes().into_iter().enumerate() {
            counts[byte * 256 + usize::from(value)] += 1;
        }
    }
    let expected = vec![1.0 / 256.0; counts.len()];
    let audit = audit_frequencies(what, words.len() as u64, &counts, &expected, level)?;
    let (byte, value) = (audit.worst / 256, audit.worst % 256);
    Ok(Check::new(
        format!("{what}: byte {byte} is {value} too often or too seldom"),
        audit.check.p_value,
        level,
    ))
}
