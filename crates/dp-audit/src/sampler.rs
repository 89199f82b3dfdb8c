//! L0: a sampler compared with its exact probabilities.

use std::fmt;

use dp_core::ParamError;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::{Check, Verdict};
use crate::statistics::{chi_square_upper_tail, normal_mass};

/// Cells that expect fewer draws are pooled.
const LEAST_EXPECTED: f64 = 20.0;

/// Outcome of [`audit_sampler`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplerAudit {
    /// The claimed scale.
    pub sigma: u64,
    /// Number of draws.
    pub n_draws: u64,
    /// Pearson's statistic.
    pub statistic: f64,
    /// Its degrees of freedom.
    pub degrees: f64,
    /// The test.
    pub check: Check,
    /// Outcome.
    pub verdict: Verdict,
}

/// Compares draws with `P(Y = y) = Phi((y + 1)/sigma) - Phi(y/sigma)` by Pearson's chi-square.
///
/// Cells are single integers, pooled at both ends so that each expects at least 20 draws. The
/// p-value is that of the chi-square distribution with one degree of freedom less than the number
/// of cells.
///
/// # Arguments
/// * `draws` - from the audited sampler
/// * `sigma` - claimed scale, 16 to 65,536 (one cell per integer)
/// * `level` - false-alarm probability
///
/// # Errors
/// [`crate::Error::Param`] for a scale out of range or fewer than 1,000 draws.
///
/// # Examples
/// ```
/// // a linear congruence is no Gaussian
/// let draws = (0..10_000_i64).map(|i| i * 7919 % 200 - 100);
/// let audit = dp_audit::audit_sampler(draws, 64, 1e-9)?;
/// assert!(audit.verdict.is_violated());
/// # Ok::<(), dp_audit::Error>(())
/// ```
pub fn audit_sampler(
    draws: impl IntoIterator<Item = i64>,
    sigma: u64,
    level: f64,
) -> Result<SamplerAudit> {
    let s = sigma as f64;
    against(draws, sigma, level, |y| {
        normal_mass(y as f64 / s, (y + 1) as f64 / s)
    })
}

/// Like [`audit_sampler`], for `P(Y = y)` proportional to `exp(-y^2 / (2 sigma^2))`.
///
/// # Errors
/// As [`audit_sampler`].
pub fn audit_discrete_sampler(
    draws: impl IntoIterator<Item = i64>,
    sigma: u64,
    level: f64,
) -> Result<SamplerAudit> {
    let s = sigma as f64;
    let weight = |y: i64| (-0.5 * (y as f64 / s).powi(2)).exp();
    // the mass beyond 12 sigma is less than 1e-31 of the total
    let reach = i64::try_from(sigma.min(65_536)).unwrap_or(i64::MAX) * 12;
    let total = 1.0 + 2.0 * (1..=reach).rev().map(weight).sum::<f64>();
    against(draws, sigma, level, |y| weight(y) / total)
}

fn against(
    draws: impl IntoIterator<Item = i64>,
    sigma: u64,
    level: f64,
    probability: impl Fn(i64) -> f64,
) -> Result<SamplerAudit> {
    if !(16..=65_536).contains(&sigma) {
        return Err(bad(
            "sigma",
            sigma as f64,
            "a whole number from 16 to 65,536",
        ));
    }
    let reach = 9 * sigma.cast_signed();
    let (counts, n_draws) = count(draws, reach);
    if n_draws < 1000 {
        return Err(bad("draws", n_draws as f64, "at least 1,000 draws"));
    }
    let expected: Vec<f64> = (-reach..reach)
        .map(|y| n_draws as f64 * probability(y))
        .collect();
    let (statistic, degrees) = pearson(&counts, &expected);
    let check = Check::new(
        "draws against exact probabilities",
        chi_square_upper_tail(degrees, statistic),
        level,
    );
    Ok(SamplerAudit {
        sigma,
        n_draws,
        statistic,
        degrees,
        verdict: Verdict::of(check.passed()),
        check,
    })
}

fn bad(name: &'static str, value: f64, expected: &'static str) -> crate::Error {
    ParamError {
        name,
        value,
        expected,
    }
    .into()
}

/// Number of draws per integer from `-reach` to `reach - 1`; values beyond are counted at the ends.
fn count(draws: impl IntoIterator<Item = i64>, reach: i64) -> (Vec<u64>, u64) {
    let mut counts = vec![0; usize::try_from(2 * reach).unwrap_or(0)];
    let mut n_draws = 0;
    for y in draws {
        let cell = y.clamp(-reach, reach - 1).wrapping_add(reach);
        if let Some(count) = usize::try_from(cell).ok().and_then(|c| counts.get_mut(c)) {
            *count += 1;
        }
        n_draws += 1;
    }
    (counts, n_draws)
}

/// Pearson's statistic and its degrees of freedom; thin cells at the ends are pooled inward.
pub(crate) fn pearson(counts: &[u64], expected: &[f64]) -> (f64, f64) {
    let thick = |&e: &f64| e >= LEAST_EXPECTED;
    let (Some(first), Some(last)) = (
        expected.iter().position(thick),
        expected.iter().rposition(thick),
    ) else {
        return (0.0, 1.0);
    };
    let mut pooled = vec![(0.0, 0.0); last - first + 1];
    for (i, (&count, &e)) in counts.iter().zip(expected).enumerate() {
        let cell = &mut pooled[i.clamp(first, last) - first];
        cell.0 += count as f64;
        cell.1 += e;
    }
    let statistic = pooled.iter().map(|&(n, e)| (n - e) * (n - e) / e).sum();
    (statistic, ((last - first) as f64).max(1.0))
}

impl fmt::Display for SamplerAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sampler of scale {}: {}; chi-square {:.1} on {} degrees over {} draws, p = {:.2e}",
            self.sigma,
            self.verdict,
            self.statistic,
            self.degrees,
            self.n_draws,
            self.check.p_value
        )
    }
}
