//! The trapezoidal rule on the whole line, with a step that follows from the strip of analyticity.
//!
//! For f analytic in |Im y| <= β and h the step, the rule and the integral differ by at most
//!
//! ```text
//! (∫ |f(y + iβ)| dy + ∫ |f(y - iβ)| dy) / (e^{2πβ/h} - 1)
//! ```
//!
//! (Trefethen and Weideman, SIAM Review 56 (2014), Theorem 5.1). Here f is one of
//! φ(y) R(y)^a R(-y)^b with φ the normal density and R(y) = Σ `w_i` `e^{c_i` y - `c_i²/2}`:
//!
//! * |φ(y + iβ)| = φ(y) e^{β²/2}, and |R(y + iβ)| <= R(y).
//! * The terms of R(y + iβ) lie in a sector of angle θ = β (`c_max` - `c_min`). For θ < π, R has no
//!   zero, and |R(y + iβ)| >= cos(θ/2) R(y).
//! * Hence ∫ |f(y ± iβ)| <= e^{β²/2} C ∫ f with C = 1, or cos(θ/2)^{-n} where a power -n occurs.
//! * For f = φ R^{-n} alone there is a better C when β `c_max` < π/2: the real part of R(y + iβ) is
//!   at least Σ `w_i` cos(β `c_i`) `e^{c_i` y - `c_i²/2`} >= R(y - δ), δ = -ln cos(β `c_max`) / `c_max`, as
//!   -ln cos(βc) / c rises with c. Shifting the variable, ∫ φ(y) R(y - δ)^{-n} dy is
//!   e^{-δ²/2} times the mean of e^{-δy} under f / ∫ f. That density is strongly log-concave with
//!   constant 1, so the mean is at most e^{-δ m + δ²/2}, m its mean, which is within 1 of its
//!   mode: C = e^{δ (1 - mode)}.
//!
//! The sum of excesses is T - `T_P` (1 + s) + s `T_Q`, with sums for the moment and for both
//! densities, each of which has this form, with integrals A, 1 and 1. A relative error η of each is
//! an error of at most η (A + 1 + 2 |s|), so η is chosen as 1e-17 (A - 1) / (A + 1 + 2 |s|). For
//! A - 1 a lower bound suffices: A - 1 >= K >= s KL(P‖Q) >= 2 s TV² (Pinsker) for s > 0, and half of
//! |s| TV² for -1/2 <= s < 0 (Gilardoni: `D_a` >= 2 a TV² for orders a below 1).

use std::f64::consts::PI;

use super::excess::{MODERATE, Outcome};
use super::integrand::{Integrand, LOG_NORMAL};
use crate::engines::quadrature::{Judgement, relevant};

/// Up to this many nodes, all are used without checking which of them matter.
const FEW: f64 = 192.0;
/// Relative error of the rule.
const TARGET: f64 = 1e-17;
/// Terms below e^-DROP of the result are omitted.
const DROP: f64 = 50.0;

/// The properties of an integrand that the rule needs.
pub(super) struct Plan {
    step: f64,
    /// Outside of this range the integrand is negligible.
    pub(super) range: (f64, f64),
    /// ln of a lower bound on the computed quantity.
    pub(super) floor: f64,
}

/// The outcomes of the rule; `None` when there would be more than `limit`.
pub(super) fn nodes(integrand: &Integrand<'_>, plan: &Plan, limit: usize) -> Option<Vec<Outcome>> {
    let (from, to) = plan.range;
    let intervals = if (to - from) / plan.step <= FEW {
        vec![plan.range]
    } else {
        // Each interval is at least 8 steps long.
        intervals(integrand, plan, limit / 8)?
    };
    let width: f64 = intervals.iter().map(|(a, b)| b - a).sum();
    if width / plan.step > limit as f64 {
        return None;
    }
    let weight = plan.step * libm::exp(LOG_NORMAL);
    let mut out = Vec::new();
    let mut k = f64::NEG_INFINITY;
    for (a, b) in intervals {
        // no node is used twice
        k = k.max((a / plan.step).ceil());
        while k * plan.step <= b {
            let (log_p, loss) = integrand.outcome(k * plan.step);
            out.push((weight, log_p, loss));
            k += 1.0;
        }
    }
    Some(out)
}

/// `variation` is a lower bound on the total variation distance between P and Q.
pub(super) fn plan(integrand: &Integrand<'_>, variation: f64) -> Plan {
    let ratio = integrand.ratio;
    let (low, high) = (ratio.smallest_slope(), ratio.largest_slope());
    let best = highest(integrand, high);
    let tilted = integrand.tilted();
    let negative = (-tilted.here).max(-tilted.mirrored).max(0.0);
    let spread = high - low;
    let s = integrand.s;
    let pinsker = if s > 0.0 { 2.0 * s } else { -0.5 * s };
    let narrowest = 2.0 * (1.0 + 0.25 * negative * spread * spread).sqrt();
    let large = libm::exp(best.1.min(600.0)) / narrowest - 1.0;
    let excess = (pinsker * variation * variation).max(large).max(1e-300);
    let tolerance = TARGET * excess / (excess + 2.0 + 2.0 * s.abs());
    // f = φ R^{-n} alone.
    let mode = (tilted.here < 0.0 && tilted.mirrored == 0.0).then_some(best.0);
    let strip = Strip {
        need: libm::log(2.0 / tolerance),
        spread,
        high,
        negative,
        mode,
    };
    let floor = libm::log(excess);
    let (first, last) = peaks(integrand, low, high);
    let reach = (2.0 * (DROP + 20.0 - floor.min(0.0))).sqrt();
    Plan {
        step: strip.step(),
        range: (first - reach, last + reach),
        floor,
    }
}

/// The range that contains the maxima of base + form, for the moment and both densities: y =
/// form'(y).
fn peaks(integrand: &Integrand<'_>, low: f64, high: f64) -> (f64, f64) {
    let (mut first, mut last) = (0.0_f64, 0.0_f64);
    for form in integrand.envelope() {
        let here = (form.here * low, form.here * high);
        let mirrored = (-form.mirrored * low, -form.mirrored * high);
        first = first.min(here.0.min(here.1) + mirrored.0.min(mirrored.1));
        last = last.max(here.0.max(here.1) + mirrored.0.max(mirrored.1));
    }
    (first, last)
}

/// A point where the log-integrand is close to its maximum, and its value there.
///
/// If form' increases, it is iterated from both ends, which finds the outermost peaks; if it
/// decreases, there is a single fixed point, found by bisection.
fn highest(integrand: &Integrand<'_>, high: f64) -> (f64, f64) {
    let form = integrand.tilted();
    let ratio = integrand.ratio;
    let slope = |y: f64| {
        let mirrored = if form.mirrored == 0.0 {
            0.0
        } else {
            form.mirrored * ratio.log_and_slope(-y).1
        };
        form.here * ratio.log_and_slope(y).1 - mirrored
    };
    if form.here < 0.0 && form.mirrored == 0.0 {
        let (mut a, mut b) = (form.here * high, 0.0);
        for _ in 0..60 {
            let middle = 0.5 * (a + b);
            if slope(middle) > middle {
                a = middle;
            } else {
                b = middle;
            }
        }
        return (b, integrand.log(b));
    }
    let mut best = (0.0, integrand.log(0.0));
    for mut y in [0.0, form.here * high, (form.here - form.mirrored) * high] {
        for _ in 0..24 {
            let next = slope(y);
            let damped = if form.mirrored == 0.0 {
                next
            } else {
                0.5 * (y + next)
            };
            let moved = (damped - y).abs() > 0.01 * (1.0 + y.abs());
            y = damped;
            if !moved {
                break;
            }
        }
        let log = integrand.log(y);
        if log > best.1 {
            best = (y, log);
        }
    }
    best
}

/// Choice of the half-width β of the strip.
struct Strip {
    /// ln(2 / relative error).
    need: f64,
    /// `c_max` - `c_min`.
    spread: f64,
    /// `c_max`.
    high: f64,
    /// Largest negative power.
    negative: f64,
    /// Mode of φ R^{-n} if the integrand has this form.
    mode: Option<f64>,
}

impl Strip {
    /// The largest step over a geometric series of β.
    fn step(&self) -> f64 {
        let widest = (0.999 * PI / self.spread).min(16.0);
        let mut step = 0.0_f64;
        let mut beta = widest;
        for _ in 0..64 {
            let growth = 0.5 * beta * beta + self.log_growth(beta);
            let here = 2.0 * PI * beta / (self.need + growth + 1e-9);
            if here < 0.25 * step {
                break;
            }
            step = step.max(here);
            beta *= 0.87;
        }
        step
    }

    /// ln C.
    fn log_growth(&self, beta: f64) -> f64 {
        if self.negative == 0.0 {
            return 0.0;
        }
        let sector = -self.negative * libm::log(libm::cos(0.5 * beta * self.spread));
        match self.mode {
            Some(mode) if beta * self.high < 0.49 * PI => {
                let delta = -libm::log(libm::cos(beta * self.high)) / self.high;
                sector.min(delta * (1.0 - mode))
            }
            _ => sector,
        }
    }
}

/// Intervals that matter, each 16 steps or half a standard deviation long.
fn intervals(integrand: &Integrand<'_>, plan: &Plan, limit: usize) -> Option<Vec<(f64, f64)>> {
    let forms = integrand.envelope();
    let moderate = plan.floor <= MODERATE;
    let judge = |a: f64, b: f64| {
        let bracket = integrand.bracket(a, b);
        let n_forms = if moderate { 3 } else { 1 };
        let upper = forms[..n_forms]
            .iter()
            .map(|&f| bracket.upper(f))
            .fold(f64::NEG_INFINITY, f64::max);
        Judgement {
            upper: upper + libm::log((b - a).max(1.0)) + libm::log1p(integrand.s.abs()),
            reached: integrand.reached(0.5 * (a + b), LOG_NORMAL),
            small: b - a <= (16.0 * plan.step).max(0.5),
        }
    };
    relevant(plan.range, plan.floor - DROP, DROP, limit, judge)
}
