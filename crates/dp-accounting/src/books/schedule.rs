//! The guarantee of a list of events as a whole.

use dp_core::{Adjacency, ApproxDp, DpEvent, params};

use crate::books::allowance::{DELTA_RESERVE, covers_draws};
use crate::engines::gdp::{finite_cost, from_mu_squared, mu_squared};
use crate::engines::rounding::UpwardSum;
use crate::{Accountant, Error, Method, Result, TightestAccountant, gdp};

/// Epsilon of the ideal mechanisms, never below the true value, and how it was computed.
pub(crate) struct IdealGuarantee {
    pub(crate) upper: f64,
    pub(crate) method: Method,
}

/// Total mu^2, rounded up; `None` if an event is not Gaussian.
pub(crate) fn total_mu_squared<'a>(
    events: impl Iterator<Item = &'a DpEvent>,
    adjacency: Adjacency,
) -> Result<Option<f64>> {
    let mut sum = UpwardSum::EMPTY;
    for event in events {
        match mu_squared(event, adjacency) {
            Ok(cost) => sum = sum.plus(cost),
            Err(Error::UnsupportedEvent { .. }) => return Ok(None),
            Err(other) => return Err(other),
        }
    }
    finite_cost(sum.total()).map(Some)
}

/// Epsilon at `delta`: the closed form if all events are Gaussian, otherwise by the tightest
/// accountant. Without events it is 0.
pub(crate) fn ideal_guarantee<'a>(
    events: impl Iterator<Item = &'a DpEvent> + Clone,
    adjacency: Adjacency,
    delta: f64,
) -> Result<IdealGuarantee> {
    if let Some(cost) = total_mu_squared(events.clone(), adjacency)? {
        let epsilon = gdp::epsilon(from_mu_squared(cost).mu, delta);
        return Ok(IdealGuarantee {
            upper: params::finite("epsilon", epsilon)?,
            method: Method::Gdp,
        });
    }
    let bound = tightest(events, adjacency)?.epsilon(delta)?;
    Ok(IdealGuarantee {
        upper: params::finite_non_negative("epsilon", bound.upper)?,
        method: bound.method,
    })
}

/// Fractions of delta that may be reserved for the sampler under the other adjacency, smallest
/// first. The plan was not calibrated for that adjacency, so its larger epsilon can need more than
/// the usual reserve.
const COUNTERPART_RESERVES: [f64; 4] = [DELTA_RESERVE, 1e-4, 1e-2, 0.5];

/// Epsilon under the other adjacency at the same delta, including the sampler; `None` if a
/// mechanism has no guarantee there, or if no fraction of delta covers the sampler.
pub(crate) fn counterpart_epsilon<'a>(
    events: impl Iterator<Item = &'a DpEvent> + Clone,
    n_draws: u64,
    adjacency: Adjacency,
    delta: f64,
) -> Option<f64> {
    COUNTERPART_RESERVES.into_iter().find_map(|reserve| {
        let usable = (delta * (1.0 - reserve)).next_down();
        let other = counterpart(adjacency);
        let epsilon = ideal_guarantee(events.clone(), other, usable).ok()?.upper;
        let target = ApproxDp { epsilon, delta };
        covers_draws(target, n_draws, reserve).then_some(epsilon)
    })
}

/// The adjacency with the same unit and the other neighbouring relation.
const fn counterpart(adjacency: Adjacency) -> Adjacency {
    match adjacency {
        Adjacency::AddRemoveUser => Adjacency::ReplaceUser,
        Adjacency::ReplaceUser => Adjacency::AddRemoveUser,
        Adjacency::AddRemoveRecord => Adjacency::ReplaceRecord,
        Adjacency::ReplaceRecord => Adjacency::AddRemoveRecord,
    }
}

/// A lower bound on the epsilon of the ideal mechanisms at `delta`; 0 if none is known.
pub(crate) fn ideal_lower<'a>(
    events: impl Iterator<Item = &'a DpEvent>,
    adjacency: Adjacency,
    delta: f64,
) -> f64 {
    tightest(events, adjacency)
        .and_then(|accountant| accountant.epsilon(delta))
        .map_or(0.0, |bound| bound.lower.max(0.0))
}

/// An accountant to which all of `events` have been added.
pub(crate) fn tightest<'a>(
    events: impl Iterator<Item = &'a DpEvent>,
    adjacency: Adjacency,
) -> Result<TightestAccountant> {
    let mut accountant = TightestAccountant::new(adjacency);
    for event in events {
        accountant.compose(event, 1)?;
    }
    Ok(accountant)
}
