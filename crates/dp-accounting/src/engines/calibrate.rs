//! Solves for one free parameter such that a guarantee is just met.
//!
//! The event is a function of the parameter, so any number anywhere in an event tree can be the
//! free one: a noise multiplier, a number of steps, a sampling probability, the scale of a budget
//! share. The function may return [`DpEvent::NonPrivate`] for a parameter that makes no sense,
//! which misses any target. The result is on the safe side: at the returned parameter, the tightest
//! accountant's `upper` meets the target.
//!
//! # Examples
//! ```
//! use dp_accounting::calibrate;
//! use dp_core::{Adjacency, ApproxDp, DpEvent};
//! let target = ApproxDp::target(2.0, 1e-5)?;
//! let adjacency = Adjacency::AddRemoveUser;
//! let steps = calibrate::count(target, adjacency, |n| {
//!     DpEvent::sampled_gaussian(1.0, 0.01).repeated(n)
//! })?;
//! assert_eq!(steps.value, 1_202);
//!
//! let noise = calibrate::noise(target, adjacency, |z| {
//!     DpEvent::sampled_gaussian(z, 0.01).repeated(1_202)
//! })?;
//! assert!(noise.value <= 1.0 && noise.value > 0.999);
//! assert!(noise.bound.upper <= 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError, params};

use super::accountant::{Accountant, PrivacyBound};
use super::tightest::TightestAccountant;
use crate::{Error, Result};

/// A parameter that meets a target, and the epsilon that it gives at the target's delta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibrated<T = f64> {
    /// The parameter.
    pub value: T,
    /// Epsilon at the target's delta.
    pub bound: PrivacyBound,
}

/// Range of noise multipliers searched.
const NOISE: (f64, f64) = (1e-6, 1e9);

/// Range of sampling probabilities searched.
const PROBABILITY: (f64, f64) = (1e-12, 1.0);

/// The smallest noise multiplier (or scale) from 1e-6 to 1e9 that meets `target`, rounded up, for
/// ideal noise.
///
/// A ledger sets [`DELTA_RESERVE`](crate::DELTA_RESERVE) of its delta aside for the noise sampler.
/// It therefore refuses, by a part in 10^7 or so, a schedule with the noise found for exactly its
/// own target. To spend from [`Budget::schedule`](crate::Budget::schedule), calibrate the noise
/// with [`Plan::calibrate_noise`](crate::Plan::calibrate_noise), or here at
/// [`usable_delta`](crate::usable_delta) of the ledger's delta.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger, Plan, PlannedRelease, calibrate, usable_delta};
/// use dp_core::{Adjacency, ApproxDp, DpEvent};
/// let (target, adjacency) = (ApproxDp::target(1.0, 1e-5)?, Adjacency::AddRemoveUser);
/// let ideal = ApproxDp { delta: usable_delta(target.delta), ..target };
/// let noise = calibrate::noise(ideal, adjacency, |z| DpEvent::sampled_gaussian(z, 0.1).repeated(2))?;
/// let steps = (1..3).map(|t| {
///     PlannedRelease::new(format!("step {t}"), DpEvent::sampled_gaussian(noise.value, 0.1), 10)
/// });
/// let plan = Plan::with_noise_multipliers(target.delta, adjacency, steps.collect())?;
/// let mut ledger = Ledger::in_memory("demo", Budget::schedule(target, adjacency)?)?;
/// assert_eq!(ledger.reserve(&plan)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`smallest`].
pub fn noise(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    smallest(target, adjacency, NOISE, event)
}

/// The largest sampling probability from 1e-12 to 1 that meets `target`, rounded down.
///
/// # Errors
/// As [`smallest`].
pub fn sampling_probability(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    largest(target, adjacency, PROBABILITY, event)
}

/// The smallest x within `range` that meets `target`, for a cost that decreases with x.
///
/// # Errors
/// [`Error::Param`] for an invalid target or a range that is not 0 < low < high;
/// [`Error::TargetOutOfReach`] if even the end of the range misses the target; the errors of the
/// accountant.
///
/// # Numerics
/// Safeguarded secant steps on ln epsilon against ln x, with fast estimates where available; the
/// last few steps use the certified upper bound. The epsilon of the result is below the target by
/// at most half the numerical width of its bound, or 1e-11 if that is larger. Where no mechanism
/// attains the bound, this is less than the width of the bracket, whose lower end is 0.
pub fn smallest(
    target: ApproxDp,
    adjacency: Adjacency,
    range: (f64, f64),
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    let (low, high) = check_range(range)?;
    Search::new(target, adjacency)?.boundary(low, high, &event)
}

/// The largest x within `range` that meets `target`, for a cost that increases with x.
///
/// # Errors
/// As [`smallest`].
pub fn largest(
    target: ApproxDp,
    adjacency: Adjacency,
    range: (f64, f64),
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    let (low, high) = check_range(range)?;
    Search::new(target, adjacency)?.boundary(high, low, &event)
}

/// The largest count that meets `target`, exactly: one more would miss it.
///
/// # Errors
/// As [`smallest`]; also [`Error::TargetOutOfReach`] if a single run misses the target, and
/// [`Error::Param`] if 2^50 runs still meet it.
pub fn count(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(u64) -> DpEvent,
) -> Result<Calibrated<u64>> {
    Search::new(target, adjacency)?.last_count(&event)
}

fn check_range((low, high): (f64, f64)) -> Result<(f64, f64)> {
    let low = params::finite_positive("range", low)?;
    let high = params::finite_positive("range", high)?;
    if low < high {
        return Ok((low, high));
    }
    Err(Error::Param(ParamError {
        name: "range",
        value: high,
        expected: "an upper end above the lower one",
    }))
}

/// A target under one adjacency.
struct Search {
    target: ApproxDp,
    adjacency: Adjacency,
}

/// Stands for the logarithm of an epsilon of 0. Below this, values give no information about the
/// position of the target.
const FLOOR: f64 = -200.0;

/// Relative distance to the exact solution at which the search ends.
const PRECISION: f64 = 1e-11;

/// The fraction of a bracket's width by which the result may stay below the target.
const OF_THE_WIDTH: f64 = 0.5;

/// The first count tried in the search.
const FIRST_COUNT: u64 = 1 << 10;

impl Search {
    fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        Ok(Self { target, adjacency })
    }

    /// The parameter closest to `bad` that meets the target, between `bad` and `good`.
    fn boundary(&self, bad: f64, good: f64, event: impl Fn(f64) -> DpEvent) -> Result<Calibrated> {
        let (bad, good) = (libm::log(bad), libm::log(good));
        let at = |x: f64| event(libm::exp(x));
        let (near, slope) = boundary((bad, good), |x| self.roughly(&at(x)))?;
        let (value, bound) = self.settle((near, slope), (bad, good), at)?;
        let value = libm::exp(value);
        Ok(Calibrated { value, bound })
    }

    /// The largest count that meets the target, exactly.
    fn last_count(&self, event: impl Fn(u64) -> DpEvent) -> Result<Calibrated<u64>> {
        let roughly = |n: u64| self.roughly(&event(n));
        let near = match gallop(FIRST_COUNT, FIRST_COUNT / 2, roughly)? {
            (Some(meets), Some(misses)) => last_between(meets, misses, roughly)?,
            (None, _) => 1,
            (_, None) => LARGEST,
        };
        let certified = |n: u64| Ok(self.certified(&event(n))?.0);
        let value = match gallop(near, 1, certified)? {
            (Some(meets), Some(misses)) => last_between(meets, misses, certified)?,
            (None, _) => return Err(self.out_of_reach(1.0)),
            (_, None) => return Err(unbounded()),
        };
        let bound = self.accountant(&event(value))?.epsilon(self.target.delta)?;
        Ok(Calibrated { value, bound })
    }

    /// By how much a bound misses the target, as ln of epsilon divided by the target's epsilon. It
    /// is nearly linear in the logarithm of a noise, a count or a probability.
    fn excess(&self, upper: f64) -> f64 {
        let ratio = libm::log(upper / self.target.epsilon);
        if upper <= self.target.epsilon {
            ratio.clamp(FLOOR, 0.0)
        } else {
            ratio.max(f64::MIN_POSITIVE)
        }
    }

    /// The excess of an estimate, or of a bound if there is no estimate.
    fn roughly(&self, event: &DpEvent) -> Result<f64> {
        let ApproxDp { epsilon, delta } = self.target;
        if matches!(event, DpEvent::NonPrivate) {
            return Ok(f64::INFINITY);
        }
        let accountant = self.accountant(event)?;
        if let Some(estimate) = accountant.estimate(delta, epsilon) {
            return Ok(self.excess(estimate));
        }
        match accountant.epsilon_unless(delta, epsilon) {
            Ok(bound) => Ok(self.excess(bound.upper)),
            Err(Error::NoFiniteEpsilon { .. }) => Ok(f64::INFINITY),
            Err(other) => Err(other),
        }
    }

    /// The excess of the best bound, and the bound with the width of its bracket relative to its
    /// upper end; infinite, without a bound, if epsilon is infinite.
    fn certified(&self, event: &DpEvent) -> Result<(f64, Option<(PrivacyBound, f64)>)> {
        if matches!(event, DpEvent::NonPrivate) {
            return Ok((f64::INFINITY, None));
        }
        match (self.accountant(event)?).epsilon_and_width(self.target.delta) {
            Ok((bound, width)) => {
                let relative = width / bound.upper.max(f64::MIN_POSITIVE);
                Ok((self.excess(bound.upper), Some((bound, relative))))
            }
            Err(Error::NoFiniteEpsilon { .. }) => Ok((f64::INFINITY, None)),
            Err(other) => Err(other),
        }
    }

    fn accountant(&self, event: &DpEvent) -> Result<TightestAccountant> {
        let mut accountant = TightestAccountant::new(self.adjacency);
        accountant.compose(event, 1)?;
        Ok(accountant)
    }

    /// Starting from a logarithm near the boundary, with the slope there if it is known, finds one
    /// next to it that provably meets the target.
    fn settle(
        &self,
        (near, slope): (f64, Option<f64>),
        (worst, safest): (f64, f64),
        event: impl Fn(f64) -> DpEvent,
    ) -> Result<(f64, PrivacyBound)> {
        let (low, high) = (worst.min(safest), worst.max(safest));
        let towards = if safest >= near { 1.0 } else { -1.0 };
        let falls = |slope: &f64| slope * towards < -0.01 && slope.is_finite();
        let mut slope = slope.filter(falls).unwrap_or(-towards);
        let (mut bad, mut good): (Option<Point>, Option<(Point, PrivacyBound)>) = (None, None);
        let (mut x, mut reach) = (near.clamp(low, high), 1.0);
        let mut last: Option<Point> = None;
        loop {
            let (excess, bound) = self.certified(&event(x))?;
            let mut slack = PRECISION;
            if let Some((_, width)) = bound {
                slack = slack.max(OF_THE_WIDTH * width);
            }
            match bound.map(|(bound, _)| bound).filter(|_| excess <= 0.0) {
                Some(bound) if excess >= -slack || is(x, worst) => return Ok((x, bound)),
                Some(bound) => good = Some(((x, excess), bound)),
                None if is(x, safest) => return Err(self.out_of_reach(libm::exp(x))),
                None => bad = Some((x, excess)),
            }
            if let Some((x_before, before)) = last {
                let found = (excess - before) / (x - x_before);
                if (0.5..2.0).contains(&(found / slope)) {
                    (slope, reach) = (found, 1.0);
                }
            }
            last = Some((x, excess));
            x = match (bad, good) {
                (Some(bad), Some((good, bound))) => {
                    if (bad.0 - good.0).abs() <= PRECISION {
                        return Ok((good.0, bound));
                    }
                    between(bad, good, 0.5 * slack)
                }
                _ => {
                    let step = -(excess.clamp(-1.0, 1.0) + 0.5 * slack) / slope;
                    reach *= 2.0;
                    (x + 0.5 * reach * step).clamp(low, high)
                }
            };
        }
    }

    const fn out_of_reach(&self, nearest: f64) -> Error {
        Error::TargetOutOfReach {
            epsilon: self.target.epsilon,
            delta: self.target.delta,
            nearest,
        }
    }
}

/// Whether the position of a search that is clamped between two ends is at this end.
const fn is(x: f64, end: f64) -> bool {
    (x - end).abs() <= 0.0
}

/// A count with its excess.
type Count = (u64, f64);

/// The largest count searched.
const LARGEST: u64 = 1 << 50;

/// A count that meets the target and one that misses it, searched from `first` with steps that
/// double. Only one of them if [`LARGEST`] still meets it, or if a single run already misses it.
fn gallop(
    first: u64,
    mut step: u64,
    excess: impl Fn(u64) -> Result<f64>,
) -> Result<(Option<Count>, Option<Count>)> {
    let mut at = (first, excess(first)?);
    let meets = at.1 <= 0.0;
    let end = if meets { LARGEST } else { 1 };
    while at.0 != end {
        let next = if meets {
            (at.0 + step).min(LARGEST)
        } else {
            at.0.saturating_sub(step).max(1)
        };
        let before = at;
        at = (next, excess(next)?);
        match (meets, at.1 <= 0.0) {
            (true, false) => return Ok((Some(before), Some(at))),
            (false, true) => return Ok((Some(at), Some(before))),
            _ => step *= 2,
        }
    }
    Ok(if meets {
        (Some(at), None)
    } else {
        (None, Some(at))
    })
}

/// The largest count that meets the target, between one that does and one that does not.
fn last_between(
    mut meets: Count,
    mut misses: Count,
    excess: impl Fn(u64) -> Result<f64>,
) -> Result<u64> {
    let at = |(n, excess): Count| (libm::log(n as f64), excess);
    let mut secant = Secant::new(at(misses), at(meets));
    while misses.0 - meets.0 > 1 {
        let x = libm::exp(secant.next(0.0));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number below 2^51, kept strictly between two counts"
        )]
        let n = (x.round() as u64).clamp(meets.0 + 1, misses.0 - 1);
        let found = (n, excess(n)?);
        if found.1 > 0.0 {
            misses = found;
        } else {
            meets = found;
        }
        secant.add(at(found));
    }
    Ok(meets.0)
}

fn unbounded() -> Error {
    Error::Param(ParamError {
        name: "count",
        value: LARGEST as f64,
        expected: "a cost that some count below 2^50 exceeds",
    })
}

/// The logarithm of a parameter with its excess, which is positive if the target is missed.
type Point = (f64, f64);

/// Distance in ln x, or of the excess from 0, at which a search by estimates ends.
const SECANT_PRECISION: f64 = 1e-6;

/// Distance of the excess from 0 at which it ends with a step along a known slope.
const STEP_FROM: f64 = 1e-5;

/// Distance in ln x above which a slope is not used.
const SLOPE_OVER: f64 = 1e-4;

/// Factors for the step of a search outwards: relative to the excess at first, later relative to
/// the step predicted by the line through two points.
const OUTWARDS: (f64, f64) = (0.5, 1.2);

/// The smallest such step.
const LEAST_STEP: f64 = 0.02;

/// Maximum number of evaluations within a bracket.
const MOST_ROUNDS: u32 = 60;

/// The point where the excess becomes positive, searched from 0 (or the end closest to it)
/// outwards, so that extreme values are tried only if needed. With the slope there, if two points
/// close to it are known. If the sign does not change, an end of the range.
fn boundary(
    (bad, good): (f64, f64),
    excess: impl Fn(f64) -> Result<f64>,
) -> Result<(f64, Option<f64>)> {
    let mut x = 0.0_f64.clamp(bad.min(good), bad.max(good));
    let mut found = excess(x)?;
    let meets = found <= 0.0;
    let end = if meets { bad } else { good };
    let mut reach = 1.0;
    let mut ahead = OUTWARDS.0 * found.abs();
    while (end - x).abs() > 0.0 {
        let far = f64::min(reach, (end - x).abs());
        let step = if ahead.is_finite() {
            ahead.max(LEAST_STEP).min(far)
        } else {
            far
        };
        let next = x + (end - x).signum() * step;
        let before = (x, found);
        (x, found) = (next, excess(next)?);
        match (meets, found <= 0.0) {
            (true, false) => return close_in((x, found), before, excess),
            (false, true) => return close_in(before, (x, found), excess),
            _ => {
                reach *= 1.5;
                let root = found * (x - before.0) / (found - before.1);
                ahead = if root.is_sign_negative() == (end > x) {
                    OUTWARDS.1 * root.abs()
                } else {
                    reach
                };
            }
        }
    }
    Ok((end, None))
}

fn close_in(
    bad: Point,
    good: Point,
    excess: impl Fn(f64) -> Result<f64>,
) -> Result<(f64, Option<f64>)> {
    let mut secant = Secant::new(bad, good);
    let mut slope = None;
    while (secant.good.0 - secant.bad.0).abs() > SECANT_PRECISION && secant.rounds < MOST_ROUNDS {
        let [a, b] = secant.last;
        if (b.0 - a.0).abs() > SLOPE_OVER {
            slope = Some((b.1 - a.1) / (b.0 - a.0));
        }
        if b.1.abs() <= SECANT_PRECISION {
            return Ok((b.0, slope));
        }
        if b.1.abs() <= STEP_FROM
            && let Some(slope) = slope
            && (b.1 / slope).abs() <= SLOPE_OVER
        {
            return Ok((b.0 - b.1 / slope, Some(slope)));
        }
        let x = secant.next(0.3 * SECANT_PRECISION);
        secant.add((x, excess(x)?));
    }
    Ok((secant.good.0, slope))
}

/// Where the line between two points reaches `-below`; the midpoint if that is outside of them.
fn between(bad: Point, good: Point, below: f64) -> f64 {
    let share = (-below - good.1) / (bad.1 - good.1);
    let middle = 0.5 * (bad.0 + good.0);
    if share.is_finite() && share > 0.0 && share < 1.0 {
        good.0 + share * (bad.0 - good.0)
    } else {
        middle
    }
}

/// A bracket and the two points evaluated last.
struct Secant {
    bad: Point,
    good: Point,
    last: [Point; 2],
    rounds: u32,
}

impl Secant {
    const fn new(bad: Point, good: Point) -> Self {
        Self {
            bad,
            good,
            last: [bad, good],
            rounds: 0,
        }
    }

    fn add(&mut self, point: Point) {
        if point.1 > 0.0 {
            self.bad = point;
        } else {
            self.good = point;
        }
        self.last = [self.last[1], point];
        self.rounds += 1;
    }

    /// The next point to evaluate: the root of the secant through the last two points, moved
    /// slightly away from the closer end of the bracket, by at least `least`, so that both ends
    /// converge. The midpoint if the secant leads out of the bracket, and in every sixth step.
    fn next(&self, least: f64) -> f64 {
        let (low, high) = (self.bad.0.min(self.good.0), self.bad.0.max(self.good.0));
        let middle = low + 0.5 * (high - low);
        let [a, b] = self.last;
        let root = b.0 - b.1 * (b.0 - a.0) / (b.1 - a.1);
        if self.rounds % 6 == 5 || !(low..=high).contains(&root) {
            return middle;
        }
        let (below, above) = (root - low, high - root);
        let push = (0.02 * below.min(above)).max(least);
        let pushed = if below < above {
            root + push
        } else {
            root - push
        };
        pushed.clamp((low + least).min(middle), (high - least).max(middle))
    }
}
