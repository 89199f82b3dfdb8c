//! Mechanisms on a random part of the data.

use dp_core::{Adjacency, DpEvent, ParamError, Relation, ReplaceFactor, params};

use super::super::{Composition, Pair, Part};
use super::guarantees::approx_dp;
use super::mixture::mixture;
use super::{envelope, positive, probability, symmetric, unsupported};
use crate::engines::loss::{FiniteLoss, Loss, Side};
use crate::engines::rounding::{div_up, sqrt_up};
use crate::{Error, Result};

/// What runs on the sample, at add/remove sensitivity; a sample of one is no sample.
pub(super) fn poisson_sampled(q: f64, event: &DpEvent, adjacency: Adjacency) -> Result<Part> {
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

/// The same unit with neighbours that add or remove.
const fn add_remove(adjacency: Adjacency) -> Adjacency {
    match adjacency {
        Adjacency::AddRemoveUser | Adjacency::ReplaceUser => Adjacency::AddRemoveUser,
        Adjacency::AddRemoveRecord | Adjacency::ReplaceRecord => Adjacency::AddRemoveRecord,
    }
}

/// A sample of everybody is no sample.
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

/// Amplification of a mechanism known only as (epsilon, delta)-DP under add/remove; a replacement
/// is a removal and an addition.
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

pub(super) fn without_replacement(
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

pub(super) fn random_allocation(
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
