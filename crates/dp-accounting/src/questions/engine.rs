//! The one place where questions meet the accountants.

use dp_core::{Adjacency, ApproxDp, DpEvent};

use super::query::{Formula, Given};
use crate::Result;
use crate::engines::accountant::{Accountant, Method, PrivacyBound};
use crate::engines::calibrate;
use crate::engines::rdp::RdpAccountant;
use crate::engines::rdp::conversion::{self, Conversion};
use crate::engines::tightest::TightestAccountant;

/// Events with their counts.
pub(super) type Counted = [(DpEvent, u64)];

/// The best answer of all methods.
pub(super) fn profile(
    events: &Counted,
    adjacency: Adjacency,
    given: Given,
) -> Result<PrivacyBound> {
    asked(composed(TightestAccountant::new(adjacency), events)?, given)
}

fn composed<A: Accountant>(mut accountant: A, events: &Counted) -> Result<A> {
    for (event, count) in events {
        accountant.compose(event, *count)?;
    }
    Ok(accountant)
}

fn asked(accountant: impl Accountant, given: Given) -> Result<PrivacyBound> {
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
) -> Result<PrivacyBound> {
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
) -> Result<Vec<PrivacyBound>> {
    let accountant = composed(RdpAccountant::new(adjacency), events)?;
    orders.iter().map(|&order| accountant.rdp(order)).collect()
}

/// Epsilon or delta that follows from Renyi divergence `rdp` of `order`.
pub(super) fn converted(order: f64, rdp: f64, given: Given, formula: Formula) -> Result<f64> {
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

/// A parameter that meets a target, on the safe side, and the method that says so.
pub(super) type Solution<T> = Result<(T, Method)>;

/// The smallest noise that meets `target`.
pub(super) fn least_noise(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(f64) -> DpEvent,
) -> Solution<f64> {
    let found = calibrate::noise(target, adjacency, event)?;
    Ok((found.value, found.bound.method))
}

/// The largest sampling probability that meets `target`.
pub(super) fn largest_probability(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(f64) -> DpEvent,
) -> Solution<f64> {
    let found = calibrate::sampling_probability(target, adjacency, event)?;
    Ok((found.value, found.bound.method))
}

/// The largest count that meets `target`.
pub(super) fn largest_count(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(u64) -> DpEvent,
) -> Solution<u64> {
    let found = calibrate::count(target, adjacency, event)?;
    Ok((found.value, found.bound.method))
}

/// Whether `event` certainly misses `target`; false where that is not known.
pub(super) fn certainly_misses(event: &DpEvent, adjacency: Adjacency, target: ApproxDp) -> bool {
    let events = [(event.clone(), 1)];
    profile(&events, adjacency, Given::Epsilon(target.epsilon))
        .is_ok_and(|bound| bound.lower > target.delta)
}
