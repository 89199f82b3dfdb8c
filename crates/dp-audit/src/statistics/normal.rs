//! The standard normal distribution.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use super::bisect;

/// `P(N <= x)`, relative error below 1e-13 down to 1e-300.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// `P(N > x)`, with the same relative error as [`normal_cdf`].
#[must_use]
pub fn normal_upper_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * FRAC_1_SQRT_2)
}

/// `x` with `P(N <= x) = p`, with the accuracy of [`normal_cdf`]; infinite at 0 and 1, NaN outside.
///
/// # Examples
/// ```
/// use dp_audit::statistics::normal_quantile;
/// assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-13);
/// ```
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    // the smaller tail keeps its digits
    if p <= 0.5 {
        bisect(-40.0, 0.0, |x| normal_cdf(x) < p).1
    } else {
        bisect(0.0, 40.0, |x| normal_upper_tail(x) >= 1.0 - p).0
    }
}

/// `P(a <= N < b)`.
///
/// Short intervals by five-point Gauss-Legendre quadrature (error below 1e-15 of the value for
/// `b - a <= 1/16`), longer ones as a difference of the smaller tails.
pub(crate) fn normal_mass(a: f64, b: f64) -> f64 {
    if b - a > 1.0 / 16.0 {
        return if a > 0.0 {
            normal_upper_tail(a) - normal_upper_tail(b)
        } else {
            normal_cdf(b) - normal_cdf(a)
        };
    }
    // nodes and weights in closed form, DLMF 3.5(v)
    let root = (10.0_f64 / 7.0).sqrt() * 2.0;
    let (inner, outer) = ((5.0 - root).sqrt() / 3.0, (5.0 + root).sqrt() / 3.0);
    let part = 13.0 * 70.0_f64.sqrt();
    let (w_inner, w_outer) = ((322.0 + part) / 900.0, (322.0 - part) / 900.0);
    let (middle, half) = (f64::midpoint(a, b), (b - a) / 2.0);
    let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    let pair = |node: f64| density(middle - half * node) + density(middle + half * node);
    half * (128.0 / 225.0 * density(middle) + w_inner * pair(inner) + w_outer * pair(outer))
}
