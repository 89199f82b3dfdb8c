use dp_core::{Adjacency, DpEvent, params};

use crate::engines::accountant::{Accountant, Method, PrivacyBound};
use crate::engines::composition::Composition;
use crate::engines::pld::Rounds;
use crate::engines::rdp::RdpAccountant;
use crate::engines::rounding::UpwardSum;
use crate::engines::{gdp, pld, profile, saddle_point};
use crate::{Error, Result};

/// The default accountant: it supports every event, tries the methods that apply and returns the
/// best of their answers.
///
/// | composition | method |
/// | --- | --- |
/// | Gaussian mechanisms only | closed form ([`Method::Gdp`]) |
/// | a single run of another mechanism with a known pair | closed form ([`Method::Profile`]) |
/// | smooth losses: anything with a Gaussian, or enough sampled or Laplace ones | inversion ([`Method::SaddlePoint`]) |
/// | other mechanisms with a known pair of distributions | bracket ([`Method::Pld`]) |
/// | anything else, or if that bracket is the worse bound | Renyi divergences ([`Method::Rdp`]) |
///
/// # Examples
/// ```
/// use dp_accounting::{Accountant, Method, TightestAccountant};
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = TightestAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::gaussian(8.0), 4)?;
/// accountant.compose(&DpEvent::laplace(10.0), 1)?;
/// accountant.compose(&DpEvent::sampled_gaussian(1.0, 0.01), 1_000)?;
/// let bound = accountant.epsilon(1e-6)?;
/// assert_eq!(bound.method, Method::SaddlePoint);
/// assert!(bound.upper - bound.lower < 1e-9);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TightestAccountant {
    composition: Composition,
}

/// The requested quantity.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// Epsilon at this delta.
    EpsilonAt(f64),
    /// Delta at this epsilon.
    DeltaAt(f64),
}

/// Relative width of a bracket that no other method needs to improve.
const CLOSE: f64 = 1e-6;

/// Relative size of the steps in a bound by Renyi divergences, from the search for its order.
const RENYI_STEP: f64 = 1e-8;

/// Relative error allowed for the closed form of Gaussian mechanisms.
const GDP_ERROR: f64 = 4e-12;

impl TightestAccountant {
    /// Creates an accountant without any events.
    #[must_use]
    pub const fn new(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
        }
    }

    /// An accountant for Gaussian mechanisms with a total of `mu_squared`.
    pub(crate) const fn of_gaussian(mu_squared: UpwardSum, adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::of_gaussian(mu_squared, adjacency),
        }
    }

    /// Epsilon at `delta`: the best bound or, if that is expensive, any whose upper end is at most
    /// `enough`.
    pub(crate) fn epsilon_unless(&self, delta: f64, enough: f64) -> Result<PrivacyBound> {
        Ok(self.answer(Question::EpsilonAt(delta), enough)?.0)
    }

    /// Epsilon at `delta`, and the numerical uncertainty of the upper end: the bracket may be wider
    /// because no mechanism needs to attain what the events permit.
    pub(crate) fn epsilon_and_width(&self, delta: f64) -> Result<(PrivacyBound, f64)> {
        self.answer(Question::EpsilonAt(delta), 0.0)
    }

    /// A fast approximation of epsilon at `delta` without any guarantee, most accurate if it is
    /// close to `near`; `None` if there is no fast method.
    pub(crate) fn estimate(&self, delta: f64, near: f64) -> Option<f64> {
        let composition = self.composition.nonempty().ok()?;
        let question = Question::EpsilonAt(delta);
        if composition.parts().is_empty() {
            return Some(gaussian(composition, question).value);
        }
        match single(composition, question) {
            Some(bound) => Some(bound.value),
            None => saddle_point::estimate(composition, delta, near),
        }
    }

    /// Delta at `epsilon` by Renyi divergences alone, which is quick where a bracket is slow.
    pub(crate) fn renyi_delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        self.renyi(Question::DeltaAt(epsilon))
    }

    /// The best bound, or the first whose upper end is at most `enough`, and the width of its
    /// bracket as the method found it.
    fn answer(&self, question: Question, enough: f64) -> Result<(PrivacyBound, f64)> {
        let composition = self.composition.nonempty()?;
        if composition.parts().is_empty() {
            let bound = gaussian(composition, question);
            return Ok((bound, width(&bound)));
        }
        let honest = |bound: PrivacyBound| match composition.is_attained() {
            true => bound,
            false => PrivacyBound {
                lower: 0.0,
                ..bound
            },
        };
        let with_width = |bound: PrivacyBound| (honest(bound), width(&bound));
        let inverted = quick(composition, question)?;
        let is_sharp = inverted.as_ref().is_some_and(is_close);
        let inverted = inverted.map(with_width);
        if let Some(found) = inverted.filter(|(bound, _)| is_close(bound)) {
            return Ok(found);
        }
        let renyi = (self.renyi(question)).map(|bound| (bound, RENYI_STEP * bound.upper));
        if let Ok(found) = &renyi
            && (found.0.upper <= enough || is_close(&found.0))
        {
            return Ok(*found);
        }
        // a bracket of the same pair of distributions, so no better than a narrow one
        let discretised = match question {
            _ if is_sharp => None,
            Question::EpsilonAt(delta) => optional(pld::epsilon(composition, delta, Rounds::All))?,
            Question::DeltaAt(epsilon) => optional(pld::delta(composition, epsilon, Rounds::All))?,
        }
        .map(with_width);
        let known = [inverted, discretised, renyi.as_ref().ok().copied()];
        match known.into_iter().flatten().reduce(better) {
            Some(best) => Ok(best),
            None => renyi,
        }
    }

    fn renyi(&self, question: Question) -> Result<PrivacyBound> {
        let accountant = RdpAccountant::of(self.composition.clone());
        match question {
            Question::EpsilonAt(delta) => accountant.epsilon(delta),
            Question::DeltaAt(epsilon) => accountant.delta(epsilon),
        }
    }
}

/// The closed form of a single mechanism, otherwise the inversion; `None` if neither applies.
fn quick(composition: &Composition, question: Question) -> Result<Option<PrivacyBound>> {
    if let Some(bound) = single(composition, question).filter(is_close) {
        return Ok(Some(bound));
    }
    optional(match question {
        Question::EpsilonAt(delta) => saddle_point::epsilon(composition, delta),
        Question::DeltaAt(epsilon) => saddle_point::delta(composition, epsilon),
    })
}

/// `None` if a method does not apply; other errors remain errors.
fn optional(answer: Result<PrivacyBound>) -> Result<Option<PrivacyBound>> {
    match answer {
        Ok(bound) => Ok(Some(bound)),
        Err(Error::UnsupportedEvent { .. } | Error::NotCertified { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Whether a bracket needs no improvement; a lower end of 0 does not count as a bracket.
fn is_close(bound: &PrivacyBound) -> bool {
    bound.upper - bound.lower <= CLOSE * bound.upper
}

/// The width of a bracket; a lower end of 0 does not count as one.
fn width(bound: &PrivacyBound) -> f64 {
    if bound.lower > 0.0 {
        bound.upper - bound.lower
    } else {
        0.0
    }
}

/// Combines the bounds of two sound methods, with the width of the better one.
fn better(a: (PrivacyBound, f64), b: (PrivacyBound, f64)) -> (PrivacyBound, f64) {
    let lower = a.0.lower.max(b.0.lower);
    let (best, width) = if b.0.upper < a.0.upper { b } else { a };
    let bound = PrivacyBound::bracket(
        best.value,
        lower.min(best.upper),
        best.upper,
        best.method,
        best.adjacency,
    );
    let own = if bound.lower > 0.0 {
        bound.upper - bound.lower
    } else {
        width
    };
    (bound, width.min(own))
}

/// Gaussian mechanisms only: exact, rounded up.
fn gaussian(composition: &Composition, question: Question) -> PrivacyBound {
    let mu = gdp::from_mu_squared(composition.gaussian()).mu;
    let adjacency = composition.adjacency();
    match question {
        Question::EpsilonAt(delta) => {
            let epsilon = gdp::epsilon(mu, delta);
            let lower = gdp::epsilon(mu * (1.0 - 1e-14), delta * (1.0 + GDP_ERROR));
            PrivacyBound::bracket(epsilon, lower.min(epsilon), epsilon, Method::Gdp, adjacency)
        }
        Question::DeltaAt(epsilon) => {
            let delta = gdp::delta(mu, epsilon);
            let tiny = f64::MIN_POSITIVE * f64::EPSILON;
            let upper = (delta * (1.0 + GDP_ERROR) + tiny).min(1.0);
            let lower = delta * (1.0 - 2.0 * GDP_ERROR);
            PrivacyBound::bracket(delta, lower, upper, Method::Gdp, adjacency)
        }
    }
}

/// The closed form of one mechanism that ran once.
fn single(composition: &Composition, question: Question) -> Option<PrivacyBound> {
    let alone = composition.gaussian() == 0.0 && matches!(composition.parts(), [(_, 1)]);
    if !alone {
        return None;
    }
    let adjacency = composition.adjacency();
    let mut worst: Option<PrivacyBound> = None;
    for direction in composition.directions() {
        let losses = composition.losses(*direction).ok()?;
        let [(loss, _)] = &losses[..] else {
            return None;
        };
        let found = match question {
            Question::EpsilonAt(delta) => profile::single_epsilon(loss, delta, adjacency),
            Question::DeltaAt(epsilon) => profile::single_delta(loss, epsilon, adjacency),
        };
        let found = found.ok()?;
        worst = Some(worst.map_or(found, |other| worse(other, found)));
    }
    worst
}

/// The worse of two directions.
fn worse(a: PrivacyBound, b: PrivacyBound) -> PrivacyBound {
    PrivacyBound::bracket(
        a.value.max(b.value),
        a.lower.max(b.lower),
        a.upper.max(b.upper),
        a.method,
        a.adjacency,
    )
}

impl Accountant for TightestAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.composition.add(event, count)
    }

    fn epsilon(&self, delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", delta)?;
        Ok(self.answer(Question::EpsilonAt(delta), 0.0)?.0)
    }

    fn delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", epsilon)?;
        let (bound, _) = self.answer(Question::DeltaAt(epsilon), 0.0)?;
        Ok(bound.as_delta_at(epsilon))
    }
}
