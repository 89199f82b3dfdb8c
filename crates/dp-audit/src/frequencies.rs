//! L0 for releases with few outcomes: the frequency of each outcome compared with exact
//! probabilities.

use std::fmt;

use dp_core::{ParamError, params};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::{Check, Verdict};
use crate::statistics::{binomial_lower_tail, binomial_upper_tail};

/// Outcome of [`audit_frequencies`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrequencyAudit {
    /// What was audited.
    pub label: String,
    /// Number of draws.
    pub n_draws: u64,
    /// The outcome with the worst fit.
    pub worst: usize,
    /// The test.
    pub check: Check,
    /// Outcome.
    pub verdict: Verdict,
}

/// Compares the frequency of each outcome with its probability.
///
/// Each count is binomial, whatever the others are, so the test is exact for every sample size and
/// requires no independence between outcomes:
///
/// ```text
/// p = min(1, 2 K min_k min(P(Bin(n, p_k) <= c_k), P(Bin(n, p_k) >= c_k)))      K outcomes
/// ```
///
/// # Arguments
/// * `counts` - number of draws with each outcome; they may add up to more than `n_draws` if a draw
///   has several outcomes, as a sample has several members
/// * `probabilities` - of each outcome in one draw
/// * `level` - false-alarm probability
///
/// # Errors
/// [`crate::Error::Shape`] if the lengths differ; [`crate::Error::Param`] if there are no draws or
/// a probability is outside \[0, 1\].
///
/// # Examples
/// ```
/// let fair = dp_audit::audit_frequencies("coin", 1000, &[520, 480], &[0.5, 0.5], 1e-9)?;
/// assert!(fair.verdict.holds());
/// let loaded = dp_audit::audit_frequencies("coin", 1000, &[620, 380], &[0.5, 0.5], 1e-9)?;
/// assert!(loaded.verdict.is_violated());
/// # Ok::<(), dp_audit::Error>(())
/// ```
pub fn audit_frequencies(
    label: &str,
    n_draws: u64,
    counts: &[u64],
    probabilities: &[f64],
    level: f64,
) -> Result<FrequencyAudit> {
    params::same_size("counts", counts.len(), probabilities.len())?;
    if n_draws == 0 || counts.is_empty() {
        return Err(ParamError {
            name: "n_draws",
            value: n_draws as f64,
            expected: "at least one draw and one outcome",
        }
        .into());
    }
    let (mut worst, mut least) = (0, f64::INFINITY);
    for (at, (&count, &p)) in counts.iter().zip(probabilities).enumerate() {
        params::closed_unit("probability", p)?;
        let tail =
            binomial_lower_tail(count, n_draws, p).min(binomial_upper_tail(count, n_draws, p));
        if !(tail >= least) {
            (worst, least) = (at, tail);
        }
    }
    let p_value = (2.0 * counts.len() as f64 * least).min(1.0);
    let check = Check::new("outcomes against exact probabilities", p_value, level);
    Ok(FrequencyAudit {
        label: label.to_owned(),
        n_draws,
        worst,
        verdict: Verdict::of(check.passed()),
        check,
    })
}

impl fmt::Display for FrequencyAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; {} draws against exact probabilities, p = {:.2e} (outcome {} fits worst)",
            self.label, self.verdict, self.n_draws, self.check.p_value, self.worst
        )
    }
}

/// Compares each of the eight bytes of the words with the uniform distribution, value by value.
///
/// One share of a vector must be uniform modulo 2^64 whatever the vector is. The same holds for the
/// differences of two clients' shares, and those of adjacent coordinates.
///
/// # Errors
/// [`crate::Error::Param`] if there are no words.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_are_the_binomial_ones() {
        // P(Bin(1000, 1/2) >= 620), computed with mpmath with 30 digits; two outcomes, two sides
        let tail = 1.551_622_954_171_333e-14;
        let audit = audit_frequencies("c", 1000, &[620, 380], &[0.5, 0.5], 1e-9).unwrap();
        assert!((audit.check.p_value / (4.0 * tail) - 1.0).abs() < 1e-8);
        // an impossible outcome occurred
        let audit = audit_frequencies("c", 10, &[9, 1], &[1.0, 0.0], 1e-9).unwrap();
        assert!(audit.check.p_value <= 0.0 && audit.verdict.is_violated());
        let audit = audit_frequencies("c", 10, &[10, 0], &[1.0, 0.0], 1e-9).unwrap();
        assert!(audit.verdict.holds());
        assert!(audit_frequencies("c", 0, &[0], &[1.0], 1e-9).is_err());
        assert!(audit_frequencies("c", 1, &[0], &[f64::NAN], 1e-9).is_err());
        assert!(audit_frequencies("c", 1, &[0], &[0.5, 0.5], 1e-9).is_err());
    }
}
