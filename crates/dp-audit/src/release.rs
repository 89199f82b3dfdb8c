//! L1: white-box audit of a release, comparing its output with the exact sum.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::report::{Check, Verdict, verdict_of, write_failures};
use crate::sampler::pearson;
use crate::statistics::{
    chi_square_lower_tail, chi_square_upper_tail, normal_mass, normal_quantile, normal_upper_tail,
};
use crate::view::View;

/// Residuals beyond this are counted in the outermost cells.
const REACH: f64 = 6.0;
/// Number of cells per unit in the histogram of residuals.
const CELLS_PER_UNIT: f64 = 8.0;

/// Outcome of a white-box audit of one release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseAudit {
    /// Name of the release.
    pub label: String,
    /// Number of noise draws examined.
    pub n_draws: u64,
    /// Noise multiplier that was charged.
    pub claimed_noise_multiplier: f64,
    /// Measured noise multiplier: the claimed one times the root mean square residual.
    pub measured_noise_multiplier: f64,
    /// Relative error of the measured multiplier in either direction, exceeded with probability at
    /// most 2 `level`.
    pub relative_error: f64,
    /// False-alarm probability of each check.
    pub level: f64,
    /// The checks.
    pub checks: Vec<Check>,
    /// Outcome.
    pub verdict: Verdict,
}

/// Number of draws needed to distinguish noise that is too small by the factor `shortfall` from the
/// claimed noise, with false-alarm probability `level` and probability `miss` of missing it.
///
/// ```text
/// n = 2 ((z_level + f^2 z_miss) / (1 - f^2))^2
/// ```
///
/// from the normal approximation of chi-square: the mean of r^2 has standard deviation `sqrt(2/n)`
/// under the claim and `f^2 sqrt(2/n)` under the shortfall `f`.
///
/// # Examples
/// ```
/// assert_eq!(dp_audit::draws_needed(0.99, 1e-9, 1e-6), 573_541);
/// assert_eq!(dp_audit::draws_needed(0.9, 1e-3, 1e-3), 1_734);
/// ```
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturating count"
)]
pub fn draws_needed(shortfall: f64, level: f64, miss: f64) -> u64 {
    let square = shortfall * shortfall;
    let (z_level, z_miss) = (-normal_quantile(level), -normal_quantile(miss));
    (2.0 * ((z_level + square * z_miss) / (1.0 - square)).powi(2)).ceil() as u64
}

/// Audits one release by comparison with its exact sum.
///
/// ```text
/// r = (Y - S + 1/2) / sigma,   sum r^2 ~ chi-square(n) if the claim holds
/// ```
///
/// Each check has false-alarm probability `level`: too little noise (in total, in either half, on
/// and off the diagonal), noise other than claimed, a non-zero mean, a histogram of residuals that
/// differs from the normal distribution, dependence between neighbouring coordinates and across the
/// release, and low bits of the noise that are not uniform (a trace of floating-point arithmetic).
///
/// # Errors
/// [`crate::Error::Shape`] or [`crate::Error::Param`] if the view is inconsistent.
pub fn audit_release(view: &View, level: f64) -> Result<ReleaseAudit> {
    view.check()?;
    let residuals = view.residuals();
    let noise: Vec<i64> = view
        .integers
        .iter()
        .zip(&view.exact)
        .map(|(y, s)| y.wrapping_sub(*s))
        .collect();
    let diagonal = view.layout.sigma() as f64;
    let (on, off): (Vec<f64>, Vec<f64>) = groups(view, &residuals, diagonal);
    let mut checks = residual_checks(&residuals, level);
    if !off.is_empty() && !on.is_empty() {
        checks.push(too_little("too little noise on the diagonal", &on, level));
        checks.push(too_little("too little noise off the diagonal", &off, level));
    }
    checks.push(low_bits(&noise, level));
    Ok(assemble(view, &residuals, checks, level))
}

/// Pools the same release of several runs into one audit.
pub(crate) fn pooled(view: &View, residuals: &[f64], noise: &[i64], level: f64) -> ReleaseAudit {
    let mut checks = residual_checks(residuals, level);
    checks.push(low_bits(noise, level));
    assemble(view, residuals, checks, level)
}

/// Checks that releases do not share noise: the residuals of each pair, coordinate by coordinate,
/// are uncorrelated.
///
/// ```text
/// sum_i r_i s_i / sqrt(n) ~ N(0, 1) approximately, n the length of the shorter
/// ```
#[must_use]
pub fn audit_independence(residuals: &[(String, Vec<f64>)], level: f64) -> Vec<Check> {
    let mut checks = Vec::new();
    for (at, (first, r)) in residuals.iter().enumerate() {
        for (second, s) in &residuals[at + 1..] {
            let what = format!("noise shared by `{first}` and `{second}`");
            checks.push(correlation(what, r.iter().zip(s), level));
        }
    }
    checks
}

fn groups(view: &View, residuals: &[f64], diagonal: f64) -> (Vec<f64>, Vec<f64>) {
    let mut on = Vec::new();
    let mut off = Vec::new();
    for (at, &r) in residuals.iter().enumerate() {
        if view.scale(at) < diagonal {
            off.push(r);
        } else {
            on.push(r);
        }
    }
    (on, off)
}

fn residual_checks(residuals: &[f64], level: f64) -> Vec<Check> {
    let n = residuals.len();
    let (head, tail) = residuals.split_at(n / 2);
    let mut checks = vec![
        too_little("too little noise", residuals, level),
        Check::new(
            "more noise than claimed",
            chi_square_upper_tail(n as f64, sum_of_squares(residuals)),
            level,
        ),
        mean(residuals, level),
        histogram(residuals, level),
        correlation(
            "neighbouring coordinates share noise",
            residuals.iter().zip(residuals.iter().skip(1)),
            level,
        ),
        correlation(
            "halves of the release share noise",
            head.iter().zip(tail),
            level,
        ),
    ];
    if n >= 2 {
        checks.push(too_little(
            "too little noise in the first half",
            head,
            level,
        ));
        checks.push(too_little(
            "too little noise in the second half",
            tail,
            level,
        ));
    }
    // the streams of chunks: every distance at which a block of a generator could repeat
    for lag in [256, 1024, 4096, 8192] {
        if n > 2 * lag {
            checks.push(correlation(
                format!("coordinates {lag} apart share noise"),
                residuals.iter().zip(&residuals[lag..]),
                level,
            ));
        }
    }
    checks
}

fn sum_of_squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|r| r * r).sum()
}

pub(crate) fn too_little(what: &str, residuals: &[f64], level: f64) -> Check {
    let p = chi_square_lower_tail(residuals.len() as f64, sum_of_squares(residuals));
    Check::new(what, p, level)
}

fn mean(residuals: &[f64], level: f64) -> Check {
    let score = residuals.iter().sum::<f64>() / (residuals.len() as f64).sqrt();
    Check::new("mean of the noise", two_sided(score), level)
}

fn two_sided(score: f64) -> f64 {
    2.0 * normal_upper_tail(score.abs())
}

/// Normal approximation of a sum of products of independent normals. Each product has variance 1
/// and sub-exponential tails, so for fewer than 1,000 terms the check requires twice the score.
fn correlation<'a>(
    what: impl Into<String>,
    pairs: impl Iterator<Item = (&'a f64, &'a f64)>,
    level: f64,
) -> Check {
    let (mut sum, mut n) = (0.0, 0_u32);
    for (r, s) in pairs {
        sum += r * s;
        n += 1;
    }
    let slack = if n < 1000 { 2.0 } else { 1.0 };
    let score = sum / f64::from(n.max(1)).sqrt() / slack;
    Check::new(what, two_sided(score), level)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the cells"
)]
fn histogram(residuals: &[f64], level: f64) -> Check {
    let n_cells = (2.0 * REACH * CELLS_PER_UNIT) as usize;
    let mut counts = vec![0_u64; n_cells];
    for r in residuals {
        let cell = ((r + REACH) * CELLS_PER_UNIT).floor();
        counts[cell.clamp(0.0, (n_cells - 1) as f64) as usize] += 1;
    }
    let border = |i: usize| i as f64 / CELLS_PER_UNIT - REACH;
    let expected: Vec<f64> = (0..n_cells)
        .map(|i| residuals.len() as f64 * normal_mass(border(i), border(i + 1)))
        .collect();
    let (statistic, degrees) = pearson(&counts, &expected);
    Check::new(
        "histogram of the noise",
        chi_square_upper_tail(degrees, statistic),
        level,
    )
}

/// The low four bits of the integer noise are uniform to within `exp(-2 pi^2 sigma^2/256)`: at
/// scales from 32 that is below 1e-34.
fn low_bits(noise: &[i64], level: f64) -> Check {
    let mut counts = [0_u64; 16];
    for y in noise {
        counts[usize::from(y.to_le_bytes()[0] & 15)] += 1;
    }
    let expected = [noise.len() as f64 / 16.0; 16];
    let (statistic, degrees) = pearson(&counts, &expected);
    Check::new(
        "low bits of the noise",
        chi_square_upper_tail(degrees, statistic),
        level,
    )
}

fn assemble(view: &View, residuals: &[f64], checks: Vec<Check>, level: f64) -> ReleaseAudit {
    let n = residuals.len() as f64;
    let ratio = (sum_of_squares(residuals) / n).sqrt();
    ReleaseAudit {
        label: view.label.clone(),
        n_draws: residuals.len() as u64,
        claimed_noise_multiplier: view.noise_multiplier,
        measured_noise_multiplier: view.noise_multiplier * ratio,
        relative_error: -normal_quantile(level) / (2.0 * n).sqrt(),
        level,
        verdict: verdict_of(&checks),
        checks,
    }
}

impl fmt::Display for ReleaseAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; noise multiplier claimed {:.4}, measured {:.4} (within {:.2} %) over {} draws",
            self.label,
            self.verdict,
            self.claimed_noise_multiplier,
            self.measured_noise_multiplier,
            100.0 * self.relative_error,
            self.n_draws
        )?;
        write_failures(f, &self.checks)
    }
}
