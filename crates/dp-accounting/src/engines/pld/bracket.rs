//! The bracket for one direction, and the effort spent on narrowing it.

use super::composed::Composed;
use super::lattice::Side;
use super::plan::{Effort, Plan, Query};
use crate::engines::loss::Loss;
use crate::{Error, Result};

/// First a bracket that is sufficient for nearly all cases; then, if it is not, narrower ones.
pub(super) const EFFORTS: [Effort; 3] = [
    Effort {
        goal: 5e-6,
        most: 65_536.0,
    },
    Effort {
        goal: 2e-6,
        most: 262_144.0,
    },
    Effort {
        goal: 1e-6,
        most: 1_048_576.0,
    },
];

/// A relative width at which no further effort is made.
const CLOSE: f64 = 1e-4;

/// Maximum distance, in units of 1/λ, between epsilon and the point that the tilt was chosen for.
const OFF: f64 = 4.0;

/// Bounds for one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bracket {
    pub(super) lower: f64,
    pub(super) upper: f64,
}

impl Bracket {
    fn is_close(&self) -> bool {
        self.upper - self.lower <= CLOSE * self.upper
    }

    /// One round of a plan. The lower end is not computed if the upper end is not above `known`.
    /// Returns whether there was a composition.
    fn improve(
        &mut self,
        plan: &Plan<'_>,
        effort: Effort,
        known: f64,
        read: impl Fn(Side, &Composed) -> f64,
    ) -> bool {
        let above = plan.compose(Side::Upper, effort);
        let composed = above.is_some();
        if let Some(above) = above {
            self.upper = self.upper.min(read(Side::Upper, &above));
        }
        if self.upper > known
            && let Some(below) = plan.compose(Side::Lower, effort)
        {
            self.lower = self.lower.max(read(Side::Lower, &below));
        }
        composed
    }

    fn is_settled(&self, known: f64) -> bool {
        self.is_close() || self.upper <= known
    }
}

/// What is known about epsilon initially. If a composition does not improve on it, its error
/// dominates, and a greater effort would not help either.
const NOTHING: Bracket = Bracket {
    lower: 0.0,
    upper: f64::INFINITY,
};

/// 1 - Π (1 - `m_i)^(n_i`).
fn infinite_mass(losses: &[(Loss, f64)]) -> f64 {
    let logs = losses
        .iter()
        .map(|(l, n)| n * libm::log1p(-l.infinite_mass().min(1.0)));
    -libm::expm1(logs.sum())
}

const NO_PLAN: &str = "no tilt or window fits the losses";

/// The bracket of epsilon at `delta`. Only its upper end is meaningful if that is not above
/// `known`.
pub(super) fn epsilon(
    losses: &[(Loss, f64)],
    delta: f64,
    known: f64,
    efforts: &[Effort],
) -> Result<Bracket> {
    let infinite_mass = infinite_mass(losses);
    if infinite_mass > delta {
        return Err(Error::NoFiniteEpsilon {
            delta,
            infinite_mass,
        });
    }
    let log_delta = libm::log(delta - infinite_mass);
    if !log_delta.is_finite() {
        return Err(refused("delta is no more than the mass of infinite losses"));
    }
    let mut plan =
        Plan::new(losses, Query::Epsilon { log_delta }).ok_or_else(|| refused(NO_PLAN))?;
    let mut best = NOTHING;
    for &effort in efforts {
        let composed = best.improve(&plan, effort, known, |side, c| end(side, c, delta, &plan));
        if best.is_settled(known) || (composed && best == NOTHING) {
            break;
        }
        // The tilt was chosen for a bound that may be far above epsilon.
        let (guess, scale) = plan.near();
        if best.upper < guess - OFF * scale
            && let Some(nearer) = Plan::new(
                losses,
                Query::Delta {
                    epsilon: best.upper,
                },
            )
        {
            plan = nearer;
            best.improve(&plan, effort, known, |side, c| end(side, c, delta, &plan));
            if best.is_settled(known) {
                break;
            }
        }
    }
    if best.upper.is_finite() {
        Ok(best)
    } else {
        Err(refused("the error of the composition exceeds delta"))
    }
}

/// One end of epsilon.
fn end(side: Side, composed: &Composed, delta: f64, plan: &Plan<'_>) -> f64 {
    let shift = composed.shift();
    match side {
        Side::Upper => {
            let at = |e: f64| composed.delta(e - shift).1;
            smallest_below(at, delta, plan.near()).unwrap_or(f64::INFINITY)
        }
        Side::Lower => {
            let at = |e: f64| composed.delta(e + shift).0;
            largest_above(at, delta, plan.near())
        }
    }
}

/// The bracket of delta at `epsilon`. Only its upper end is meaningful if that is not above
/// `known`.
pub(super) fn delta(
    losses: &[(Loss, f64)],
    epsilon: f64,
    known: f64,
    efforts: &[Effort],
) -> Result<Bracket> {
    let plan = Plan::new(losses, Query::Delta { epsilon }).ok_or_else(|| refused(NO_PLAN))?;
    let nothing = Bracket {
        lower: infinite_mass(losses),
        upper: 1.0,
    };
    let mut best = nothing;
    for &effort in efforts {
        let composed = best.improve(&plan, effort, known, |side, composed| match side {
            Side::Upper => composed.delta(epsilon - composed.shift()).1,
            Side::Lower => composed.delta(epsilon + composed.shift()).0,
        });
        if best.is_settled(known) || (composed && best == nothing) {
            break;
        }
    }
    Ok(best)
}

pub(super) const fn refused(reason: &'static str) -> Error {
    Error::NotCertified {
        method: "pld",
        reason,
    }
}

/// The logarithm of a decreasing function of epsilon divided by the target value.
fn log_ratio(value: f64, target: f64) -> f64 {
    if value <= 0.0 {
        -800.0
    } else {
        libm::log(value) - libm::log(target)
    }
}

/// The smallest epsilon found with `delta(epsilon) <= target`; `None` if none is found.
fn smallest_below(
    delta: impl Fn(f64) -> f64,
    target: f64,
    (guess, scale): (f64, f64),
) -> Option<f64> {
    bracket(delta, target, (guess, scale)).map(|(_, above)| above)
}

/// The largest epsilon found with `delta(epsilon) > target`; 0 if not even 0 satisfies this.
fn largest_above(delta: impl Fn(f64) -> f64, target: f64, (guess, scale): (f64, f64)) -> f64 {
    bracket(delta, target, (guess, scale)).map_or(0.0, |(below, _)| below)
}

/// Two close numbers, with delta above `target` at the first and not above it at the second. The
/// search stays near the guess, where the tilt makes delta accurate, and tries 0 last.
fn bracket(
    delta: impl Fn(f64) -> f64,
    target: f64,
    (guess, scale): (f64, f64),
) -> Option<(f64, f64)> {
    let f = |epsilon: f64| log_ratio(delta(epsilon), target);
    let mut high = guess.max(1e-300);
    let mut f_high = f(high);
    let mut stride = scale.min(1e-3 * high);
    let (mut low, mut f_low) = (high, f_high);
    for _ in 0..60 {
        if f_high <= 0.0 {
            break;
        }
        (low, f_low) = (high, f_high);
        high += stride;
        stride *= 2.0;
        f_high = f(high);
    }
    while f_low <= 0.0 {
        (high, f_high) = (low, f_low);
        low = (low - stride).max(0.0);
        stride *= 2.0;
        f_low = f(low);
        if low <= 0.0 {
            break;
        }
    }
    if !(f_high <= 0.0) {
        None
    } else if f_low > 0.0 {
        narrow(f, (low, f_low), (high, f_high))
    } else {
        Some((0.0, 0.0))
    }
}

/// Relative width at which a search ends.
const NARROW: f64 = 1e-13;

/// Regula falsi with the Illinois modification, and bisection if it stalls.
fn narrow(
    f: impl Fn(f64) -> f64,
    (mut low, mut f_low): (f64, f64),
    (mut high, mut f_high): (f64, f64),
) -> Option<(f64, f64)> {
    let mut width = high - low;
    // which end moved last: 1 for the lower one
    let mut moved = 0;
    for round in 0..80 {
        if high - low <= NARROW * high {
            break;
        }
        let secant = low + (high - low) * (f_low / (f_low - f_high));
        // a root that is hit up to rounding would leave the other end unchanged
        let margin = (0.02 * (high - low)).min(0.4 * NARROW * high.max(1e-290));
        let halve = round % 3 == 2 && high - low > 0.5 * width;
        if round % 3 == 2 {
            width = high - low;
        }
        let middle = if halve || !secant.is_finite() {
            0.5 * (low + high)
        } else {
            secant.clamp(low + margin, high - margin)
        };
        if !(low < middle && middle < high) {
            break;
        }
        let value = f(middle);
        if value > 0.0 {
            (low, f_low) = (middle, value);
            f_high *= if moved > 0 { 0.5 } else { 1.0 };
            moved = 1;
        } else {
            (high, f_high) = (middle, value);
            f_low *= if moved < 0 { 0.5 } else { 1.0 };
            moved = -1;
        }
    }
    Some((low, high))
}
