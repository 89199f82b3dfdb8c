//! The one place where questions meet the accountants.

use dp_core::{Adjacency, ApproxDp, DpEvent};

use super::query::{Formula, Given};
use crate::{Accountant, Error, Method, PrivacyBound, Result, TightestAccountant};

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

const fn not_connected<T>(method: &'static str) -> Result<T> {
    let reason = "not connected yet";
    Err(Error::NotCertified { method, reason })
}

/// The answer of the Renyi accountant, minimised over `orders` or over all real orders.
pub(super) fn renyi_profile(
    _events: &Counted,
    _adjacency: Adjacency,
    _orders: Option<Vec<f64>>,
    _given: Given,
) -> Result<PrivacyBound> {
    not_connected("rdp")
}

/// Renyi divergence of each of `orders`.
pub(super) fn renyi(
    _events: &Counted,
    _adjacency: Adjacency,
    _orders: &[f64],
) -> Result<Vec<PrivacyBound>> {
    not_connected("rdp")
}

/// Epsilon or delta that follows from Renyi divergence `rdp` of `order`.
pub(super) fn converted(_order: f64, _rdp: f64, _given: Given, _formula: Formula) -> Result<f64> {
    not_connected("rdp")
}

/// A parameter that meets a target, on the safe side, and the method that says so.
pub(super) type Solution<T> = Result<(T, Method)>;

/// The smallest noise that meets `target`.
pub(super) fn least_noise(
    _target: ApproxDp,
    _adjacency: Adjacency,
    _event: impl Fn(f64) -> DpEvent,
) -> Solution<f64> {
    not_connected("calibration")
}

/// The largest sampling probability that meets `target`.
pub(super) fn largest_probability(
    _target: ApproxDp,
    _adjacency: Adjacency,
    _event: impl Fn(f64) -> DpEvent,
) -> Solution<f64> {
    not_connected("calibration")
}

/// The largest count that meets `target`.
pub(super) fn largest_count(
    _target: ApproxDp,
    _adjacency: Adjacency,
    _event: impl Fn(u64) -> DpEvent,
) -> Solution<u64> {
    not_connected("calibration")
}

/// Whether `event` certainly misses `target`; false where that is not known.
pub(super) fn certainly_misses(event: &DpEvent, adjacency: Adjacency, target: ApproxDp) -> bool {
    let events = [(event.clone(), 1)];
    profile(&events, adjacency, Given::Epsilon(target.epsilon))
        .is_ok_and(|bound| bound.lower > target.delta)
}
