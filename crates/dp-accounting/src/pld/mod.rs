//! Privacy loss distributions, discretised from both sides.
//!
//! Every loss becomes two distributions on a lattice: one whose profile is nowhere below the
//! true one ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, arXiv 2207.04380)
//! and one whose profile is nowhere above it ([`merged`]), both off by a second-order amount.
//! Domination is kept by composition (Zhu, Dong, Wang, arXiv 2106.08567, Theorem 10), so the
//! composed pair brackets the truth. The composition is exact in the Fourier domain, under an
//! exponential tilt that makes the losses near epsilon the likely ones ([`composed`]); so a delta
//! of 1e-300 keeps its relative accuracy.

mod accountant;
mod cells;
mod composed;
mod lattice;
mod merged;
mod plan;
mod search;
mod sketch;
mod spectrum;
mod tilt;

use crate::accountant::{Method, PrivacyBound};
use crate::composition::Composition;
use crate::loss::{Direction, Loss};
use crate::{Error, Result};

pub use accountant::PldAccountant;

use lattice::Side;
use plan::{Effort, Plan, Query};

/// First a bracket that is good enough for nearly all; then, where it is not, a closer one.
const EFFORTS: [Effort; 3] = [
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

/// A bracket for one direction.
#[derive(Debug, Clone, Copy)]
struct Bracket {
    lower: f64,
    upper: f64,
}

/// The bracket of epsilon at `delta`, over the directions of `composition`.
pub(crate) fn epsilon(composition: &Composition, delta: f64) -> Result<PrivacyBound> {
    worst(composition, |losses| epsilon_of(losses, delta))
}

/// The bracket of delta at `epsilon`, over the directions of `composition`.
pub(crate) fn delta(composition: &Composition, epsilon: f64) -> Result<PrivacyBound> {
    worst(composition, |losses| delta_of(losses, epsilon))
}

fn worst(
    composition: &Composition,
    bracket: impl Fn(&[(Loss, f64)]) -> Result<Bracket>,
) -> Result<PrivacyBound> {
    composition.nonempty()?;
    let (mut lower, mut upper) = (0.0_f64, 0.0_f64);
    for losses in distinct(composition)? {
        let found = bracket(&losses)?;
        lower = lower.max(found.lower);
        upper = upper.max(found.upper);
    }
    Ok(PrivacyBound::bracket(
        upper,
        lower.min(upper),
        upper,
        Method::Pld,
        composition.adjacency(),
    ))
}

/// The losses of every direction, once when they are the same.
fn distinct(composition: &Composition) -> Result<Vec<Vec<(Loss, f64)>>> {
    let mut all: Vec<Vec<(Loss, f64)>> = Vec::new();
    for &direction in composition.directions() {
        let losses = counted(composition, direction)?;
        if !all.contains(&losses) {
            all.push(losses);
        }
    }
    Ok(all)
}

fn counted(composition: &Composition, direction: Direction) -> Result<Vec<(Loss, f64)>> {
    const EXACT: u64 = 1 << 53;
    let losses = composition.losses(direction)?.into_iter();
    losses
        .map(|(loss, count)| {
            if count > EXACT {
                return Err(refused("a count is above 2^53"));
            }
            Ok((loss, count as f64))
        })
        .collect()
}

const fn refused(reason: &'static str) -> Error {
    Error::NotCertified {
        method: "pld",
        reason,
    }
}

/// 1 - Π (1 - m_i)^(n_i).
fn infinite_mass(losses: &[(Loss, f64)]) -> f64 {
    let logs = losses
        .iter()
        .map(|(l, n)| n * libm::log1p(-l.infinite_mass().min(1.0)));
    -libm::expm1(logs.sum())
}

fn epsilon_of(losses: &[(Loss, f64)], delta: f64) -> Result<Bracket> {
    let infinite_mass = infinite_mass(losses);
    if infinite_mass >= delta {
        return Err(Error::NoFiniteEpsilon {
            delta,
            infinite_mass,
        });
    }
    let log_delta = libm::log(delta - infinite_mass);
    let plan = Plan::new(losses, Query::Epsilon { log_delta })
        .ok_or_else(|| refused("no tilt or window fits the losses"))?;
    let none = Bracket {
        lower: 0.0,
        upper: f64::INFINITY,
    };
    let best = improve(none, |effort| {
        let upper = plan
            .compose(Side::Upper, effort)
            .map_or(f64::INFINITY, |above| {
                let at = |e: f64| above.delta(e - above.shift()).1;
                search::smallest_below(at, delta, plan.guess).unwrap_or(f64::INFINITY)
            });
        let lower = plan.compose(Side::Lower, effort).map_or(0.0, |below| {
            let at = |e: f64| below.delta(e + below.shift()).0;
            search::largest_above(at, delta, plan.guess)
        });
        Bracket { lower, upper }
    });
    if best.upper.is_finite() {
        Ok(best)
    } else {
        Err(refused("the error of the composition exceeds delta"))
    }
}

fn delta_of(losses: &[(Loss, f64)], epsilon: f64) -> Result<Bracket> {
    let plan = Plan::new(losses, Query::Delta { epsilon })
        .ok_or_else(|| refused("no tilt or window fits the losses"))?;
    let none = Bracket {
        lower: infinite_mass(losses),
        upper: 1.0,
    };
    Ok(improve(none, |effort| {
        let upper = plan.compose(Side::Upper, effort);
        let lower = plan.compose(Side::Lower, effort);
        Bracket {
            lower: lower.map_or(0.0, |below| below.delta(epsilon + below.shift()).0),
            upper: upper.map_or(1.0, |above| above.delta(epsilon - above.shift()).1),
        }
    }))
}

/// Intersects brackets of growing effort until they are close.
fn improve(mut best: Bracket, bracket: impl Fn(Effort) -> Bracket) -> Bracket {
    for effort in EFFORTS {
        let found = bracket(effort);
        best.upper = best.upper.min(found.upper);
        best.lower = best.lower.max(found.lower);
        if best.upper - best.lower <= CLOSE * best.upper {
            break;
        }
    }
    best
}
