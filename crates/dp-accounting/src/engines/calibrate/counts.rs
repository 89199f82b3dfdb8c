//! The same for counts, to the last one.

use dp_core::ParamError;

use super::secant::Secant;
use crate::{Error, Result};

/// A count with its excess.
type Count = (u64, f64);

/// The largest count searched.
pub(super) const LARGEST: u64 = 1 << 50;

/// A count that meets the target and one that misses it, from `first` outwards in steps that
/// double; only one of them where [`LARGEST`] still meets it, or even a single run misses it.
pub(super) fn gallop(
    first: u64,
    mut step: u64,
    excess: impl Fn(u64) -> Result<f64>,
) -> Result<(Option<Count>, Option<Count>)> {
    let mut at = (first, excess(first)?);
    let meets = at.1 <= 0.0;
    let end = if meets { LARGEST } else { 1 };
    while at.0 != end {
        let next = if meets {
            (at.0 + step).min(LARGEST)
        } else {
            at.0.saturating_sub(step).max(1)
        };
        let before = at;
        at = (next, excess(next)?);
        match (meets, at.1 <= 0.0) {
            (true, false) => return Ok((Some(before), Some(at))),
            (false, true) => return Ok((Some(at), Some(before))),
            _ => step *= 2,
        }
    }
    Ok(if meets {
        (Some(at), None)
    } else {
        (None, Some(at))
    })
}

/// The largest count that meets the target, between one that does and one that does not.
pub(super) fn between(
    mut meets: Count,
    mut misses: Count,
    excess: impl Fn(u64) -> Result<f64>,
) -> Result<u64> {
    let at = |(n, excess): Count| (libm::log(n as f64), excess);
    let mut secant = Secant::new(at(misses), at(meets));
    while misses.0 - meets.0 > 1 {
        let x = libm::exp(secant.next(0.0));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number below 2^51, kept strictly between two counts"
        )]
        let n = (x.round() as u64).clamp(meets.0 + 1, misses.0 - 1);
        let found = (n, excess(n)?);
        if found.1 > 0.0 {
            misses = found;
        } else {
            meets = found;
        }
        secant.add(at(found));
    }
    Ok(meets.0)
}

pub(super) fn unbounded() -> Error {
    Error::Param(ParamError {
        name: "count",
        value: LARGEST as f64,
        expected: "a cost that some count below 2^50 exceeds",
    })
}
