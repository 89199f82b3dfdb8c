//! Confidence bounds for a probability.

use serde::{Deserialize, Serialize};

use super::beta::incomplete_beta;
use super::bisect;

/// A lower and an upper confidence bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// `P(Bin(trials, p) >= hits) = I_p(hits, trials - hits + 1)`, exact but for arithmetic (relative
/// 1e-8).
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

/// Exact bounds for the probability behind `hits` of `trials`: each of the two is wrong with
/// probability at most `level`, whatever the probability is.
///
/// ```text
/// low:   P(Bin(n, low) >= hits)  = I_low(hits, n - hits + 1)       = level
/// high:  P(Bin(n, high) <= hits) = 1 - I_high(hits + 1, n - hits)  = level
/// ```
///
/// Source: Clopper and Pearson, Biometrika 26 (1934). Both ends are moved outward by 1e-10, more
/// than the arithmetic errs. `hits` above `trials` counts as `trials`; no trials give 0 and 1.
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
