//! Mechanisms known by a guarantee or by a probability, and how often a run is repeated.

use dp_core::{Adjacency, ParamError, Relation, Stopping, params};

use super::super::Part;
use super::{positive, steps_between, symmetric, unsupported};
use crate::engines::loss::{FiniteLoss, Loss};
use crate::{Error, Result};

pub(super) fn randomized_response(p: f64, buckets: u32, adjacency: Adjacency) -> Result<Part> {
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

/// A replacement is a removal and an addition: (2 epsilon, (1 + e^epsilon) delta).
pub(super) fn approx_dp(
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

pub(super) fn rdp(
    order: f64,
    epsilon: f64,
    relation: Relation,
    adjacency: Adjacency,
) -> Result<Part> {
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

pub(super) fn check_stopping(stopping: Stopping) -> Result<Stopping> {
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
