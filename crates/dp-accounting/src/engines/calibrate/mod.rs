//! The one parameter that is left open, so that a guarantee is just met.
//!
//! The event is a function of the parameter, so any number anywhere in an event tree can be the
//! open one: a noise multiplier, a number of steps, a sampling probability, the scale of a budget
//! share. A function may answer [`DpEvent::NonPrivate`] where the parameter makes no sense; that
//! misses any target. The answer is on the safe side: at the parameter returned, the tightest accountant's
//! `upper` meets the target.
//!
//! # Examples
//! ```
//! use dp_accounting::calibrate;
//! use dp_core::{Adjacency, ApproxDp, DpEvent};
//! let target = ApproxDp::target(2.0, 1e-5)?;
//! let adjacency = Adjacency::AddRemoveUser;
//! let steps = calibrate::count(target, adjacency, |n| {
//!     DpEvent::sampled_gaussian(1.0, 0.01).repeated(n)
//! })?;
//! assert_eq!(steps.value, 1_202);
//!
//! let noise = calibrate::noise(target, adjacency, |z| {
//!     DpEvent::sampled_gaussian(z, 0.01).repeated(1_202)
//! })?;
//! assert!(noise.value <= 1.0 && noise.value > 0.999);
//! assert!(noise.bound.upper <= 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod counts;
mod search;
mod secant;

use dp_core::{Adjacency, ApproxDp, DpEvent, ParamError, params};

use crate::engines::accountant::PrivacyBound;
use crate::{Error, Result};
use search::Search;

/// A parameter that meets a target, and the epsilon that it gives at the target's delta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibrated<T = f64> {
    /// The parameter.
    pub value: T,
    /// Epsilon at the target's delta.
    pub bound: PrivacyBound,
}

/// Noise multipliers searched.
const NOISE: (f64, f64) = (1e-6, 1e9);

/// Sampling probabilities searched.
const PROBABILITY: (f64, f64) = (1e-12, 1.0);

/// The smallest noise multiplier (or scale) from 1e-6 to 1e9 that meets `target`, rounded up.
///
/// # Errors
/// As [`smallest`].
pub fn noise(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    smallest(target, adjacency, NOISE, event)
}

/// The largest sampling probability from 1e-12 to 1 that meets `target`, rounded down.
///
/// # Errors
/// As [`smallest`].
pub fn sampling_probability(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    largest(target, adjacency, PROBABILITY, event)
}

/// The smallest x within `range` that meets `target`, for a cost that falls with x.
///
/// # Errors
/// [`Error::Param`] for a target that cannot be aimed at or a range that is not 0 < low < high;
/// [`Error::TargetOutOfReach`] when even the end of the range misses the target; those of the
/// accountant.
///
/// # Numerics
/// Guarded secants on ln epsilon against ln x, with quick estimates where there are any; the last
/// few steps use the certified upper end. The epsilon of the answer is below the target by at most
/// a hundredth of its own bracket, or 1e-11 where that is closer.
pub fn smallest(
    target: ApproxDp,
    adjacency: Adjacency,
    range: (f64, f64),
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    let (low, high) = check_range(range)?;
    Search::new(target, adjacency)?.boundary(low, high, &event)
}

/// The largest x within `range` that meets `target`, for a cost that rises with x.
///
/// # Errors
/// As [`smallest`].
pub fn largest(
    target: ApproxDp,
    adjacency: Adjacency,
    range: (f64, f64),
    event: impl Fn(f64) -> DpEvent,
) -> Result<Calibrated> {
    let (low, high) = check_range(range)?;
    Search::new(target, adjacency)?.boundary(high, low, &event)
}

/// The largest count that meets `target`, exactly: one more would miss it.
///
/// # Errors
/// As [`smallest`]; [`Error::TargetOutOfReach`] too when a single run misses the target, and
/// [`Error::Param`] when 2^50 runs still meet it.
pub fn count(
    target: ApproxDp,
    adjacency: Adjacency,
    event: impl Fn(u64) -> DpEvent,
) -> Result<Calibrated<u64>> {
    Search::new(target, adjacency)?.last_count(&event)
}

fn check_range((low, high): (f64, f64)) -> Result<(f64, f64)> {
    let low = params::finite_positive("range", low)?;
    let high = params::finite_positive("range", high)?;
    if low < high {
        return Ok((low, high));
    }
    Err(Error::Param(ParamError {
        name: "range",
        value: high,
        expected: "an upper end above the lower one",
    }))
}
