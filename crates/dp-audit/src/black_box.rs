//! L2: a lower bound on the privacy loss from the outputs on two neighbours.

use std::fmt;

use dp_core::{ParamError, params};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::Verdict;
use crate::statistics::{clopper_pearson, normal_quantile};

/// Outcome of [`audit_black_box`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlackBoxAudit {
    /// What was audited.
    pub label: String,
    /// The claimed Gaussian-DP parameter.
    pub claimed_mu: f64,
    /// A lower bound on the true parameter, valid with probability `confidence`.
    pub lower_bound_mu: f64,
    /// Confidence of the lower bound.
    pub confidence: f64,
    /// Number of outputs on the neighbour without the user.
    pub n_without: u64,
    /// Number of outputs on the neighbour with the user.
    pub n_with: u64,
    /// Outputs without the user that were classified as with the user.
    pub n_false_alarms: u64,
    /// Outputs with the user that were classified as without the user.
    pub n_missed: u64,
    /// Outcome.
    pub verdict: Verdict,
}

/// Computes a lower bound on mu from how well a threshold on a score distinguishes two neighbours.
///
/// ```text
/// mu >= Phi^-1(1 - FPR) - Phi^-1(FNR)      for every test of a mu-GDP mechanism
/// mu_LB = Phi^-1(1 - FPR_hi) - Phi^-1(FNR_hi)
/// ```
///
/// `FPR_hi` and `FNR_hi` are Clopper-Pearson bounds, each wrong with probability at most
/// `(1 - confidence)/2`. Source: Dong, Roth, Su, arXiv 1905.02383, Definition 2.6 (trade-off
/// function `G_mu`); Nasr et al., arXiv 2302.07956, section 4.
///
/// # Arguments
/// * `without`, `with` - scores of independent outputs on the two neighbours
/// * `threshold` - outputs with a larger score are classified as `with` the user; fixed in advance
///   or chosen on other outputs than these
/// * `claimed_mu` - the claim
/// * `confidence` - probability that the bound is correct, in (0, 1)
///
/// # Errors
/// [`crate::Error::Param`] if there are no scores or a parameter is out of range.
pub fn audit_black_box(
    label: &str,
    claimed_mu: f64,
    without: &[f64],
    with: &[f64],
    threshold: f64,
    confidence: f64,
) -> Result<BlackBoxAudit> {
    params::finite_non_negative("claimed_mu", claimed_mu)?;
    params::open_unit("confidence", confidence)?;
    if without.is_empty() || with.is_empty() {
        return Err(ParamError {
            name: "scores",
            value: 0.0,
            expected: "at least one output on each neighbour",
        }
        .into());
    }
    let alarms = without.iter().filter(|&&score| score > threshold).count() as u64;
    let missed = with.iter().filter(|&&score| score <= threshold).count() as u64;
    let (n_without, n_with) = (without.len() as u64, with.len() as u64);
    let lower_bound_mu = lower_bound(alarms, n_without, missed, n_with, confidence);
    Ok(BlackBoxAudit {
        label: label.to_owned(),
        claimed_mu,
        lower_bound_mu,
        confidence,
        n_without,
        n_with,
        n_false_alarms: alarms,
        n_missed: missed,
        verdict: Verdict::of_lower_bound(lower_bound_mu, claimed_mu),
    })
}

/// `Phi^-1(1 - FPR_hi) - Phi^-1(FNR_hi)`, at least 0.
fn lower_bound(alarms: u64, n_without: u64, missed: u64, n_with: u64, confidence: f64) -> f64 {
    let level = 0.5 * (1.0 - confidence);
    let fpr = clopper_pearson(alarms, n_without, level).high;
    let fnr = clopper_pearson(missed, n_with, level).high;
    let bound = -normal_quantile(fpr) - normal_quantile(fnr);
    if bound > 0.0 { bound } else { 0.0 }
}

impl BlackBoxAudit {
    /// The same outputs evaluated with another confidence.
    ///
    /// # Errors
    /// [`crate::Error::Param`] if `confidence` is outside (0, 1).
    pub fn at_confidence(&self, confidence: f64) -> Result<Self> {
        params::open_unit("confidence", confidence)?;
        let (alarms, missed) = (self.n_false_alarms, self.n_missed);
        let bound = lower_bound(alarms, self.n_without, missed, self.n_with, confidence);
        Ok(Self {
            lower_bound_mu: bound,
            confidence,
            verdict: Verdict::of_lower_bound(bound, self.claimed_mu),
            ..self.clone()
        })
    }
}

impl fmt::Display for BlackBoxAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; mu claimed {:.4}, at least {:.4} with confidence {} ({} + {} outputs, {} \
             false alarms, {} missed)",
            self.label,
            self.verdict,
            self.claimed_mu,
            self.lower_bound_mu,
            self.confidence,
            self.n_without,
            self.n_with,
            self.n_false_alarms,
            self.n_missed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_gaussian_at_its_quantiles_comes_close() {
        // scores at the quantiles of N(0, 1) and N(2, 1): 16,000 on each side
        let n = 16_000;
        let quantiles: Vec<f64> = (0..n)
            .map(|i| normal_quantile((f64::from(i) + 0.5) / f64::from(n)))
            .collect();
        let shifted: Vec<f64> = quantiles.iter().map(|x| x + 2.0).collect();
        let audit = audit_black_box("g", 2.0, &quantiles, &shifted, 1.0, 0.999).unwrap();
        assert!(audit.verdict.holds() && audit.lower_bound_mu > 1.9);
        let lie = audit_black_box("g", 1.8, &quantiles, &shifted, 1.0, 0.999).unwrap();
        assert!(lie.verdict.is_violated());
    }

    #[test]
    fn outputs_that_tell_nothing_bound_nothing() {
        let audit = audit_black_box("g", 0.0, &[0.0; 50], &[0.0; 50], 0.5, 0.9).unwrap();
        assert!(audit.lower_bound_mu.abs() < 1e-15);
        assert_eq!(audit.verdict, Verdict::Inconclusive);
        assert!(audit_black_box("g", 1.0, &[], &[1.0], 0.5, 0.9).is_err());
        assert!(audit_black_box("g", f64::NAN, &[0.0], &[1.0], 0.5, 0.9).is_err());
    }
}
