//! The one parameter that is left open, so that a guarantee is just met.
//!
//! The event is a function of the parameter, so any number anywhere in an event tree can be the
//! open one: a noise multiplier, a number of steps, a sampling probability, the scale of a budget
//! share. A function may answer [`DpEvent::NonPrivate`] where the parameter makes no sense; that
//! misses any target. The answer is on the safe side: at the parameter returned, the tightest accountant's
//! `upper` meets the target.
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

use crate::accountant::{Accountant, PrivacyBound};
use crate::tightest::TightestAccountant;
use crate::{Error, Result};

/// A parameter that meets a target, and the epsilon that it gives at the target's delta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibrated<T = f64> {
    /// The parameter.
    pub value: T,
    /// Epsilon at the target's delta.
    pub bound: PrivacyBound,
}

/// Relative distance to the exact solution at which the search ends.
const PRECISION: f64 = 1e-11;

/// Noise multipliers searched.
const NOISE: (f64, f64) = (1e-6, 1e9);

/// Sampling probabilities searched.
const PROBABILITY: (f64, f64) = (1e-12, 1.0);

/// Counts searched, outwards from the first.
const LARGEST_COUNT: u64 = 1 << 50;
const FIRST_COUNT: u64 = 1 << 10;

/// The smallest noise multiplier (or scale) from 1e-6 to 1e9 that meets `target`, rounded up.
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

/// The smallest x within `range` that meets `target`, for a cost that falls with x.
///
/// # Errors
/// [`Error::Param`] for a target that cannot be aimed at or a range that is not 0 < low < high;
/// [`Error::TargetOutOfReach`] when even the end of the range misses the target; those of the
/// accountant.
///
/// # Numerics
/// Secants on ln delta against ln x within a bracket, until its ends agree to 1e-11; about ten
/// evaluations of the profile.
pub fn smallest(
    target: ApproxDp,
    adjacency: Adjacency,
    range: (f64, f64),
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    let (low, high) = check_range(range)?;
    let search = Search::new(target, adjacency)?;
    let value = search.boundary(low, high, &event)?;
    search.finish(value, &event(value))
}

/// The largest x within `range` that meets `target`, for a cost that rises with x.
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
    let search = Search::new(target, adjacency)?;
    let value = search.boundary(high, low, &event)?;
    search.finish(value, &event(value))
}

/// The largest count that meets `target`, exactly: one more would miss it.
///
/// # Errors
/// As [`smallest`]; [`Error::TargetOutOfReach`] too when a single run misses the target, and
/// [`Error::Param`] when 2^50 runs still meet it.
pub fn count(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(u64) -> DpEvent,
) -> Result<Calibrated<u64>> {
    let search = Search::new(target, adjacency)?;
    let excess = |n: u64| Ok::<_, Error>((n, search.excess(&event(n))?));
    let mut at = excess(FIRST_COUNT)?;
    let (meets, misses) = if at.1 > 0.0 {
        loop {
            if at.0 == 1 {
                return Err(search.out_of_reach(1.0));
            }
            let fewer = excess(at.0 / 4)?;
            if fewer.1 <= 0.0 {
                break (fewer, at);
            }
            at = fewer;
        }
    } else {
        loop {
            if at.0 >= LARGEST_COUNT {
                return Err(unbounded());
            }
            let more = excess(at.0 * 4)?;
            if more.1 > 0.0 {
                break (at, more);
            }
            at = more;
        }
    };
    let value = search.last_count(meets, misses, &event)?;
    let bound = search.bound(&event(value))?;
    Ok(Calibrated { value, bound })
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

fn unbounded() -> Error {
    Error::Param(ParamError {
        name: "count",
        value: LARGEST_COUNT as f64,
        expected: "a cost that some count below 2^50 exceeds",
    })
}

/// A target under one adjacency.
struct Search {
    target: ApproxDp,
    adjacency: Adjacency,
}

/// Logarithm of an epsilon of 0: nothing further below says where the target lies.
const FLOOR: f64 = -200.0;

impl Search {
    fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        Ok(Self { target, adjacency })
    }

    /// By how much the event misses the target, as ln of epsilon over the target's epsilon: nearly
    /// linear in the logarithm of a noise, a count or a probability.
    fn excess(&self, event: &DpEvent) -> Result<f64> {
        let ApproxDp { epsilon, delta } = self.target;
        if matches!(event, DpEvent::NonPrivate) {
            return Ok(f64::INFINITY);
        }
        match self.accountant(event)?.epsilon_unless(delta, epsilon) {
            Ok(bound) if bound.upper <= epsilon => {
                let ratio = libm::log(bound.upper / epsilon);
                Ok(ratio.clamp(FLOOR, 0.0))
            }
            Ok(bound) => Ok(libm::log(bound.upper / epsilon).max(f64::MIN_POSITIVE)),
            Err(Error::NoFiniteEpsilon { .. }) => Ok(f64::INFINITY),
            Err(other) => Err(other),
        }
    }

    fn accountant(&self, event: &DpEvent) -> Result<TightestAccountant> {
        let mut accountant = TightestAccountant::new(self.adjacency);
        accountant.compose(event, 1)?;
        Ok(accountant)
    }

    /// The parameter nearest to `bad` that meets the target, between `bad` and `good`.
    fn boundary(&self, bad: f64, good: f64, event: impl Fn(f64) -> DpEvent) -> Result<f64> {
        let excess = |x: f64| self.excess(&event(libm::exp(x)));
        let (bad, good) = (libm::log(bad), libm::log(good));
        // From 1, or the end nearest to it, outwards: extremes are tried only when needed.
        let mut x = 0.0_f64.clamp(bad.min(good), bad.max(good));
        let mut found = excess(x)?;
        let meets = found <= 0.0;
        let end = if meets { bad } else { good };
        let mut reach = 1.0;
        while (end - x).abs() > 0.0 {
            let next = x + (end - x).signum() * f64::min(reach, (end - x).abs());
            let (before, at_before) = (x, found);
            (x, found) = (next, excess(next)?);
            match (meets, found <= 0.0) {
                (true, false) => return self.close_in((x, found), (before, at_before), excess),
                (false, true) => return self.close_in((before, at_before), (x, found), excess),
                _ => reach *= 1.5,
            }
        }
        if meets {
            return Ok(libm::exp(end));
        }
        Err(self.out_of_reach(libm::exp(end)))
    }

    /// Guarded secants between logarithms of parameters with their excess.
    fn close_in(
        &self,
        bad: (f64, f64),
        good: (f64, f64),
        excess: impl Fn(f64) -> Result<f64>,
    ) -> Result<f64> {
        let mut secant = Secant::new(bad, good);
        while (secant.good.0 - secant.bad.0).abs() > PRECISION && secant.rounds < MOST_ROUNDS {
            let x = secant.next();
            secant.add((x, excess(x)?));
        }
        Ok(libm::exp(secant.good.0))
    }

    /// The largest count that meets the target, between one that does and one that does not.
    fn last_count(
        &self,
        mut meets: (u64, f64),
        mut misses: (u64, f64),
        event: impl Fn(u64) -> DpEvent,
    ) -> Result<u64> {
        let at = |(n, excess): (u64, f64)| (libm::log(n as f64), excess);
        let mut secant = Secant::new(at(misses), at(meets));
        while misses.0 - meets.0 > 1 {
            let x = libm::exp(secant.next());
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a positive number below 2^50, kept strictly between two counts"
            )]
            let n = (x.round() as u64).clamp(meets.0 + 1, misses.0 - 1);
            let found = (n, self.excess(&event(n))?);
            if found.1 > 0.0 {
                misses = found;
            } else {
                meets = found;
            }
            secant.add(at(found));
        }
        Ok(meets.0)
    }

    fn bound(&self, event: &DpEvent) -> Result<PrivacyBound> {
        self.accountant(event)?.epsilon(self.target.delta)
    }

    fn finish(&self, value: f64, event: &DpEvent) -> Result<Calibrated> {
        let bound = self.bound(event)?;
        Ok(Calibrated { value, bound })
    }

    const fn out_of_reach(&self, nearest: f64) -> Error {
        Error::TargetOutOfReach {
            epsilon: self.target.epsilon,
            delta: self.target.delta,
            nearest,
        }
    }
}

/// Most evaluations within a bracket.
const MOST_ROUNDS: u32 = 120;

/// A bracket of logarithms of parameters with their excess, and the two points evaluated last.
struct Secant {
    bad: (f64, f64),
    good: (f64, f64),
    last: [(f64, f64); 2],
    rounds: u32,
}

impl Secant {
    const fn new(bad: (f64, f64), good: (f64, f64)) -> Self {
        Self {
            bad,
            good,
            last: [bad, good],
            rounds: 0,
        }
    }

    fn add(&mut self, point: (f64, f64)) {
        if point.1 > 0.0 {
            self.bad = point;
        } else {
            self.good = point;
        }
        self.last = [self.last[1], point];
        self.rounds += 1;
    }

    /// Where to look next: the root of the secant through the last two points, pushed a little away
    /// from the nearer end of the bracket so that both ends close in; the middle where the secant
    /// leads out of the bracket, and every sixth time.
    fn next(&self) -> f64 {
        let (low, high) = (self.bad.0.min(self.good.0), self.bad.0.max(self.good.0));
        let middle = low + 0.5 * (high - low);
        let [a, b] = self.last;
        let root = b.0 - b.1 * (b.0 - a.0) / (b.1 - a.1);
        if self.rounds % 6 == 5 || !(low..=high).contains(&root) {
            return middle;
        }
        let least = 0.3 * PRECISION;
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
