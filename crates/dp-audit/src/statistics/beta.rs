//! The regularised incomplete beta function.

use super::chi_square::away_from_zero;

/// `I_x(a, b)` for `a, b > 0` and `0 <= x <= 1`. Relative error of the smaller of it and its
/// complement below 1e-8 for `a + b` up to 1e7 (what cancels in the logarithms of Gamma).
///
/// The continued fraction DLMF 8.17.22 where it converges fast, `x < (a + 1)/(a + b + 2)`, and
/// the reflection `I_x(a, b) = 1 - I_(1-x)(b, a)` elsewhere.
pub(super) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
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

/// `1/(1 + d_1/(1 + d_2/(1 + ...)))` by the recurrence of Lentz.
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
