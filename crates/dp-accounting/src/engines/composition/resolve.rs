//! Translates an event into the pairs or bounds that account for it under one adjacency, and adds
//! them to a composition.

use dp_core::{Adjacency, DpEvent, ParamError, Relation, ReplaceFactor, Stopping, params};

use super::{Composition, Pair, Part, too_many};
use crate::engines::gdp::mu_squared;
use crate::engines::loss::{FiniteLoss, Loss, MixtureLoss, Side};
use crate::engines::rounding::{UpwardSum, accurate_sum, count_up, div_up, mul_up, sqrt_up};
use crate::{Error, Result};

impl Composition {
    /// The flattened form of one event.
    pub(crate) fn of(event: &DpEvent, adjacency: Adjacency) -> Result<Self> {
        Self::new(adjacency).addition(event, 1)
    }

    /// Adds `count` runs of `event`. On an error, nothing changes.
    pub(crate) fn add(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.merge(self.addition(event, count)?)
    }

    /// `count` runs of `event` alone, under the same adjacency. Checks the nesting depth, so the
    /// code that follows may recurse.
    pub(crate) fn addition(&self, event: &DpEvent, count: u64) -> Result<Self> {
        event.check_depth()?;
        let mut addition = Self::new(self.adjacency);
        addition.absorb(event, count)?;
        Ok(addition)
    }

    fn absorb(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        if count == 0 {
            return Err(zero_count());
        }
        match event {
            DpEvent::Composed { events } if events.is_empty() => Err(Error::NothingComposed),
            DpEvent::Composed { events } => events.iter().try_for_each(|e| self.absorb(e, count)),
            DpEvent::Repeated { event, count: n } => self.absorb(event, multiply(count, *n)?),
            leaf => {
                let mut single = Self::new(self.adjacency);
                match resolve(leaf, self.adjacency)? {
                    Part::Pair(Pair::Gaussian { mu_squared }) => {
                        let cost = mul_up(mu_squared, count_up(count));
                        single.gaussian = UpwardSum::EMPTY.plus(cost);
                    }
                    part => single.parts.push((part, count)),
                }
                self.merge(single)
            }
        }
    }
}

fn multiply(a: u64, b: u64) -> Result<u64> {
    if a == 0 || b == 0 {
        return Err(zero_count());
    }
    a.checked_mul(b).ok_or_else(too_many)
}

fn zero_count() -> Error {
    Error::Param(ParamError::new("count", 0.0, "a whole number, 1 or above"))
}

/// Resolves an event that is neither composed nor repeated.
fn resolve(event: &DpEvent, adjacency: Adjacency) -> Result<Part> {
    let double = if adjacency.is_replace() { 2.0 } else { 1.0 };
    let part = match event {
        DpEvent::Gaussian { .. } | DpEvent::TreeAggregation { .. } => gaussian(event, adjacency)?,
        &DpEvent::Laplace { noise_multiplier } => {
            let epsilon = div_up(double, positive("noise_multiplier", noise_multiplier)?);
            symmetric(Loss::Laplace {
                epsilon: params::finite("epsilon", epsilon)?,
            })
        }
        &DpEvent::DiscreteGaussian { sigma, sensitivity } => {
            let sigma = positive("sigma", sigma)?;
            let sensitivity = distance(sensitivity, adjacency)?;
            let ratio = sensitivity as f64 / sigma;
            params::finite("sigma", ratio * ratio / sigma)?;
            symmetric(Loss::DiscreteGaussian { sigma, sensitivity })
        }
        &DpEvent::DiscreteLaplace { rate, sensitivity } => {
            let rate = positive("rate", rate)?;
            let distance = distance(sensitivity, adjacency)?;
            params::finite("rate", rate * distance as f64)?;
            symmetric(Loss::Finite(FiniteLoss::discrete_laplace(rate, distance)))
        }
        &DpEvent::RandomizedResponse {
            noise_probability,
            buckets,
        } => randomized_response(noise_probability, buckets, adjacency)?,
        &DpEvent::BoundedRange { epsilon, relation } => {
            let steps = steps_between(relation, adjacency, "bounded-range")?;
            envelope(Loss::BoundedRange {
                epsilon: positive("epsilon", epsilon * steps)?,
            })
        }
        &DpEvent::ApproxDp {
            epsilon,
            delta,
            relation,
        } => {
            let loss = Loss::Finite(approx_dp(epsilon, delta, relation, adjacency)?);
            // If the relation differs, the result of two steps is a bound, not the worst case.
            if relation == adjacency.relation() {
                symmetric(loss)
            } else {
                envelope(loss)
            }
        }
        &DpEvent::Zcdp { rho, relation } => {
            let steps = steps_between(relation, adjacency, "zcdp")?;
            Part::Zcdp {
                rho: positive("rho", steps * steps * positive("rho", rho)?)?,
            }
        }
        &DpEvent::Rdp {
            order,
            epsilon,
            relation,
        } => rdp(order, epsilon, relation, adjacency)?,
        DpEvent::PoissonSampled {
            sampling_probability,
            event,
        } => poisson_sampled(*sampling_probability, event, adjacency)?,
        DpEvent::SampledWithoutReplacement {
            sample_size,
            population_size,
            event,
        } => without_replacement(*sample_size, *population_size, event, adjacency)?,
        &DpEvent::RandomAllocation {
            noise_multiplier,
            n_selected,
            n_steps,
        } => random_allocation(noise_multiplier, n_selected, n_steps, adjacency)?,
        DpEvent::MixtureOfGaussians {
            sigma,
            sensitivities,
            probabilities,
        } => mixture_of_gaussians(*sigma, sensitivities, probabilities, adjacency)?,
        DpEvent::RepeatAndSelect { event, stopping } => Part::RepeatAndSelect {
            run: Box::new(Composition::of(event, adjacency)?),
            stopping: check_stopping(*stopping)?,
        },
        DpEvent::NonPrivate => return Err(Error::NonPrivateEvent),
        DpEvent::Composed { .. } | DpEvent::Repeated { .. } => {
            return Err(unsupported("a nested composition", adjacency));
        }
    };
    Ok(part)
}

const fn symmetric(loss: Loss) -> Part {
    Part::Pair(Pair::Symmetric(loss))
}

const fn envelope(loss: Loss) -> Part {
    Part::Pair(Pair::Envelope(loss))
}

fn positive(name: &'static str, value: f64) -> Result<f64> {
    Ok(params::finite_positive(name, value)?)
}

fn probability(name: &'static str, value: f64) -> Result<f64> {
    positive(name, value)?;
    Ok(params::closed_unit(name, value)?)
}

fn unsupported(event: &'static str, adjacency: Adjacency) -> Error {
    Error::UnsupportedEvent {
        event,
        accountant: "dp-accounting",
        adjacency,
    }
}

fn gaussian(event: &DpEvent, adjacency: Adjacency) -> Result<Part> {
    let mu_squared = mu_squared(event, adjacency)?;
    Ok(Part::Pair(Pair::Gaussian { mu_squared }))
}

/// The distance of an integer query, doubled under replacement.
fn distance(sensitivity: u32, adjacency: Adjacency) -> Result<u64> {
    let one = params::in_range(
        "sensitivity",
        sensitivity as usize,
        1,
        1 << 20,
        "a whole number from 1 to 2^20",
    )? as u64;
    Ok(if adjacency.is_replace() { 2 * one } else { one })
}

/// How many steps of `relation` lead from one neighbour of `adjacency` to the other: 1, or 2 if a
/// replacement consists of a removal and an addition.
fn steps_between(relation: Relation, adjacency: Adjacency, event: &'static str) -> Result<f64> {
    match (relation, adjacency.relation()) {
        (Relation::AddRemove, Relation::Replace) => Ok(2.0),
        (Relation::Replace, Relation::AddRemove) => Err(unsupported(event, adjacency)),
        _ => Ok(1.0),
    }
}

fn randomized_response(p: f64, buckets: u32, adjacency: Adjacency) -> Result<Part> {
    if !adjacency.is_replace() {
        return Err(unsupported("randomized-response", adjacency));
    }
    params::in_range(
        "buckets",
        buckets as usize,
        2,
        u32::MAX as usize,
        "a whole number, 2 or above",
    )?;
    positive("noise_probability", p)?;
    params::closed_unit("noise_probability", p)?;
    Ok(symmetric(Loss::Finite(FiniteLoss::randomized_response(
        p,
        f64::from(buckets),
    ))))
}

/// A replacement is a removal followed by an addition: (2 epsilon, (1 + e^epsilon) delta).
fn approx_dp(
    epsilon: f64,
    delta: f64,
    relation: Relation,
    adjacency: Adjacency,
) -> Result<FiniteLoss> {
    let epsilon = params::finite_non_negative("epsilon", epsilon)?;
    let delta = params::closed_unit("delta", delta)?;
    let two = steps_between(relation, adjacency, "approx-dp")? > 1.0;
    let (epsilon, delta) = if two && delta > 0.0 {
        let grown = delta * (1.0 + libm::exp(epsilon));
        (2.0 * epsilon, grown.next_up().min(1.0))
    } else if two {
        (2.0 * epsilon, 0.0)
    } else {
        (epsilon, delta)
    };
    params::finite("epsilon", epsilon)?;
    if epsilon == 0.0 && delta == 0.0 {
        return Err(Error::Param(ParamError {
            name: "epsilon",
            value: epsilon,
            expected: "epsilon or delta above 0",
        }));
    }
    Ok(FiniteLoss::approx_dp(epsilon, delta))
}

fn rdp(order: f64, epsilon: f64, relation: Relation, adjacency: Adjacency) -> Result<Part> {
    if steps_between(relation, adjacency, "rdp")? > 1.0 {
        return Err(unsupported("rdp", adjacency));
    }
    if !(order.is_finite() && order > 1.0) {
        return Err(Error::Param(ParamError {
            name: "order",
            value: order,
            expected: "a finite number above 1",
        }));
    }
    Ok(Part::Rdp {
        order,
        epsilon: params::finite_non_negative("epsilon", epsilon)?,
    })
}

fn check_stopping(stopping: Stopping) -> Result<Stopping> {
    match stopping {
        Stopping::TruncatedNegativeBinomial {
            shape,
            success_probability,
        } => {
            params::open_unit("success_probability", success_probability)?;
            if !(shape.is_finite() && shape > -1.0) {
                return Err(Error::Param(ParamError {
                    name: "shape",
                    value: shape,
                    expected: "a finite number above -1",
                }));
            }
        }
        Stopping::Logarithmic {
            success_probability,
        } => {
            params::open_unit("success_probability", success_probability)?;
        }
        Stopping::Poisson { mean } => {
            positive("mean", mean)?;
        }
    }
    Ok(stopping)
}

/// The mechanism that runs on the sample, at add/remove sensitivity. A sampling probability of one
/// means no sampling.
fn poisson_sampled(q: f64, event: &DpEvent, adjacency: Adjacency) -> Result<Part> {
    let q = probability("sampling_probability", q)?;
    let base = Composition::of(event, add_remove(adjacency))?;
    let single = |part: &Part| match part {
        Part::Pair(Pair::Symmetric(Loss::Laplace { epsilon })) => {
            Some(sampled_laplace(*epsilon, q, adjacency))
        }
        _ => None,
    };
    match base.parts() {
        [] if q >= 1.0 && !adjacency.is_replace() => Ok(Part::Pair(Pair::Gaussian {
            mu_squared: base.gaussian(),
        })),
        [] if q >= 1.0 => gaussian_part(event, adjacency),
        [] => Ok(sampled_gaussian(
            base.gaussian(),
            q,
            doubles(event),
            adjacency,
        )),
        [(part, 1)] if base.gaussian() == 0.0 => {
            if let &DpEvent::ApproxDp {
                epsilon,
                delta,
                relation: Relation::AddRemove,
            } = event
            {
                return sampled_approx_dp(epsilon, delta, q, adjacency);
            }
            single(part).ok_or_else(|| unsupported("poisson-sampled", adjacency))
        }
        _ => Err(unsupported("poisson-sampled", adjacency)),
    }
}

/// The adjacency of the same unit under add/remove.
const fn add_remove(adjacency: Adjacency) -> Adjacency {
    match adjacency {
        Adjacency::AddRemoveUser | Adjacency::ReplaceUser => Adjacency::AddRemoveUser,
        Adjacency::AddRemoveRecord | Adjacency::ReplaceRecord => Adjacency::AddRemoveRecord,
    }
}

/// Sampling with probability one, which is no sampling.
fn gaussian_part(event: &DpEvent, adjacency: Adjacency) -> Result<Part> {
    let mu_squared = Composition::of(event, adjacency)?.gaussian();
    Ok(Part::Pair(Pair::Gaussian { mu_squared }))
}

/// Whether a replacement can move every Gaussian of `event` twice as far as a removal, so that the
/// antipodal pair occurs.
fn doubles(event: &DpEvent) -> bool {
    match event {
        DpEvent::Gaussian { replace_factor, .. } => *replace_factor == ReplaceFactor::Two,
        DpEvent::Composed { events } => events.iter().all(doubles),
        DpEvent::Repeated { event, .. } => doubles(event),
        _ => true,
    }
}

fn sampled_gaussian(mu_squared: f64, q: f64, doubles: bool, adjacency: Adjacency) -> Part {
    let sigma = (1.0 / sqrt_up(mu_squared)).next_down();
    match mixture(sigma, vec![0.0, 1.0], vec![1.0 - q, q], adjacency) {
        Part::Pair(Pair::Symmetric(loss)) if !doubles => envelope(loss),
        part => part,
    }
}

fn sampled_laplace(epsilon: f64, q: f64, adjacency: Adjacency) -> Part {
    if q >= 1.0 {
        let factor = if adjacency.is_replace() { 2.0 } else { 1.0 };
        return symmetric(Loss::Laplace {
            epsilon: epsilon * factor,
        });
    }
    if adjacency.is_replace() {
        let side = Side::Replace;
        return symmetric(Loss::SampledLaplace { epsilon, q, side });
    }
    Part::Pair(Pair::SampledLaplace { epsilon, q })
}

/// Amplification of a mechanism known only as (epsilon, delta)-DP under add/remove. A replacement
/// is a removal followed by an addition.
fn sampled_approx_dp(epsilon: f64, delta: f64, q: f64, adjacency: Adjacency) -> Result<Part> {
    if q >= 1.0 || adjacency.is_replace() {
        let amplified = libm::log1p(q * libm::expm1(epsilon)).next_up();
        let loss = approx_dp(amplified, q * delta, Relation::AddRemove, adjacency)?;
        return Ok(envelope(Loss::Finite(loss)));
    }
    Ok(Part::Pair(Pair::Finite {
        remove: FiniteLoss::sampled_approx_dp(epsilon, delta, q, Side::Remove),
        add: FiniteLoss::sampled_approx_dp(epsilon, delta, q, Side::Add),
    }))
}

fn without_replacement(
    sample_size: u64,
    population_size: u64,
    event: &DpEvent,
    adjacency: Adjacency,
) -> Result<Part> {
    let base = Composition::of(event, adjacency)?;
    if !adjacency.is_replace() || !base.parts().is_empty() {
        return Err(unsupported("sampled-without-replacement", adjacency));
    }
    if sample_size == 0 || population_size < sample_size {
        return Err(Error::Param(ParamError {
            name: "sample_size",
            value: sample_size as f64,
            expected: "a whole number from 1 to population_size",
        }));
    }
    if sample_size == population_size {
        let mu_squared = base.gaussian();
        return Ok(Part::Pair(Pair::Gaussian { mu_squared }));
    }
    Ok(envelope(Loss::WithoutReplacement {
        mu: sqrt_up(base.gaussian()),
        q: div_up(sample_size as f64, population_size as f64).min(1.0),
    }))
}

fn random_allocation(
    noise_multiplier: f64,
    n_selected: u64,
    n_steps: u64,
    adjacency: Adjacency,
) -> Result<Part> {
    let z = positive("noise_multiplier", noise_multiplier)?;
    if n_selected == 0 || n_steps < n_selected {
        return Err(Error::Param(ParamError {
            name: "n_selected",
            value: n_selected as f64,
            expected: "a whole number from 1 to n_steps",
        }));
    }
    if n_selected == n_steps {
        let mut all = Composition::new(adjacency);
        all.add(&DpEvent::gaussian(z), n_steps)?;
        let mu_squared = all.gaussian();
        return Ok(Part::Pair(Pair::Gaussian { mu_squared }));
    }
    Ok(Part::RandomAllocation {
        mu: params::finite("noise_multiplier", div_up(1.0, z))?,
        n_selected,
        n_steps,
        replace: adjacency.is_replace(),
    })
}

fn mixture_of_gaussians(
    sigma: f64,
    sensitivities: &[f64],
    probabilities: &[f64],
    adjacency: Adjacency,
) -> Result<Part> {
    positive("sigma", sigma)?;
    let same = sensitivities.len() == probabilities.len();
    let mut sorted: Vec<(f64, f64)> = Vec::with_capacity(sensitivities.len());
    for (&s, &p) in sensitivities.iter().zip(probabilities) {
        sorted.push((
            params::finite_non_negative("sensitivities", s)?,
            probability("probabilities", p)?,
        ));
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let sum = accurate_sum(sorted.iter().map(|(_, p)| *p));
    let sums_to_one = (sum - 1.0).abs() <= PROBABILITY_SLACK;
    if !same || !sums_to_one {
        return Err(Error::Param(ParamError {
            name: "probabilities",
            value: sum,
            expected: "one for each sensitivity, with sum 1",
        }));
    }
    if sorted.last().is_none_or(|(shift, _)| *shift <= 0.0) {
        return Err(Error::Param(ParamError {
            name: "sensitivities",
            value: 0.0,
            expected: "at least one above 0",
        }));
    }
    sorted.iter_mut().for_each(|(_, p)| *p /= sum);
    let (shifts, weights) = sorted.into_iter().unzip();
    Ok(mixture(sigma, shifts, weights, adjacency))
}

fn mixture(sigma: f64, shifts: Vec<f64>, weights: Vec<f64>, adjacency: Adjacency) -> Part {
    if adjacency.is_replace() {
        return symmetric(Loss::Mixture(MixtureLoss {
            sigma,
            shifts,
            weights,
            side: Side::Replace,
        }));
    }
    Part::Pair(Pair::Mixture {
        sigma,
        shifts,
        weights,
    })
}

/// Largest distance of a sum of probabilities from 1 that is treated as rounding and divided out.
const PROBABILITY_SLACK: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: with a sum of 1 + 1e-9, the loss was too small for outputs drawn from the
    /// noise alone.
    #[test]
    fn probabilities_are_divided_by_their_sum() {
        for factor in [1.0 + 9e-10, 1.0 - 9e-10, 1.0] {
            let exact = [0.5, 0.375, 0.125];
            let given = exact.map(|p| p * factor);
            let part =
                mixture_of_gaussians(2.0, &[0.0, 1.0, 2.0], &given, Adjacency::AddRemoveUser);
            let Part::Pair(Pair::Mixture { weights, .. }) = part.unwrap() else {
                panic!("not a mixture");
            };
            for (found, expected) in weights.iter().zip(exact) {
                assert!(
                    (found / expected - 1.0).abs() < 5e-16,
                    "{factor} {weights:?}"
                );
            }
        }
    }
}
