//! L2 for mechanisms without a single Gaussian parameter: a lower bound on epsilon at a given
//! delta.

use std::fmt;

use dp_core::{ApproxDp, ParamError, params};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::Verdict;
use crate::statistics::clopper_pearson;

/// Outcome of [`audit_epsilon`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpsilonAudit {
    /// What was audited.
    pub label: String,
    /// The claimed guarantee.
    pub claimed: ApproxDp,
    /// A lower bound on the true epsilon at the claimed delta, valid with probability `confidence`.
    pub lower_bound_epsilon: f64,
    /// The threshold that gives this bound.
    pub threshold: f64,
    /// Confidence of the lower bound.
    pub confidence: f64,
    /// Number of outputs on each neighbour.
    pub n_outputs: [u64; 2],
    /// Outcome.
    pub verdict: Verdict,
}

/// Computes a lower bound on epsilon at the claimed delta from how well thresholds on a score
/// distinguish two neighbours.
///
/// ```text
/// epsilon >= ln((TPR - delta) / FPR)   and   epsilon >= ln((TNR - delta) / FNR)     for every test
/// ```
///
/// Each of the four rates of each threshold is replaced by its Clopper-Pearson bound, wrong with
/// probability at most `(1 - confidence) / (4 m)` for `m` thresholds; the largest bound is
/// reported. Source: Kairouz, Oh and Viswanath 2015 (arXiv 1311.0776), Theorem 2.1, in the reverse
/// direction; Jagielski, Ullman and Oprea 2020 (arXiv 2006.07709), section 4.
///
/// For Gaussian mechanisms, [`audit_black_box`](crate::audit_black_box) gives a much better bound
/// from the same number of outputs. This function is for sampled mechanisms, at deltas that are not
/// small: with `n` outputs on each side, rates below about `20 / n` cannot be detected at
/// confidence 1 - 1e-9.
///
/// # Arguments
/// * `first`, `second` - scores of independent outputs on the two neighbours
/// * `thresholds` - outputs with a score above a threshold are classified as `second`; fixed in
///   advance
///
/// # Errors
/// [`crate::Error::Param`] if there are no scores or thresholds, or the confidence is outside (0,
/// 1).
pub fn audit_epsilon(
    label: &str,
    claimed: ApproxDp,
    first: &[f64],
    second: &[f64],
    thresholds: &[f64],
    confidence: f64,
) -> Result<EpsilonAudit> {
    params::open_unit("confidence", confidence)?;
    if first.is_empty() || second.is_empty() || thresholds.is_empty() {
        return Err(ParamError {
            name: "scores and thresholds",
            value: 0.0,
            expected: "at least one output on each neighbour, and a threshold",
        }
        .into());
    }
    let level = (1.0 - confidence) / (4.0 * thresholds.len() as f64);
    let (mut best, mut at) = (0.0, thresholds[0]);
    for &threshold in thresholds {
        let found = lower_bound([first, second], threshold, claimed.delta, level);
        if found > best {
            (best, at) = (found, threshold);
        }
    }
    Ok(EpsilonAudit {
        label: label.to_owned(),
        claimed,
        lower_bound_epsilon: best,
        threshold: at,
        confidence,
        n_outputs: [first.len() as u64, second.len() as u64],
        verdict: Verdict::of_lower_bound(best, claimed.epsilon),
    })
}

/// The larger of the two bounds from one threshold.
fn lower_bound([first, second]: [&[f64]; 2], threshold: f64, delta: f64, level: f64) -> f64 {
    let above = |scores: &[f64]| scores.iter().filter(|&&s| s > threshold).count() as u64;
    let (n, m) = (first.len() as u64, second.len() as u64);
    let rate = |hits, of| clopper_pearson(hits, of, level);
    let (alarms, hits) = (above(first), above(second));
    let ratio = |likely: f64, unlikely: f64| ((likely - delta).max(0.0) / unlikely).ln();
    let positive = ratio(rate(hits, m).low, rate(alarms, n).high);
    let negative = ratio(rate(n - alarms, n).low, rate(m - hits, m).high);
    positive.max(negative)
}

impl fmt::Display for EpsilonAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; epsilon claimed {:.4} at delta {:e}, at least {:.4} with confidence {} ({} + {} outputs)",
            self.label,
            self.verdict,
            self.claimed.epsilon,
            self.claimed.delta,
            self.lower_bound_epsilon,
            self.confidence,
            self.n_outputs[0],
            self.n_outputs[1]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Randomised response that is truthful with probability 3/4: epsilon ln 3 at delta 0, ln 2 at
    /// delta 1/4.
    #[test]
    fn randomised_response_is_bounded_closely_and_a_false_claim_is_refused() {
        let n = 400_000;
        let answers =
            |yes: usize| -> Vec<f64> { (0..n).map(|i| f64::from(u8::from(i % 4 < yes))).collect() };
        let (no, yes) = (answers(1), answers(3));
        for (delta, epsilon) in [(1e-9, 3.0_f64.ln()), (0.25, 2.0_f64.ln())] {
            let claimed = ApproxDp { epsilon, delta };
            let audit = audit_epsilon("coin", claimed, &no, &yes, &[0.5], 1.0 - 1e-9).unwrap();
            assert!(audit.verdict.holds(), "{audit}");
            assert!(audit.lower_bound_epsilon > 0.9 * epsilon, "{audit}");
            let lie = ApproxDp {
                epsilon: 0.9 * epsilon,
                delta,
            };
            let audit = audit_epsilon("coin", lie, &no, &yes, &[0.5], 1.0 - 1e-9).unwrap();
            assert!(audit.verdict.is_violated(), "{audit}");
        }
        let claimed = ApproxDp {
            epsilon: 1.0,
            delta: 1e-5,
        };
        assert!(audit_epsilon("none", claimed, &[], &yes, &[0.5], 0.9).is_err());
        assert!(audit_epsilon("none", claimed, &no, &yes, &[], 0.9).is_err());
    }
}
