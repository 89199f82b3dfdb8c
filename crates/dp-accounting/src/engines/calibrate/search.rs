//! Where a guarantee is just met: quick estimates up to the last steps, certified ends for those.

use dp_core::{Adjacency, ApproxDp, DpEvent};

use super::secant::{self, Point};
use super::{Calibrated, counts};
use crate::engines::accountant::{Accountant, PrivacyBound};
use crate::engines::tightest::TightestAccountant;
use crate::{Error, Result};

/// A target under one adjacency.
pub(super) struct Search {
    target: ApproxDp,
    adjacency: Adjacency,
}

/// Logarithm of an epsilon of 0: nothing further below says where the target lies.
const FLOOR: f64 = -200.0;

/// Relative distance to the exact solution at which the search ends.
const PRECISION: f64 = 1e-11;

/// The part of a bracket's width that the answer may stay below the target.
const OF_THE_WIDTH: f64 = 0.01;

/// Distance in ln x over which a slope is taken.
const SLOPE_OVER: f64 = 0.01;

/// Where the search for a count begins.
const FIRST_COUNT: u64 = 1 << 10;

impl Search {
    pub(super) fn new(target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        let target = ApproxDp::target(target.epsilon, target.delta)?;
        Ok(Self { target, adjacency })
    }

    /// The parameter nearest to `bad` that meets the target, between `bad` and `good`.
    pub(super) fn boundary(
        &self,
        bad: f64,
        good: f64,
        event: impl Fn(f64) -> DpEvent,
    ) -> Result<Calibrated> {
        let (bad, good) = (libm::log(bad), libm::log(good));
        let at = |x: f64| event(libm::exp(x));
        let near = secant::boundary((bad, good), |x| self.roughly(&at(x)))?;
        let (value, bound) = self.settle(near, (bad, good), at)?;
        let value = libm::exp(value);
        Ok(Calibrated { value, bound })
    }

    /// The largest count that meets the target, exactly.
    pub(super) fn last_count(&self, event: impl Fn(u64) -> DpEvent) -> Result<Calibrated<u64>> {
        let roughly = |n: u64| self.roughly(&event(n));
        let near = match counts::gallop(FIRST_COUNT, FIRST_COUNT / 2, roughly)? {
            (Some(meets), Some(misses)) => counts::between(meets, misses, roughly)?,
            (None, _) => 1,
            (_, None) => counts::LARGEST,
        };
        let certified = |n: u64| Ok(self.certified(&event(n))?.0);
        let value = match counts::gallop(near, 1, certified)? {
            (Some(meets), Some(misses)) => counts::between(meets, misses, certified)?,
            (None, _) => return Err(self.out_of_reach(1.0)),
            (_, None) => return Err(counts::unbounded()),
        };
        let bound = self.accountant(&event(value))?.epsilon(self.target.delta)?;
        Ok(Calibrated { value, bound })
    }

    /// By how much a bound misses the target, as ln of epsilon over the target's epsilon: nearly
    /// linear in the logarithm of a noise, a count or a probability.
    fn excess(&self, upper: f64) -> f64 {
        let ratio = libm::log(upper / self.target.epsilon);
        if upper <= self.target.epsilon {
            ratio.clamp(FLOOR, 0.0)
        } else {
            ratio.max(f64::MIN_POSITIVE)
        }
    }

    /// The excess of an estimate, or of a bound where there is none.
    fn roughly(&self, event: &DpEvent) -> Result<f64> {
        let ApproxDp { epsilon, delta } = self.target;
        if matches!(event, DpEvent::NonPrivate) {
            return Ok(f64::INFINITY);
        }
        let accountant = self.accountant(event)?;
        if let Some(estimate) = accountant.estimate(delta) {
            return Ok(self.excess(estimate));
        }
        match accountant.epsilon_unless(delta, epsilon) {
            Ok(bound) => Ok(self.excess(bound.upper)),
            Err(Error::NoFiniteEpsilon { .. }) => Ok(f64::INFINITY),
            Err(other) => Err(other),
        }
    }

    /// The excess of the best bound; infinite, without a bound, where epsilon is.
    fn certified(&self, event: &DpEvent) -> Result<(f64, Option<PrivacyBound>)> {
        if matches!(event, DpEvent::NonPrivate) {
            return Ok((f64::INFINITY, None));
        }
        match self.accountant(event)?.epsilon(self.target.delta) {
            Ok(bound) => Ok((self.excess(bound.upper), Some(bound))),
            Err(Error::NoFiniteEpsilon { .. }) => Ok((f64::INFINITY, None)),
            Err(other) => Err(other),
        }
    }

    fn accountant(&self, event: &DpEvent) -> Result<TightestAccountant> {
        let mut accountant = TightestAccountant::new(self.adjacency);
        accountant.compose(event, 1)?;
        Ok(accountant)
    }

    /// From a logarithm near the boundary to one that provably meets the target, next to it.
    fn settle(
        &self,
        near: f64,
        (worst, safest): (f64, f64),
        event: impl Fn(f64) -> DpEvent,
    ) -> Result<(f64, PrivacyBound)> {
        let (low, high) = (worst.min(safest), worst.max(safest));
        let slope = self.slope(near, safest, &event)?;
        let (mut bad, mut good): (Option<Point>, Option<(Point, PrivacyBound)>) = (None, None);
        let (mut x, mut reach) = (near, 1.0);
        loop {
            let (excess, bound) = self.certified(&event(x))?;
            let mut slack = PRECISION;
            if let Some(bound) = bound {
                slack = slack.max(OF_THE_WIDTH * width(&bound));
            }
            match bound.filter(|_| excess <= 0.0) {
                Some(bound) if excess >= -slack || is(x, worst) => return Ok((x, bound)),
                Some(bound) => good = Some(((x, excess), bound)),
                None if is(x, safest) => return Err(self.out_of_reach(libm::exp(x))),
                None => bad = Some((x, excess)),
            }
            x = match (bad, good) {
                (Some(bad), Some((good, bound))) => {
                    if (bad.0 - good.0).abs() <= PRECISION {
                        return Ok((good.0, bound));
                    }
                    secant::between(bad, good, 0.5 * slack)
                }
                _ => {
                    let step = -(excess.clamp(-1.0, 1.0) + 0.5 * slack) / slope;
                    reach *= 2.0;
                    (x + 0.5 * reach * step).clamp(low, high)
                }
            };
        }
    }

    /// d excess / d ln x near the boundary, towards the safe end; at least a hundredth in size.
    fn slope(&self, x: f64, safest: f64, event: impl Fn(f64) -> DpEvent) -> Result<f64> {
        let towards = if safest >= x { 1.0 } else { -1.0 };
        let there = self.roughly(&event(x + towards * SLOPE_OVER))?;
        let slope = towards * (there - self.roughly(&event(x))?) / SLOPE_OVER;
        let falls = slope * towards < -0.01 && slope.is_finite();
        Ok(if falls { slope } else { -towards })
    }

    const fn out_of_reach(&self, nearest: f64) -> Error {
        Error::TargetOutOfReach {
            epsilon: self.target.epsilon,
            delta: self.target.delta,
            nearest,
        }
    }
}

/// Width of a bracket relative to its upper end.
fn width(bound: &PrivacyBound) -> f64 {
    if bound.upper > 0.0 {
        (bound.upper - bound.lower) / bound.upper
    } else {
        0.0
    }
}

/// Whether a search that is kept between two ends is at this one.
const fn is(x: f64, end: f64) -> bool {
    (x - end).abs() <= 0.0
}
