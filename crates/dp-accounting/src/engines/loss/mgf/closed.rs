//! Losses whose moments are closed forms or sums: Laplace noise, bounded range, finitely many
//! losses, discrete Gaussian noise.

use std::f64::consts::PI;

use super::excess::{log_moment, phi};
use crate::engines::loss::FiniteLoss;

/// Laplace mechanism.
///
/// ```text
/// E e^{sL} = ((s+1) e^{sε} + s e^{-(s+1)ε}) / (2s+1)
///          = 1 + ((s+1) φ(sε) + s φ(-(s+1)ε)) / (2s+1),      φ(x) = e^x - 1 - x
/// ```
///
/// because the first-order terms cancel exactly. It is symmetric around s = -1/2. Source: Mironov,
/// arXiv 1702.07476, Proposition 6 (first line).
pub(super) fn laplace(epsilon: f64, s: f64) -> f64 {
    let s = if s < -0.5 { -1.0 - s } else { s };
    if epsilon * (1.0 + s.abs()) <= 1.0 {
        return libm::log1p(laplace_series(epsilon, s));
    }
    if s * epsilon > 30.0 {
        let low = s * libm::exp(-(2.0 * s + 1.0) * epsilon);
        return s * epsilon + libm::log((s + 1.0 + low) / (2.0 * s + 1.0));
    }
    if s > 0.0 {
        let excess = (s + 1.0) * phi(s * epsilon) + s * phi(-(s + 1.0) * epsilon);
        return libm::log1p(excess / (2.0 * s + 1.0));
    }
    laplace_inner(epsilon, s)
}

/// The case -1/2 <= s <= 0 at large ε, in which a moment is below 1: with x = (2s+1)ε it is e^{sε}
/// ((1 + e^{-x})/2 + ε/2 (1 - e^{-x})/x), or 1 plus the excess close to s = 0.
fn laplace_inner(epsilon: f64, s: f64) -> f64 {
    if s > -0.25 {
        let excess = (s + 1.0) * phi(s * epsilon) + s * phi(-(s + 1.0) * epsilon);
        if excess > -0.25 {
            return libm::log1p(excess / (2.0 * s + 1.0));
        }
    }
    let x = (2.0 * s + 1.0) * epsilon;
    let mean = if x == 0.0 { 1.0 } else { -libm::expm1(-x) / x };
    s * epsilon + libm::log(0.5 * (1.0 + libm::exp(-x) + epsilon * mean))
}

/// s b Σ_{k >= 2} ε^k/k! H_{k-2}, b = s + 1, `H_n` = `Σ_j` s^j (-b)^{n-j}: the excess for small ε.
fn laplace_series(epsilon: f64, s: f64) -> f64 {
    let b = s + 1.0;
    let mut power = 0.5 * epsilon * epsilon;
    let (mut h, mut top, mut sum) = (1.0, 1.0, 0.0);
    for k in 2..=24 {
        sum += power * h;
        power *= epsilon / f64::from(k + 1);
        top *= -b;
        h = s * h + top;
    }
    s * b * sum
}

/// The dominating pair of bounded range: E e^{sL} = sinhc((s + 1/2)ε) / sinhc(ε/2).
pub(super) fn bounded_range(epsilon: f64, s: f64) -> f64 {
    let s = if s < -0.5 { -1.0 - s } else { s };
    log_sinhc_gain(0.5 * epsilon, s * epsilon)
}

/// Largest K(s), s > 0, of any mechanism of bounded range.
///
/// By convexity, the extreme pairs have the two losses t and t - ε. With E = e^ε and x = e^t their
/// moment is x^s (E - E^{-s} - x (1 - E^{-s})) / (E - 1), largest at x = s (E - E^{-s}) / ((s+1)
/// (1 - E^{-s})), which in f = ln sinhc gives
///
/// ```text
/// K(s) = (s+1) f((s+1)ε/2) - s f(sε/2) - f(ε/2)   <=   s (s+1) ε²/8
/// ```
///
/// Source of the family: Dong, Durfee, Rogers, arXiv 1906.05944. The result is below K of the
/// dominating pair, because that pair covers every epsilon at once.
pub(crate) fn bounded_range_renyi(epsilon: f64, s: f64) -> f64 {
    let x = 0.5 * epsilon;
    s * log_sinhc_gain(s * x, x) + log_sinhc_gain(x, s * x)
}

/// ln(sinh(x) / x).
fn log_sinhc(x: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        return x * x * series(x * x, 0.0);
    }
    x + libm::log(-libm::expm1(-2.0 * x) / (2.0 * x))
}

/// f(x + d) - f(x) for f = ln sinhc, x >= 0, x + d >= 0.
fn log_sinhc_gain(x: f64, d: f64) -> f64 {
    let y = x + d;
    if x < 1.0 && y < 1.0 {
        return d * (x + y) * series(x * x, y * y);
    }
    if d.abs() > 0.5 * x {
        return log_sinhc(y) - log_sinhc(x);
    }
    // sinh(y)/sinh(x) = 1 + 2 sinh²(d/2) + coth(x) sinh(d)
    let half = libm::sinh(0.5 * d);
    let ratio = if d.abs() > 1.0 {
        d + libm::log(libm::expm1(-2.0 * y) / libm::expm1(-2.0 * x))
    } else {
        libm::log1p(2.0 * half * half + libm::sinh(d) / libm::tanh(x))
    };
    ratio - libm::log1p(d / x)
}

/// (f(y) - f(x)) / (y² - x²) as a power series in u = x² and v = y², both below 1:
/// coefficients 2^{2k} B_{2k} / (2k (2k)!).
fn series(u: f64, v: f64) -> f64 {
    // Σ_k c_k (v^{k-1} + v^{k-2} u + ... + u^{k-1})
    let (mut sum, mut complete, mut power) = (0.0, 0.0, 1.0);
    for c in LOG_SINHC {
        complete = v * complete + power;
        power *= u;
        sum += c * complete;
    }
    sum
}

/// Coefficients of ln(sinh(x)/x) in powers of x².
const LOG_SINHC: [f64; 17] = [
    0.16666666666666666,
    -0.005555555555555556,
    0.0003527336860670194,
    -2.6455026455026456e-05,
    2.1377799155576935e-06,
    -1.803670234005331e-07,
    1.5661391322766983e-08,
    -1.3884130493737299e-09,
    1.2504359176004997e-10,
    -1.1402575602296091e-11,
    1.0502923908637557e-12,
    -9.754877841593701e-14,
    9.123468230859098e-15,
    -8.5837197618956095e-16,
    8.117318009727789e-17,
    -7.710527514116273e-18,
    7.352844932712002e-19,
];

/// Differences of two sums of probabilities below this fraction of the sums are rounding errors.
const ROUNDING: f64 = 1e-15;

/// K(s) over the finite losses.
///
/// With m the mass of P at infinity and r the mass of Q where P has none,
/// E e^{sL} - 1 = Σ p (φ(sl) + s φ(-l)) + s (r - m) - m, because Σ p = 1 - m and
/// Σ p e^{-l} = 1 - r. Below s = -1/2 the roles of P and Q are exchanged, which keeps the first
/// sum free of cancellation.
pub(super) fn finite(finite: &FiniteLoss, s: f64) -> f64 {
    let m = finite.infinite_mass;
    let gap = mass_gap(&finite.atoms, m);
    let outcomes = finite.atoms.iter().map(|&(l, p)| (1.0, libm::log(p), l));
    if s >= -0.5 {
        log_moment(outcomes, s, s * gap - m)
    } else {
        let r = gap + m;
        let swapped = outcomes.map(|(_, log_p, l)| (1.0, log_p - l, -l));
        log_moment(swapped, -1.0 - s, (1.0 + s) * gap - r)
    }
}

/// A bound on the error of K(s) due to the rounding of probabilities.
pub(super) fn finite_rounding(finite: &FiniteLoss, s: f64) -> f64 {
    ROUNDING * s.abs().max(1.0) * gap_and_size(&finite.atoms).1
}

/// r - m = Σ p (1 - e^{-l}). Returns the most common values, 0 or -m, if the difference is only
/// rounding.
fn mass_gap(atoms: &[(f64, f64)], m: f64) -> f64 {
    let (sum, size) = gap_and_size(atoms);
    if sum.abs() <= ROUNDING * size {
        0.0
    } else if (sum + m).abs() <= ROUNDING * size {
        -m
    } else {
        sum
    }
}

fn gap_and_size(atoms: &[(f64, f64)]) -> (f64, f64) {
    let terms = atoms.iter().map(|&(l, p)| -libm::expm1(-l) * p);
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}

/// For sigma of at least this value the Fourier series of the normaliser is used, below it the sum
/// itself.
const FOURIER_FROM: f64 = 0.4;

/// K(s) for discrete Gaussians at distance Δ.
///
/// ```text
/// K(s) = s (s+1) Δ²/(2σ²) + ln θ(sΔ) - ln θ(0),    θ(μ) = Σ_x e^{-(x+μ)²/(2σ²)}
/// ```
///
/// by completing the square; θ has period 1 and its maximum at the integers, so K is at most the
/// Gaussian one (Canonne, Kamath, Steinke, arXiv 2004.00010, Proposition 5).
pub(super) fn discrete_gaussian(sigma: f64, sensitivity: u64, s: f64) -> f64 {
    let distance = sensitivity as f64;
    let ratio = distance / sigma;
    let shift = s * distance;
    0.5 * ratio * ratio * s * (s + 1.0) + log_theta_ratio(sigma, shift - shift.round())
}

/// ln θ(μ) / θ(0) for |μ| <= 1/2.
fn log_theta_ratio(sigma: f64, mu: f64) -> f64 {
    if sigma < FOURIER_FROM {
        return summed(sigma, mu);
    }
    // Poisson summation: θ(μ) = σ √(2π) Σ_k e^{-2π²σ²k²} cos(2πkμ). The fifth term is below
    // e^{-2π² 0.16 25} = 5e-35.
    let (mut difference, mut total) = (0.0, 1.0);
    for k in 1..=4 {
        let k = f64::from(k);
        let weight = 2.0 * libm::exp(-2.0 * (PI * sigma * k) * (PI * sigma * k));
        let sine = libm::sin(PI * k * mu);
        difference -= 2.0 * weight * sine * sine;
        total += weight;
    }
    libm::log1p(difference / total)
}

/// The same by summing over |x| <= 8. At sigma 0.4 the omitted terms are below e^{-(8²)/0.32} =
/// 1e-87.
fn summed(sigma: f64, mu: f64) -> f64 {
    let precision = 0.5 / (sigma * sigma);
    let sum = |mu: f64| -> f64 {
        let pair = |x: f64| {
            libm::exp(-x * (x + 2.0 * mu) * precision) + libm::exp(-x * (x - 2.0 * mu) * precision)
        };
        (1..=8).map(|x| pair(f64::from(x))).sum()
    };
    -mu * mu * precision + libm::log1p(sum(mu)) - libm::log1p(sum(0.0))
}
