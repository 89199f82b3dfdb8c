//! The best (epsilon, delta) that follows from one Renyi divergence.
//!
//! With X = dP/dQ, delta(epsilon) is `E_Q`[(X - γ)_+] for γ = e^epsilon, and what is known of X is
//! X >= 0, `E_Q` X = 1 and `E_Q` X^a <= C = e^{(a-1) r}. By weak duality every function
//! ψ(x) = α (x^a - y^a - a y^{a-1} (x - y)) with α > 0, 0 <= y < 1 that is nowhere below
//! (x - γ)_+ gives delta <= `E_Q` ψ(X) <= α (C - y^a - a y^{a-1} (1 - y)). ψ is convex with a double
//! zero at y; the smallest α lets it touch x - γ at some x > γ:
//!
//! ```text
//! α a (x^{a-1} - y^{a-1}) = 1,   (a-1) x = a γ (1 - ρ) + (a-1) ρ y,   ρ = (y/x)^{a-1}
//! δ(y) = (C - y^a - a y^{a-1} (1 - y)) / (a x^{a-1} (1 - ρ))
//! ```
//!
//! At y = 0 the slope there may also be positive; then the best x is e^r and δ = 1 - e^{ε-r}, which
//! needs e^r >= γ a/(a-1), and is attained by X = 0 or e^r. With slope 0, y = 0 is the formula of
//! Canonne, Kamath and Steinke; the smallest δ(y) is the two-point optimum of Asoodeh et al. (arXiv
//! 2001.05990), where x and y are the two likelihood ratios. As any y gives a bound, an inexact minimum
//! errs on the safe side.

use super::search::{minimum, minimum_on};
use crate::engines::loss::phi;

/// ln delta at `epsilon` >= 0; s = a - 1.
pub(super) fn log_delta(s: f64, rdp: f64, epsilon: f64) -> f64 {
    if rdp >= epsilon + libm::log1p(1.0 / s) {
        return libm::log(-libm::expm1(epsilon - rdp));
    }
    let at = |l: f64| log_delta_at(s, rdp, epsilon, l);
    // y = e^-l. Beyond 40 / s, y^s is nothing.
    let (low, high) = (1e-9, 40.0 / s + 40.0);
    let points: Vec<f64> = (0..=48)
        .map(|i| low * libm::exp(f64::from(i) / 48.0 * libm::log(high / low)))
        .collect();
    let (i, _) = minimum_on(&points, None, at);
    let around = (points[i.max(1) - 1], points[(i + 1).min(48)]);
    let (_, best) = minimum(around.0, around.1, 48, at);
    let plain = s * (rdp - epsilon) + super::conversion::log_tail(s);
    best.min(plain).min(0.0)
}

/// ln δ(y) for y = e^-l.
fn log_delta_at(s: f64, rdp: f64, epsilon: f64, l: f64) -> f64 {
    let log_x = touching_point(s, epsilon, l);
    let log_rho = -s * (l + log_x);
    log_moment_gap(s, rdp, l) - libm::log1p(s) - s * log_x - libm::log(-libm::expm1(log_rho))
}

/// ln(C - y^a - a y^{a-1} (1 - y)) = ln(C - 1 + y^s (φ(sl) + s φ(-l))), both parts positive.
fn log_moment_gap(s: f64, rdp: f64, l: f64) -> f64 {
    let rest = if s * l > 30.0 {
        1.0 - libm::exp(-s * l) * (1.0 + s * l - s * phi(-l))
    } else {
        libm::exp(-s * l) * (phi(s * l) + s * phi(-l))
    };
    if s * rdp > 30.0 {
        return s * rdp + libm::log1p((rest - 1.0) * libm::exp(-s * rdp));
    }
    libm::log(libm::expm1(s * rdp) + rest)
}

/// ln x for the x > γ where ψ touches x - γ: the root of an increasing function, bracketed by γ
/// and γ a/(a-1).
fn touching_point(s: f64, epsilon: f64, l: f64) -> f64 {
    let (mut low, mut high) = (0.0, libm::log1p(1.0 / s));
    // With x = γ e^u: s e^u - a (1 - ρ) - s ρ y / γ, y/γ = e^{-l - ε}.
    let y = libm::exp(-l - epsilon);
    let residual = |u: f64| {
        let log_rho = -s * (l + epsilon + u);
        let rho = libm::exp(log_rho);
        s * libm::exp(u) + (s + 1.0) * libm::expm1(log_rho) - s * rho * y
    };
    for _ in 0..56 {
        let middle = 0.5 * (low + high);
        if residual(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    epsilon + 0.5 * (low + high)
}

/// The smallest epsilon >= 0, rounded up, at which [`log_delta`] is at most `target`; `start` is
/// one at which it is, if positive.
pub(super) fn epsilon(s: f64, rdp: f64, target: f64, start: f64) -> f64 {
    if start <= 0.0 || log_delta(s, rdp, 0.0) <= target {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, start);
    while high - low > 1e-13 * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if log_delta(s, rdp, middle) <= target {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}
