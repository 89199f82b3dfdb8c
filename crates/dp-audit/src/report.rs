//! The results of audits.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Outcome of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing that contradicts the claim was found.
    Holds,
    /// The claim is false, up to the stated false-alarm level.
    Violated,
    /// Nothing was found, but the audit had too little power to contradict a false claim.
    Inconclusive,
}

impl Verdict {
    /// `Holds` when `fine`.
    #[must_use]
    pub(crate) const fn of(fine: bool) -> Self {
        if fine { Self::Holds } else { Self::Violated }
    }

    /// For a lower bound on a claimed value: a bound of 0 is inconclusive.
    pub(crate) fn of_lower_bound(bound: f64, claimed: f64) -> Self {
        match Self::of(bound <= claimed) {
            Self::Holds if bound <= 0.0 => Self::Inconclusive,
            verdict => verdict,
        }
    }

    /// The verdict of several audits of one claim: violated if one of them is, and inconclusive if
    /// none of them had enough power.
    #[must_use]
    pub fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter()
            .fold(Self::Inconclusive, |so_far, one| match (so_far, one) {
                (Self::Violated, _) | (_, Self::Violated) => Self::Violated,
                (Self::Holds, _) | (_, Self::Holds) => Self::Holds,
                (Self::Inconclusive, Self::Inconclusive) => Self::Inconclusive,
            })
    }

    /// Whether an audit with enough power found nothing.
    #[must_use]
    pub const fn holds(self) -> bool {
        matches!(self, Self::Holds)
    }

    /// Whether the claim was contradicted.
    #[must_use]
    pub const fn is_violated(self) -> bool {
        matches!(self, Self::Violated)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "no violation found",
            Self::Violated => "VIOLATED",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// One test in an audit: a p-value and the level that it is compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was tested.
    pub what: String,
    /// Probability of a statistic at least this extreme if the claim holds; 0 for an observation
    /// that the claim rules out.
    pub p_value: f64,
    /// The check fails below this.
    pub level: f64,
}

impl Check {
    pub(crate) fn new(what: impl Into<String>, p_value: f64, level: f64) -> Self {
        Self {
            what: what.into(),
            p_value,
            level,
        }
    }

    /// Whether the check passed. A p-value that is NaN fails.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.p_value >= self.level
    }
}

/// `Holds` if every check passed.
pub(crate) fn verdict_of(checks: &[Check]) -> Verdict {
    Verdict::of(checks.iter().all(Check::passed))
}

/// The failed checks in words, for reports.
pub(crate) fn write_failures(f: &mut fmt::Formatter<'_>, checks: &[Check]) -> fmt::Result {
    for check in checks.iter().filter(|check| !check.passed()) {
        write!(f, "\n  failed: {} (p = {:.1e})", check.what, check.p_value)?;
    }
    Ok(())
}
