//! Confidence bounds for a probability.

use serde::{Deserialize, Serialize};

use super::bisect;
use super::chi_square::away_from_zero;

/// A lower and an upper confidence bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// `P(Bin(trials, p) >= hits) = I_p(hits, trials - hits + 1)`, exact except for arithmetic errors
/// (relative 1e-8).
#[must_use]
pub fn binomial_upper_tail(hits: u64, trials: u64, p: f64) -> f64 {
    let (k, n) = (hits as f64, trials as f64);
    match hits {
        0 => 1.0,
        hits if hits > trials => 0.0,
        _ => incomplete_beta(k, n - k + 1.0, p),
    }
}

/// `P(Bin(trials, p) <= hits) = I_(1-p)(trials - hits, hits + 1)`; see [`binomial_upper_tail`].
#[must_use]
pub fn binomial_lower_tail(hits: u64, trials: u64, p: f64) -> f64 {
    let (k, n) = (hits as f64, trials as f64);
    if hits >= trials {
        return 1.0;
    }
    incomplete_beta(n - k, k + 1.0, 1.0 - p)
}

/// Exact bounds for a probability, given `hits` out of `trials`: each of the two is wrong with
/// probability at most `level`, whatever the probability is.
///
/// ```text
/// low:   P(Bin(n, low) >= hits)  = I_low(hits, n - hits + 1)       = level
/// high:  P(Bin(n, high) <= hits) = 1 - I_high(hits + 1, n - hits)  = level
/// ```
///
/// Source: Clopper and Pearson, Biometrika 26 (1934). Both ends are moved outward by 1e-10, more
/// than the arithmetic error. `hits` above `trials` counts as `trials`; without trials the bounds
/// are 0 and 1.
///
/// # Examples
/// ```
/// use dp_audit::statistics::clopper_pearson;
/// let bounds = clopper_pearson(0, 100, 0.05);
/// assert!(bounds.low == 0.0 && (bounds.high - 0.029_513_049).abs() < 1e-8);
/// ```
#[must_use]
pub fn clopper_pearson(hits: u64, trials: u64, level: f64) -> Bounds {
    const OUTWARD: f64 = 1e-10;
    let hits = hits.min(trials);
    let (k, n) = (hits as f64, trials as f64);
    let low = if hits == 0 {
        0.0
    } else {
        bisect(0.0, 1.0, |p| incomplete_beta(k, n - k + 1.0, p) < level).0 - OUTWARD
    };
    let high = if hits == trials {
        1.0
    } else {
        // P(Bin <= hits) = I_(1-p)(n - hits, hits + 1)
        bisect(0.0, 1.0, |p| {
            incomplete_beta(n - k, k + 1.0, 1.0 - p) > level
        })
        .1 + OUTWARD
    };
    Bounds {
        low: low.max(0.0),
        high: high.min(1.0),
    }
}

/// The regularised incomplete beta function `I_x(a, b)` for `a, b > 0` and `0 <= x <= 1`. The
/// relative error of the smaller of it and its complement is below 1e-8 for `a + b` up to 1e7 (due
/// to cancellation in the logarithms of Gamma).
///
/// Uses the continued fraction DLMF 8.17.22 where it converges fast, `x < (a + 1)/(a + b + 2)`, and
/// the reflection `I_x(a, b) = 1 - I_(1-x)(b, a)` elsewhere.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let log_front =
        a * x.ln() + b * (-x).ln_1p() + libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b);
    if x < (a + 1.0) / (a + b + 2.0) {
        log_front.exp() / a * fraction(a, b, x)
    } else {
        1.0 - log_front.exp() / b * fraction(b, a, 1.0 - x)
    }
}

/// `1/(1 + d_1/(1 + d_2/(1 + ...)))` by Lentz's recurrence.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let tiny = 1e-300;
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0), tiny);
    let mut value = d;
    for m in 1..1_000_000_u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d, tiny);
            c = away_from_zero(1.0 + numerator / c, tiny);
            step = c * d;
            value *= step;
        }
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    value
}
