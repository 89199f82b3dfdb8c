//! From an event to the pair or bound that accounts for it under one adjacency.

mod guarantees;
mod mixture;
mod sampled;

use dp_core::{Adjacency, DpEvent, Relation, params};

use super::{Composition, Pair, Part};
use crate::engines::gdp::mu_squared;
use crate::engines::loss::{FiniteLoss, Loss};
use crate::engines::rounding::div_up;
use crate::{Error, Result};

use guarantees::{approx_dp, check_stopping, randomized_response, rdp};
use mixture::mixture_of_gaussians;
use sampled::{poisson_sampled, random_allocation, without_replacement};

/// Resolves an event that is neither composed nor repeated.
pub(super) fn resolve(event: &DpEvent, adjacency: Adjacency) -> Result<Part> {
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
            // What is made of two neighbours is a bound, not the worst case.
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

/// How many neighbours of `relation` lie between two of `adjacency`: 1, or 2 when a replacement
/// is made of a removal and an addition.
fn steps_between(relation: Relation, adjacency: Adjacency, event: &'static str) -> Result<f64> {
    match (relation, adjacency.relation()) {
        (Relation::AddRemove, Relation::Replace) => Ok(2.0),
        (Relation::Replace, Relation::AddRemove) => Err(unsupported(event, adjacency)),
        _ => Ok(1.0),
    }
}
