//! L2 for selections: a lower bound on the range of the privacy loss.

use std::fmt;

use dp_core::params;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::Verdict;
use crate::statistics::{Bounds, clopper_pearson};

/// Outcome of [`audit_range`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RangeAudit {
    /// What was audited.
    pub label: String,
    /// The claimed range, in nats.
    pub claimed_epsilon: f64,
    /// A lower bound on the true range, wrong with probability at most `level`.
    pub lower_bound_epsilon: f64,
    /// False-alarm probability.
    pub level: f64,
    /// Number of draws on each neighbour.
    pub n_draws: [u64; 2],
    /// Outcome.
    pub verdict: Verdict,
}

/// Computes a lower bound on the range of the privacy loss of a release with few outcomes.
///
/// ```text
/// range = max_c ln(P(c)/P'(c)) - min_c ln(P(c)/P'(c))
/// bound = max_c ln(P_lo(c)/P'_hi(c)) - min_c ln(P_hi(c)/P'_lo(c))
/// ```
///
/// with Clopper-Pearson bounds at `level/(4 K)` each, `K` outcomes. Source of the range: Dong, Durfee,
/// Rogers, arXiv 1909.13830.
///
/// # Arguments
/// * `first`, `second` - how often each outcome occurred on the two neighbours
///
/// # Errors
/// [`crate::Error::Shape`] if the lengths differ; [`crate::Error::Param`] for a parameter out of
/// range.
///
/// # Examples
/// ```
/// // e^2 to 1 on one neighbour and 1 to e^2 on the other: a range of 4
/// let (a, b) = ([88_080, 11_920], [11_920, 88_080]);
/// let audit = dp_audit::audit_range("pick", 4.0, &a, &b, 1e-9)?;
/// assert!(audit.verdict.holds() && audit.lower_bound_epsilon > 3.7);
/// assert!(dp_audit::audit_range("pick", 2.0, &a, &b, 1e-9)?.verdict.is_violated());
/// # Ok::<(), dp_audit::Error>(())
/// ```
pub fn audit_range(
    label: &str,
    claimed_epsilon: f64,
    first: &[u64],
    second: &[u64],
    level: f64,
) -> Result<RangeAudit> {
    params::finite_non_negative("claimed_epsilon", claimed_epsilon)?;
    params::open_unit("level", level)?;
    params::same_size("outcomes", second.len(), first.len())?;
    let n_draws = [first, second].map(|counts| counts.iter().sum::<u64>());
    let share = level / (4.0 * first.len().max(1) as f64);
    let (mut most, mut least) = (f64::NEG_INFINITY, f64::INFINITY);
    for (&a, &b) in first.iter().zip(second) {
        let a = clopper_pearson(a, n_draws[0], share);
        let b = clopper_pearson(b, n_draws[1], share);
        let log = |p: &Bounds, q: &Bounds| (p.low / q.high).ln();
        most = most.max(log(&a, &b));
        least = least.min(-log(&b, &a));
    }
    // if nothing was observed on either side, the maximum is empty
    let bound = if most > least { most - least } else { 0.0 };
    Ok(RangeAudit {
        label: label.to_owned(),
        claimed_epsilon,
        lower_bound_epsilon: bound,
        level,
        n_draws,
        verdict: Verdict::of(bound <= claimed_epsilon),
    })
}

impl fmt::Display for RangeAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; range claimed {:.4}, at least {:.4} except with probability {:.0e} ({} + {} draws)",
            self.label,
            self.verdict,
            self.claimed_epsilon,
            self.lower_bound_epsilon,
            self.level,
            self.n_draws[0],
            self.n_draws[1]
        )
    }
}
