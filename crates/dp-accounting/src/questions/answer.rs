use std::fmt;

use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError};

use super::question::{Formula, Given};
use crate::Error;
use crate::engines::accountant::{Accountant, Method, PrivacyBound};
use crate::engines::calibrate;
use crate::engines::rdp::RdpAccountant;
use crate::engines::rdp::conversion::{self, Conversion};
use crate::engines::rounding::count_up;
use crate::engines::tightest::TightestAccountant;

/// The quantity that a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quantity {
    /// Epsilon, in nats.
    Epsilon,
    /// Delta, a probability.
    Delta,
    /// Renyi divergence, in nats.
    RenyiDivergence,
    /// The smallest noise multiplier that meets a target.
    NoiseMultiplier,
    /// The smallest standard deviation of noise that meets a target.
    Sigma,
    /// The smallest scale of Laplace noise that meets a target.
    Scale,
    /// The largest decay of discrete Laplace noise that meets a target.
    Rate,
    /// The largest sampling probability that meets a target.
    SamplingProbability,
    /// The largest number of repetitions that meets a target.
    Count,
}

impl Quantity {
    /// The name used in files and for display.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epsilon => "epsilon",
            Self::Delta => "delta",
            Self::RenyiDivergence => "Renyi divergence",
            Self::NoiseMultiplier => "noise_multiplier",
            Self::Sigma => "sigma",
            Self::Scale => "scale",
            Self::Rate => "rate",
            Self::SamplingProbability => "sampling_probability",
            Self::Count => "count",
        }
    }

    /// Whether the larger value is the safe one: true for privacy loss and noise, false for
    /// quantities that use up the budget.
    #[must_use]
    pub const fn safe_above(self) -> bool {
        !matches!(self, Self::Rate | Self::SamplingProbability | Self::Count)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An answer with bounds from both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The quantity of the three values.
    pub quantity: Quantity,
    /// The best single value. For a calibration, it is one that certainly meets the target.
    pub value: f64,
    /// A lower bound on the true value.
    pub lower: f64,
    /// An upper bound on the true value.
    pub upper: f64,
    /// How it was computed.
    pub method: Method,
    /// A remark on how the question was interpreted.
    pub note: Option<&'static str>,
}

impl Answer {
    /// Rejects what is not a bracket of finite numbers.
    pub(super) fn new(
        quantity: Quantity,
        value: f64,
        (lower, upper): (f64, f64),
        method: Method,
    ) -> Result<Self> {
        if !(lower.is_finite() && upper.is_finite() && lower <= value && value <= upper) {
            return Err(QuestionError::NoBracket { lower, upper });
        }
        Ok(Self {
            quantity,
            value,
            lower,
            upper,
            method,
            note: None,
        })
    }

    /// The answer given by an accountant.
    pub(super) fn of_bound(quantity: Quantity, bound: PrivacyBound) -> Result<Self> {
        let ends = (bound.lower, bound.upper);
        Self::new(quantity, bound.value, ends, bound.method)
    }

    /// The answer for a number of repetitions that meets the target, and the first that certainly
    /// does not.
    pub(super) fn of_count(count: u64, too_many: u64, method: Method) -> Result<Self> {
        let ends = (count_up(count), count_up(too_many.saturating_sub(1)));
        Self::new(
            Quantity::Count,
            ends.0,
            (ends.0, ends.1.max(ends.0)),
            method,
        )
    }

    /// This answer with the lower bound of another one, for a question whose privacy cost is
    /// certainly lower.
    pub(super) fn down_to(mut self, cheaper: Self) -> Self {
        self.lower = cheaper.lower.min(self.lower);
        self
    }

    pub(super) const fn with_note(mut self, note: Option<&'static str>) -> Self {
        self.note = note;
        self
    }

    /// Width of the bracket divided by the value; 0 if both are 0.
    #[must_use]
    pub fn relative_width(&self) -> f64 {
        let width = self.upper - self.lower;
        if width == 0.0 {
            0.0
        } else {
            width / self.value.abs()
        }
    }
}

/// Why a question file, or a single question, has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// Not JSON, an unknown mechanism or query, or a parameter that is missing, superfluous or not
    /// a number.
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
    /// The file has a layout that this version does not support.
    #[error("schema_version is {found}; expected 1")]
    Schema {
        /// Version in the file.
        found: u64,
    },
    /// The file states its values in another unit.
    #[error("units are {found:?}; expected \"nats\"")]
    Units {
        /// Unit in the file.
        found: String,
    },
    /// An event file must ask for exactly one quantity.
    #[error("state delta, or epsilon, or both and one parameter of the event that is null")]
    Unclear,
    /// A parameter is null, but the query does not ask for it, or it cannot be solved for.
    #[error("{name} is null, and the query does not ask for it")]
    NotAsked {
        /// The parameter.
        name: String,
    },
    /// The query asks for a parameter, but the number of null parameters of that kind is not one.
    #[error("the query asks for one {asked}: exactly one must be null, found {found}")]
    Unknowns {
        /// The requested parameter.
        asked: Quantity,
        /// How many are null.
        found: usize,
    },
    /// A discrete mechanism under `replace_one` together with one that is defined by single
    /// records.
    #[error(
        "a discrete mechanism at the odd distance {sensitivity} under replace_one, together with a \
         sampled or local one, cannot be stated"
    )]
    OddDistance {
        /// The distance.
        sensitivity: u32,
    },
    /// A conversion formula that does not apply to these mechanisms.
    #[error("the formula does not apply: {reason}")]
    Formula {
        /// What it requires.
        reason: &'static str,
    },
    /// The query does not apply to this mechanism.
    #[error("{query} is defined for {expected} only")]
    WrongMechanism {
        /// The query.
        query: &'static str,
        /// The mechanism that it is defined for.
        expected: &'static str,
    },
    /// An accountant returned something that is not a bracket. This is a bug in this crate.
    #[error("the accountant returned the bracket {lower} to {upper}")]
    NoBracket {
        /// Its lower end.
        lower: f64,
        /// Its upper end.
        upper: f64,
    },
    /// A parameter is out of range, or no accountant can answer.
    #[error(transparent)]
    Accounting(#[from] Error),
}

impl From<ParamError> for QuestionError {
    fn from(error: ParamError) -> Self {
        Self::Accounting(error.into())
    }
}

/// Result of answering a question.
pub(super) type Result<T, E = QuestionError> = std::result::Result<T, E>;

/// Events with their counts.
pub(super) type Counted = [(DpEvent, u64)];

/// The best answer of all methods.
pub(super) fn profile(
    events: &Counted,
    adjacency: Adjacency,
    given: Given,
) -> crate::Result<PrivacyBound> {
    asked(composed(TightestAccountant::new(adjacency), events)?, given)
}

fn composed<A: Accountant>(mut accountant: A, events: &Counted) -> crate::Result<A> {
    for (event, count) in events {
        accountant.compose(event, *count)?;
    }
    Ok(accountant)
}

fn asked(accountant: impl Accountant, given: Given) -> crate::Result<PrivacyBound> {
    match given {
        Given::Delta(delta) => accountant.epsilon(delta),
        Given::Epsilon(epsilon) => accountant.delta(epsilon),
    }
}

/// The answer of the Renyi accountant, minimised over `orders` or over all real orders.
pub(super) fn renyi_profile(
    events: &Counted,
    adjacency: Adjacency,
    orders: Option<Vec<f64>>,
    given: Given,
) -> crate::Result<PrivacyBound> {
    let accountant = match orders {
        Some(orders) => RdpAccountant::with_orders(adjacency, orders)?,
        None => RdpAccountant::new(adjacency),
    };
    asked(composed(accountant, events)?, given)
}

/// Renyi divergence of each of `orders`.
pub(super) fn renyi(
    events: &Counted,
    adjacency: Adjacency,
    orders: &[f64],
) -> crate::Result<Vec<PrivacyBound>> {
    let accountant = composed(RdpAccountant::new(adjacency), events)?;
    orders.iter().map(|&order| accountant.rdp(order)).collect()
}

/// Epsilon or delta implied by Renyi divergence `rdp` of order `order`.
pub(super) fn converted(
    order: f64,
    rdp: f64,
    given: Given,
    formula: Formula,
) -> crate::Result<f64> {
    let conversion = match formula {
        Formula::Mironov2017 => Conversion::Mironov2017,
        Formula::Cks2020 => Conversion::Cks2020,
        Formula::Asoodeh2020 => Conversion::Asoodeh2020,
    };
    match given {
        Given::Delta(delta) => conversion::epsilon(order, rdp, delta, conversion),
        Given::Epsilon(epsilon) => conversion::delta(order, rdp, epsilon, conversion),
    }
}

/// Whether `event` certainly misses `target`; false if this is not known.
pub(super) fn certainly_misses(event: &DpEvent, adjacency: Adjacency, target: ApproxDp) -> bool {
    let events = [(event.clone(), 1)];
    profile(&events, adjacency, Given::Epsilon(target.epsilon))
        .is_ok_and(|bound| bound.lower > target.delta)
}

/// A value for the unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Trial {
    Real(f64),
    Whole(u64),
}

impl Trial {
    /// An arbitrary value within range.
    pub(super) const fn anything(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Count => Self::Whole(1),
            Quantity::SamplingProbability => Self::Real(0.5),
            _ => Self::Real(1.0),
        }
    }
}

/// A calibration: the unknown, the target, and the whole composition as a function of the unknown.
pub(super) struct Calibration<'a> {
    pub(super) quantity: Quantity,
    /// Noise is solved for in multiples of this.
    pub(super) unit: f64,
    pub(super) target: ApproxDp,
    pub(super) adjacency: Adjacency,
    /// The composition with ratios rounded so that it never costs less than the question states.
    pub(super) costlier: &'a dyn Fn(Trial) -> DpEvent,
    /// The composition with ratios rounded so that it never costs more than the question states.
    pub(super) cheaper: &'a dyn Fn(Trial) -> DpEvent,
}

/// Relative distances at which a value on the other side of the best one is searched.
const DISTANCES: [f64; 9] = [1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];

/// The search ends within 1e-11 of the best value; the guaranteed end of a bracket also leaves room
/// for the rounding of another program.
const SEARCH: f64 = 1e-10;

impl Calibration<'_> {
    /// Returns the value that certainly meets the target, both alone and in a bracket whose other
    /// end is the closest value found that certainly does not.
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
        let found = calibrate::noise(self.target, self.adjacency, event)?;
        let value = parameter(found.value);
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
        let answer = Answer::new(self.quantity, value, ends, found.bound.method)?;
        Ok((answer, Trial::Real(value)))
    }

    fn sampling_probability(&self) -> Result<(Answer, Trial)> {
        let event = |q: f64| (self.costlier)(Trial::Real(q));
        let found = calibrate::sampling_probability(self.target, self.adjacency, event)?;
        let (q, method) = (found.value, found.bound.method);
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
        let found = calibrate::count(self.target, self.adjacency, event)?;
        let (n, method) = (found.value, found.bound.method);
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
        trials
            .into_iter()
            .find(|&trial| certainly_misses(&(self.cheaper)(trial), self.adjacency, self.target))
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
