//! The guarantee of a list of events as a whole.

use dp_core::{Adjacency, DpEvent, params};

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
