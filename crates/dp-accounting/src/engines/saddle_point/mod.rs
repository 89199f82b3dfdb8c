//! Exact privacy profiles by inversion of the moment generating function of the privacy loss.

mod contour;
mod inversion;
mod nodes;
mod shifted;
mod tail;
#[cfg(test)]
mod tests;
mod tilted;
mod windows;

use std::cell::Cell;

use dp_core::{Adjacency, DpEvent, params};

use contour::{Aim, Losses, saddle_point};
use inversion::{Figure, Inversion};
use shifted::{Effort, Transform};

use crate::engines::accountant::{Accountant, Method, PrivacyBound};
use crate::engines::composition::Composition;
use crate::engines::loss::{Direction, Loss};
use crate::{Error, Result};

/// Accountant that inverts the moment generating function of the privacy loss.
///
/// Composition adds logarithms of moment generating functions, whatever the mechanisms and however
/// often they ran, so the cost does not depend on the number of steps and nothing is discretised.
/// Every error of the inversion has a bound, and the bracket includes all of them; it is about
/// 1e-11 of epsilon wide, and up to 1e-7 if a few runs at a small rate leave the loss nearly
/// discrete.
///
/// It can answer for compositions whose loss is smooth enough: with at least one Gaussian
/// mechanism, sampled ones alone, or enough runs of Laplace ones. For others it returns
/// [`crate::Error::NotCertified`]; use [`crate::PldAccountant`] for these.
///
/// # Examples
/// ```
/// use dp_accounting::{Accountant, SaddlePointAccountant};
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = SaddlePointAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::sampled_gaussian(1.0, 0.01), 1_000)?;
/// let bound = accountant.epsilon(1e-5)?;
/// assert!((bound.value / 1.828_236_666_516_576_8 - 1.0).abs() < 1e-11);
/// assert!(bound.upper - bound.lower < 1e-9);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SaddlePointAccountant {
    composition: Composition,
}

impl SaddlePointAccountant {
    /// Creates an accountant without any events.
    #[must_use]
    pub const fn new(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
        }
    }
}

impl Accountant for SaddlePointAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.composition.add(event, count)
    }

    fn epsilon(&self, target_delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", target_delta)?;
        epsilon(self.composition.nonempty()?, target_delta)
    }

    fn delta(&self, target_epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", target_epsilon)?;
        let bound = delta(self.composition.nonempty()?, target_epsilon)?;
        Ok(bound.as_delta_at(target_epsilon))
    }
}

const NOT_CERTIFIED: Error = Error::NotCertified {
    method: "saddle-point",
    reason: "no bound on the error of the inversion was found",
};

/// delta(epsilon) of a composition.
pub(crate) fn delta(composition: &Composition, epsilon: f64) -> Result<PrivacyBound> {
    delta_over(composition.directions(), composition, epsilon)
}

fn delta_over(
    directions: &[Direction],
    composition: &Composition,
    epsilon: f64,
) -> Result<PrivacyBound> {
    let start = Cell::new(1.0);
    worst(directions, composition, |direction, known| {
        let losses = composition.losses(direction)?;
        let mut prepared = Losses::new(&losses);
        if ends_below(&prepared, epsilon) || stays_below(&losses, Ask::DeltaAt(epsilon), known) {
            return Ok(Figure::default());
        }
        let infinite = infinite_mass(&losses);
        let inversion = Inversion::new(&mut prepared, epsilon, start.get());
        let inversion = inversion.ok_or(NOT_CERTIFIED)?;
        start.set(inversion.contour());
        let finite = inversion.delta(epsilon);
        Ok(Figure {
            lower: (infinite * (1.0 - 1e-14) + finite.lower).min(1.0),
            value: (infinite + finite.value).min(1.0),
            upper: (infinite * (1.0 + 1e-14) + finite.upper).min(1.0),
        })
    })
}

/// epsilon(delta) of a composition.
pub(crate) fn epsilon(composition: &Composition, delta: f64) -> Result<PrivacyBound> {
    epsilon_over(composition.directions(), composition, delta)
}

fn epsilon_over(
    directions: &[Direction],
    composition: &Composition,
    delta: f64,
) -> Result<PrivacyBound> {
    let start = Cell::new(1.0);
    worst(directions, composition, |direction, known| {
        let losses = composition.losses(direction)?;
        if stays_below(&losses, Ask::EpsilonAt(delta), known) {
            return Ok(Figure::default());
        }
        let infinite = infinite_mass(&losses);
        let left = delta - infinite * (1.0 + 1e-14);
        if infinite > delta * (1.0 + 1e-14) {
            return Err(Error::NoFiniteEpsilon {
                delta,
                infinite_mass: infinite,
            });
        }
        let mut prepared = Losses::new(&losses);
        if left <= 0.0 || !prepared.any_decays() {
            return Err(NOT_CERTIFIED);
        }
        let found = one_direction(&mut prepared, left, infinite * 2e-14, &start);
        found.ok_or(NOT_CERTIFIED)
    })
}

/// An approximation of epsilon(delta) of a composition, in milliseconds and without any guarantee:
/// for searches that end with a certified answer near the epsilon `near`. `None` if the inversion
/// has no starting point.
pub(crate) fn estimate(composition: &Composition, delta: f64, near: f64) -> Option<f64> {
    let mut worst = 0.0_f64;
    for &direction in composition.directions() {
        let losses = composition.losses(direction).ok()?;
        let left = delta - infinite_mass(&losses);
        let mut prepared = Losses::new(&losses);
        if left <= 0.0 || !prepared.any_decays() {
            return None;
        }
        if ends_below(&prepared, near) || stays_below(&losses, Ask::EpsilonAt(delta), worst) {
            continue;
        }
        let log_delta = libm::log(left);
        if let Some(found) = estimate_few(&mut prepared, log_delta, near) {
            worst = worst.max(found);
            continue;
        }
        let rough = saddle_point(&mut prepared, Aim::LogDelta(log_delta), 1.0)?;
        let (epsilon, bound) = (rough.epsilon(), rough.epsilon_bound(log_delta));
        if epsilon > 0.0 && bound > worst {
            let inversion = Inversion::estimate(&mut prepared, &rough, epsilon);
            let found = inversion.and_then(|inversion| root(&inversion, left));
            // far below, any bound is sufficient
            worst = worst.max(found.or_else(|| (bound < near).then_some(bound))?);
        }
    }
    Some(worst)
}

/// A logarithm of how far a first-order approximation may be from delta while being so far from a
/// target that it is sufficient.
const FAR: f64 = 9.0;

/// An approximation of epsilon for a few sampled mechanisms: from delta at `near` along its slope
/// there, which is exact if the answer is `near`.
fn estimate_few(losses: &mut Losses<'_>, log_delta: f64, near: f64) -> Option<f64> {
    if !Transform::suits(losses) {
        return None;
    }
    let along =
        |miss: f64, rate: f64| near * libm::exp((miss / (rate * near)).clamp(-100.0, 100.0));
    let at = saddle_point(losses, Aim::Epsilon(near), 1.0)?;
    let first_order = at.log_delta(near) - log_delta;
    if first_order.abs() > FAR {
        return Some(along(first_order, at.c));
    }
    let aim = (near, Some(log_delta));
    let miss = match Inversion::shifted(losses, &at, aim, &Effort::ROUGH) {
        Some(found) => libm::log(found.delta(near).value) - log_delta,
        None => first_order,
    };
    Some(along(miss, at.c))
}

/// How often an estimate is recomputed at its own result.
const NEARER: usize = 4;

/// How far an estimate may be from where it was computed, relative to it.
const NEAR: f64 = 0.02;

/// An approximation of epsilon for a few sampled mechanisms. What a transform omits depends on the
/// epsilon that it was created for, so that epsilon should be close to the result.
fn approach(
    losses: &mut Losses<'_>,
    left: f64,
    (mut epsilon, mut start): (f64, f64),
) -> Option<f64> {
    for _ in 0..NEARER {
        let at = saddle_point(losses, Aim::Epsilon(epsilon), start)?;
        let aim = (epsilon, Some(libm::log(left)));
        let found = root(&Inversion::shifted(losses, &at, aim, &Effort::ROUGH)?, left)?;
        if found <= 0.0 || (found - epsilon).abs() <= NEAR * found {
            return Some(found);
        }
        (epsilon, start) = (found, at.c);
    }
    Some(epsilon)
}

/// epsilon of the losses of one direction, with `left` of delta for the finite ones.
fn one_direction(
    losses: &mut Losses<'_>,
    left: f64,
    slack: f64,
    start: &Cell<f64>,
) -> Option<Figure> {
    let aim = Aim::LogDelta(libm::log(left));
    let rough = saddle_point(losses, aim, start.get()).filter(|rough| rough.epsilon() > 0.0);
    let inversion = if let Some(rough) = rough {
        let (epsilon, c) = (rough.epsilon(), rough.c);
        if Transform::suits(losses)
            && let Some(nearer) = approach(losses, left, (epsilon, c))
            && nearer > 0.0
            && let Some(at) = saddle_point(losses, Aim::Epsilon(nearer), c)
            && let aim = (nearer, Some(libm::log(left)))
            && let Some(found) = Inversion::shifted(losses, &at, aim, Transform::effort(losses))
            && let Some(found) = solve(&found, left, slack)
        {
            return Some(found);
        }
        let rough = losses.tilted(c, 0.0)?;
        Inversion::through(losses, &rough, epsilon)?
    } else {
        let at_zero = Inversion::new(losses, 0.0, start.get())?;
        if at_zero.delta(0.0).upper <= left {
            return Some(Figure::default());
        }
        at_zero
    };
    start.set(inversion.contour());
    let first = solve(&inversion, left, slack);
    if let Some(first) = first
        && first.upper - first.lower <= inversion.tight() * first.value
    {
        return Some(first);
    }
    // A contour through the saddle point of the answer itself may be better.
    let nearer = root(&inversion, left).filter(|nearer| *nearer > 0.0)?;
    let again =
        Inversion::new(losses, nearer, start.get()).and_then(|found| solve(&found, left, slack));
    let width = |found: &Figure| found.upper - found.lower;
    let narrower = |a: &Figure, b: &Figure| width(a).total_cmp(&width(b));
    [first, again].into_iter().flatten().min_by(narrower)
}

/// Whether a few sampled mechanisms cannot lose as much as `epsilon`, for example if a user is
/// added.
fn ends_below(losses: &Losses<'_>, epsilon: f64) -> bool {
    Transform::suits(losses) && Transform::largest(losses) * (1.0 + 1e-12) <= epsilon
}

/// Probability that any of the mechanisms fails completely.
fn infinite_mass(losses: &[(Loss, u64)]) -> f64 {
    let log_kept: f64 = (losses.iter())
        .map(|(loss, count)| *count as f64 * libm::log1p(-loss.infinite_mass()))
        .sum();
    -libm::expm1(log_kept)
}

/// What is requested for a direction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask {
    /// Epsilon at this delta.
    EpsilonAt(f64),
    /// Delta at this epsilon.
    DeltaAt(f64),
}

/// The relative margin by which a bound must be below a known value: its rounding and the error of
/// its quadrature are far smaller.
const MARGIN: f64 = 1e-9;

/// Whether one direction provably stays below the value that another one is `known` to reach. One
/// Renyi divergence proves this if they are far apart, as with sampling at a small rate.
pub(crate) fn stays_below(losses: &[(Loss, u64)], ask: Ask, known: f64) -> bool {
    let infinite = infinite_mass(losses) * (1.0 + 1e-14);
    let aim = match ask {
        Ask::EpsilonAt(delta) if delta > infinite => Aim::LogDelta(libm::log(delta - infinite)),
        Ask::DeltaAt(epsilon) if known > infinite => Aim::Epsilon(epsilon),
        _ => return false,
    };
    if known <= 0.0 {
        return false;
    }
    let Some(at) = saddle_point(&mut Losses::new(losses), aim, 1.0) else {
        return false;
    };
    match aim {
        Aim::LogDelta(log_delta) => at.epsilon_bound(log_delta) <= known * (1.0 - MARGIN),
        Aim::Epsilon(epsilon) => {
            infinite + libm::exp(at.log_delta_bound(epsilon)) <= known * (1.0 - MARGIN)
        }
    }
}

/// The largest value over the directions, taken after composition. Each direction receives a lower
/// bound from those before it, which decides only whether it has to be computed: the result does not
/// depend on their order, but the work does.
fn worst(
    directions: &[Direction],
    composition: &Composition,
    figure: impl Fn(Direction, f64) -> Result<Figure>,
) -> Result<PrivacyBound> {
    let mut worst = Figure::default();
    for direction in directions {
        let found = figure(*direction, worst.lower)?;
        worst = Figure {
            lower: worst.lower.max(found.lower),
            value: worst.value.max(found.value),
            upper: worst.upper.max(found.upper),
        };
    }
    Ok(PrivacyBound::bracket(
        worst.value,
        worst.lower,
        worst.upper,
        Method::SaddlePoint,
        composition.adjacency(),
    ))
}

/// The epsilon at which I is `delta`; `slack` is how much delta itself may be too small.
fn solve(inversion: &Inversion, delta: f64, slack: f64) -> Option<Figure> {
    let value = root(inversion, delta)?;
    let at = inversion.delta(value);
    let error = (at.upper - at.lower) / (at.value * inversion.rate());
    let mut step = error.max(value.abs() * 1e-14).max(1e-300);
    let (mut upper, mut lower) = (None, None);
    for _ in 0..60 {
        if upper.is_none() && inversion.delta(value + step).upper <= delta {
            upper = Some(value + step);
        }
        if lower.is_none() && inversion.delta(value - step).lower > delta + slack {
            lower = Some(value - step);
        }
        if let (Some(upper), Some(lower)) = (upper, lower) {
            return Some(Figure {
                lower: lower.max(0.0),
                value: value.max(0.0),
                upper: upper.max(0.0),
            });
        }
        step *= 2.0;
    }
    None
}

/// Root of ln I(epsilon) = ln delta by safeguarded secant steps from the centre.
fn root(inversion: &Inversion, delta: f64) -> Option<f64> {
    let log_delta = libm::log(delta);
    let miss = |epsilon: f64| libm::log(inversion.delta(epsilon).value) - log_delta;
    let mut a = inversion.centre();
    let mut at_a = miss(a);
    let mut b = a + at_a / inversion.rate();
    for _ in 0..60 {
        let at_b = miss(b);
        if !at_b.is_finite() {
            return None;
        }
        let step = at_b * (b - a) / (at_b - at_a);
        if at_b == 0.0 || !step.is_finite() || step.abs() <= 4.0 * f64::EPSILON * b.abs() {
            return Some(b);
        }
        (a, at_a) = (b, at_b);
        b -= step;
    }
    None
}
