//! The direction in which outputs come from the data set without the unit.
//!
//! The moment is E W^{-s} with W the mean of t independent lognormals Y of mean 1. As
//! W^{-s} = ∫ v^{s-1} e^{-vW} dv / Γ(s) and v = e^w,
//!
//! ```text
//! E W^{-s} - 1 = (1/Γ(s)) ∫ e^{sw - v} (e^{Λ(w)} - 1) dw,    Λ = v + t ln ψ(v/t),   ψ(u) = E e^{-uY}
//! Λ = t ln(1 + E φ(-u (Y - 1))),   φ(x) = e^x - 1 - x,   u = v/t
//! ```
//!
//! Λ >= 0 does not depend on s and is tabulated once on the lattice of the outer trapezoidal rule.
//! On the line Im w = β the outer integrand is at most cos(β)^{-s} times the real one in integral, since
//! |ψ(u e^{iβ})| <= ψ(u cos β).

use crate::loss::phi;

/// The lattice starts here: below, e^{2w} makes the integrand less than 1e-19 of the whole.
const FIRST: f64 = -23.0;
/// Largest step of the lattice.
const STEP: f64 = 0.11;
/// Terms this far below the largest are left out.
const DROP: f64 = 50.0;

/// Nodes w with Λ(w).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    step: f64,
    max_s: f64,
    nodes: Vec<(f64, f64)>,
}

impl Table {
    pub(super) fn new(mu: f64, t: f64, max_s: f64) -> Self {
        let step = STEP.min(0.5 / max_s.sqrt());
        let lognormal = lognormal(mu);
        let mut nodes = Vec::new();
        let (mut i, mut best) = (0.0, f64::NEG_INFINITY);
        loop {
            let w = FIRST + i * step;
            let v = libm::exp(w);
            let lambda = excess(&lognormal, v, t);
            // The log-integrand at the largest s; past its peak by DROP nothing is left for any s.
            let tilted = max_s * w - v + lambda;
            best = f64::max(best, tilted);
            if w > 0.0 && tilted < best - DROP {
                break;
            }
            nodes.push((w, lambda));
            i += 1.0;
        }
        Self { step, max_s, nodes }
    }

    /// ln E W^{-s}; `None` above the largest s.
    pub(super) fn moment(&self, s: f64) -> Option<f64> {
        if s > self.max_s {
            return None;
        }
        let log_gamma = libm::lgamma(s);
        let log_base = |w: f64| s * w - libm::exp(w) - log_gamma;
        let exponents = self.nodes.iter().map(|&(w, lambda)| log_base(w) + lambda);
        let largest = exponents.fold(f64::NEG_INFINITY, f64::max).max(0.0);
        let mut sum = 0.0;
        for &(w, lambda) in &self.nodes {
            let base = log_base(w) - largest;
            sum += if lambda > 30.0 {
                libm::exp(base + lambda)
            } else if base + lambda.max(0.0) > -800.0 {
                libm::exp(base) * libm::expm1(lambda)
            } else {
                0.0
            };
        }
        let excess = self.step * sum;
        if largest > DROP {
            return Some(largest + libm::log(excess));
        }
        Some(libm::log1p(excess * libm::exp(largest)))
    }
}

/// Values of Y - 1 with their weights: the trapezoidal rule in y, ln Y = μy - μ²/2.
fn lognormal(mu: f64) -> Vec<(f64, f64)> {
    let step = 0.15 / mu.max(1.0);
    let (first, last) = (-10.0, 2.0 * mu + 10.0);
    let norm = step * (0.5 / std::f64::consts::PI).sqrt();
    let mut out = Vec::new();
    let mut i = 0.0;
    while first + i * step <= last {
        let y = first + i * step;
        let value = libm::expm1(mu * (y - 0.5 * mu));
        out.push((value, norm * libm::exp(-0.5 * y * y)));
        i += 1.0;
    }
    out
}

/// Λ = t ln(1 + E φ(-u (Y-1))).
fn excess(lognormal: &[(f64, f64)], v: f64, t: f64) -> f64 {
    let u = v / t;
    if u > 300.0 {
        // e^{-u (Y-1)} may overflow: v + t ln ψ(u).
        let sum: f64 = lognormal
            .iter()
            .map(|(z, weight)| weight * libm::exp(-u * (1.0 + z)))
            .sum();
        return v + t * libm::log(sum);
    }
    let sum: f64 = lognormal
        .iter()
        .map(|(z, weight)| weight * phi(-u * z))
        .sum();
    t * libm::log1p(sum)
}
