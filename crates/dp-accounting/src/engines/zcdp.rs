//! Zero-concentrated differential privacy: a single number that covers all orders.

use dp_core::{Adjacency, DpEvent, Zcdp, params};

use crate::engines::accountant::{Accountant, Method, PrivacyBound};
use crate::engines::composition::{Composition, Part};
use crate::engines::loss::{Direction, FiniteLoss, Loss, MixtureLoss};
use crate::engines::rdp::conversion::log_tail;
use crate::engines::rounding::{UpwardSum, count_up, div_up, mul_up};
use crate::{Error, Result};

/// Accountant that adds up rho. A mechanism is rho-zCDP if the Renyi divergence of every order a is
/// at most rho a.
///
/// | event | rho |
/// | --- | --- |
/// | Gaussian, tree aggregation | mu²/2 |
/// | discrete Gaussian | s²/(2 sigma²) |
/// | pure eps-DP: Laplace, discrete Laplace, randomised response, (eps, 0), sampled Laplace | eps²/2 |
/// | bounded range eps | eps²/8 |
/// | sampled Gaussian, mixture, subset of fixed size, random allocation | as without sampling |
/// | zCDP | itself |
///
/// Sources: Bun, Steinke, arXiv 1605.02065, Propositions 1.4, 1.6; Cesar, Rogers, arXiv 2004.07223
/// (bounded range); Canonne, Kamath, Steinke, arXiv 2004.00010 (discrete Gaussian). A mechanism
/// that can fail with positive probability, is known at one order only, or is selected from several
/// runs has no rho and is rejected.
#[derive(Debug, Clone)]
pub struct ZcdpAccountant {
    composition: Composition,
    /// rho within a few units in the last place, as accumulated.
    rough: f64,
}

/// Below this, rho does not need to be recomputed to know that it is finite.
const SURELY_FINITE: f64 = 1e300;

impl PartialEq for ZcdpAccountant {
    fn eq(&self, other: &Self) -> bool {
        self.composition == other.composition
    }
}

impl ZcdpAccountant {
    /// Creates an accountant without any events.
    #[must_use]
    pub const fn new(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
            rough: 0.0,
        }
    }

    /// rho of everything so far, rounded up; initially 0.
    #[must_use]
    pub fn rho(&self) -> f64 {
        total(&self.composition).unwrap_or(f64::INFINITY)
    }

    /// The guarantee so far.
    #[must_use]
    pub fn zcdp(&self) -> Zcdp {
        Zcdp { rho: self.rho() }
    }
}

impl Accountant for ZcdpAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        let addition = self.composition.addition(event, count)?;
        let rough = self.rough + total(&addition)?;
        if rough < SURELY_FINITE {
            self.composition.merge(addition)?;
        } else {
            let mut next = self.composition.clone();
            next.merge(addition)?;
            params::finite("rho", total(&next)?)?;
            self.composition = next;
        }
        self.rough = rough;
        Ok(())
    }

    fn epsilon(&self, delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", delta)?;
        let rho = total(self.composition.nonempty()?)?;
        let epsilon = params::finite("epsilon", epsilon(rho, delta))?;
        Ok(PrivacyBound::at_most(
            epsilon,
            Method::Zcdp,
            self.adjacency(),
        ))
    }

    fn delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", epsilon)?;
        let rho = total(self.composition.nonempty()?)?;
        let delta = delta(rho, epsilon);
        let bound = PrivacyBound::at_most(delta, Method::Zcdp, self.adjacency());
        Ok(bound.as_delta_at(epsilon))
    }
}

/// The infimum over all real orders of the conversion of Canonne, Kamath and Steinke, clipped at 0.
///
/// With s = a - 1 it is N(s)/s, N = s (s+1) ρ + s ln s - (s+1) ln(s+1) + ln(1/δ), and s N' = N becomes
/// ρ s² + ln(1+s) = ln(1/δ).
fn epsilon(rho: f64, delta: f64) -> f64 {
    let log_inverse = -libm::log(delta);
    let s = root(|s| rho * s * s + libm::log1p(s) - log_inverse);
    let (cost, tail) = (rho * (s + 1.0), log_tail(s));
    let rounding = 2e-15 * (cost + (tail.abs() + log_inverse) / s);
    (cost + (tail + log_inverse) / s + rounding).max(0.0)
}

/// The infimum over all real orders: ln δ = s (s+1) ρ - s ε + ln tail(s), stationary where
/// (2s+1) ρ - ε - ln(1 + 1/s) = 0.
fn delta(rho: f64, epsilon: f64) -> f64 {
    let s = root(|s| (2.0 * s + 1.0) * rho - epsilon - libm::log1p(1.0 / s));
    let (cost, gain, tail) = (s * rho * (s + 1.0), s * epsilon, log_tail(s));
    let rounding = 2e-15 * (cost + gain + tail.abs());
    libm::exp(cost - gain + tail + rounding).min(1.0)
}

/// Root of a function that increases from below 0, over twelve hundred powers of e; any s is sound.
fn root(f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (-600.0, 600.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if f(libm::exp(middle)) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    libm::exp(0.5 * (low + high))
}

fn total(composition: &Composition) -> Result<f64> {
    let mut sum = UpwardSum::EMPTY.plus(0.5 * composition.gaussian());
    for (part, count) in composition.parts() {
        let one = rho(part).map_err(|event| Error::UnsupportedEvent {
            event,
            accountant: "zcdp",
            adjacency: composition.adjacency(),
        })?;
        sum = sum.plus(mul_up(one, count_up(*count)));
    }
    Ok(sum.total())
}

/// rho of one part, rounded up, or the name of a part that has none.
fn rho(part: &Part) -> Result<f64, &'static str> {
    match part {
        Part::Pair(pair) => {
            let both = [Direction::Remove, Direction::Add].map(|d| of_loss(&pair.loss(d)));
            let [remove, add] = both;
            Ok(remove?.max(add?))
        }
        &Part::Zcdp { rho } => Ok(rho),
        &Part::RandomAllocation {
            mu,
            n_selected,
            replace,
            ..
        } => {
            let factor = if replace { 2.0 } else { 0.5 };
            Ok(mul_up(factor, mul_up(count_up(n_selected), mul_up(mu, mu))))
        }
        Part::Rdp { .. } => Err("rdp"),
        Part::RepeatAndSelect { .. } => Err("repeat-and-select"),
    }
}

fn of_loss(loss: &Loss) -> Result<f64, &'static str> {
    let half_square = |x: f64| 0.5 * mul_up(x, x);
    Ok(match loss {
        &Loss::Gaussian { mu_squared } => 0.5 * mu_squared,
        &Loss::Laplace { epsilon } => half_square(epsilon),
        &Loss::BoundedRange { epsilon } => 0.25 * half_square(epsilon),
        &Loss::DiscreteGaussian { sigma, sensitivity } => {
            half_square(div_up(count_up(sensitivity), sigma))
        }
        Loss::Finite(finite) => half_square(pure_epsilon(finite)?),
        Loss::Mixture(mixture) => of_mixture(mixture),
        Loss::SampledLaplace { .. } => half_square(loss.max_finite() * (1.0 + 1e-14)),
        &Loss::WithoutReplacement { mu, .. } => half_square(mu),
    })
}

/// The largest absolute loss of a mechanism that cannot fail.
fn pure_epsilon(finite: &FiniteLoss) -> Result<f64, &'static str> {
    if finite.infinite_mass > 0.0 {
        return Err("approx-dp with delta above 0");
    }
    let largest = finite
        .atoms
        .iter()
        .map(|(loss, _)| loss.abs())
        .fold(0.0, f64::max);
    Ok(largest * (1.0 + 1e-14))
}

/// The Gaussian mechanism with the largest shift, twice as far under replacement.
fn of_mixture(mixture: &MixtureLoss) -> f64 {
    let distance = mixture.shifts.last().copied().unwrap_or(f64::INFINITY);
    let distance = match mixture.side {
        crate::engines::loss::Side::Replace => 2.0 * distance,
        _ => distance,
    };
    let mu = div_up(distance, mixture.sigma);
    0.5 * mul_up(mu, mu)
}
