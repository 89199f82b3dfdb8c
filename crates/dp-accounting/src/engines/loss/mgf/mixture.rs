//! Mixtures of normals: Poisson sampling and random sensitivities.

use super::excess::{LogMoment, MODERATE, Outcome, log_moment as collect};
use super::integrand::{Base, Form, Integrand, LOG_NORMAL, Ratio};
use super::{panels, trapezoid};
use crate::engines::loss::{MixtureLoss, Side};

/// Maximum number of nodes. For two components, panels are used instead from this number on.
pub(super) const MAX_NODES: usize = 1 << 17;
const FEW_NODES: usize = 1 << 10;

/// Exponents of this size are not integrated, because their squares must be finite.
const BEYOND: f64 = 1e100;

/// K(s): with y the outcome in standard deviations and R(y) = `Σ_i` `w_i` `e^{c_i` y - `c_i²/2`} the
/// moment is E_{N(0,1)} of R^{s+1} (remove), R^{-s} (add), or R(y)^{s+1} R(-y)^{-s} (replace).
pub(super) fn log_moment(mixture: &MixtureLoss, s: f64) -> LogMoment {
    let ratio = ratio(mixture);
    let farthest = ratio.largest_slope() - ratio.smallest_slope().min(0.0);
    if !(farthest * farthest * (1.0 + s.abs()) < BEYOND) {
        return LogMoment::at_most(bound(mixture, &ratio, s));
    }
    let form = |here, mirrored| Form::new(0.0, here, mirrored);
    let (p, loss) = match mixture.side {
        Side::Remove => (form(1.0, 0.0), form(1.0, 0.0)),
        Side::Add => (form(0.0, 0.0), form(-1.0, 0.0)),
        Side::Replace => (form(1.0, 0.0), form(1.0, -1.0)),
    };
    let base = Base::Normal;
    let integrand = Integrand {
        ratio: &ratio,
        base,
        p,
        loss,
        s,
    }
    .oriented();
    match outcomes(&integrand) {
        Some(nodes) => LogMoment::exact(collect(nodes.iter().copied(), integrand.s, 0.0)),
        None => LogMoment::at_most(bound(mixture, &ratio, s)),
    }
}

/// Uses the trapezoidal rule unless its step is too small, which happens if the components lie many
/// standard deviations apart. With two components the panels can still be long in that case.
fn outcomes(integrand: &Integrand<'_>) -> Option<Vec<Outcome>> {
    let ratio = integrand.ratio;
    let plan = trapezoid::plan(integrand, variation(ratio));
    if !ratio.has_two_terms() {
        return trapezoid::nodes(integrand, &plan, MAX_NODES);
    }
    trapezoid::nodes(integrand, &plan, FEW_NODES).or_else(|| {
        let mut outcomes = Vec::new();
        panels::append(&mut outcomes, integrand, plan.range, LOG_NORMAL, plan.floor)?;
        Some(outcomes)
    })
}

fn ratio(mixture: &MixtureLoss) -> Ratio {
    let shifts = mixture.shifts.iter().map(|shift| shift / mixture.sigma);
    Ratio::gaussian(shifts, &mixture.weights)
}

/// A lower bound on the total variation distance between P and Q: how much more likely one
/// component alone makes the outcome exceed half its shift. The other components only increase it.
fn variation(ratio: &Ratio) -> f64 {
    let one = |(weight, slope): (f64, f64)| {
        weight * libm::erf(slope * 0.5 * std::f64::consts::FRAC_1_SQRT_2)
    };
    ratio.components().map(one).fold(0.0, f64::max)
}

/// The loss does not exceed -ln `w_0` if the unit may be absent and P is the noise alone; `w_0` is
/// computed as 1 minus all other weights, which is more accurate if they are small.
pub(super) fn max_loss(mixture: &MixtureLoss) -> f64 {
    match (mixture.side, mixture.shifts.split_first()) {
        (Side::Add, Some((&0.0, _))) => {
            let others: f64 = mixture.weights[1..].iter().sum();
            -libm::log1p(-others) * (1.0 + 1e-15)
        }
        _ => f64::INFINITY,
    }
}

/// An upper bound for cases too extreme to integrate, the better of two.
///
/// ```text
/// remove:  K <= (s+1) ln Σ w_i e^{c_i² s/2}                             (Minkowski)
/// add:     K <= ln Σ w_i e^{c_i² s(s+1)/2},  K <= -s ln w_0
/// replace: K <= ln Σ w_i e^{2 c_i² s(s+1)},  K <= K_remove(s) - s ln w_0   (R(-y) >= w_0)
/// ```
///
/// The plain sums follow from joint convexity. For -1 < s < 0 every K is at most 0.
fn bound(mixture: &MixtureLoss, ratio: &Ratio, s: f64) -> f64 {
    if (-1.0..=0.0).contains(&s) {
        return 0.0;
    }
    if s < -1.0 {
        return bound_reversed(mixture, ratio, s);
    }
    let jensen = |factor: f64| log_sum(ratio, factor * s * (s + 1.0));
    let rarest = s * max_loss(&MixtureLoss {
        side: Side::Add,
        ..mixture.clone()
    });
    match mixture.side {
        Side::Remove => (s + 1.0) * log_sum(ratio, 0.5 * s),
        Side::Add => jensen(0.5).min(rarest),
        Side::Replace => {
            let remove = MixtureLoss {
                side: Side::Remove,
                ..mixture.clone()
            };
            jensen(2.0).min(log_moment(&remove, s).log + rarest)
        }
    }
}

/// Below s = -1: K(s) of (P, Q) is K(-1-s) of (Q, P).
fn bound_reversed(mixture: &MixtureLoss, ratio: &Ratio, s: f64) -> f64 {
    let side = match mixture.side {
        Side::Remove => Side::Add,
        Side::Add => Side::Remove,
        Side::Replace => Side::Replace,
    };
    let reversed = MixtureLoss {
        side,
        ..mixture.clone()
    };
    bound(&reversed, ratio, -1.0 - s)
}

/// ln Σ `w_i` `e^{c_i²` t}.
fn log_sum(ratio: &Ratio, t: f64) -> f64 {
    let exponents = ratio.components().map(|(w, c)| libm::log(w) + c * c * t);
    let largest = exponents.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::INFINITY {
        return largest;
    }
    if largest < MODERATE {
        let excess: f64 = ratio
            .components()
            .map(|(w, c)| w * libm::expm1(c * c * t))
            .sum();
        return libm::log1p(excess);
    }
    largest + libm::log(exponents.map(|e| libm::exp(e - largest)).sum())
}
