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
//! ψ is computed by a trapezoidal rule over y in ln Y = μy - μ²/2, for y from -R on. The errors of
//! the rules, as fractions of M = E W^{-s} unless stated otherwise, are bounded in
//! [`error`](super::error) and added. And because W is at least the geometric mean of the Y's, K <=
//! s (s/t + 1) μ²/2 in any case.

use super::error::{Cuts, Rules};
use crate::engines::loss::phi;

/// Start of the lattice: below, e^{2w} makes the integrand less than 1e-19 of the whole.
const FIRST: f64 = -23.0;
/// Largest step of the lattice.
const STEP: f64 = 0.11;
/// Terms this far below the largest are omitted.
const DROP: f64 = 60.0;
/// Above this u = v/t an exponential may overflow, and ψ is summed directly.
const LARGE: f64 = 300.0;
/// Densities farther out than this may underflow.
const FARTHEST: f64 = 36.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    max_s: f64,
    rules: Rules,
    nodes: Vec<Node>,
}

/// A node w with Λ and Λ - v = t ln ψ.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Node {
    w: f64,
    lambda: f64,
    log: f64,
}

/// A value Y of the lognormal, with Y - 1 and its weight.
struct Value {
    y: f64,
    excess: f64,
    weight: f64,
}

impl Table {
    pub(super) fn new(mu: f64, t: f64, max_s: f64) -> Self {
        let share = max_s / t;
        let log_plain = 0.5 * max_s * (share + 1.0) * mu * mu;
        let reach = share * mu + (2.0 * log_plain + 4.0 * libm::log(t) + 70.0).sqrt();
        let mut rules = Rules {
            mu,
            t,
            outer: STEP.min(0.5 / max_s.sqrt()),
            inner: (0.15 / mu.max(1.0)).min(0.5 / (mu * share.sqrt())),
            cuts: Cuts {
                first: FIRST,
                reach: reach.clamp(10.0, FARTHEST),
                drop: DROP,
                n_nodes: 0.0,
            },
        };
        let nodes = nodes(&rules, max_s);
        rules.cuts.n_nodes = nodes.len() as f64;
        Self {
            max_s,
            rules,
            nodes,
        }
    }

    /// An upper bound on ln E W^{-s}.
    pub(super) fn moment(&self, s: f64) -> f64 {
        let plain = self.rules.geometric_mean(s);
        let relative = self.rules.relative(s);
        if s > self.max_s || !(relative < 0.5) {
            return plain;
        }
        let log_gamma = libm::lgamma(s);
        let log_term = |node: &Node| s * node.w + node.log - log_gamma;
        let exponents = self.nodes.iter().map(log_term);
        let largest = exponents.fold(f64::NEG_INFINITY, f64::max).max(0.0);
        let mut sum = 0.0;
        for node in &self.nodes {
            sum += if node.lambda > 30.0 {
                libm::exp(log_term(node) - largest)
            } else {
                let base = s * node.w - libm::exp(node.w) - log_gamma - largest;
                libm::exp(base) * libm::expm1(node.lambda)
            };
        }
        let scale = libm::exp(-largest);
        let beyond = libm::exp(self.rules.log_beyond(s) - largest) + scale * self.rules.below(s);
        let excess = self.rules.outer * sum + beyond;
        let log = if largest > DROP {
            largest + libm::log(excess + scale) - libm::log1p(-relative)
        } else {
            libm::log1p((excess / scale + relative) / (1.0 - relative))
        };
        log.min(plain)
    }
}

fn nodes(rules: &Rules, max_s: f64) -> Vec<Node> {
    let lognormal = lognormal(rules);
    let mut nodes = Vec::new();
    let (mut i, mut best) = (0.0, f64::NEG_INFINITY);
    loop {
        let w = FIRST + i * rules.outer;
        let (lambda, log) = excess(&lognormal, libm::exp(w), rules.t);
        // The log-integrand at the largest s. Once it is DROP below its peak, nothing is left for
        // any s.
        let tilted = max_s * w + log;
        best = f64::max(best, tilted);
        if w > 0.0 && tilted < best - DROP {
            return nodes;
        }
        nodes.push(Node { w, lambda, log });
        i += 1.0;
    }
}

/// The trapezoidal rule in y, ln Y = μy - μ²/2.
fn lognormal(rules: &Rules) -> Vec<Value> {
    let (mu, step) = (rules.mu, rules.inner);
    let norm = step * (0.5 / std::f64::consts::PI).sqrt();
    let last = rules.cuts.last(mu);
    let mut out = Vec::new();
    let mut i = 0.0;
    while -rules.cuts.reach + i * step <= last {
        let y = -rules.cuts.reach + i * step;
        let log = mu * (y - 0.5 * mu);
        out.push(Value {
            y: libm::exp(log),
            excess: libm::expm1(log),
            weight: norm * libm::exp(-0.5 * y * y),
        });
        i += 1.0;
    }
    out
}

/// Λ = t ln(1 + E φ(-u (Y-1))) and t ln ψ(u).
fn excess(lognormal: &[Value], v: f64, t: f64) -> (f64, f64) {
    let u = v / t;
    if u > LARGE {
        let terms = lognormal.iter().map(|x| x.weight * libm::exp(-u * x.y));
        let log = t * libm::log(terms.sum());
        return (v + log, log);
    }
    let terms = lognormal.iter().map(|x| x.weight * phi(-u * x.excess));
    let lambda = t * libm::log1p(terms.sum());
    (lambda, lambda - v)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ln E W^{-s} for two steps: (`Y_1` + `Y_2`)/2 = e^{μ a/√2 - μ²/2} cosh(μ b/√2) with a, b standard
    /// normal and independent.
    fn two_steps(mu: f64, s: f64) -> f64 {
        let h = 1e-3;
        let term = |i: i32| {
            let b = f64::from(i) * h;
            let sinh = libm::sinh(0.5 * mu * b * std::f64::consts::FRAC_1_SQRT_2);
            let log_cosh = libm::log1p(2.0 * sinh * sinh);
            libm::exp(-0.5 * b * b) * libm::expm1(-s * log_cosh)
        };
        let sum: f64 = (-12_000..=12_000).map(term).sum();
        let mean = h * sum / (2.0 * std::f64::consts::PI).sqrt();
        0.25 * s * s * mu * mu + 0.5 * s * mu * mu + libm::log1p(mean)
    }

    /// Regression test: with y truncated at -10 whatever s, K(40) was 37.28775270 instead of
    /// 37.28775348 for μ = 0.3.
    #[test]
    fn two_steps_have_a_closed_form_at_every_order() {
        for mu in [0.05, 0.3, 1.0, 2.0, 4.0] {
            let table = Table::new(mu, 2.0, 63.0);
            for s in [0.01, 0.5, 1.0, 2.5, 8.0, 20.0, 40.0, 63.0, 200.0] {
                let (found, expected) = (table.moment(s), two_steps(mu, s));
                assert!(
                    found >= expected * (1.0 - 1e-11),
                    "{mu} {s}: {found} {expected}"
                );
                let near = s <= 40.0 && mu <= 1.0;
                let factor = if near { 1.0 + 1e-10 } else { 1.6 };
                assert!(found <= expected * factor, "{mu} {s}: {found} {expected}");
            }
        }
    }

    #[test]
    fn error_bounds_are_small_where_the_table_is_used() {
        for (mu, t, max_s) in [(0.02, 1e6, 511.0), (1.0, 10.0, 63.0), (1.0, 1e3, 236.0)] {
            let table = Table::new(mu, t, max_s);
            for s in [1.0, 0.5 * max_s, max_s] {
                let excess = libm::expm1(table.moment(s).min(30.0));
                let added = table.rules.relative(s) + table.rules.below(s);
                assert!(added < 1e-12 * excess, "{mu} {t} {s}: {added} of {excess}");
            }
        }
    }
}
