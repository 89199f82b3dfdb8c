//! Solving for one parameter, and how far the answer can be from the best.

use dp_core::{Adjacency, ApproxDp, DpEvent};

use super::answer::Result;
use super::{Answer, Quantity, engine};
use crate::engines::accountant::Method;

/// A value for the unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Trial {
    Real(f64),
    Whole(u64),
}

impl Trial {
    /// Some value in range.
    pub(super) const fn anything(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Count => Self::Whole(1),
            Quantity::SamplingProbability => Self::Real(0.5),
            _ => Self::Real(1.0),
        }
    }
}

/// A calibration: the unknown, the target, and everything composed as a function of the unknown.
pub(super) struct Calibration<'a> {
    pub(super) quantity: Quantity,
    /// Noise is solved for in units of this.
    pub(super) unit: f64,
    pub(super) target: ApproxDp,
    pub(super) adjacency: Adjacency,
    /// What ran, never cheaper than the question says.
    pub(super) costlier: &'a dyn Fn(Trial) -> DpEvent,
    /// What ran, never costlier than the question says.
    pub(super) cheaper: &'a dyn Fn(Trial) -> DpEvent,
}

/// Relative distances at which the other side of the best value is looked for.
const DISTANCES: [f64; 9] = [1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];

/// The search ends within 1e-11 of the best value; the promised end of a bracket leaves room for
/// another program's rounding as well.
const SEARCH: f64 = 1e-10;

impl Calibration<'_> {
    /// The value that certainly meets the target, alone and in a bracket whose other end is the
    /// nearest value found that certainly does not.
    pub(super) fn solve(&self) -> Result<(Answer, Trial)> {
        match self.quantity {
            Quantity::Count => self.count(),
            Quantity::SamplingProbability => self.sampling_probability(),
            _ => self.noise(),
        }
    }

    fn noise(&self) -> Result<(Answer, Trial)> {
        let parameter = |x: f64| match self.quantity {
            Quantity::Rate => 1.0 / (x * self.unit),
            _ => x * self.unit,
        };
        let real = |x: f64| Trial::Real(parameter(x));
        let event = |x: f64| (self.costlier)(real(x));
        let (x, method) = engine::least_noise(self.target, self.adjacency, event)?;
        let value = parameter(x);
        let less = |distance: f64| match self.quantity {
            Quantity::Rate => value * (1.0 + distance),
            _ => value * (1.0 - distance),
        };
        let missed = self.first_miss(DISTANCES.map(|d| Trial::Real(less(d))));
        let ends = match (self.quantity, missed) {
            (Quantity::Rate, Some(Trial::Real(rate))) => (value * (1.0 - SEARCH), rate),
            (Quantity::Rate, _) => (value * (1.0 - SEARCH), f64::MAX),
            (_, Some(Trial::Real(noise))) => (noise, value * (1.0 + SEARCH)),
            _ => (0.0, value * (1.0 + SEARCH)),
        };
        let answer = Answer::new(self.quantity, value, ends, method)?;
        Ok((answer, Trial::Real(value)))
    }

    fn sampling_probability(&self) -> Result<(Answer, Trial)> {
        let event = |q: f64| (self.costlier)(Trial::Real(q));
        let (q, method) = engine::largest_probability(self.target, self.adjacency, event)?;
        let more = DISTANCES.map(|d| Trial::Real((q * (1.0 + d)).min(1.0)));
        let upper = match self.first_miss(more) {
            Some(Trial::Real(missed)) => missed,
            _ => 1.0,
        };
        let answer = Answer::new(self.quantity, q, (q * (1.0 - SEARCH), upper), method)?;
        Ok((answer, Trial::Real(q)))
    }

    fn count(&self) -> Result<(Answer, Trial)> {
        let event = |n: u64| (self.costlier)(Trial::Whole(n));
        let (n, method): (u64, Method) = engine::largest_count(self.target, self.adjacency, event)?;
        let next = [Trial::Whole(n.saturating_add(1))];
        let farther = DISTANCES.map(|d| Trial::Whole(n.saturating_add(share_of(n, d))));
        let too_many = match self.first_miss(next).or_else(|| self.first_miss(farther)) {
            Some(Trial::Whole(too_many)) => too_many,
            _ => u64::MAX,
        };
        Ok((Answer::of_count(n, too_many, method)?, Trial::Whole(n)))
    }

    /// The first of `trials` that certainly misses the target.
    fn first_miss<const N: usize>(&self, trials: [Trial; N]) -> Option<Trial> {
        trials.into_iter().find(|&trial| {
            engine::certainly_misses(&(self.cheaper)(trial), self.adjacency, self.target)
        })
    }
}

/// At least 1 more than `share` of n.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a u64, and casts saturate"
)]
fn share_of(n: u64, share: f64) -> u64 {
    1 + (n as f64 * share) as u64
}
