//! The bracket for one direction: how hard to try, and when to stop.

use super::composed::Composed;
use super::lattice::Side;
use super::plan::{Effort, Plan, Query};
use super::{refused, search};
use crate::engines::loss::Loss;
use crate::{Error, Result};

/// First a bracket that is good enough for nearly all; then, where it is not, a closer one.
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

/// How many units of 1/λ epsilon may lie from where the tilt was chosen for.
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

    /// One round of a plan. The lower end is left as it is when the upper one is not above
    /// `known`. Returns whether there was a composition.
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

/// What is known of epsilon at first. A composition that leaves it at that is all error, and a
/// greater effort would be too.
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

/// The bracket of epsilon at `delta`; only its upper end is of use when that is not above `known`.
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
            search::smallest_below(at, delta, plan.near()).unwrap_or(f64::INFINITY)
        }
        Side::Lower => {
            let at = |e: f64| composed.delta(e + shift).0;
            search::largest_above(at, delta, plan.near())
        }
    }
}

/// The bracket of delta at `epsilon`; only its upper end is of use when that is not above `known`.
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
